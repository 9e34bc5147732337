// The texts that CANN appends to an error: what torch_npu prints after its own "ERR00100" line.
//
// Three generations (hicann/runtime src/dfx/error_manager/error_manager.cc and error_code.json, tags v8.5.0, v9.0.0,
// v9.1.0; the layout before 8.5 is that of public logs, for example vllm-ascend #2567):
//   before 8.5   "EE9999: Inner Error!", bracketed reasons
//   8.5 and 9.0  "EE9999: Inner Error!", a capture fault has no code of its own
//   9.1 on       user blocks EE1016, EE1017, EE1018 with the operation and the reason
#pragma once
#include <string>

namespace sim {

// A refused call. `code` is returned to the caller; the rest is text.
struct Refusal {
  int code;
  const char* block;           // error code of the user block from CANN 9.1 on: EE1016, EE1017, EE1018, EE1011 ...
  std::string operation;       // 9.1: "Synchronizing a stream"
  std::string reason;          // 9.1: "Stream (stream_id=3) during the capture stage is not supported"
  std::string inner;           // 8.5, 9.0: the text of the inner error; empty where the source only logs
  const char* runtime_api;     // "rtStreamSynchronizeWithTimeout"
  const char* acl_text;        // "synchronize stream with timeout failed"
  std::string parameter = "";  // EE1017: "capture model"
};

// Adds the refusal to the thread's error text and to the plog; returns refusal.code.
int refuse(const Refusal& refusal);
// A driver or resource error that has one user block in every version (EL0004, EL0009 ...).
int report_resource(int code, const char* block, const std::string& message, const char* runtime_api,
                    const char* acl_text);
// An error inside an operator library ("EZ1001" argument faults, unknown operators).
int report_operator(int code, const char* block, const std::string& message);
int report_injected(const char* function, int code);
int report_unmodelled(const char* name);
// The runtime's own name of a code: "stream is captured".
const char* reason_text(int code);

}  // namespace sim
