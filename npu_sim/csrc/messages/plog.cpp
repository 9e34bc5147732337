#include "messages/plog.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "core/acl.h"
#include "core/call.h"
#include "core/options.h"

namespace sim {
namespace {

// $HOME/ascend/log/{debug,run}/plog/plog-<pid>_<time>.log on a real host: ERROR and below go to debug, EVENT to run
// (hicann/runtime docs/zh/log_ref/log_overview.md).
FILE* open_log(const char* kind) {
  std::string path = options().plog_dir;
  for (const char* part : {"", kind, "plog"}) {
    if (*part) path += std::string("/") + part;
    mkdir(path.c_str(), 0755);
  }
  char name[96];
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts;
  localtime_r(&now.tv_sec, &parts);
  char stamp[32];
  strftime(stamp, sizeof stamp, "%Y%m%d%H%M%S", &parts);
  snprintf(name, sizeof name, "/plog-%d_%s%03ld.log", getpid(), stamp, now.tv_nsec / 1000000);
  FILE* file = fopen((path + name).c_str(), "a");
  if (file) setvbuf(file, nullptr, _IOLBF, 8192);
  return file;
}

const char* level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "DEBUG";
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kWarning:
      return "WARNING";
    case LogLevel::kError:
      return "ERROR";
    default:
      return "EVENT";
  }
}

// Default of a CANN installation: ERROR only; ASCEND_GLOBAL_LOG_LEVEL 0..3 lowers it, 4 is silent.
int lowest_level() {
  const char* value = getenv("ASCEND_GLOBAL_LOG_LEVEL");
  return value && *value ? atoi(value) : 3;
}

}  // namespace

std::string log_time() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts;
  localtime_r(&now.tv_sec, &parts);
  char day[40], whole[64];
  strftime(day, sizeof day, "%Y-%m-%d-%H:%M:%S", &parts);
  snprintf(whole, sizeof whole, "%s.%03ld.%03ld", day, now.tv_nsec / 1000000, now.tv_nsec / 1000 % 1000);
  return whole;
}

void plog(LogLevel level, const char* module, const char* file, int line, const char* function,
          const std::string& message) {
  if (options().plog_dir.empty()) return;
  bool event = level == LogLevel::kEvent;
  if (!event && static_cast<int>(level) < lowest_level()) return;
  static std::mutex mutex;
  static FILE* logs[2] = {nullptr, nullptr};
  std::lock_guard<std::mutex> lock(mutex);
  FILE*& log = logs[event];
  if (!log) log = open_log(event ? "run" : "debug");
  if (!log) return;
  // [LEVEL] MODULE(pid,process):time [file:line]thread function:message
  fprintf(log, "[%s] %s(%d,python):%s [%s:%d]%u %s:%s\n", level_name(level), module, getpid(), log_time().c_str(), file,
          line, thread_id(), function, message.c_str());
}

}  // namespace sim

// torch_npu's own ASCEND_LOGx lines arrive here.
API void aclAppLog(int level, const char* function, const char* file, uint32_t line, const char* format, ...) {
  char message[4096];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  const char* base = strrchr(file, '/');
  sim::plog(static_cast<sim::LogLevel>(level & 3), "APP", base ? base + 1 : file, static_cast<int>(line), function,
            message);
}
