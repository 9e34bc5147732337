// ATB operations that serving frameworks capture: paged attention and the write into a paged cache.
#include "operators/atb.h"

#include <memory>

#include "core/call.h"
#include "messages/messages.h"
#include "operators/attention.h"
#include "operators/elementwise.h"
#include "runtime/stream.h"

#define EXPORTED __attribute__((visibility("default")))

namespace {

constexpr atb::Status kInvalidTensor = 10;  // ERROR_INVALID_TENSOR_ADDR and its neighbours: any non-zero value
constexpr uint64_t kWorkspace = 512;

sim::Tensor convert(const atb::Tensor& from) {
  sim::Tensor tensor;
  tensor.shape.assign(from.desc.shape.dims, from.desc.shape.dims + from.desc.shape.count);
  tensor.strides = sim::contiguous_strides(tensor.shape);
  tensor.dtype = from.desc.dtype;
  tensor.data = static_cast<char*>(from.device_data ? from.device_data : from.host_data);
  return tensor;
}

class SimContext : public atb::Context {
 public:
  atb::Status SetExecuteStream(void* stream) override {
    stream_ = stream;
    return 0;
  }
  void* GetExecuteStream() const override { return stream_; }
  atb::Status SetAsyncTilingCopyStatus(bool) override { return 0; }
  bool GetAsyncTilingCopyStatus() const override { return false; }

 private:
  void* stream_ = nullptr;
};

// An operation of one kernel. `plan` returns the kernel's work for the tensors it is given.
class SimOperation : public atb::Operation {
 public:
  using Plan = std::function<std::function<void()>(const atb::VariantPack&)>;
  SimOperation(std::string name, uint32_t inputs, uint32_t outputs, Plan plan)
      : name_(std::move(name)), inputs_(inputs), outputs_(outputs), plan_(std::move(plan)) {}

  std::string GetName() const override { return name_; }
  atb::Status InferShape(const atb::SVector<atb::TensorDesc>&, atb::SVector<atb::TensorDesc>&) const override {
    return 0;
  }
  uint32_t GetInputNum() const override { return inputs_; }
  uint32_t GetOutputNum() const override { return outputs_; }
  atb::Status Setup(const atb::VariantPack& tensors, uint64_t& workspace, atb::Context*) override {
    workspace = kWorkspace;
    return tensors.in.size < inputs_ ? kInvalidTensor : 0;
  }
  atb::Status Execute(const atb::VariantPack& tensors, uint8_t*, uint64_t, atb::Context* context) override {
    sim::trace_call(name_.c_str(), "stream=%d", sim::stream_of(context->GetExecuteStream())->id);
    if (int injected = sim::injected_fault(name_.c_str())) return injected;
    sim::TaskRef task = sim::make_task(name_, plan_(tensors));
    task->is_kernel = true;
    return sim::submit(sim::stream_of(context->GetExecuteStream()), task);
  }

