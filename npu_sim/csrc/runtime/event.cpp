// Events: record, wait, synchronise, query; inside a capture they join streams into the graph. Also values in memory
// that streams write and wait for (what torch_npu builds its ExternalEvent from, CANN 8.5 on).
#include "runtime/event.h"

#include <time.h>

#include <cstring>

#include "capture/model.h"
#include "core/call.h"
#include "messages/messages.h"

namespace sim {
namespace {

double now_ms() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

std::string hex(const void* pointer) {
  char text[32];
  snprintf(text, sizeof text, "%p", pointer);
  return text;
}

bool is_capturing(const Event* event) {
  return !event->is_external() && event->captured && event->captured->model->is_capturing();
}

// Flags without ACL_EVENT_SYNC have no wait task (hicann/runtime event.cc IsEventWithoutWaitTask).
bool without_wait_task(const Event* event) { return event->flag == 0x8 || event->flag == 0x2; }

// hicann/runtime src/runtime/api/impl/api_error.cc EventSynchronize, EventQueryStatus, EventQueryWaitStatus,
// EventElapsedTime, EventGetTimeStamp; inner text: tag v9.0.0 api_error.cc:1297-1361.
int refuse_if_event_capturing(const Event* event, const char* operation, const char* noun, const char* inner,
                              const char* runtime_api, const char* acl_text) {
  if (!is_capturing(event)) return kSuccess;
  std::string reason = std::string(noun) + std::to_string(event->id) + " during the capture stage is not supported";
  if (reason.compare(0, 7, "Event (") == 0)
    reason = "Event (event_id=" + std::to_string(event->id) + ") during the capture stage is not supported";
  return refuse({kEventCaptured, "EE1016", operation, reason, inner, runtime_api, acl_text, ""});
}

int refuse_default_stream(const Stream* stream, const char* operation, const char* runtime_api, const char* acl_text) {
  // hicann/runtime src/runtime/api/impl/api_impl.cc StreamWaitEvent, EventRecord, EventReset
  return refuse({kCaptureImplicit, "EE1017", operation,
                 "The default stream (stream_id=" + std::to_string(stream->id) + ") cannot be used in the ACL Graph",
                 "", runtime_api, acl_text, "stream"});
}

// The model of a record or a wait differs from the model of the stream: both captures end
// (hicann/runtime v100/api_impl_capture_event.cc IsCrossCaptureModel, capture_model_utils.cc TerminateCapture).
int refuse_conflict(const Event* event, Stream* stream, const char* operation, const char* at_event,
                    const char* at_stream, const char* runtime_api, const char* acl_text) {
  Model* mine = stream->capture->model;
  Model* other = event->captured->model;
  mine->invalid = other->invalid = true;
  return refuse({kCaptureConflict, "EE1016", operation,
                 "The model (model_id=" + std::to_string(other->id) + ") where the " + at_event +
                     " task is located is inconsistent with the model (stream_id=" + std::to_string(stream->id) +
                     ", model_id=" + std::to_string(mine->id) + ") where the " + at_stream + " task is located",
                 "", runtime_api, acl_text, ""});
}

int record_in_capture(Event* event, Stream* stream) {
  const char* api = "rtEventRecord";
  const char* acl = "record event failed";
  if (stream->is_default) return refuse_default_stream(stream, "Event recording", api, acl);
  if (without_wait_task(event)) return kSuccess;  // api_impl.cc EventRecord: a warning, nothing is captured
  if (is_capturing(event) && event->captured->model != stream->capture->model)
    return refuse_conflict(event, stream, "Event recording in capture mode", "event wait", "event record", api, acl);
  TaskRef task = make_task("EVENT_RECORD", nullptr);
  auto captured = std::make_shared<CaptureEvent>();
  captured->model = stream->capture->model;
  captured->recorder = stream->capture;
  captured->handle = task->handle = hex(captured.get());
  if (int refused = record_task(stream, task)) return refused;
  captured->recorded = true;
  captured->record = task;
  event->captured = captured;
  stream->capture->last_event = captured;
  return kSuccess;
}

int wait_in_capture(Event* event, Stream* stream) {
  const char* api = "rtStreamWaitEvent";
  const char* acl = "stream wait event failed";
  if (stream->is_default) return refuse_default_stream(stream, "Triggering event waiting", api, acl);
  std::shared_ptr<CaptureEvent> captured = event->captured;
  if (!stream->capture) {
    if (int refused = join_capture(stream, captured->model)) return refused;
  } else if (stream->capture->model != captured->model) {
    return refuse_conflict(event, stream, "Triggering event waiting in capture mode", "event record", "event wait", api,
                           acl);
  }
  TaskRef task = make_task("EVENT_WAIT", nullptr);
  task->handle = captured->handle;
  if (int refused = record_task(stream, task)) return refused;
  stream->capture->model->waits[task.get()] = captured;
  captured->waiters.insert(stream->capture);
  return kSuccess;
}

// ACL_EVENT_EXTERNAL: a flag in memory that both sides see, inside and outside a capture.
int submit_external(Event* event, Stream* stream, bool record) {
  auto value = event->external;
  if (record)
    return submit(stream, make_task("EXTERNAL_EVENT_RECORD", [value] {
                    value->set = true;
                    run_ready_streams();
                  }));
  TaskRef task = make_task("EXTERNAL_EVENT_WAIT", nullptr);
  task->ready = [value] { return value->set; };
  return submit(stream, task);
}

}  // namespace
}  // namespace sim

