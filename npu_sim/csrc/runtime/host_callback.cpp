// Host functions on a stream. They run on the thread that runs the stream; a report thread only has to keep waiting.
#include <unistd.h>

#include <algorithm>

#include "core/acl.h"
#include "core/call.h"
#include "runtime/stream.h"

using namespace sim;

API int aclrtLaunchHostFunc(void* stream, void (*function)(void*), void* argument) {
  ENTER("stream=%d", stream_of(stream)->id);
  return submit(stream_of(stream), make_task("HOST_FUNC", [=] { function(argument); }));
}

API int aclrtLaunchCallback(void (*function)(void*), void* argument, int block, void* stream) {
  ENTER("stream=%d block=%d", stream_of(stream)->id, block);
  return submit(stream_of(stream), make_task("HOST_CALLBACK", [=] { function(argument); }));
}

API int aclrtSubscribeReport(uint64_t thread, void* stream) {
  ENTER("thread=%lu stream=%d", thread, stream_of(stream)->id);
  return kSuccess;
}
API int aclrtUnSubscribeReport(uint64_t thread, void* stream) {
  ENTER("thread=%lu stream=%d", thread, stream_of(stream)->id);
  return kSuccess;
}
API int aclrtProcessReport(int32_t timeout) {
  usleep(static_cast<useconds_t>(std::max(1, std::min(timeout, 10)) * 1000));
  return kWaitTimeout;
}
