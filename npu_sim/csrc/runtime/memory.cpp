// Device memory (ordinary and expandable segments), pinned host memory, and the information about them.
#include "runtime/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "core/acl.h"
#include "core/call.h"
#include "core/options.h"
#include "messages/messages.h"
#include "runtime/stream.h"

namespace sim {
namespace {

// Uninitialised device memory must not look like zeros: -431602080.0 as float32.
constexpr int kPoison = 0xCD;
// 512-byte blocks and a 32-byte guard, as aclrtMalloc documents its rounding (acl_rt.h aclrtMalloc).
constexpr size_t kBlock = 512;

struct Physical {
  size_t size;
  int device;
};
struct Mapping {
  size_t size;
  Physical* physical;
};
struct Allocation {
  size_t size;
  int device;
};

struct Memory {
  std::mutex mutex;
  std::map<char*, Allocation> device;
  std::map<char*, Mapping> mapped;
  std::map<char*, size_t> reserved;
  std::map<char*, size_t> pinned;
  std::vector<size_t> used = std::vector<size_t>(64, 0);
};

Memory& memory() {
  static Memory* instance = new Memory;
  return *instance;
}

template <class Map, class Size>
bool inside(const Map& ranges, const char* address, size_t bytes, Size size_of) {
  auto after = ranges.upper_bound(const_cast<char*>(address));
  if (after == ranges.begin()) return false;
  --after;
  return address + bytes <= after->first + size_of(after->second);
}

int out_of_memory(const char* function) {
  // RT_ERROR_DRV_OUT_MEMORY -> ACL_ERROR_RT_MEMORY_ALLOCATION (errcode_manage.cc); block EL0004 (error_code.json).
  return report_resource(kMemoryAllocation, "EL0004", "Failed to allocate memory requested by ACL module.", function,
                         "malloc device memory failed");
}

int allocate(void** address, size_t bytes) {
  Memory& m = memory();
  int device = current_device();
  size_t rounded = (bytes + kBlock - 1) / kBlock * kBlock + kBlock;
  {
    std::lock_guard<std::mutex> lock(m.mutex);
    if (m.used[device] + rounded > options().memory_bytes) return out_of_memory("rtMalloc");
    m.used[device] += rounded;
  }
  if (posix_memalign(address, kBlock, rounded)) return out_of_memory("rtMalloc");
  memset(*address, kPoison, rounded);
  std::lock_guard<std::mutex> lock(m.mutex);
  m.device[static_cast<char*>(*address)] = {rounded, device};
  return kSuccess;
}

}  // namespace

bool is_device_range(const void* address, size_t bytes) {
  if (bytes == 0) return true;
  Memory& m = memory();
  std::lock_guard<std::mutex> lock(m.mutex);
  const char* begin = static_cast<const char*>(address);
  if (inside(m.device, begin, bytes, [](const Allocation& a) { return a.size; })) return true;
  // A tensor may span several mapped chunks of one expandable segment.
  while (bytes > 0) {
    auto after = m.mapped.upper_bound(const_cast<char*>(begin));
    if (after == m.mapped.begin()) return false;
    --after;
    char* end = after->first + after->second.size;
    if (begin >= end) return false;
    size_t here = static_cast<size_t>(end - begin);
    if (here >= bytes) return true;
    bytes -= here;
    begin = end;
  }
  return true;
}

bool is_pinned(const void* address) {
  Memory& m = memory();
  std::lock_guard<std::mutex> lock(m.mutex);
  return inside(m.pinned, static_cast<const char*>(address), 1, [](size_t size) { return size; });
}

}  // namespace sim

using namespace sim;

API int aclrtMalloc(void** address, size_t size, int policy) {
  ENTER("size=%zu policy=%d", size, policy);
  return allocate(address, size);
}
API int aclrtMallocAlign32(void** address, size_t size, int policy) {
  ENTER("size=%zu policy=%d", size, policy);
  return allocate(address, size);
}

API int aclrtFree(void* address) {
  ENTER("%p", address);
  finish_queued_work();  // queued kernels still use the memory (--defer)
  Memory& m = memory();
  std::lock_guard<std::mutex> lock(m.mutex);
  auto found = m.device.find(static_cast<char*>(address));
  if (found == m.device.end())
    return refuse({kInvalidParam, "EE1011", "Freeing device memory", "The address was not allocated", "", "rtFree",
                   "free device memory failed", ""});
  m.used[found->second.device] -= found->second.size;
  m.device.erase(found);
  free(address);
  return kSuccess;
}

API int aclrtGetMemInfo(int kind, size_t* available, size_t* total) {
  ENTER("kind=%d", kind);
  Memory& m = memory();
  std::lock_guard<std::mutex> lock(m.mutex);
  *total = options().memory_bytes;
  *available = *total - std::min(*total, m.used[current_device()]);
  return kSuccess;
}

API int aclrtMemset(void* address, size_t limit, int32_t value, size_t bytes) {
  ENTER("%p bytes=%zu", address, bytes);
  if (bytes > limit) return kInvalidParam;
  // hicann/runtime src/runtime/api/impl/api_impl.cc MemSetSync
  if (int refused = refuse_if_capturing_mode("Memory setting synchronization", "rtMemset", "memset failed"))
    return refused;
  memset(address, value, bytes);
  return kSuccess;
}

