// The engine: queues, waits, faults; and the ACL functions that create, order and query streams.
#include "runtime/stream.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <set>

#include "capture/model.h"
#include "core/call.h"
#include "core/options.h"
#include "messages/messages.h"
#include "messages/plog.h"
#include "runtime/memory.h"

namespace sim {
namespace {

struct Engine {
  std::recursive_mutex mutex;
  std::condition_variable_any progress;
  std::set<Stream*> streams;
  std::map<int, Stream*> default_streams;
  int taken_ids = 0;
  int last_id = 0;
  struct Fault {
    int code = 0;
    std::string text;
  };
  std::map<int, Fault> faults;
};

Engine& engine() {
  static Engine* instance = new Engine;
  return *instance;
}

thread_local Stream* running_stream = nullptr;  // for the device of a fault

// Runs the head of the queue while it is ready. The lock is free while a task works: a host callback takes the GIL,
// and the thread that holds the GIL may be waiting for this lock.
void run_queue(Stream* stream, std::unique_lock<std::recursive_mutex>& lock) {
  if (stream->running) return;
  stream->running = true;
  Stream* outer = running_stream;
  running_stream = stream;
  while (!stream->queue.empty()) {
    TaskRef task = stream->queue.front();
    if (task->ready && !task->ready()) {
      if (options().defer && task->awaited && task->awaited != stream && !task->awaited->running)
        run_queue(task->awaited, lock);
      if (!task->ready()) break;
    }
    stream->queue.pop_front();
    auto work = task->work;  // a copy: a task update may replace it meanwhile
    lock.unlock();
    if (work) work();
    lock.lock();
    if (task->expand) {
      std::vector<TaskRef> branch = task->expand();
      stream->queue.insert(stream->queue.begin(), branch.begin(), branch.end());
    }
  }
  running_stream = outer;
  stream->running = false;
  engine().progress.notify_all();
}

bool head_is_ready(Stream* stream) {
  return !stream->running && !stream->queue.empty() &&
         (!stream->queue.front()->ready || stream->queue.front()->ready());
}

void run_ready(std::unique_lock<std::recursive_mutex>& lock) {
  for (bool moved = true; moved;) {
    moved = false;
    for (Stream* stream : std::set<Stream*>(engine().streams)) {
      if (!head_is_ready(stream)) continue;
      run_queue(stream, lock);
      moved = true;
    }
  }
}

// A lock of depth one: run_queue releases it while a task works.
std::unique_lock<std::recursive_mutex> lock_once() { return std::unique_lock<std::recursive_mutex>(engine().mutex); }

void after_submit(Stream* stream, std::unique_lock<std::recursive_mutex>& lock) {
  if (options().defer) return;
  run_queue(stream, lock);
  run_ready(lock);
}

}  // namespace

TaskRef make_task(const std::string& name, std::function<void()> work) {
  auto task = std::make_shared<Task>();
  task->name = name;
  task->work = std::move(work);
  return task;
}

std::unique_lock<std::recursive_mutex> lock_engine() { return lock_once(); }

int take_stream_resource() {
  auto lock = lock_engine();
  if (engine().taken_ids >= options().streams) return kNoStreamResource;
  if (engine().taken_ids >= options().queues) return kResourceAllocFail;
  engine().taken_ids++;
  return kSuccess;
}
void release_stream_resource() {
  auto lock = lock_engine();
  engine().taken_ids--;
}
// hicann/runtime src/runtime/core/src/stream/stream.cc AllocStreamIdFromDriver and SetupByAllocatedStreamId ("Alloc sq
// cq fail"); errcode_manage.cc maps RT_ERROR_DRV_NO_STREAM_RESOURCES to 207008 and RT_ERROR_DRV_NO_RESOURCES to 207005.
// Public: vllm-ascend #9564 shows the driver's 0x7020023.
int refuse_resource(int code, const char* runtime_api, const char* acl_text) {
  if (code == kNoStreamResource) {
    plog(LogLevel::kError, "RUNTIME", "stream.cc", 614, "AllocStreamIdFromDriver",
         "Failed to alloc stream id, retCode=0x702001a.");
    return report_resource(code, "EL0009", "The stream resources are insufficient.", runtime_api, acl_text);
  }
  plog(LogLevel::kError, "RUNTIME", "stream.cc", 1022, "AllocSqCq",
       "[SqCqManage]Alloc sq cq fail, stream_id=" + std::to_string(engine().last_id + 1) + ", retCode=0x7020023.");
  return report_resource(code, "EL0005", "The resources are busy.", runtime_api, acl_text);
}
int next_stream_id() {
  auto lock = lock_engine();
  return ++engine().last_id;
}

// A stream whose resources have been taken.
static Stream* add_stream(int device) {
  auto lock = lock_engine();
  Stream* stream = new Stream;
  stream->id = next_stream_id();
  stream->device = device;
  engine().streams.insert(stream);
  return stream;
}

Stream* stream_of(void* handle) {
  if (handle) return static_cast<Stream*>(handle);
  auto lock = lock_engine();
  Stream*& stream = engine().default_streams[current_device()];
  if (!stream) {
    stream = add_stream(current_device());  // the driver keeps the default stream's resources apart
    stream->is_default = true;
  }
  return stream;
}

int submit(Stream* stream, TaskRef task) {
  std::unique_lock<std::recursive_mutex> lock = lock_once();
  if (stream->capture) return record_task(stream, task);
  if (stream->updating && task->is_kernel) return update_task(stream, task);
  trace_note("run on stream %d: %s", stream->id, task->name.c_str());
  stream->queue.push_back(task);
  after_submit(stream, lock);
  return kSuccess;
}

void enqueue(Stream* stream, const std::vector<TaskRef>& tasks) {
  std::unique_lock<std::recursive_mutex> lock = lock_once();
  stream->queue.insert(stream->queue.end(), tasks.begin(), tasks.end());
  after_submit(stream, lock);
}

void run_ready_streams() {
  std::unique_lock<std::recursive_mutex> lock = lock_once();
  if (!options().defer) run_ready(lock);
}

bool run_until(Stream* stream, const std::function<bool()>& done, int timeout_ms) {
  std::unique_lock<std::recursive_mutex> lock = lock_once();
  double limit = timeout_ms > 0 ? timeout_ms / 1000.0 : options().wait_limit_seconds;
  auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit);
  while (!done()) {
    run_queue(stream, lock);
    if (done()) break;
    if (std::chrono::steady_clock::now() > deadline) return false;
    engine().progress.wait_for(lock, std::chrono::milliseconds(20));
  }
  return true;
}

