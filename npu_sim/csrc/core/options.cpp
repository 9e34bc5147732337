#include "core/options.h"

#include <cstdio>
#include <cstdlib>

namespace sim {
namespace {

std::string text(const char* name, const std::string& fallback) {
  const char* value = getenv(name);
  return value && *value ? value : fallback;
}

// "aclmdlRIExecuteAsync:507011@2,aclnnAdd:161002"
std::vector<FailRule> parse_rules(const std::string& all) {
  std::vector<FailRule> rules;
  for (size_t begin = 0; begin < all.size();) {
    size_t end = std::min(all.find(',', begin), all.size());
    std::string item = all.substr(begin, end - begin);
    begin = end + 1;
    size_t colon = item.find(':'), at = item.find('@');
    if (colon == std::string::npos) continue;  // run.py has already refused a malformed rule
    FailRule rule{item.substr(0, colon), atoi(item.c_str() + colon + 1), 0, false, 0};
    if (at != std::string::npos) {
      rule.call = atoi(item.c_str() + at + 1);
      rule.onwards = item.back() == '+';
    }
    rules.push_back(rule);
  }
  return rules;
}

Options read() {
  Options o;
  o.cann = text("NPU_SIM_CANN", o.cann);
  sscanf(o.cann.c_str(), "%d.%d", &o.cann_major, &o.cann_minor);
  o.soc = text("NPU_SIM_SOC", o.soc);
  o.devices = atoi(text("NPU_SIM_DEVICES", "2").c_str());
  o.memory_bytes = strtoull(text("NPU_SIM_MEMORY_MB", "4096").c_str(), nullptr, 10) << 20;
  o.streams = atoi(text("NPU_SIM_STREAMS", "2048").c_str());
  o.queues = atoi(text("NPU_SIM_QUEUES", std::to_string(o.streams)).c_str());
  o.defer = text("NPU_SIM_DEFER", "0") == "1";
  o.trace_file = text("NPU_SIM_TRACE", "");
  o.plog_dir = text("NPU_SIM_PLOG", "");
  o.wait_limit_seconds = atof(text("NPU_SIM_WAIT_LIMIT", "20").c_str());
  o.fail_rules = parse_rules(text("NPU_SIM_FAIL", ""));
  o.hang_rules = parse_rules(text("NPU_SIM_HANG", ""));
  return o;
}

}  // namespace

const Options& options() {
  static const Options* instance = new Options(read());  // never destroyed: ACL is called during process exit
  return *instance;
}

}  // namespace sim
