// The profiling interface as far as torch_npu.profiler needs it to start and stop. No device time is recorded.
#include "core/acl.h"
#include "core/call.h"
#include "core/options.h"

using namespace sim;

API int aclprofInit(const char* path, size_t) {
  ENTER("path=%s", path ? path : "");
  return kSuccess;
}
API int aclprofFinalize() {
  ENTER("%s", "");
  return kSuccess;
}
API void* aclprofCreateConfig(uint32_t*, uint32_t devices, int, void*, uint64_t) {
  trace_call(__func__, "devices=%u", devices);
  static int config;
  return &config;
}
API int aclprofDestroyConfig(const void*) { return kSuccess; }
API int aclprofSetConfig(int, const char*, size_t) { return kSuccess; }
API int aclprofWarmup(const void*) { return kSuccess; }
API int aclprofStart(const void*) {
  ENTER("%s", "");
  return kSuccess;
}
API int aclprofStop(const void*) {
  ENTER("%s", "");
  return kSuccess;
}
API int aclprofGetSupportedFeatures(size_t* size, void** data) {
  *size = 0;
  *data = nullptr;
  return kSuccess;
}
API int aclprofGetSupportedFeaturesV2(size_t* size, void** data) { return aclprofGetSupportedFeatures(size, data); }
API void* aclprofCreateStepInfo() {
  static int step;
  return &step;
}
API int aclprofGetStepTimestamp(void*, int, void*) { return kSuccess; }
API void aclprofDestroyStepInfo(void*) {}
API int aclprofRegisterDeviceCallback() { return kSuccess; }
API int aclprofMarkEx(const char*, size_t, void*) { return kSuccess; }

// Msprof* report host-side ranges; there is nobody to read them.
API int MsprofRegisterCallback(uint32_t, int (*)(uint32_t, void*, uint32_t)) { return kSuccess; }
API int MsprofReportApi(uint32_t, const void*) { return kSuccess; }
API int MsprofReportAdditionalInfo(uint32_t, const void*, uint32_t) { return kSuccess; }
API int MsprofReportCompactInfo(uint32_t, const void*, uint32_t) { return kSuccess; }
API uint64_t MsprofGetHashId(const char* text, size_t length) {
  uint64_t hash = 1469598103934665603ULL;  // FNV-1a
  for (size_t i = 0; i < length; i++) hash = (hash ^ static_cast<unsigned char>(text[i])) * 1099511628211ULL;
  return hash;
}
API uint64_t MsprofSysCycleTime() {
  static uint64_t cycles = 0;
  return ++cycles;
}