using namespace sim;

API int aclrtCreateEventExWithFlag(void** event, uint32_t flag) {
  ENTER("flag=%#x", flag);
  static int last_id = 0;
  auto lock = lock_engine();
  Event* created = new Event;
  created->id = ++last_id;
  created->flag = flag;
  created->external = std::make_shared<ExternalValue>();
  *event = created;
  return kSuccess;
}
API int aclrtCreateEventWithFlag(void** event, uint32_t flag) { return aclrtCreateEventExWithFlag(event, flag); }

API int aclrtDestroyEvent(void* event) {
  ENTER("event=%d", static_cast<Event*>(event)->id);
  auto lock = lock_engine();
  delete static_cast<Event*>(event);
  return kSuccess;
}

API int aclrtRecordEvent(void* handle, void* stream_handle) {
  Event* event = static_cast<Event*>(handle);
  Stream* stream = stream_of(stream_handle);
  ENTER("event=%d stream=%d", event->id, stream->id);
  if (event->is_external()) return submit_external(event, stream, true);
  {
    auto lock = lock_engine();
    if (stream->capture) return record_in_capture(event, stream);
    event->captured.reset();
    event->signal = std::make_shared<Signal>();
    event->signal->stream = stream;
  }
  auto signal = event->signal;
  return submit(stream, make_task("EVENT_RECORD", [event, signal] {
                  auto lock = lock_engine();
                  signal->done = true;
                  if (event->signal == signal) event->time_ms = now_ms();
                }));
}

API int aclrtStreamWaitEvent(void* stream_handle, void* handle) {
  Event* event = static_cast<Event*>(handle);
  Stream* stream = stream_of(stream_handle);
  ENTER("event=%d stream=%d", event->id, stream->id);
  if (event->is_external()) return submit_external(event, stream, false);
  auto lock = lock_engine();
  if (is_capturing(event)) return wait_in_capture(event, stream);
  if (stream->capture && event->signal)
    // hicann/runtime src/runtime/api/impl/api_impl.cc StreamWaitEvent (RT_ERROR_STREAM_CAPTURE_ISOLATION); the reason
    // string of 8.5 and 9.0 is in errcode_manage.cc.
    return refuse({kCaptureDependency, "EE1016", "Triggering event waiting",
                   "The event wait task is not supported during model capture because the corresponding event record "
                   "task is not in the current model. To wait for an event outside the model, see the usage of "
                   "ACL_EVENT_WAIT_EXTERNAL of the aclrtStreamWaitEventWithFlag API in the API reference",
                   "in the model capture scenario, the event wait task has no corresponding event record task",
                   "rtStreamWaitEvent", "stream wait event failed", ""});
  if (!event->signal) return kSuccess;  // never recorded: nothing to wait for
  auto signal = event->signal;
  TaskRef task = make_task("EVENT_WAIT", nullptr);
  task->ready = [signal] { return signal->done; };
  task->awaited = signal->stream;
  lock.unlock();
  return submit(stream, task);
}

API int aclrtResetEvent(void* handle, void* stream_handle) {
  Event* event = static_cast<Event*>(handle);
  Stream* stream = stream_of(stream_handle);
  ENTER("event=%d stream=%d", event->id, stream->id);
  if (event->is_external()) {
    auto value = event->external;
    return submit(stream, make_task("EVENT_RESET", [value] { value->set = false; }));
  }
  auto lock = lock_engine();
  if (is_capturing(event)) {
    if (stream->is_default) return refuse_default_stream(stream, "Event reset", "rtEventReset", "reset event failed");
    if (!stream->capture || stream->capture->model != event->captured->model)
      return refuse({kCaptureConflict, "EE1016", "Event resetting in capture mode",
                     "The model where the event reset task is located is inconsistent with the model where the stream "
                     "is located",
                     "", "rtEventReset", "reset event failed", ""});
    TaskRef task = make_task("EVENT_RESET", nullptr);
    task->handle = event->captured->handle;
    return record_task(stream, task);
  }
  event->signal.reset();
  return kSuccess;
}

