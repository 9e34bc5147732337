// Devices, contexts, versions and limits: what the process is told about the machine it runs on.
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>

#include "core/acl.h"
#include "core/call.h"
#include "core/options.h"
#include "messages/messages.h"
#include "runtime/stream.h"

namespace sim {
namespace {

thread_local int thread_device = -1;

struct Cores {
  int cube, vector;
};

// Cores by SoC name. 910B and 910_93: hiascend product pages; 310P: AI Core with built-in vector unit. Others: as
// 910B2.
Cores cores_of(const std::string& soc) {
  static const std::map<std::string, Cores> table = {
      {"Ascend910B1", {25, 50}},    {"Ascend910B2", {24, 48}},    {"Ascend910B3", {20, 40}}, {"Ascend910B4", {20, 40}},
      {"Ascend910_9391", {24, 48}}, {"Ascend910_9362", {20, 40}}, {"Ascend310P3", {8, 8}},
  };
  auto found = table.find(soc);
  return found == table.end() ? Cores{24, 48} : found->second;
}

// Core limits that a user may set per device or stream (aclrtSetDeviceResLimit, aclrtSetStreamResLimit).
struct Limits {
  std::mutex mutex;
  std::map<std::pair<const void*, int>, uint32_t> values;
};
Limits& limits() {
  static Limits* instance = new Limits;
  return *instance;
}
uint32_t default_limit(int type) {
  Cores cores = cores_of(options().soc);
  return static_cast<uint32_t>(type == 0 ? cores.cube : cores.vector);
}
void get_limit(const void* owner, int type, uint32_t* value) {
  std::lock_guard<std::mutex> lock(limits().mutex);
  auto found = limits().values.find({owner, type});
  *value = found == limits().values.end() ? default_limit(type) : found->second;
}
void set_limit(const void* owner, int type, uint32_t value) {
  std::lock_guard<std::mutex> lock(limits().mutex);
  limits().values[{owner, type}] = value;
}
void reset_limits(const void* owner) {
  std::lock_guard<std::mutex> lock(limits().mutex);
  for (int type : {0, 1}) limits().values.erase({owner, type});
}
const void* device_key(int32_t device) { return reinterpret_cast<const void*>(static_cast<intptr_t>(device + 1)); }

// A context handle carries its device; there is one context per device.
constexpr intptr_t kContextBase = 0x1000;

}  // namespace

int current_device() { return thread_device < 0 ? 0 : thread_device; }

}  // namespace sim

using namespace sim;

API int aclInit(const char* config) {
  ENTER("%s", config ? config : "");
  return kSuccess;
}
API int aclFinalize() {
  ENTER("%s", "");
  return kSuccess;
}
API int aclrtSetDevice(int32_t device) {
  ENTER("%d", device);
  if (device < 0 || device >= options().devices)
    return refuse(
        {kInvalidDevice, "EE1001", "Setting the device",
         "Set device " + std::to_string(device) + " failed, device count is " + std::to_string(options().devices), "",
         "rtSetDevice", "set device failed", ""});
  thread_device = device;
  return kSuccess;
}
API int aclrtResetDevice(int32_t device) {
  ENTER("%d", device);
  return kSuccess;
}
API int aclrtGetDevice(int32_t* device) {
  if (thread_device < 0) return kContextNull;
  *device = thread_device;
  return kSuccess;
}
API int aclrtGetDeviceCount(uint32_t* count) {
  ENTER("%s", "");
  *count = static_cast<uint32_t>(options().devices);
  return kSuccess;
}
API const char* aclrtGetSocName() { return options().soc.c_str(); }
API int aclrtGetLogicDevIdByUserDevId(int32_t user, int32_t* logical) {
  *logical = user;
  return kSuccess;
}
API int aclrtGetCurrentContext(void** context) {
  *context = reinterpret_cast<void*>(kContextBase + current_device());
  return kSuccess;
}
API int aclrtSetCurrentContext(void* context) {
  thread_device = static_cast<int>(reinterpret_cast<intptr_t>(context) - kContextBase);
  return kSuccess;
}
API int aclrtGetPrimaryCtxState(int32_t, uint32_t* flags, int32_t* active) {
  if (flags) *flags = 0;
  *active = thread_device >= 0;
  return kSuccess;
}
API int aclrtDeviceCanAccessPeer(int32_t* can, int32_t, int32_t) {
  *can = 1;
  return kSuccess;
}
API int aclrtDeviceEnablePeerAccess(int32_t, uint32_t) { return kSuccess; }
API int aclrtSetDeviceSatMode(int) { return kSuccess; }
API int aclrtSetOpExecuteTimeOut(uint32_t) { return kSuccess; }
API int aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t* actual) {
  *actual = timeout;
  return kSuccess;
}
API int aclrtSetOpWaitTimeout(uint32_t) { return kSuccess; }
API int aclrtGetLastError(int) { return kSuccess; }
API int aclrtPeekAtLastError(int) { return kSuccess; }