 private:
  std::string name_;
  uint32_t inputs_, outputs_;
  Plan plan_;
};

// The work of an attention, after a look at its memory.
std::function<void()> checked(const char* name, const sim::Attention& attention) {
  return [name, attention] {
    for (const sim::Tensor& operand : attention.operands()) {
      auto extent = operand.extent();
      if (!sim::check_device_access(extent.first, static_cast<size_t>(extent.second - extent.first), name)) return;
    }
    attention.run();
  };
}

// Inputs: query [tokens, heads, width], key cache [blocks, block, kv heads, width], value cache, block table, lengths.
// The lengths are host memory: the kernel gets the values of the moment it is launched.
std::function<void()> paged_attention(const atb::infer::PagedAttentionParam& p, const atb::VariantPack& tensors) {
  sim::Tensor query = convert(tensors.in[0]), out = convert(tensors.out[0]);
  sim::Tensor table = convert(tensors.in[3]);
  sim::IntArray lengths{sim::read<int64_t>(convert(tensors.in[4]))};
  sim::TensorList keys, values;
  keys.tensors.push_back(convert(tensors.in[1]));
  values.tensors.push_back(convert(tensors.in[2]));
  // One token each: [tokens, 1, heads, width].
  for (sim::Tensor* t : {&query, &out}) {
    t->shape.insert(t->shape.begin() + 1, 1);
    t->strides.insert(t->strides.begin() + 1, 0);
  }
  sim::Attention attention(&query, &keys, &values, nullptr, nullptr, nullptr, &lengths, &table, nullptr, nullptr,
                           p.heads, static_cast<double>(p.scale), 0, 0, "BSND", p.key_heads, 0, keys.tensors[0].size(1),
                           false, &out, nullptr);
  return checked("PagedAttention", attention);
}

// Inputs: key, value [tokens, heads, width], key cache, value cache [blocks, block, heads, width], slots [tokens].
std::function<void()> reshape_and_cache(const atb::VariantPack& tensors) {
  sim::Tensor slots = convert(tensors.in[4]);
  std::vector<std::pair<sim::Tensor, sim::Tensor>> moves = {{convert(tensors.in[0]), convert(tensors.in[2])},
                                                            {convert(tensors.in[1]), convert(tensors.in[3])}};
  return [slots, moves] {
    std::vector<int64_t> places = sim::read<int64_t>(slots);
    for (const auto& [from, cache] : moves)
      for (size_t i = 0; i < places.size(); i++) {
        if (places[i] < 0) continue;  // a padded token
        sim::Tensor block = sim::select(cache, 0, places[i] / cache.size(1));
        sim::copy_elements(sim::select(from, 0, static_cast<int64_t>(i)),
                           sim::select(block, 0, places[i] % cache.size(1)));
      }
  };
}

// Arguments of AtbMLA that decide what is computed.
struct LatentAttention {
  int64_t heads, key_heads;
  double scale;
  int mask_type, calc_type, cache_mode;
  bool write_lse;
};
// Ascend/op-plugin op_plugin/ops/atb/MultiHeadLatentAttentionAtb.cpp: the maps of the modes' names.
constexpr int kCacheOfRopeAndLatent = 1;  // krope_ctkv
constexpr int kCalculateRing = 2;         // calc_type_ring, which also gives the log-sum-exp

// "mask_type: only undefined", "calc_type: only calc_type_undefined", int8_nzcache "quantised and in format NZ":
// Ascend/op-plugin op_plugin/python/atb/_atb_api_docs.py; calc_type_ring: test_custom_ops/test_atb_mla_with_lse.py.
// The formula of the other modes is not public.
const char* unsupported(const LatentAttention& p) {
  if (p.cache_mode != kCacheOfRopeAndLatent) return "cache_mode other than krope_ctkv";
  if (p.mask_type != 0) return "mask_type other than undefined";
  if (p.calc_type != 0 && p.calc_type != kCalculateRing) return "calc_type_spec";
  return nullptr;
}

// Keys are the latent cache beside the rotary cache, values the latent cache: [blocks, block, kv heads, width].
std::function<void()> latent_attention(const LatentAttention& p, const std::vector<sim::Tensor>& t) {
  sim::Tensor query = t[0], query_rope = t[1], key_rope = t[3], table = t[4], out = t[6];
  sim::IntArray lengths{sim::read<int64_t>(t[5])};
  sim::TensorList latent;
  latent.tensors.push_back(t[2]);
  for (sim::Tensor* one : {&query, &query_rope, &out}) {  // [tokens, 1, heads, width]
    one->shape.insert(one->shape.begin() + 1, 1);
    one->strides.insert(one->strides.begin() + 1, 0);
  }
  sim::Tensor lse;
  if (p.write_lse) {  // [tokens, heads, 1] as [tokens, heads, 1, 1]
    lse = t[7];
    lse.shape.push_back(1);
    lse.strides.push_back(1);
  }
  sim::Attention attention(&query, &latent, &latent, nullptr, nullptr, nullptr, &lengths, &table, &query_rope,
                           &key_rope, p.heads, p.scale, 0, 0, "BSND", p.key_heads, 0, t[2].size(1), p.write_lse, &out,
                           p.write_lse ? &lse : nullptr);
  return checked("MLAOperation", attention);
}

}  // namespace

