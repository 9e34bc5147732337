// Streams: queues of tasks, and the engine that runs them.
//
// By default a task runs as soon as it is submitted ("a very fast device"), on the submitting thread. A task that must
// wait for something (an event, a value in memory) stops its stream; whatever fulfils the condition starts the stream
// again. With --defer tasks wait until a synchronisation or an awaited event orders them.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/acl.h"

namespace sim {

struct Stream;
struct Model;
struct TaskGroup;
struct CaptureStream;

struct Task;
using TaskRef = std::shared_ptr<Task>;

struct Task {
  std::string name;  // "aclnnAdd", "MEMCPY_ASYNC", "EVENT_RECORD"
  std::function<void()> work;
  std::function<bool()> ready;  // empty: always
  Stream* awaited = nullptr;    // the stream whose work makes it ready (--defer runs that stream first)
  std::function<std::vector<TaskRef>()> expand;  // a conditional node: the tasks of the chosen branch
  bool is_kernel = false;                        // only kernels may form a task group
  // Filled in when captured:
  int capture_stream = -1;
  int index = 0;
  std::string handle;  // for the debug dump of events and values
};

TaskRef make_task(const std::string& name, std::function<void()> work);

// A recorded event: done once the stream has reached the record.
struct Signal {
  bool done = false;
  Stream* stream = nullptr;
};

struct Stream {
  int id = 0;
  int device = 0;
  bool is_default = false;
  bool alive = true;
  std::deque<TaskRef> queue;
  bool running = false;              // a thread is inside run_queue() for this stream
  CaptureStream* capture = nullptr;  // not null while the stream is being captured
  enum class GroupState { kNone, kSample, kUpdate } group_state = GroupState::kNone;
  TaskGroup* updating = nullptr;
};

// The engine's one lock: queues, captures, events.
std::unique_lock<std::recursive_mutex> lock_engine();

// ACL's null stream is the default stream of the current device.
Stream* stream_of(void* handle);
int current_device();
// A stream takes an id (--streams) and a pair of queues (--queues). Returns kSuccess, kNoStreamResource or
// kResourceAllocFail; refuse_resource() reports the latter two.
int take_stream_resource();
void release_stream_resource();
int refuse_resource(int code, const char* runtime_api, const char* acl_text);
int next_stream_id();

// Queues a task, or records it into the capture or the task update of the stream.
int submit(Stream* stream, TaskRef task);
// Queues the tasks of a replay, whatever the state of the stream.
void enqueue(Stream* stream, const std::vector<TaskRef>& tasks);
// Runs what can run on any stream; called when a condition may have become true.
void run_ready_streams();
// Runs a stream until `done` holds; false when nothing can make it hold within the wait limit.
bool run_until(Stream* stream, const std::function<bool()>& done, int timeout_ms);
void finish_queued_work();

// Device faults: the first one sticks and is reported by every later synchronisation of the device.
void raise_device_fault(int device, int code, const std::string& text);
int device_fault(int device, const char* runtime_api, const char* acl_text);
// False, and a vector core exception, when a kernel touches memory that is not alive.
bool check_device_access(const void* address, size_t bytes, const char* kernel);

// Refusals shared by many functions.
int refuse_if_capturing(Stream* stream, const char* operation, const char* inner, const char* runtime_api,
                        const char* acl_text);
int refuse_if_capturing_mode(const char* operation, const char* runtime_api, const char* acl_text);

}  // namespace sim