// acl_rt.h aclrtDevAttr: 101 AI cores, 102 cube cores, 201 vector cores, 301 memory, 302 L2 cache.
API int aclrtGetDeviceInfo(uint32_t, int attribute, int64_t* value) {
  Cores cores = cores_of(options().soc);
  switch (attribute) {
    case 101:
    case 102:
      *value = cores.cube;
      break;
    case 201:
      *value = cores.vector;
      break;
    case 301:
      *value = static_cast<int64_t>(options().memory_bytes);
      break;
    case 302:
      *value = 192 << 20;
      break;
    default:
      *value = 0;
  }
  return kSuccess;
}
API int aclGetDeviceCapability(uint32_t, int kind, int64_t* value) {
  Cores cores = cores_of(options().soc);
  *value = kind == 1 ? cores.vector : cores.cube;
  return kSuccess;
}
API int aclGetCannAttribute(int, int32_t* value) {
  *value = 1;
  return kSuccess;
}
API int aclGetCannAttributeList(const int** list, size_t* count) {
  static const int attributes[] = {0, 1};
  *list = attributes;
  *count = 2;
  return kSuccess;
}
// acl.h aclsysGetCANNVersion: package 7 is the driver; the version is text of at most 128 bytes.
API int aclsysGetCANNVersion(int package, void* version) {
  memset(version, 0, 128);
  snprintf(static_cast<char*>(version), 128, "%s", (package == 7 ? options().driver : options().cann).c_str());
  return kSuccess;
}
API int aclsysGetVersionStr(char*, char* version) {
  snprintf(version, 128, "%s", options().cann.c_str());
  return kSuccess;
}
API int aclrtGetDeviceUtilizationRate(int32_t, void* rates) {
  memset(rates, 0, 16);
  return kSuccess;
}
API int aclrtDeviceGetUuid(int32_t device, void* uuid) {
  memset(uuid, 0, 16);
  static_cast<char*>(uuid)[15] = static_cast<char>(device + 1);
  return kSuccess;
}
API int aclrtDeviceGetBareTgid(int32_t* pid) {
  *pid = getpid();
  return kSuccess;
}
API int aclrtCtxSetSysParamOpt(int, int64_t) { return kSuccess; }
API int aclrtSetSysParamOpt(int, int64_t) { return kSuccess; }
API int aclrtGetSysParamOpt(int, int64_t* value) {
  *value = 0;
  return kSuccess;
}
API int rtGetDeviceInfo(uint32_t, int32_t, int32_t, int64_t* value) {
  if (value) *value = 0;
  return kSuccess;
}

// ---------------------------------------------------------------- core limits (npugraph_ex limit_core_num)
API int aclrtGetDeviceResLimit(int32_t device, int type, uint32_t* value) {
  get_limit(device_key(device), type, value);
  return kSuccess;
}
API int aclrtSetDeviceResLimit(int32_t device, int type, uint32_t value) {
  set_limit(device_key(device), type, value);
  return kSuccess;
}
API int aclrtResetDeviceResLimit(int32_t device) {
  reset_limits(device_key(device));
  return kSuccess;
}
API int aclrtGetStreamResLimit(void* stream, int type, uint32_t* value) {
  get_limit(stream_of(stream), type, value);
  return kSuccess;
}
API int aclrtSetStreamResLimit(void* stream, int type, uint32_t value) {
  set_limit(stream_of(stream), type, value);
  return kSuccess;
}
API int aclrtResetStreamResLimit(void* stream) {
  reset_limits(stream_of(stream));
  return kSuccess;
}
API int aclrtGetResInCurrentThread(int type, uint32_t* value) {
  *value = default_limit(type);
  return kSuccess;
}
API int aclrtUseStreamResInCurrentThread(void*) { return kSuccess; }
API int aclrtUnuseStreamResInCurrentThread(void*) { return kSuccess; }
