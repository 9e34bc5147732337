// How an operator is exported: the two functions that CANN calls "two-phase".
//
//   aclnnXGetWorkspaceSize(arguments..., &size, &executor)  copies the arguments into an executor
//   aclnnX(workspace, size, executor, stream)               submits it to the stream
//
// OPERATOR(X, arguments...) writes both; its body returns plan(...) with the work to do.
#pragma once
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "operators/tensor.h"

namespace sim {

struct Executor {
  std::string name;
  std::vector<Tensor> operands;  // checked to be live device memory before each run
  std::function<void()> work;
};

// `operands`: every tensor the kernel touches; null ones (optional arguments) are left out.
int plan(const char* name, uint64_t* size, Executor** executor, std::initializer_list<const Tensor*> operands,
         std::function<void()> work);
int plan(const char* name, uint64_t* size, Executor** executor, const std::vector<Tensor>& operands,
         std::function<void()> work);
int launch(const char* name, Executor* executor, void* stream);
// An argument that the kernel cannot take: named in the error, as aclnn does with EZ1001.
int bad_argument(const char* name, const std::string& what);

// An optional tensor, copied.
struct MaybeTensor {
  bool present;
  Tensor tensor;
  MaybeTensor(const Tensor* pointer) : present(pointer != nullptr) {
    if (pointer) tensor = *pointer;
  }
  explicit operator bool() const { return present; }
  const Tensor& operator*() const { return tensor; }
  const Tensor* operator->() const { return &tensor; }
};

}  // namespace sim

#define OPERATOR(NAME, ...)                                                       \
  API int aclnn##NAME(void*, uint64_t, ::sim::Executor* executor, void* stream) { \
    return ::sim::launch("aclnn" #NAME, executor, stream);                        \
  }                                                                               \
  API int aclnn##NAME##GetWorkspaceSize(__VA_ARGS__, uint64_t* size_, ::sim::Executor** executor_)
// Inside an OPERATOR: PLAN(name, {tensors}, work).
#define PLAN(NAME, ...) ::sim::plan("aclnn" #NAME, size_, executor_, __VA_ARGS__)
