// Conditional nodes (CANN 9.1 on): a task whose branch is chosen at replay by a value in device memory.
// Interface: hicann/runtime include/external/acl/acl_rt.h aclmdlRICondHandleCreate ... aclmdlRIAddCondTask.
#include <cstring>

#include "capture/model.h"
#include "core/call.h"
#include "messages/messages.h"
#include "runtime/stream.h"

API int aclrtMalloc(void** address, size_t size, int policy);

namespace sim {
namespace {

enum CondType : int { kIf = 0, kWhile = 1, kSwitch = 2 };

struct CondHandle {
  Model* model;
  uint64_t* value;  // device memory: the user's kernels write it
  uint64_t initial;
  bool assign_initial;  // ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT: at the start of every replay
};

// aclmdlRICondTaskParams
struct CondTaskParams {
  CondHandle* handle;
  int type;
  uint32_t size;
  Model** models;
};

std::vector<TaskRef> choose_branch(const CondHandle* handle, int type, const std::vector<Model*>& branches,
                                   const std::weak_ptr<Task>& self) {
  uint64_t value = *handle->value;
  switch (type) {
    case kIf:
      if (value) return branches[0]->replay_order();
      if (branches.size() > 1) return branches[1]->replay_order();
      return {};
    case kWhile: {
      if (!value) return {};
      std::vector<TaskRef> body = branches[0]->replay_order();
      body.push_back(self.lock());  // look at the value again
      return body;
    }
    default:
      return value < branches.size() ? branches[value]->replay_order() : std::vector<TaskRef>{};
  }
}

}  // namespace
}  // namespace sim

using namespace sim;

API int aclmdlRICondHandleCreate(void* model, uint32_t initial, uint32_t flag, void** result) {
  ENTER("model=%p initial=%u flag=%u", model, initial, flag);
  if (!model || flag > 1) return kInvalidParam;
  void* memory = nullptr;
  if (int refused = aclrtMalloc(&memory, sizeof(uint64_t), 0)) return refused;
  CondHandle* handle = new CondHandle{static_cast<Model*>(model), static_cast<uint64_t*>(memory), initial, flag == 1};
  *handle->value = initial;
  *result = handle;
  return kSuccess;
}

API int aclmdlRICondHandleGetCondPtr(void* handle, uint64_t** value) {
  ENTER("handle=%p", handle);
  *value = static_cast<CondHandle*>(handle)->value;
  return kSuccess;
}

API int aclmdlRIAddCondTask(CondTaskParams params, void* stream_handle, uint32_t flags) {
  Stream* stream = stream_of(stream_handle);
  ENTER("type=%d size=%u stream=%d flags=%u", params.type, params.size, stream->id, flags);
  auto lock = lock_engine();
  if (!stream->capture)
    // hicann/runtime src/runtime/feature/aclgraph/v100/api_impl_aclgraph.cc StreamAddCondTaskParasCheck
    return refuse({kStreamNotCaptured, "EE1018", "rtStreamAddCondTask",
                   "Stream (stream_id=" + std::to_string(stream->id) +
                       ") must be in the capture stage before adding a condition task",
                   "", "rtStreamAddCondTask", "add condition task failed", ""});
  uint32_t most = params.type == kIf ? 2 : params.type == kWhile ? 1 : UINT32_MAX;
  if (params.size < 1 || params.size > most) return kInvalidParam;
  std::vector<Model*> branches;
  for (uint32_t i = 0; i < params.size; i++) {
    Model* branch = create_model(stream->device, stream->capture->model);
    stream->capture->model->branches.push_back(branch);
    params.models[i] = branch;
    branches.push_back(branch);
  }
  TaskRef task = make_task("COND_TASK", nullptr);
  std::weak_ptr<Task> self = task;
  CondHandle* handle = params.handle;
  int type = params.type;
  task->expand = [handle, type, branches, self] { return choose_branch(handle, type, branches, self); };
  return record_task(stream, task);
}
