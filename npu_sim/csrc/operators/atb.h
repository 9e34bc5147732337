// The part of the ATB interface that libop_plugin_atb.so links against: its binary layout, not its code.
// Interface: Ascend/op-plugin op_plugin/third_party/atb/inc (types.h, svector.h, operation.h, context.h).
#pragma once
#include <cstdint>
#include <string>

namespace atb {

using Status = int32_t;

struct Dims {
  int64_t dims[8];
  uint64_t count;
};
struct TensorDesc {
  int dtype, format;
  Dims shape;
};
struct Tensor {
  TensorDesc desc;
  void* device_data;
  void* host_data;
  uint64_t bytes;
};
template <class T>
struct SVector {
  size_t capacity, size;
  T storage[65];
  T* heap;
  const T& operator[](size_t i) const { return heap ? heap[i] : storage[i]; }
};
struct VariantPack {
  SVector<Tensor> in, out;
};

// The order of the virtual functions is the interface.
class Context {
 public:
  virtual ~Context() = default;
  virtual Status SetExecuteStream(void* stream) = 0;
  virtual void* GetExecuteStream() const = 0;
  virtual Status SetAsyncTilingCopyStatus(bool enable) = 0;
  virtual bool GetAsyncTilingCopyStatus() const = 0;
};
class Operation {
 public:
  virtual ~Operation() = default;
  virtual std::string GetName() const = 0;
  virtual Status InferShape(const SVector<TensorDesc>& in, SVector<TensorDesc>& out) const = 0;
  virtual uint32_t GetInputNum() const = 0;
  virtual uint32_t GetOutputNum() const = 0;
  virtual Status Setup(const VariantPack& tensors, uint64_t& workspace, Context* context) = 0;
  virtual Status Execute(const VariantPack& tensors, uint8_t* workspace, uint64_t size, Context* context) = 0;
};

namespace infer {
struct PagedAttentionParam {
  int32_t heads;
  float scale;
  int32_t key_heads;
  int mask_type;
};
struct ReshapeAndCacheParam;
}  // namespace infer

class Utils {
 public:
  static uint64_t GetTensorSize(const Tensor& tensor);
};
template <class Param>
Status CreateOperation(const Param& param, Operation** operation);
Status DestroyOperation(Operation* operation);
Status CreateContext(Context** context);
Status DestroyContext(Context* context);

}  // namespace atb
