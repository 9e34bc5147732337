// Capture modes: which thread may make synchronous memory calls while which capture is under way.
// hicann/runtime src/runtime/feature/aclgraph/context_aclgraph.cc CaptureModeEnter, CaptureModeExit,
// IsCaptureModeSupport, ThreadExchangeCaptureMode; capture_model_utils.cc ReportCaptureModeError.
#include "capture/mode.h"

#include <sstream>

#include "core/call.h"
#include "messages/messages.h"
#include "messages/plog.h"
#include "runtime/stream.h"

namespace sim {
namespace {

// Captures under way by mode, in the context (all threads) and in this thread.
int context_captures[3] = {0, 0, 0};
thread_local int thread_captures[3] = {0, 0, 0};
thread_local int exchanged_mode = kGlobal;

int strictest(const int* captures) {
  for (int mode : {kGlobal, kThreadLocal, kRelaxed})
    if (captures[mode]) return mode;
  return kNoCapture;
}

const char* name(int mode) {
  static const char* const names[] = {"GLOBAL", "THREAD_LOCAL", "RELAXED", "MAX"};
  return names[mode];
}

bool is_supported() {
  int context = strictest(context_captures), thread = strictest(thread_captures);
  if (context == kNoCapture || exchanged_mode == kRelaxed) return true;
  if (exchanged_mode == kGlobal && (context == kGlobal || thread == kThreadLocal)) return false;
  return !(exchanged_mode == kThreadLocal && (thread == kGlobal || thread == kThreadLocal));
}

}  // namespace

void enter_capture_mode(int mode) {
  context_captures[mode]++;
  thread_captures[mode]++;
}

void leave_capture_mode(int mode) {
  if (context_captures[mode] > 0) context_captures[mode]--;
  // A relaxed capture may end on another thread than the one that began it.
  if (thread_captures[mode] > 0) thread_captures[mode]--;
}

int refuse_if_capturing_mode(const char* operation, const char* runtime_api, const char* acl_text) {
  auto lock = lock_engine();
  if (is_supported()) return kSuccess;
  int context = strictest(context_captures), thread = strictest(thread_captures);
  std::ostringstream reason;
  if (thread == kRelaxed)
    reason << "Other threads of the current context are in the capture state. As a result, the current operation "
              "cannot be performed on thread "
           << thread_id()
           << ". To perform this operation in the current thread, call aclmdlRICaptureThreadExchangeMode to change the "
              "capture mode of the current thread. ";
  else
    reason << "The current thread " << thread_id()
           << " is in the capture state and the current operation cannot be performed. Check whether the mode set by "
              "the aclmdlRICaptureBegin API supports the current operation. This operation is supported only in the "
              "RELAXED mode. ";
  reason << "The mode set using the aclmdlRICaptureBegin API is " << name(context)
         << ", and the capture mode of the current thread is " << name(thread);
  // 8.5 and 9.0 only log: vllm-ascend #11912 shows the line.
  std::ostringstream log;
  log << "The current capture mode:threadCaptureMode=" << thread << ", exchangeCaptureMode=" << exchanged_mode
      << ", contextCaptureMode=" << context;
  plog(LogLevel::kError, "RUNTIME", "api_impl.cc", 2725, "MemCopySync", log.str());
  return refuse({kCaptureMode, "EE1016", operation, reason.str(), "", runtime_api, acl_text, ""});
}

}  // namespace sim

API int aclmdlRICaptureThreadExchangeMode(int* mode) {
  ENTER("mode=%d", *mode);
  if (*mode < sim::kGlobal || *mode > sim::kRelaxed) return sim::kInvalidParam;
  std::swap(*mode, sim::exchanged_mode);
  return sim::kSuccess;
}