void finish_queued_work() {
  std::unique_lock<std::recursive_mutex> lock = lock_once();
  for (Stream* stream : std::set<Stream*>(engine().streams)) run_queue(stream, lock);
}

void raise_device_fault(int device, int code, const std::string& text) {
  auto lock = lock_engine();
  auto& fault = engine().faults[device];
  trace_note("device fault %d: %s", code, text.c_str());
  if (!fault.code) fault = {code, text};
}

int device_fault(int device, const char* runtime_api, const char* acl_text) {
  auto lock = lock_engine();
  auto& fault = engine().faults[device];
  if (!fault.code) return kSuccess;
  return refuse({fault.code, "EZ9999", fault.text, "the kernel accessed memory that is not allocated", fault.text,
                 runtime_api, acl_text, ""});
}

bool check_device_access(const void* address, size_t bytes, const char* kernel) {
  if (is_device_range(address, bytes)) return true;
  char text[256];
  snprintf(text, sizeof text, "The error from device(%d), fault kernel_name=%s, address %p is out of range",
           running_stream ? running_stream->device : current_device(), kernel, address);
  raise_device_fault(running_stream ? running_stream->device : current_device(), kVectorCoreException, text);
  return false;
}

int refuse_if_capturing(Stream* stream, const char* operation, const char* inner, const char* runtime_api,
                        const char* acl_text) {
  auto lock = lock_engine();
  if (!stream->capture) return kSuccess;
  std::string id = std::to_string(stream->id);
  std::string inner_text = inner;
  size_t place = inner_text.find("%d");
  if (place != std::string::npos) inner_text.replace(place, 2, id);
  return refuse({kStreamCaptured, "EE1016", operation,
                 "Stream (stream_id=" + id + ") during the capture stage is not supported", inner_text, runtime_api,
                 acl_text, ""});
}

}  // namespace sim

using namespace sim;

API int aclrtCreateStreamWithConfig(void** stream, uint32_t priority, uint32_t flag) {
  ENTER("priority=%u flag=%u", priority, flag);
  if (int code = take_stream_resource()) return refuse_resource(code, "rtStreamCreate", "create stream failed");
  *stream = add_stream(current_device());
  return kSuccess;
}
API int aclrtCreateStream(void** stream) { return aclrtCreateStreamWithConfig(stream, 0, 0); }

static int destroy_stream(void* handle) {
  Stream* stream = stream_of(handle);
  // hicann/runtime src/runtime/api/impl/api_error.cc StreamDestroy
  if (int refused = refuse_if_capturing(stream, "Stream destruction", "Not allow to destroy captured-stream.",
                                        "rtStreamDestroy", "destroy stream failed"))
    return refused;
  finish_queued_work();
  if (stream->alive) release_stream_resource();
  stream->alive = false;
  return kSuccess;
}
API int aclrtDestroyStream(void* stream) {
  ENTER("stream=%d", stream_of(stream)->id);
  return destroy_stream(stream);
}
API int aclrtDestroyStreamForce(void* stream) {
  ENTER("stream=%d", stream_of(stream)->id);
  return destroy_stream(stream);
}

