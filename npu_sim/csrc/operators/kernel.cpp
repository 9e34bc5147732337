#include "operators/kernel.h"

#include <cstring>
#include <unordered_set>

#include "core/call.h"
#include "messages/messages.h"
#include "runtime/stream.h"

namespace sim {
namespace {

// Operators that take complex tensors: elementwise ones whose page in hicann/ops-math (branch 8.5.0, math/*/docs/
// aclnn*.md) lists COMPLEX64, and those that only move elements. Every other is refused with 161002, as such a page says
// of an operator without it (aclnnTanh, aclnnAddcmul …: "161002: the data type of self is not supported"). The pages
// of aclnnMean and aclnnPow* do list it: their refusal is a limit of the simulator.
const std::unordered_set<std::string>& complex_operators() {
  static const auto* names = new std::unordered_set<std::string>{
      "Abs",        "Add",         "Adds", "Cast",          "Cat",        "Complex",  "ConstantPadNd", "Copy",
      "Cos",        "Cosh",        "Div",  "Divs",          "EqScalar",   "EqTensor", "Exp",           "FillScalar",
      "FillTensor", "IndexSelect", "Log",  "Log10",         "Log2",       "Mul",      "Muls",          "NeScalar",
      "NeTensor",   "Neg",         "One",  "Permute",       "Reciprocal", "Repeat",   "Rsqrt",         "Rsub",
      "Rsubs",      "Sin",         "Sinh", "SplitWithSize", "Sqrt",       "Stack",    "Sub",           "Subs",
      "Tan",        "Tril",        "Triu", "Zero"};
  return *names;
}

bool takes_complex_tensors(std::string name) {
  for (const char* prefix : {"aclnn", "Inplace"})
    if (name.rfind(prefix, 0) == 0) name.erase(0, strlen(prefix));
  return complex_operators().count(name) > 0;
}

}  // namespace

int plan(const char* name, uint64_t* size, Executor** executor, const std::vector<Tensor>& operands,
         std::function<void()> work) {
  for (const Tensor& operand : operands)
    if (is_complex(operand.dtype) && !takes_complex_tensors(name))
      return bad_argument(name, std::string("Tensor not implemented for DT_COMPLEX") +
                                    (operand.dtype == kComplex64 ? "64" : "128") + " by npu_sim");
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
