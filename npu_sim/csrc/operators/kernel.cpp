#include "operators/kernel.h"

#include "core/call.h"
#include "messages/messages.h"
#include "runtime/stream.h"

namespace sim {

int plan(const char* name, uint64_t* size, Executor** executor, const std::vector<Tensor>& operands,
         std::function<void()> work) {
  *size = 0;
  *executor = new Executor{name, operands, std::move(work)};
  return kSuccess;
}

int plan(const char* name, uint64_t* size, Executor** executor, std::initializer_list<const Tensor*> operands,
         std::function<void()> work) {
  std::vector<Tensor> present;
  for (const Tensor* operand : operands)
    if (operand) present.push_back(*operand);
  return plan(name, size, executor, present, std::move(work));
}

int launch(const char* name, Executor* executor, void* stream) {
  trace_call(name, "stream=%d", stream_of(stream)->id);
  if (int injected = injected_fault(name)) return injected;
  TaskRef task =
      make_task(executor->name, [operands = executor->operands, work = executor->work, kernel = executor->name] {
        for (const Tensor& operand : operands) {
          auto extent = operand.extent();
          size_t bytes = static_cast<size_t>(extent.second - extent.first);
          if (!check_device_access(extent.first, bytes, kernel.c_str())) return;
        }
        work();
      });
  task->is_kernel = true;
  if (injected_hang(name)) task->ready = [] { return false; };
  delete executor;
  return submit(stream_of(stream), task);
}

int bad_argument(const char* name, const std::string& what) {
  return report_operator(kOpArgument, "EZ1001", std::string(name) + ": " + what);
}

}  // namespace sim

// The caller destroys an executor only when it does not launch it.
API int aclDestroyAclOpExecutor(sim::Executor* executor) {
  delete executor;
  return sim::kSuccess;
}