API int aclrtMemsetAsync(void* address, size_t limit, int32_t value, size_t bytes, void* stream) {
  ENTER("%p bytes=%zu stream=%d", address, bytes, stream_of(stream)->id);
  if (bytes > limit) return kInvalidParam;
  return submit(stream_of(stream), make_task("MEMSET_ASYNC", [=] {
                  if (check_device_access(address, bytes, "MEMSET_ASYNC")) memset(address, value, bytes);
                }));
}

// ---------------------------------------------------------------- pinned host memory
API int aclrtMallocHost(void** address, size_t size) {
  ENTER("size=%zu", size);
  if (posix_memalign(address, 4096, size ? size : 1)) return out_of_memory("rtMallocHost");
  std::lock_guard<std::mutex> lock(memory().mutex);
  memory().pinned[static_cast<char*>(*address)] = size ? size : 1;
  return kSuccess;
}
API int aclrtMallocHostWithCfg(void** address, uint64_t size, void*) { return aclrtMallocHost(address, size); }

API int aclrtFreeHost(void* address) {
  ENTER("%p", address);
  finish_queued_work();
  {
    std::lock_guard<std::mutex> lock(memory().mutex);
    memory().pinned.erase(static_cast<char*>(address));
  }
  free(address);
  return kSuccess;
}

API int aclrtHostRegister(void* address, uint64_t size, int kind, void** device_address) {
  ENTER("%p size=%lu kind=%d", address, size, kind);
  std::lock_guard<std::mutex> lock(memory().mutex);
  memory().pinned[static_cast<char*>(address)] = size;
  if (device_address) *device_address = address;
  return kSuccess;
}
API int aclrtHostRegisterV2(void* address, uint64_t size, uint32_t flag) {
  return aclrtHostRegister(address, size, static_cast<int>(flag), nullptr);
}
API int aclrtHostUnregister(void* address) {
  ENTER("%p", address);
  std::lock_guard<std::mutex> lock(memory().mutex);
  memory().pinned.erase(static_cast<char*>(address));
  return kSuccess;
}

// acl_rt.h aclrtPtrAttributes begins with aclrtMemLocation {id, type}; type 0 host, 1 device.
API int aclrtPointerGetAttributes(const void* address, void* attributes) {
  ENTER("%p", address);
  struct Location {
    uint32_t id;
    int type;
    uint32_t page_size;
    uint32_t reserved[4];
  };
  Location location{};
  location.type = is_device_range(address, 1) ? 1 : is_pinned(address) ? 0 : 2;
  memcpy(attributes, &location, sizeof location);
  return kSuccess;
}

// ---------------------------------------------------------------- expandable segments
API int aclrtReserveMemAddress(void** address, size_t size, size_t, void* hint, uint64_t) {
  ENTER("size=%zu", size);
  void* area = mmap(hint, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) return out_of_memory("rtReserveMemAddress");
  *address = area;
  std::lock_guard<std::mutex> lock(memory().mutex);
  memory().reserved[static_cast<char*>(area)] = size;
  return kSuccess;
}

API int aclrtReleaseMemAddress(void* address) {
  ENTER("%p", address);
  std::lock_guard<std::mutex> lock(memory().mutex);
  auto found = memory().reserved.find(static_cast<char*>(address));
  if (found == memory().reserved.end()) return kInvalidParam;
  munmap(address, found->second);
  memory().reserved.erase(found);
  return kSuccess;
}

API int aclrtMallocPhysical(void** handle, size_t size, const void*, uint64_t) {
  ENTER("size=%zu", size);
  Memory& m = memory();
  std::lock_guard<std::mutex> lock(m.mutex);
  int device = current_device();
  if (m.used[device] + size > options().memory_bytes) return out_of_memory("rtMallocPhysical");
  m.used[device] += size;
  *handle = new Physical{size, device};
  return kSuccess;
}

API int aclrtFreePhysical(void* handle) {
  ENTER("%p", handle);
  Physical* physical = static_cast<Physical*>(handle);
  std::lock_guard<std::mutex> lock(memory().mutex);
  memory().used[physical->device] -= physical->size;
  delete physical;
  return kSuccess;
}

API int aclrtMapMem(void* address, size_t size, size_t, void* handle, uint64_t) {
  ENTER("%p size=%zu", address, size);
  if (mprotect(address, size, PROT_READ | PROT_WRITE)) return kInvalidParam;
  memset(address, kPoison, size);
  std::lock_guard<std::mutex> lock(memory().mutex);
  memory().mapped[static_cast<char*>(address)] = {size, static_cast<Physical*>(handle)};
  return kSuccess;
}

API int aclrtUnmapMem(void* address) {
  ENTER("%p", address);
  finish_queued_work();
  std::lock_guard<std::mutex> lock(memory().mutex);
  auto found = memory().mapped.find(static_cast<char*>(address));
  if (found == memory().mapped.end()) return kInvalidParam;
  madvise(address, found->second.size, MADV_DONTNEED);
  mprotect(address, found->second.size, PROT_NONE);
  memory().mapped.erase(found);
  return kSuccess;
}
