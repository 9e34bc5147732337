// Begin, end, execute and destroy of a graph, and what a capture records.
// Checks: hicann/runtime src/runtime/feature/aclgraph/context_aclgraph.cc, api_error_aclgraph.cc (master 681ef76);
// inner texts: tag v9.0.0 src/runtime/feature/src/context/context.cc.
#include <algorithm>

#include "capture/mode.h"
#include "capture/model.h"
#include "core/call.h"
#include "core/options.h"
#include "messages/messages.h"
#include "messages/plog.h"

namespace sim {
namespace {

std::set<Model*>& models() {
  static std::set<Model*>* instance = new std::set<Model*>;
  return *instance;
}

void log_event(const std::string& text, const char* function) {
  plog(LogLevel::kEvent, "RUNTIME", "context_aclgraph.cc", 0, function, text);
}

// StreamAddToCaptureModelProc creates a driver stream for each captured stream. Public: "begin capture stream failed,
// runtime result = 207008" in reports of too many captured sizes; vllm-ascend #9691: 207005.
int add_stream(Model* model, Stream* stream, bool origin) {
  if (int code = take_stream_resource()) return code;
  auto capture = std::make_unique<CaptureStream>();
  capture->id = next_stream_id();
  capture->user = stream;
  capture->model = model;
  capture->origin = origin;
  stream->capture = capture.get();
  model->streams.push_back(std::move(capture));
  return kSuccess;
}

void leave_capture(Model* model) {
  for (auto& capture : model->streams) {
    if (capture->user->capture == capture.get()) capture->user->capture = nullptr;
    if (capture->user->group_state == Stream::GroupState::kSample)
      capture->user->group_state = Stream::GroupState::kNone;
  }
}

void destroy_model(Model* model) {
  for (size_t i = 0; i < model->streams.size(); i++) release_stream_resource();
  for (Model* branch : model->branches) destroy_model(branch);
  forget_groups_of(model);
  models().erase(model);
  // The object stays: an event or a task-group handle of the user may still name it.
  model->status = Model::Status::kNew;
  model->invalid = true;
  model->tasks.clear();
  model->streams.clear();
}

int begin(void* handle, int mode, Model* into) {
  const char* api = "rtStreamBeginCapture";
  const char* acl = "begin capture stream failed";
  auto lock = lock_engine();
  Stream* stream = stream_of(handle);
  if (!handle || stream->is_default)
    // ApiErrorDecorator::StreamBeginCapture: a null stream is an invalid pointer argument.
    return refuse({kInvalidParam, "EE1004", "Starting capturing tasks delivered to a stream",
                   "stm cannot be a NULL pointer", "", api, acl, ""});
  if (mode < kGlobal || mode > kRelaxed)
    return refuse({kInvalidParam, "EE1011", "Starting capturing tasks delivered to a stream",
                   "Value for parameter mode is invalid. Expected value: [0, 3)", "", api, acl, ""});
  if (into && into->status != Model::Status::kNew)
    // CheckCaptureModelIsCaptured
    return refuse({kModelCaptured, "EE1017", "rtStreamBeginCaptureToModel",
                   "ModelRI (model_id=" + std::to_string(into->id) + ") is already captured", "", api, acl, "modelRI"});
  if (stream->capture) {
    const char* status = stream->capture->model->invalid ? "invalidated" : "active";
    std::string place = "device_id=" + std::to_string(stream->device) + ", stream_id=" + std::to_string(stream->id) +
                        ", status=" + status;
    return refuse({kStreamCaptured, "EE1016", "Stream begin capture", "Stream is already in capture status, " + place,
                   "stream is already in capture status, " + place + ".", api, acl, ""});
  }
  Model* model = into ? into : create_model(stream->device, nullptr);
  if (int code = add_stream(model, stream, true)) {
    if (!into) destroy_model(model);
    return refuse_resource(code, api, acl);
  }
  model->status = Model::Status::kCapturing;
  model->mode = mode;
  model->thread = thread_id();
  enter_capture_mode(mode);
  log_event("capture begin success, device_id=" + std::to_string(stream->device) +
                ", model_id=" + std::to_string(model->id) + ", original stream_id=" + std::to_string(stream->id) +
                ", capture stream_id=" + std::to_string(stream->capture->id) + ".",
            "StreamBeginCapture");
  return kSuccess;
}

// Context::CheckCaptureModelValidity: every forked stream must have come back.
int check_joined(const Model* model) {
  const char* api = "rtStreamEndCapture";
  const char* acl = "end capture stream failed";
  const std::string head = "In the cross-stream capture scenario, the ";
  if (!model->open_groups.empty())
    return refuse({kTaskGroupStatus, "", "Stream end capture", "A task group is not closed in the capture model",
                   "A task group is not closed in the capture module, model_id=" + std::to_string(model->id) + ".", api,
                   acl, ""});
  bool forked = false, reached_origin = false;
  int origin = 0;
  for (auto& stream : model->streams) {
    if (stream->origin) {
      origin = stream->id;
      continue;
    }
    forked = true;
    std::string place = "(stream_id=" + std::to_string(stream->id) + ")";
    std::string task = "(task_id=" + std::to_string(stream->last ? stream->last->index : 0) + ")";
    auto event = stream->last_event;
    if (!event)
      return refuse({kStreamUnjoined, "EE1017", "Capture model validity check",
                     head + "last task " + task + " on the sub stream " + place +
                         " is not an event record task. Call aclrtRecordEvent on the sub stream to deliver an event "
                         "record task",
                     "", api, acl, "capture model"});
    std::set<CaptureStream*> others = event->waiters;
    others.erase(stream.get());
    if (others.empty())
      return refuse(
          {kStreamUnjoined, "EE1017", "Capture model validity check",
           head + "last task " + task + " on the sub stream " + place + " lacks the corresponding event wait task",
           "A free-state event record task was discovered, stream_id=" + std::to_string(stream->id) + ".", api, acl,
           "capture model"});
    for (CaptureStream* waiter : others) reached_origin |= waiter->origin;
  }
  if (forked && !reached_origin)
    return refuse({kStreamUnjoined, "EE1017", "Capture model validity check",
                   head + "origin stream (stream_id=" + std::to_string(origin) +
                       ") has no event wait task, indicating that the sub stream is not joined back to the origin "
                       "stream",
                   "capture model contains a stream that was not joined to the original stream.", api, acl,
                   "capture model"});
  return kSuccess;
}

// Context::StreamEndCapture
int end(void* handle, Model** result) {
  const char* api = "rtStreamEndCapture";
  const char* acl = "end capture stream failed";
  auto lock = lock_engine();
  *result = nullptr;
  Stream* stream = stream_of(handle);
  std::string stream_id = std::to_string(stream->id);
  CaptureStream* capture = stream->capture;
  if (!capture)
    return refuse({kStreamNotCaptured, "EE1018", "Stream end capture",
                   "The stream (stream_id=" + stream_id +
                       ") is not in capture status, call rtStreamBeginCapture API to capture stream first",
                   "", api, acl, ""});
  if (!capture->origin)
    return refuse({kCaptureUnmatched, "", "Stream end capture", "The capture was not initiated in this stream",
                   "The capture was not initiated in this stream. device_id=" + std::to_string(stream->device) +
                       ", stream_id=" + stream_id + ".",
                   api, acl, ""});
  Model* model = capture->model;
  bool wrong_thread = model->mode != kRelaxed && model->thread != thread_id();
  leave_capture_mode(model->mode);
  if (wrong_thread) {  // CheckCaptureStreamThreadIsMatch; the capture is over
    leave_capture(model);
    destroy_model(model);
    return refuse({kCaptureWrongThread, "", "Stream end capture", "end capture in the wrong thread",
                   "end capture in the wrong thread.", api, acl, ""});
  }
  int refused = kSuccess;
  bool branch_open =
      std::any_of(model->branches.begin(), model->branches.end(), [](Model* m) { return m->is_capturing(); });
  if (model->invalid)
    refused = refuse({kCaptureInvalidated, "EE1016", "Stream end capture",
                      "The current model (model_id=" + std::to_string(model->id) +
                          ") is invalid because an error occurred during model capture",
                      "", api, acl, ""});
  else if (branch_open)
    refused = refuse(
        {kSubGraphCapturing, "EE1016", "Stream end capture",
         "Sub ACL Graph is capturing, stream_id=" + stream_id + ", capture stream_id=" + std::to_string(capture->id),
         "", api, acl, ""});
  else
    refused = check_joined(model);
  int capture_id = capture->id;
  leave_capture(model);
  if (refused) {
    if (!model->parent) destroy_model(model);
    return refused;
  }
  model->status = Model::Status::kReady;
  *result = model;
  trace_note("model %u has %zu tasks on %zu streams", model->id, model->tasks.size(), model->streams.size());
  log_event("capture end success, device_id=" + std::to_string(stream->device) + ", original stream_id=" + stream_id +
                ", capture stream_id=" + std::to_string(capture_id) +
                ", capture model_id=" + std::to_string(model->id) + ".",
            "StreamEndCapture");
  return kSuccess;
}

int execute(Model* model, void* handle) {
  const char* api = "rtModelExecuteAsync";
  const char* acl = "execute model failed";
  Stream* stream = stream_of(handle);
  std::vector<TaskRef> tasks;
  {
    auto lock = lock_engine();
    if (!model_exists(model))
      return refuse({kInvalidParam, "EE1001", "Asynchronously executing the model running instance",
                     "The model has been destroyed", "", api, acl, ""});
    // ApiErrorDecorator::ModelExecuteAsync
    if (int refused = refuse_if_capturing(stream, "Asynchronously executing the model running instance",
                                          "Not allow to execute model in captured-stream, stream_id=%d.", api, acl))
      return refused;
    if (model->is_capturing())  // CaptureModel::CheckExecuteReady
      return refuse({kModelCaptured, "EE1017", "Checking whether the capture model is ready",
                     "ModelRI (model_id=" + std::to_string(model->id) + ") is in capturing state, status=CAPTURING", "",
                     api, acl, "modelRI"});
    if (stream->device != model->device)
      return refuse({kStreamContext, "EE1010", "Model execution", "the stream does not belong to the current context",
                     "", api, acl, ""});
    model->running++;
    tasks = model->replay_order();
  }
  tasks.push_back(make_task("MODEL_END", [model] {
    auto lock = lock_engine();
    model->running--;
  }));
  trace_note("replay model %u on stream %d: %zu tasks", model->id, stream->id, tasks.size() - 1);
  enqueue(stream, tasks);
  return kSuccess;
}

}  // namespace

Model* create_model(int device, Model* parent) {
  static uint32_t last_id = 0;
  Model* model = new Model;
  model->id = ++last_id;
  model->device = device;
  model->parent = parent;
  models().insert(model);
  return model;
}

bool model_exists(const Model* model) { return models().count(const_cast<Model*>(model)) > 0; }

int join_capture(Stream* stream, Model* model) {
  if (int code = add_stream(model, stream, false)) {
    model->invalid = true;
    return refuse_resource(code, "rtStreamWaitEvent", "stream wait event failed");
  }
  trace_note("stream %d joins the capture of model %u", stream->id, model->id);
  return kSuccess;
}

int record_task(Stream* stream, const TaskRef& task) {
  CaptureStream* capture = stream->capture;
  Model* model = capture->model;
  // Stream::AllocCaptureTaskWithoutLock: a task group is interrupted by another captured stream.
  if (!model->open_groups.empty() && !capture->open_group) {
    model->group_error = kTaskGroupInterrupted;
    return refuse({kTaskGroupInterrupted, "", "Task delivery", "the task group interrupted",
                   "the task group interrupted.", "rtKernelLaunch", "launch kernel failed", ""});
  }
  if (capture->open_group) {
    // Stream::PackingTaskGroup; public: "record event failed, runtime result = 507009".
    if (!task->is_kernel) {
      model->group_error = kTaskTypeNotSupported;
      return refuse({kTaskTypeNotSupported, "", "Task delivery", "the task type cannot be put in a task group",
                     "pack task group failed, stream_id=" + std::to_string(stream->id) + ".", "rtKernelLaunch",
                     "launch task failed", ""});
    }
    capture->open_group->tasks.push_back(task);
  }
  task->capture_stream = capture->id;
  task->index = static_cast<int>(model->tasks.size());
  model->tasks.push_back(task);
  capture->last = task;
  capture->last_event.reset();
  trace_note("captured in model %u, stream %d, task %d: %s", model->id, stream->id, task->index, task->name.c_str());
  return kSuccess;
}

// Runs each stream only as far as another stream's wait asks for; the rest of it last.
std::vector<TaskRef> Model::replay_order() const {
  if (!options().defer || streams.size() < 2) return tasks;
  std::map<int, std::vector<TaskRef>> by_stream;
  for (const TaskRef& task : tasks) by_stream[task->capture_stream].push_back(task);
  std::vector<TaskRef> order;
  std::map<int, size_t> next;
  std::function<void(int, const Task*)> run = [&](int stream, const Task* until) {
    while (next[stream] < by_stream[stream].size()) {
      TaskRef task = by_stream[stream][next[stream]++];
      auto wait = waits.find(task.get());
      if (wait != waits.end() && wait->second->record) {
        const TaskRef& record = wait->second->record;
        if (std::find(order.begin(), order.end(), record) == order.end()) run(record->capture_stream, record.get());
      }
      order.push_back(task);
      if (task.get() == until) return;
    }
  };
  for (auto& stream : streams)
    if (stream->origin) run(stream->id, nullptr);
  for (auto& stream : streams) run(stream->id, nullptr);
  return order;
}

}  // namespace sim

