#include "core/call.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <mutex>

#include "core/acl.h"
#include "core/options.h"
#include "messages/messages.h"

namespace sim {
namespace {

// One file for the process and its children: each line is one write, so lines of two writers do not mix.
FILE* trace_file() {
  static FILE* file = [] {
    if (options().trace_file.empty()) return static_cast<FILE*>(nullptr);
    FILE* opened = fopen(options().trace_file.c_str(), "a");
    if (opened) setvbuf(opened, nullptr, _IOLBF, 4096);
    return opened;
  }();
  return file;
}

void write_line(const char* head, const char* format, va_list arguments, const char* tail) {
  char body[1024];
  vsnprintf(body, sizeof body, format, arguments);
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  fprintf(trace_file(), "%ld.%06ld %d/%u %s%s%s\n", static_cast<long>(now.tv_sec), now.tv_nsec / 1000, getpid(),
          thread_id(), head, body, tail);
}

// The rule that strikes at this call of `function`, which is counted.
const FailRule* rule_for(const std::vector<FailRule>& rules, const char* function) {
  static std::mutex mutex;
  for (const FailRule& rule : rules) {
    if (rule.function != function) continue;
    std::lock_guard<std::mutex> lock(mutex);
    int call = ++rule.seen;
    if (rule.call == 0 || call == rule.call || (rule.onwards && call > rule.call)) return &rule;
  }
  return nullptr;
}

}  // namespace

uint32_t thread_id() { return static_cast<uint32_t>(syscall(SYS_gettid)); }

void trace_call(const char* function, const char* format, ...) {
  if (!trace_file()) return;
  va_list arguments;
  va_start(arguments, format);
  write_line((std::string(function) + "(").c_str(), format, arguments, ")");
  va_end(arguments);
}

void trace_note(const char* format, ...) {
  if (!trace_file()) return;
  va_list arguments;
  va_start(arguments, format);
  write_line("  . ", format, arguments, "");
  va_end(arguments);
}

int injected_fault(const char* function) {
  const FailRule* rule = rule_for(options().fail_rules, function);
  return rule ? report_injected(function, rule->code) : kSuccess;
}

bool injected_hang(const char* function) { return rule_for(options().hang_rules, function) != nullptr; }

void never_return_if_asked(const char* function) {
  if (!injected_hang(function)) return;
  trace_note("--hang: this call does not return");
  for (;;) pause();
}

}  // namespace sim

// Called by the generated stubs: a symbol that the wheel needs at load time and that the simulator does not model.
API int npu_sim_unmodelled(const char* name) {
  sim::trace_call(name, "not modelled");
  if (int injected = sim::injected_fault(name)) return injected;
  return sim::report_unmodelled(name);
}
