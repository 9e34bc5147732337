// Log lines in the layout of CANN's plog files, under --plog DIR.
#pragma once
#include <cstdint>
#include <string>

namespace sim {

enum class LogLevel { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3, kEvent = 0x10 };

// `module` as CANN prints it: RUNTIME, ASCENDCL, APP, OP.
void plog(LogLevel level, const char* module, const char* file, int line, const char* function,
          const std::string& message);
// Date and time as CANN prints them: 2026-08-21-14:03:59.123.456
std::string log_time();

}  // namespace sim