using namespace sim;

API int aclmdlRICaptureBegin(void* stream, int mode) {
  ENTER("stream=%d mode=%d", stream_of(stream)->id, mode);
  return begin(stream, mode, nullptr);
}

API int aclmdlRICaptureToModelRIBegin(void* stream, void* model, int mode) {
  ENTER("stream=%d model=%p mode=%d", stream_of(stream)->id, model, mode);
  if (!model || !static_cast<Model*>(model)->parent)
    // ApiErrorDecorator::StreamBeginCapture, StreamBeginCaptureMdlCheck
    return refuse({kInvalidParam, "EE1017", "Stream begin capture", "The modelRI is not a sub ACL Graph", "",
                   "rtStreamBeginCaptureToModel", "begin capture stream failed", "modelRI"});
  return begin(stream, mode, static_cast<Model*>(model));
}

API int aclmdlRICaptureGetInfo(void* handle, int* status, void** model) {
  Stream* stream = stream_of(handle);
  ENTER("stream=%d", stream->id);
  auto lock = lock_engine();
  CaptureStream* capture = stream->capture;
  if (status) *status = !capture ? kNone : capture->model->invalid ? kInvalidated : kActive;
  if (model) *model = capture ? capture->model : nullptr;
  return kSuccess;
}

API int aclmdlRIGetId(void* model, uint32_t* id) {
  ENTER("model=%p", model);
  *id = static_cast<Model*>(model)->id;
  return kSuccess;
}

