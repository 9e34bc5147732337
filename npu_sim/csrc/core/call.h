// The entry of every ACL function: one line in --trace, and the place where --fail strikes.
#pragma once
#include <cstdint>
#include <string>

namespace sim {

// Writes "name(arguments)" to the trace file.
void trace_call(const char* function, const char* format, ...) __attribute__((format(printf, 2, 3)));
// Writes an indented remark under the call that it explains.
void trace_note(const char* format, ...) __attribute__((format(printf, 1, 2)));
// The code that --fail asks for at this call of `function`, with its error text reported; 0 for none.
int injected_fault(const char* function);
// Whether --hang names this call of `function`: a kernel that never ends, or a call that never returns.
bool injected_hang(const char* function);
void never_return_if_asked(const char* function);
uint32_t thread_id();

}  // namespace sim

// First line of an ACL function that returns aclError.
#define ENTER(...)                                                         \
  do {                                                                     \
    ::sim::trace_call(__func__, __VA_ARGS__);                              \
    ::sim::never_return_if_asked(__func__);                                \
    if (int injected_ = ::sim::injected_fault(__func__)) return injected_; \
  } while (0)