static int synchronize(void* handle, int timeout_ms) {
  Stream* stream = stream_of(handle);
  const char* api = "rtStreamSynchronizeWithTimeout";
  const char* acl = "synchronize stream with timeout failed";
  // hicann/runtime src/runtime/api/impl/api_error.cc StreamSynchronize; inner text: tag v9.0.0 api_error.cc:1016.
  // Public: vllm-ascend #2567 shows 107027 for AclrtSynchronizeStreamWithTimeout(copy_stream).
  if (int refused = refuse_if_capturing(stream, "Synchronizing a stream",
                                        "Not allow to synchronize captured-stream, stream_id=%d.", api, acl))
    return refused;
  bool finished = run_until(
      stream, [stream] { return stream->queue.empty() && !stream->running; }, timeout_ms);
  if (!finished)
    return refuse({kStreamSyncTimeout, "", "Stream synchronize", "a task waits for an event that nobody records", "",
                   api, acl, ""});
  return device_fault(stream->device, api, acl);
}
API int aclrtSynchronizeStream(void* stream) {
  ENTER("stream=%d", stream_of(stream)->id);
  return synchronize(stream, -1);
}
API int aclrtSynchronizeStreamWithTimeout(void* stream, int32_t timeout) {
  ENTER("stream=%d timeout=%d", stream_of(stream)->id, timeout);
  return synchronize(stream, timeout);
}

API int aclrtStreamQuery(void* handle, int* status) {
  Stream* stream = stream_of(handle);
  ENTER("stream=%d", stream->id);
  // hicann/runtime src/runtime/api/impl/api_error.cc StreamQuery
  if (int refused = refuse_if_capturing(stream, "Querying a stream", "Not allow to query captured-stream.",
                                        "rtStreamQuery", "query stream failed"))
    return refused;
  auto lock = lock_engine();
  run_queue(stream, lock);  // a query lets time pass
  *status = stream->queue.empty() && !stream->running ? 0 : 1;
  return kSuccess;
}

static int synchronize_device(int timeout_ms) {
  {
    // hicann/runtime src/runtime/core/src/context/context.cc Context::Synchronize refuses when a stream of the
    // context is captured; it logs and gives no user block.
    auto lock = lock_engine();
    for (Stream* stream : engine().streams)
      if (stream->capture && stream->device == current_device())
        return refuse({kStreamCaptured, "", "Synchronizing the device",
                       "stream " + std::to_string(stream->id) + " is captured",
                       "Not allow to synchronize captured-stream, device_id=" + std::to_string(stream->device) +
                           ", stream_id=" + std::to_string(stream->id) + ".",
                       "rtDeviceSynchronizeWithTimeout", "synchronize device with timeout failed", ""});
  }
  std::vector<Stream*> streams;
  {
    auto lock = lock_engine();
    for (Stream* stream : engine().streams)
      if (stream->device == current_device()) streams.push_back(stream);
  }
  for (Stream* stream : streams)
    if (!run_until(
            stream, [stream] { return stream->queue.empty() && !stream->running; }, timeout_ms))
      return refuse({kStreamSyncTimeout, "", "Device synchronize",
                     "a task of stream " + std::to_string(stream->id) + " waits for an event that nobody records", "",
                     "rtDeviceSynchronizeWithTimeout", "synchronize device with timeout failed", ""});
  return device_fault(current_device(), "rtDeviceSynchronizeWithTimeout", "synchronize device with timeout failed");
}
API int aclrtSynchronizeDevice() {
  ENTER("device=%d", current_device());
  return synchronize_device(-1);
}
API int aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  ENTER("device=%d timeout=%d", current_device(), timeout);
  return synchronize_device(timeout);
}

API int aclrtStreamGetId(void* stream, int32_t* id) {
  *id = stream_of(stream)->id;
  return kSuccess;
}
API int aclrtSetStreamFailureMode(void* stream, uint64_t mode) {
  ENTER("stream=%d mode=%lu", stream_of(stream)->id, mode);
  return kSuccess;
}
API int aclrtSetStreamAttribute(void* stream, int kind, void*) {
  ENTER("stream=%d kind=%d", stream_of(stream)->id, kind);
  return kSuccess;
}
API int aclrtSetStreamOverflowSwitch(void* stream, uint32_t on) {
  ENTER("stream=%d on=%u", stream_of(stream)->id, on);
  // hicann/runtime src/runtime/api/impl/api_error.cc SetStreamOverflowSwitch
  return refuse_if_capturing(stream_of(stream), "Setting the stream overflow/underflow detection switch",
                             "Not allow to set overflow switch of captured-stream.", "rtSetStreamOverflowSwitch",
                             "set stream overflow switch failed");
}
API int aclrtGetStreamOverflowSwitch(void* stream, uint32_t* on) {
  ENTER("stream=%d", stream_of(stream)->id);
  *on = 0;
  return kSuccess;
}
