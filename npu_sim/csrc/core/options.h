// What the user chose on the command line of run.py; it arrives in NPU_SIM_* variables.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace sim {

// One rule of --fail: the n-th call of a function returns a code.
struct FailRule {
  std::string function;  // an ACL function, or the name of an operator such as aclnnAdd
  int code;
  int call;      // 1-based; 0: every call
  bool onwards;  // "@3+": from the third call on
  mutable int seen;
};

struct Options {
  std::string cann = "9.1.0";
  int cann_major = 9, cann_minor = 1;
  std::string soc = "Ascend910B2";
  std::string driver = "25.5.0";
  int devices = 2;
  uint64_t memory_bytes = uint64_t{4096} << 20;
  int streams = 2048;  // logs of field reports end near stream id 1984-1987 of about 2048
  int queues = 2048;   // SQ/CQ pairs; by default as many as streams
  bool defer = false;
  std::string trace_file, plog_dir;
  double wait_limit_seconds = 20;  // a wait that nothing can end; the device would wait for ever
  std::vector<FailRule> fail_rules;
  std::vector<FailRule> hang_rules;  // the code is unused

  bool cann_at_least(int major, int minor) const {
    return cann_major != major ? cann_major > major : cann_minor >= minor;
  }
};

const Options& options();

}  // namespace sim
