// Task groups: single operators of a captured graph whose arguments may be replaced later.
// Checks: hicann/runtime src/runtime/feature/aclgraph/context_aclgraph.cc StreamBeginTaskGrp ... StreamEndTaskUpdate,
// api_error_aclgraph.cc, src/runtime/core/src/stream/stream.cc UpdateTask.
#include "capture/model.h"
#include "core/call.h"
#include "messages/messages.h"
#include "messages/plog.h"

namespace sim {
namespace {

int refuse_not_capturing(const Stream* stream, const char* operation, const char* api, const char* acl) {
  return refuse({kStreamNotCaptured, "EE1016", operation,
                 "Stream (stream_id=" + std::to_string(stream->id) + ") is not in the capture stage", "", api, acl,
                 ""});
}

}  // namespace

void forget_groups_of(Model* model) {
  for (auto& group : model->groups) group->tasks.clear();
}

int update_task(Stream* stream, const TaskRef& task) {
  TaskGroup* group = stream->updating;
  if (group->next >= group->tasks.size())
    return refuse({kInternal, "", "Updating a task", "The number of tasks cannot exceed the size of the task group",
                   "The number of tasks cannot exceed the size of the task group, current task index=" +
                       std::to_string(group->next) + ", task group size=" + std::to_string(group->tasks.size()) + ".",
                   "rtKernelLaunch", "launch kernel failed", ""});
  TaskRef target = group->tasks[group->next++];
  trace_note("update task %d of model %u: %s", target->index, group->model->id, task->name.c_str());
  // The device sees the new arguments when the update stream reaches this point.
  auto work = task->work;
  TaskRef change = make_task("TASK_UPDATE", [target, work] {
    auto lock = lock_engine();
    target->work = work;
  });
  stream->queue.push_back(change);
  return kSuccess;
}

}  // namespace sim

using namespace sim;

API int aclmdlRICaptureTaskGrpBegin(void* handle) {
  Stream* stream = stream_of(handle);
  ENTER("stream=%d", stream->id);
  const char* api = "rtsStreamBeginTaskGrp";
  const char* acl = "begin task group failed";
  auto lock = lock_engine();
  if (!stream->capture) return refuse_not_capturing(stream, "Marking the start of a task group", api, acl);
  if (stream->group_state != Stream::GroupState::kNone)
    return refuse({kTaskGroupStatus, "", "Marking the start of a task group",
                   "Task group is repeatedly started, or a task group is being updated",
                   "Task group is repeatedly started, or a task group is being updated.", api, acl, ""});
  Model* model = stream->capture->model;
  model->groups.push_back(std::make_unique<TaskGroup>());
  model->groups.back()->model = model;
  stream->capture->open_group = model->groups.back().get();
  model->open_groups.insert(stream->capture);
  stream->group_state = Stream::GroupState::kSample;
  return kSuccess;
}

API int aclmdlRICaptureTaskGrpEnd(void* handle, void** group) {
  Stream* stream = stream_of(handle);
  ENTER("stream=%d", stream->id);
  const char* api = "rtsStreamEndTaskGrp";
  const char* acl = "end task group failed";
  auto lock = lock_engine();
  *group = nullptr;
  if (!stream->capture) return refuse_not_capturing(stream, "Marking the end of a task group", api, acl);
  if (stream->group_state != Stream::GroupState::kSample)
    return refuse({kTaskGroupStatus, "", "Marking the end of a task group",
                   "The end operation cannot be performed on a stream that has not started a task group",
                   "The end operation cannot be performed on a stream that has not started a task group.", api, acl,
                   ""});
  Model* model = stream->capture->model;
  TaskGroup* ended = stream->capture->open_group;
  stream->capture->open_group = nullptr;
  model->open_groups.erase(stream->capture);
  stream->group_state = Stream::GroupState::kNone;
  if (model->group_error)
    return refuse({model->group_error, "EE1017", "Marks the end of the task group",
                   "The ACL Graph associated with the stream has errors. The previous API may report an error. Handle "
                   "the error reported by the previous API first",
                   "", api, acl, "stream (stream_id=" + std::to_string(stream->id) + ")"});
  if (model->invalid)
    return refuse({kCaptureInvalidated, "EE1017", "Marks the end of the task group",
                   "The ACL Graph capture associated with the stream has been invalidated", "", api, acl,
                   "stream (stream_id=" + std::to_string(stream->id) + ")"});
  *group = ended;
  return kSuccess;
}

API int aclmdlRICaptureTaskUpdateBegin(void* handle, void* group_handle) {
  Stream* stream = stream_of(handle);
  ENTER("stream=%d group=%p", stream->id, group_handle);
  const char* api = "rtsStreamBeginTaskUpdate";
  const char* acl = "begin task update failed";
  const char* operation = "Marking the start of the task to be updated";
  auto lock = lock_engine();
  TaskGroup* group = static_cast<TaskGroup*>(group_handle);
  if (!group) return refuse({kInvalidParam, "EE1004", operation, "handle cannot be a NULL pointer", "", api, acl, ""});
  if (int refused = refuse_if_capturing(
          stream, operation, "The stream used for updating task cannot be in capture status, stream_id=%d", api, acl))
    return refused;
  if (stream->group_state != Stream::GroupState::kNone)
    return refuse({kTaskGroupStatus, "EE1016", operation, "The stream is already in task update or sample mode", "",
                   api, acl, ""});
  if (group->updating)
    return refuse({kTaskGroupStatus, "", operation, "The handle only can be updated by one stream",
                   "The handle only can be updated by one stream.", api, acl, ""});
  group->updating = true;
  group->next = 0;
  stream->updating = group;
  stream->group_state = Stream::GroupState::kUpdate;
  return kSuccess;
}

API int aclmdlRICaptureTaskUpdateEnd(void* handle) {
  Stream* stream = stream_of(handle);
  ENTER("stream=%d", stream->id);
  const char* api = "rtsStreamEndTaskUpdate";
  const char* acl = "end task update failed";
  const char* operation = "Marking the end of the task to be updated";
  TaskGroup* group;
  {
    auto lock = lock_engine();
    if (int refused = refuse_if_capturing(
            stream, operation, "The stream used for updating task cannot be in capture status, stream_id=%d", api, acl))
      return refused;
    if (stream->group_state != Stream::GroupState::kUpdate)
      return refuse({kTaskGroupStatus, "EE1016", operation, "The stream is not in task update mode", "", api, acl, ""});
    group = stream->updating;
    stream->group_state = Stream::GroupState::kNone;
    stream->updating = nullptr;
    group->updating = false;
  }
  size_t total = group->tasks.size(), done = group->next;
  plog(LogLevel::kInfo, "RUNTIME", "context_aclgraph.cc", 902, "StreamEndTaskUpdate",
       "stream_id=" + std::to_string(stream->id) + " update tasks result: total=" + std::to_string(total) +
           ", success=" + std::to_string(done) + ", remain=" + std::to_string(total - done));
  enqueue(stream, {});  // runs the queued changes
  if (done != total)
    return refuse({kInternal, "EE1017", operation,
                   "The task group under this stream contains unupdated tasks. total_num=" + std::to_string(total) +
                       ", matched_num=" + std::to_string(done),
                   "", api, acl, "stream (stream_id=" + std::to_string(stream->id) + ")"});
  return kSuccess;
}
