#include "messages/messages.h"

#include <unistd.h>

#include <cstring>
#include <map>
#include <vector>

#include "core/acl.h"
#include "core/call.h"
#include "core/options.h"
#include "messages/plog.h"

namespace sim {
namespace {

// Title of a user block: hicann/runtime src/dfx/error_manager/error_code.json, errTitle.
const std::map<std::string, const char*>& block_titles() {
  static const std::map<std::string, const char*> titles = {
      {"EE1001", "Invalid_Argument"},
      {"EE1004", "Invalid_Argument_Null_Pointer"},
      {"EE1010", "Execution_Error_Invalid_Context"},
      {"EE1011", "Invalid_Argument"},
      {"EE1016", "Not_Supported"},
      {"EE1017", "Invalid_Argument"},
      {"EE1018", "Invalid_Argument_API_Call_Sequence"},
      {"EL0004", "Memory_Allocation_Failure"},
      {"EL0005", "Resource_Busy"},
      {"EL0009", "Insufficient_Stream_Resources"},
      {"EZ1001", "Operator_Argument"},
      {"EZ9999", "Operator_Inner_Error"},
  };
  return titles;
}

// Cause and solution that the same file gives; "N/A" ones are not printed (error_manager.cc GetErrorMessage).
const char* block_advice(const std::string& block) {
  if (block == "EL0004")
    return "        Possible Cause: Available memory is insufficient.\n        Solution: Close applications not in "
           "use.\n";
  if (block == "EL0005")
    return "        Solution: 1. Close applications not in use. 2. Wait for a while and try again.\n";
  if (block == "EL0009") return "        Solution: Close applications not in use.\n";
  if (block == "EE1001" || block == "EE1011")
    return "        Solution: 1. Check the input parameter range of the function. 2. Check the function invocation "
           "relationship.\n";
  return "";
}

struct Generation {
  bool user_blocks;  // EE1016 ... exist
  bool bracketed;    // "execute failed, reason=[...]"
};

Generation generation() { return {options().cann_at_least(9, 1), !options().cann_at_least(8, 5)}; }

thread_local std::string pending_text;   // what the next aclGetRecentErrMsg returns
thread_local std::string returned_text;  // keeps the returned pointer alive until the next call

std::string pid_and_time() { return "[PID: " + std::to_string(getpid()) + "] " + log_time(); }

// "<api> execution failed, reason=<reason>", with the suffix that FuncErrorReason leaves.
std::string reason_line(const char* runtime_api, int code) {
  if (generation().bracketed)
    return std::string(runtime_api) + " execute failed, reason=[" + reason_text(code) +
           "][FUNC:FuncErrorReason][FILE:error_message_manage.cc][LINE:53]";
  const char* line = generation().user_blocks ? "69" : "65";
  return std::string(runtime_api) + " execution failed, reason=" + reason_text(code) +
         "[FUNC:FuncErrorReason][FILE:error_message_manage.cc][LINE:" + line + "]";
}

std::string result_line(const char* acl_text, int code) {
  return std::string(acl_text) + ", runtime result = " + std::to_string(code) +
         "[FUNC:ReportCallError][FILE:log_inner.cpp][LINE:148]";
}

void append_user_block(const std::string& block, const std::string& message, const std::vector<std::string>& trace) {
  auto title = block_titles().find(block);
  pending_text += pid_and_time() + " " + (title == block_titles().end() ? "Error" : title->second) + "(" + block +
                  "): " + message + "\n" + block_advice(block);
  if (trace.empty()) return;
  // From 9.1 on the lines of the trace are not indented.
  const char* indent = generation().user_blocks ? "" : "        ";
  pending_text += "        TraceBack (most recent call last):\n";
  for (const std::string& line : trace) pending_text += indent + line + "\n";
}

void append_inner_block(const std::vector<std::string>& lines) {
  pending_text += "EE9999: Inner Error!\n";
  if (generation().bracketed)
    pending_text += "EE9999: " + pid_and_time() + " " + lines[0] + "\n";
  else
    pending_text += "EE9999" + pid_and_time() + "  (EE9999):  " + lines[0] + "\n";
  pending_text += "        TraceBack (most recent call last):\n";
  for (size_t i = 1; i < lines.size(); i++) pending_text += "       " + lines[i] + "\n";
}

}  // namespace

// hicann/runtime src/runtime/core/src/common/errcode_manage.cc (master), feature/src/common/errcode_manage.cc (9.0.0).
const char* reason_text(int code) {
  switch (code) {
    case kInvalidParam:
      return "invalid value";
    case kInvalidDevice:
      return "device id error";
    case kStreamContext:
      return "stream not in current context";
    case kCaptureDependency:
      return "dependency created on uncaptured work in another stream";
    case kStreamUnjoined:
      return options().cann_at_least(9, 2)
                 ? "capture model contains a stream that was not joined to the master stream"
                 : "capture model contains a stream that was not joined to the original stream";
    case kModelCaptured:
      return "model is captured";
    case kStreamCaptured:
      return "stream is captured";
    case kEventCaptured:
      return "event is captured";
    case kStreamNotCaptured:
      return "stream is not in capture status";
    case kCaptureMode:
      return options().cann_at_least(9, 1)
                 ? "operation not permitted when a stream is capturing and the specified capture mode is not relaxed"
                 : "the current capture mode does not support this operation";
    case kCaptureModeBlocksAsync:
      return "the operation has been converted to a synchronous operation";
    case kCaptureImplicit:
      return "a disallowed implicit dependency from default stream";
    case kCaptureConflict:
      return "stream begin capture conflict";
    case kTaskGroupStatus:
      return "task group status error";
    case kTaskGroupInterrupted:
      return "task group interrupted";
    case kCaptureUnmatched:
      return "the capture was not initiated in this stream";
    case kCaptureWrongThread:
      return "end capture in the wrong thread";
    case kModelRunning:
      return "model is running";
    case kSubGraphCapturing:
      return "the sub ACL Graph is capturing";
    case kMemoryAllocation:
      return "driver error:out of memory";
    case kResourceAllocFail:
      return "driver error:resource alloc fail";
    case kNoStreamResource:
      return "driver error:no stream resource";
    case kNotSupported:
      return "feature not support";
    case kInternal:
      return "internal error";
    case kTaskTypeNotSupported:
      return "task not supported";
    case 507011:
      return "the model stream execute failed";
    case 507015:
      return "aicore exception";
    case kVectorCoreException:
      return "vector core exception";
    case kStreamSyncTimeout:
      return "stream sync timeout";
    case kCaptureInvalidated:
      return "an error has invalidated the stream capture sequence";
    default:
      return "unknown error";
  }
}

int refuse(const Refusal& r) {
  trace_note("refused %d: %s: %s", r.code, r.operation.c_str(), r.reason.c_str());
  std::string inner = r.inner;
  std::vector<std::string> trace;
  if (*r.runtime_api) trace.push_back(reason_line(r.runtime_api, r.code));
  if (*r.acl_text) trace.push_back(result_line(r.acl_text, r.code));
  if (generation().user_blocks && *r.block) {
    std::string subject = r.parameter.empty() ? "" : "Parameter " + r.parameter + " is invalid. ";
    std::string message = r.operation + " failed. " + subject + "Reason: " + r.reason + ".";
    append_user_block(r.block, message, trace);
    plog(LogLevel::kError, "RUNTIME", "error_message_manage.cc", 69, "ReportFuncErrorReason", message);
  } else {
    if (!inner.empty()) trace.insert(trace.begin(), inner + "[FUNC:" + r.runtime_api + "][FILE:api_error.cc][LINE:0]");
    if (trace.empty()) trace.push_back(r.operation + " failed: " + r.reason);
    append_inner_block(trace);
    plog(LogLevel::kError, "RUNTIME", "api_error.cc", 0, r.runtime_api, inner.empty() ? r.reason : inner);
  }
  for (const std::string& line : trace) plog(LogLevel::kError, "RUNTIME", "log_inner.cpp", 148, r.runtime_api, line);
  return r.code;
}

int report_resource(int code, const char* block, const std::string& message, const char* runtime_api,
                    const char* acl_text) {
  trace_note("refused %d: %s", code, message.c_str());
  append_user_block(block, message, {reason_line(runtime_api, code), result_line(acl_text, code)});
  plog(LogLevel::kError, "RUNTIME", "stream.cc", 0, runtime_api, message);
  return code;
}

int report_operator(int code, const char* block, const std::string& message) {
  trace_note("operator error %d: %s", code, message.c_str());
  append_user_block(block, message, {});
  plog(LogLevel::kError, "OP", "op_api.cpp", 0, "npu_sim", message);
  return code;
}

int report_injected(const char* function, int code) {
  std::string message = std::string(function) + " failed, reason=" + reason_text(code) +
                        ", runtime result = " + std::to_string(code) + " (injected by npu_sim --fail)";
  trace_note("injected %d", code);
  append_inner_block({message});
  plog(LogLevel::kError, "RUNTIME", "npu_sim", 0, function, message);
  return code;
}

int report_unmodelled(const char* name) {
  return report_operator(kNotSupported, "EE1005",
                         std::string("npu_sim does not model ") + name + "; this is a limit of the simulator");
}

}  // namespace sim

API const char* aclGetRecentErrMsg() {
  if (sim::pending_text.empty()) return nullptr;
  sim::returned_text.swap(sim::pending_text);
  sim::pending_text.clear();
  return sim::returned_text.c_str();
}