// AtbMLA is not an operation that the wheel creates: libatb.so has it by name, in two steps as an aclnn operator.
API int AtbMLAGetWorkspaceSize(const sim::Tensor* query, const sim::Tensor* query_rope, const sim::Tensor* latent,
                               const sim::Tensor* key_rope, const sim::Tensor* table, const sim::Tensor* lengths,
                               const sim::Tensor* mask, const sim::Tensor*, const sim::Tensor* query_descale,
                               const sim::Tensor* value_descale, int64_t heads, float scale, int64_t key_heads,
                               int mask_type, int calc_type, int cache_mode, const sim::Tensor* out,
                               const sim::Tensor* lse, uint64_t* size, atb::Operation** operation, atb::Context*) {
  LatentAttention p{heads, key_heads ? key_heads : heads, scale, mask_type, calc_type, cache_mode, lse != nullptr};
  const char* missing = mask || query_descale || value_descale ? "a mask or a scale" : unsupported(p);
  if (missing)
    return sim::report_operator(sim::kNotSupported, "EE1005",
                                std::string("npu_sim: AtbMLA with ") + missing + " is not simulated");
  *size = kWorkspace;
  std::vector<sim::Tensor> tensors = {*query, *query_rope, *latent, *key_rope, *table, *lengths, *out};
  if (lse) tensors.push_back(*lse);
  std::function<void()> work = latent_attention(p, tensors);  // takes the lengths now: they are host memory
  // The wheel keeps an operation for equal arguments and gives it back here, with other tensors.
  SimOperation fresh("MLAOperation", 0, 0, [work](const atb::VariantPack&) { return work; });
  if (*operation)
    *static_cast<SimOperation*>(*operation) = fresh;
  else
    *operation = new SimOperation(fresh);
  return 0;
}
API int AtbMLA(uint8_t* workspace, uint64_t size, atb::Operation* operation, atb::Context* context) {
  return operation->Execute(atb::VariantPack{}, workspace, size, context);
}

namespace atb {

EXPORTED uint64_t Utils::GetTensorSize(const Tensor& tensor) {
  if (tensor.desc.shape.count == 0) return 0;
  uint64_t bytes = sim::element_size(tensor.desc.dtype);
  for (uint64_t i = 0; i < tensor.desc.shape.count; i++) bytes *= static_cast<uint64_t>(tensor.desc.shape.dims[i]);
  return bytes;
}

template <>
EXPORTED Status CreateOperation<infer::PagedAttentionParam>(const infer::PagedAttentionParam& param, Operation** out) {
  if (param.mask_type != 0) {
    *out = nullptr;
    return sim::report_operator(sim::kNotSupported, "EE1005", "npu_sim: paged attention with a mask is not simulated");
  }
  *out = new SimOperation("PagedAttentionOperation", 5, 1,
                          [param](const VariantPack& tensors) { return paged_attention(param, tensors); });
  return 0;
}

template <>
EXPORTED Status CreateOperation<infer::ReshapeAndCacheParam>(const infer::ReshapeAndCacheParam&, Operation** out) {
  *out = new SimOperation("ReshapeAndCacheOperation", 5, 2, reshape_and_cache);
  return 0;
}

EXPORTED Status DestroyOperation(Operation* operation) {
  delete operation;
  return 0;
}
EXPORTED Status CreateContext(Context** context) {
  *context = new SimContext;
  return 0;
}
EXPORTED Status DestroyContext(Context* context) {
  delete context;
  return 0;
}

}  // namespace atb