API int aclmdlRICaptureEnd(void* stream, void** result) {
  trace_call(__func__, "stream=%d", stream_of(stream)->id);
  Model* model = nullptr;
  int refused = end(stream, &model);
  if (!refused) {
    // An injected fault strikes after the capture has ended, as a failure inside EndCapture does.
    if (int injected = injected_fault(__func__)) {
      auto lock = lock_engine();
      destroy_model(model);
      return injected;
    }
  }
  *result = model;
  return refused;
}

API int aclmdlRIExecuteAsync(void* model, void* stream) {
  ENTER("model=%p stream=%d", model, stream_of(stream)->id);
  return execute(static_cast<Model*>(model), stream);
}

API int aclmdlRIDestroy(void* handle) {
  ENTER("model=%p", handle);
  Model* model = static_cast<Model*>(handle);
  if (!model_exists(model)) return kSuccess;  // Context::ModelDestroy: an unknown model is an event, not an error
  if (model->is_capturing())
    return refuse({kModelCaptured, "", "Model destruction", "Model is in capture mode and cannot be destroyed",
                   "Model is in capture mode and cannot be destroyed, model_id=" + std::to_string(model->id) + "!",
                   "rtModelDestroy", "destroy model failed", ""});
  if (model->running) finish_queued_work();  // Context::ModelDestroy waits up to 10 s
  auto lock = lock_engine();
  if (model->running)
    return refuse({kModelRunning, "", "Model destruction", "Model is still running and cannot be destroyed",
                   "Model is still running and cannot be destroyed, model_id=" + std::to_string(model->id),
                   "rtModelDestroy", "destroy model failed", ""});
  destroy_model(model);
  return kSuccess;
}
