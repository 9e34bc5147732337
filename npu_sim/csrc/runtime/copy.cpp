// Memory copies: synchronous ones, which a capture refuses, and asynchronous ones, which it records.
#include <cstring>

#include "core/acl.h"
#include "core/call.h"
#include "core/options.h"
#include "messages/messages.h"
#include "runtime/memory.h"
#include "runtime/stream.h"

using namespace sim;

namespace {

const char* task_name(int kind) {
  switch (kind) {
    case kHostToDevice:
      return "MEMCPY_ASYNC_H2D";
    case kDeviceToHost:
      return "MEMCPY_ASYNC_D2H";
    default:
      return "MEMCPY_ASYNC_D2D";
  }
}

int copy_now(void* to, size_t limit, const void* from, size_t bytes) {
  if (bytes > limit) return kInvalidParam;
  // hicann/runtime src/runtime/api/impl/api_impl.cc MemCopySync. Public: vllm-ascend #10309 shows "synchronized memcpy
  // failed, kind = 2, runtime result = 107030".
  if (int refused = refuse_if_capturing_mode("Synchronous memory copy", "rtMemcpy", "synchronized memcpy failed"))
    return refused;
  memmove(to, from, bytes);
  return kSuccess;
}

const void* host_side(int kind, const void* to, const void* from) {
  if (kind == kHostToDevice) return from;
  if (kind == kDeviceToHost) return to;
  return nullptr;
}

int copy_async(void* to, size_t limit, const void* from, size_t bytes, int kind, void* stream_handle) {
  Stream* stream = stream_of(stream_handle);
  if (bytes > limit) return kInvalidParam;
  const void* host = host_side(kind, to, from);
  if (host && !is_pinned(host)) {
    // hicann/runtime src/runtime/api/impl/api_error.cc MemcpyAsync: a copy that involves pageable memory becomes a
    // stream synchronisation and a synchronous copy. 9.1 refuses it first on a capturing stream (107000, EE1016); in
    // 8.5 and 9.0 the synchronisation refuses (107027). Other streams: the synchronous copy may be refused (107041).
    if (stream->capture && options().cann_at_least(9, 1))
      return refuse({kInvalidParam, "EE1016", "Asynchronous copy task",
                     "The pageable memory copy task does not support graph capture", "", "rtMemcpyAsync",
                     "asynchronous memcpy failed", ""});
    if (int refused = refuse_if_capturing(stream, "Synchronizing a stream",
                                          "Not allow to synchronize captured-stream, stream_id=%d.", "rtMemcpyAsync",
                                          "asynchronous memcpy failed"))
      return refused;
    run_until(
        stream, [stream] { return stream->queue.empty() && !stream->running; }, -1);
    int refused = copy_now(to, limit, from, bytes);
    if (refused != kCaptureMode) return refused;
    if (!options().cann_at_least(9, 1)) return refused;
    return refuse({kCaptureModeBlocksAsync, "EE1016", "Asynchronous memory copy",
                   "the operation has been converted to a synchronous operation. operation not permitted when a stream "
                   "is capturing and the specified capture mode is not relaxed",
                   "", "rtMemcpyAsync", "asynchronous memcpy failed", ""});
  }
  bool pinned = host != nullptr;
  return submit(
      stream, make_task(task_name(kind), [=] {
        const void* device_side[2] = {kind == kDeviceToHost ? nullptr : to, kind == kHostToDevice ? nullptr : from};
        for (const void* address : device_side)
          if (address && !check_device_access(address, bytes, task_name(kind))) return;
        if (pinned && !is_pinned(host)) {  // freed since the capture
          raise_device_fault(stream->device, kVectorCoreException,
                             "the pinned memory of a captured copy has been freed");
          return;
        }
        memmove(to, from, bytes);
      }));
}

}  // namespace

API int aclrtMemcpy(void* to, size_t limit, const void* from, size_t bytes, int kind) {
  ENTER("to=%p from=%p bytes=%zu kind=%d", to, from, bytes, kind);
  return copy_now(to, limit, from, bytes);
}

API int aclrtMemcpyAsync(void* to, size_t limit, const void* from, size_t bytes, int kind, void* stream) {
  ENTER("to=%p from=%p bytes=%zu kind=%d stream=%d", to, from, bytes, kind, stream_of(stream)->id);
  return copy_async(to, limit, from, bytes, kind, stream);
}

API int aclrtMemcpyAsyncWithCondition(void* to, size_t limit, const void* from, size_t bytes, int kind, void* stream) {
  ENTER("to=%p from=%p bytes=%zu kind=%d stream=%d", to, from, bytes, kind, stream_of(stream)->id);
  return copy_async(to, limit, from, bytes, kind, stream);
}

// acl_rt.h aclrtMemcpyBatch: arrays of destinations, limits, sources and sizes; the direction is in the attributes,
// which the simulator does not need because all memory is host memory.
API int aclrtMemcpyBatch(void** to, size_t* limits, void** from, size_t* sizes, size_t count, void*, size_t*, size_t,
                         size_t* failed) {
  ENTER("count=%zu", count);
  for (size_t i = 0; i < count; i++)
    if (int refused = copy_now(to[i], limits[i], from[i], sizes[i])) {
      if (failed) *failed = i;
      return refused;
    }
  return kSuccess;
}

API int aclrtMemcpyBatchAsync(void** to, size_t* limits, void** from, size_t* sizes, size_t count, void*, size_t*,
                              size_t, size_t* failed, void* stream) {
  ENTER("count=%zu stream=%d", count, stream_of(stream)->id);
  for (size_t i = 0; i < count; i++)
    if (int refused = copy_async(to[i], limits[i], from[i], sizes[i], kDeviceToDevice, stream)) {
      if (failed) *failed = i;
      return refused;
    }
  return kSuccess;
}