API int aclrtSynchronizeEvent(void* handle) {
  Event* event = static_cast<Event*>(handle);
  ENTER("event=%d", event->id);
  if (int refused = refuse_if_event_capturing(event, "Event synchronization", "Event (",
                                              "Not allow to synchronize captured-event.", "rtEventSynchronize",
                                              "synchronize event failed"))
    return refused;
  auto signal = event->signal;
  if (!signal) return kSuccess;
  if (!run_until(
          signal->stream, [signal] { return signal->done; }, -1))
    return refuse({kStreamSyncTimeout, "", "Event synchronize", "the event is never reached", "", "rtEventSynchronize",
                   "synchronize event failed", ""});
  return device_fault(signal->stream->device, "rtEventSynchronize", "synchronize event failed");
}

API int aclrtQueryEventStatus(void* handle, int* status) {
  Event* event = static_cast<Event*>(handle);
  ENTER("event=%d", event->id);
  if (int refused =
          refuse_if_event_capturing(event, "Event status query", "Event (", "Not allow to query captured-event.",
                                    "rtEventQueryStatus", "query event status failed"))
    return refused;
  auto signal = event->signal;
  if (signal && !signal->done)
    run_until(
        signal->stream, [signal] { return signal->done; }, 1);
  *status = !signal || signal->done ? 1 : 0;  // ACL_EVENT_RECORDED_STATUS_COMPLETE
  return kSuccess;
}

API int aclrtQueryEventWaitStatus(void* handle, int* status) {
  Event* event = static_cast<Event*>(handle);
  ENTER("event=%d", event->id);
  *status = 0;  // ACL_EVENT_WAIT_STATUS_COMPLETE
  return refuse_if_event_capturing(event, "Event waiting status query", "Event (", "Not allow to query captured-event.",
                                   "rtEventQueryWaitStatus", "query event wait status failed");
}

API int aclrtEventElapsedTime(float* milliseconds, void* start, void* end) {
  Event* from = static_cast<Event*>(start);
  Event* to = static_cast<Event*>(end);
  ENTER("start=%d end=%d", from->id, to->id);
  const char* operation = "Computing the elapsed time between two events";
  for (Event* event : {from, to})
    if (int refused = refuse_if_event_capturing(event, operation, event == from ? "StartEvent " : "EndEvent ",
                                                "Not allow to query captured-event.", "rtEventElapsedTime",
                                                "compute elapsed time failed"))
      return refused;
  *milliseconds = static_cast<float>(to->time_ms - from->time_ms);
  return kSuccess;
}

API int aclrtEventGetTimestamp(void* handle, uint64_t* microseconds) {
  Event* event = static_cast<Event*>(handle);
  ENTER("event=%d", event->id);
  *microseconds = static_cast<uint64_t>(event->time_ms * 1000);
  return refuse_if_event_capturing(event, "Obtaining the event execution end time", "Event ",
                                   "Not allow to query captured-event.", "rtEventGetTimeStamp",
                                   "get event timestamp failed");
}

// ---------------------------------------------------------------- values in device memory
API int aclrtValueWrite(void* address, uint64_t value, uint32_t flag, void* stream) {
  ENTER("%p value=%lu flag=%u stream=%d", address, value, flag, stream_of(stream)->id);
  TaskRef task = make_task("MEM_WRITE_VALUE", [address, value] {
    if (!check_device_access(address, sizeof value, "MEM_WRITE_VALUE")) return;
    memcpy(address, &value, sizeof value);
    run_ready_streams();
  });
  task->handle = hex(address);
  return submit(stream_of(stream), task);
}

// acl_rt.h: flag 0 greater or equal, 1 equal, 2 and, 3 nor.
API int aclrtValueWait(void* address, uint64_t value, uint32_t flag, void* stream) {
  ENTER("%p value=%lu flag=%u stream=%d", address, value, flag, stream_of(stream)->id);
  TaskRef task = make_task("MEM_WAIT_VALUE", nullptr);
  task->handle = hex(address);
  task->ready = [address, value, flag] {
    if (!check_device_access(address, sizeof value, "MEM_WAIT_VALUE")) return true;
    uint64_t found;
    memcpy(&found, address, sizeof found);
    switch (flag) {
      case 0:
        return static_cast<int64_t>(found - value) >= 0;
      case 1:
        return found == value;
      case 2:
        return (found & value) != 0;
      default:
        return ~(found | value) != 0;
    }
  };
  return submit(stream_of(stream), task);
}
