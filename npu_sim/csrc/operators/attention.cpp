#include "operators/attention.h"

#include <algorithm>
#include <cmath>

#include "operators/elementwise.h"

namespace sim {
namespace {

std::vector<int64_t> values_of(const IntArray* array) { return array ? array->values : std::vector<int64_t>{}; }

// "BNSD_BSND": the part before the underscore is the input's layout, the part after it the output's.
std::string input_part(const std::string& layout) { return layout.substr(0, layout.find('_')); }
std::string output_part(const std::string& layout) {
  size_t line = layout.find('_');
  return line == std::string::npos ? layout : layout.substr(line + 1);
}
bool packed_tokens(const std::string& layout) { return layout == "TND" || layout == "NTD"; }

Tensor with_dims(const Tensor& t, Shape shape, Shape strides, int64_t shift) {
  Tensor view = t;
  view.shape = std::move(shape);
  view.strides = std::move(strides);
  view.offset += shift;
  return view;
}

}  // namespace

Attention::Attention(const Tensor* query, const TensorList* keys, const TensorList* values, const Tensor* bias,
                     const Tensor* mask, const IntArray* query_lengths, const IntArray* key_lengths,
                     const Tensor* block_table, const Tensor* query_rope, const Tensor* key_rope, int64_t heads,
                     double scale, int64_t previous, int64_t next, const char* layout, int64_t key_heads,
                     int64_t sparse_mode, int64_t block_size, bool write_lse, const Tensor* out, const Tensor* lse)
    : query_(*query),
      out_(*out),
      keys_(keys->tensors),
      values_(values->tensors),
      bias_(bias),
      mask_(mask),
      block_table_(block_table),
      query_rope_(query_rope),
      key_rope_(key_rope),
      query_lengths_(values_of(query_lengths)),
      key_lengths_(values_of(key_lengths)),
      heads_(heads),
      key_heads_(key_heads ? key_heads : heads),
      previous_(previous),
      next_(next),
      sparse_mode_(sparse_mode),
      block_size_(block_size),
      scale_(scale),
      layout_(input_part(layout)),
      out_layout_(output_part(layout)),
      write_lse_(write_lse && lse && lse->count() > 0) {
  if (write_lse_) lse_ = *lse;
}

std::string Attention::unsupported() const {
  for (const char* known : {"BSH", "BSND", "BNSD", "TND"}) {
    if (layout_ != known) continue;
    for (const char* known_out : {"BSH", "BSND", "BNSD", "TND"})
      if (out_layout_ == known_out) return is_floating(query_.dtype) ? "" : "quantised attention is not simulated";
  }
  return "input_layout " + layout_ + " is not simulated";
}

std::vector<Tensor> Attention::operands() const {
  std::vector<Tensor> all = keys_;
  all.insert(all.end(), values_.begin(), values_.end());
  all.push_back(query_);
  all.push_back(out_);
  for (const MaybeTensor* t : {&bias_, &mask_, &block_table_, &query_rope_, &key_rope_})
    if (*t) all.push_back(**t);
  return all;
}

int64_t Attention::batches() const {
  if (packed_tokens(layout_)) return static_cast<int64_t>(query_lengths_.size());
  return query_.size(0);
}

// TND lengths are cumulative; others are per batch, one number for all, or absent.
int64_t Attention::rows_of(const Tensor& packed, int64_t batch, const std::vector<int64_t>& lengths,
                           bool cumulative) const {
  size_t b = static_cast<size_t>(batch);
  if (cumulative) return lengths[b] - (b ? lengths[b - 1] : 0);
  int64_t whole = layout_ == "BNSD" ? packed.size(2) : packed.size(1);
  if (lengths.empty()) return whole;
  return std::min(whole, lengths[lengths.size() == 1 ? 0 : b]);
}

// The rows of one batch as [heads, rows, width].
Tensor Attention::heads_of(const Tensor& packed, int64_t batch, int64_t heads, bool keys, bool out) const {
  const std::string& layout = out ? out_layout_ : layout_;
  const Shape& s = packed.strides;
  if (layout == "TND") {
    const std::vector<int64_t>& ends = keys ? key_lengths_ : query_lengths_;
    size_t b = static_cast<size_t>(batch);
    int64_t start = b ? ends[b - 1] : 0;
    return with_dims(packed, {heads, ends[b] - start, packed.size(2)}, {s[1], s[0], s[2]}, start * s[0]);
  }
  if (layout == "BNSD")
    return with_dims(packed, {heads, packed.size(2), packed.size(3)}, {s[1], s[2], s[3]}, batch * s[0]);
  if (layout == "BSND")
    return with_dims(packed, {heads, packed.size(1), packed.size(3)}, {s[2], s[1], s[3]}, batch * s[0]);
  int64_t width = packed.size(2) / heads;  // BSH
  return with_dims(packed, {heads, packed.size(1), width}, {width * s[2], s[1], s[2]}, batch * s[0]);
}

int64_t Attention::key_length(int64_t batch) const {
  size_t b = static_cast<size_t>(batch);
  if (block_table_) {
    if (key_lengths_.empty()) return block_table_->size(1) * block_size_;
    return key_lengths_[key_lengths_.size() == 1 ? 0 : b];
  }
  if (layout_ == "TND") return rows_of(keys_[0], batch, key_lengths_, true);
  return rows_of(keys_.size() > 1 ? keys_[b] : keys_[0], keys_.size() > 1 ? 0 : batch, key_lengths_, false);
}

// Rows of keys or values of one head, [rows, width]; from the paged cache when there is a block table.
std::vector<double> Attention::key_rows(const Tensor& packed, int64_t batch, int64_t head, int64_t rows) const {
  if (!block_table_) {
    Tensor view = select(heads_of(packed, batch, key_heads_, true, false), 0, head);
    return read<double>(narrow(view, 0, 0, std::min(rows, view.size(0))));
  }
  std::vector<int64_t> table = read<int64_t>(select(*block_table_, 0, batch));
  std::vector<double> all;
  for (int64_t row = 0; row < rows; row += block_size_) {
    Tensor block = select(packed, 0, table[static_cast<size_t>(row / block_size_)]);
    // [block, kv_heads, size, width], [block, size, kv_heads, width] or [block, size, kv_heads * width]
    if (block.dims() == 2) {
      int64_t width = block.size(1) / key_heads_;
      block = narrow(block, 1, head * width, width);
    } else if (block.size(0) == key_heads_ && block.size(1) == block_size_) {
      block = select(block, 0, head);
    } else {
      block = select(block, 1, head);
    }
    std::vector<double> part = read<double>(narrow(block, 0, 0, std::min(block_size_, rows - row)));
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// Sparse modes of aclnnFusedInferAttentionScore: 0 mask as given, 2 upper-left causal, 3 lower-right causal, 4 band.
bool Attention::visible(int64_t batch, int64_t head, int64_t row, int64_t column, int64_t rows, int64_t columns) const {
  if (sparse_mode_ == 2) return column <= row;
  int64_t diagonal = columns - rows;
  if (sparse_mode_ == 3) return column <= row + diagonal;
  if (sparse_mode_ == 4) return column - row - diagonal <= next_ && row + diagonal - column <= previous_;
  if (!mask_) return true;
  const Tensor& m = *mask_;
  int64_t position = 0;
  int64_t place[4] = {batch, head, row, column};
  for (int64_t d = 0; d < m.dims(); d++) {
    int64_t size = m.size(d), index = place[4 - m.dims() + d];
    if (m.dims() == 3 && d == 0) index = batch;
    position = position * size + (size == 1 ? 0 : std::min(index, size - 1));
  }
  return load<int64_t>(element_address(m, position), m.dtype) == 0;
}

void Attention::run() const {
  for (int64_t batch = 0; batch < batches(); batch++) {
    size_t list = keys_.size() > 1 ? static_cast<size_t>(batch) : 0;
    int64_t key_batch = keys_.size() > 1 ? 0 : batch;
    int64_t rows = rows_of(query_, batch, query_lengths_, layout_ == "TND"), columns = key_length(batch);
    Tensor queries = heads_of(query_, batch, heads_, false, false), outs = heads_of(out_, batch, heads_, false, true);
    for (int64_t head = 0; head < heads_; head++) {
      int64_t key_head = head / (heads_ / key_heads_);
      std::vector<double> q = read<double>(select(queries, 0, head));
      std::vector<double> k = key_rows(keys_[list], key_batch, key_head, columns);
      std::vector<double> v = key_rows(values_[list], key_batch, key_head, columns);
      size_t width = static_cast<size_t>(queries.size(2)), value_width = static_cast<size_t>(outs.size(2));
      int64_t present = std::min(columns, static_cast<int64_t>(k.size() / std::max<size_t>(width, 1)));
      std::vector<double> qr, kr, extra;
      size_t rope = 0;
      if (query_rope_ && key_rope_) {
        Tensor view = heads_of(*query_rope_, batch, heads_, false, false);
        qr = read<double>(select(view, 0, head));
        kr = key_rows(*key_rope_, key_batch, key_head, columns);
        rope = static_cast<size_t>(view.size(2));
      }
      int64_t all_rows = queries.size(1);
      std::vector<double> result(static_cast<size_t>(all_rows) * value_width, 0);
      std::vector<double> lse(static_cast<size_t>(all_rows), INFINITY);
      for (int64_t row = 0; row < std::min(rows, all_rows); row++) {
        std::vector<double> score(static_cast<size_t>(present), -INFINITY);
        double largest = -INFINITY, total = 0;
        for (int64_t c = 0; c < present; c++) {
          if (!visible(batch, head, row, c, rows, columns)) continue;
          double dot = 0;
          for (size_t i = 0; i < width; i++)
            dot += q[static_cast<size_t>(row) * width + i] * k[static_cast<size_t>(c) * width + i];
          for (size_t i = 0; i < rope; i++)
            dot += qr[static_cast<size_t>(row) * rope + i] * kr[static_cast<size_t>(c) * rope + i];
          score[static_cast<size_t>(c)] = dot * scale_;
          largest = std::max(largest, dot * scale_);
        }
        if (std::isinf(largest)) continue;  // nothing visible: zeros
        for (double& s : score) total += s = std::exp(s - largest);
        for (int64_t c = 0; c < present; c++)
          for (size_t i = 0; i < value_width; i++)
            result[static_cast<size_t>(row) * value_width + i] +=
                score[static_cast<size_t>(c)] / total * v[static_cast<size_t>(c) * value_width + i];
        lse[static_cast<size_t>(row)] = largest + std::log(total);
      }
      write(select(outs, 0, head), result);
      if (!write_lse_) continue;
      Tensor target = lse_;  // [batch, heads, rows, 1]; TND: [tokens, heads, 1]
      if (lse_.dims() == 4)
        target = select(select(select(lse_, 0, batch), 0, head), 1, 0);
      else if (lse_.dims() == 3) {
        int64_t start = batch ? query_lengths_[static_cast<size_t>(batch) - 1] : 0;
        target = select(select(narrow(lse_, 0, start, all_rows), 2, 0), 1, head);
      } else {
        continue;
      }
      write(target, lse);
    }
  }
}

}  // namespace sim

using namespace sim;

static int plan_attention(const char* name, uint64_t* size, Executor** executor, const Attention& attention) {
  std::string missing = attention.unsupported();
  if (!missing.empty()) return bad_argument(name, missing + " by npu_sim");
  return plan(name, size, executor, attention.operands(), [attention] { attention.run(); });
}

// The versions of aclnnFusedInferAttentionScore differ in what follows the shared prefix and the quantisation modes.
#define FIA_HEAD                                                                                                      \
  const Tensor *query, const TensorList *keys, const TensorList *values, const Tensor *bias, const Tensor *mask,      \
      const IntArray *query_lengths, const IntArray *key_lengths, const Tensor *, const Tensor *, const Tensor *,     \
      const Tensor *, const Tensor *, const Tensor *, const Tensor *, const Tensor *block_table, const Tensor *,      \
      const Tensor *, const Tensor *, const Tensor *, const Tensor *, const Tensor *, const Tensor *, const Tensor *, \
      const IntArray *
#define FIA_NUMBERS                                                                                   \
  int64_t heads, double scale, int64_t previous, int64_t next, const char *layout, int64_t key_heads, \
      int64_t sparse_mode, int64_t, int64_t block_size, int64_t, bool lse_wanted, int64_t, int64_t
#define FIA_ROPE const Tensor *query_rope, const Tensor *key_rope, const Tensor *
#define FIA_OUT const Tensor *out, const Tensor *lse
#define FIA(NAME, QUERY_ROPE, KEY_ROPE, ...)                                                                        \
  OPERATOR(NAME, __VA_ARGS__) {                                                                                     \
    return plan_attention(                                                                                          \
        "aclnn" #NAME, size_, executor_,                                                                            \
        Attention(query, keys, values, bias, mask, query_lengths, key_lengths, block_table, QUERY_ROPE, KEY_ROPE,   \
                  heads, scale, previous, next, layout, key_heads, sparse_mode, block_size, lse_wanted, out, lse)); \
  }                                                                                                                 \
  API int aclnn##NAME##GetMaxWorkspaceSize(__VA_ARGS__, uint64_t* size_, Executor** executor_) {                    \
    int refused = plan_attention(                                                                                   \
        "aclnn" #NAME, size_, executor_,                                                                            \
        Attention(query, keys, values, bias, mask, query_lengths, key_lengths, block_table, QUERY_ROPE, KEY_ROPE,   \
                  heads, scale, previous, next, layout, key_heads, sparse_mode, block_size, lse_wanted, out, lse)); \
    *size_ = 512; /* the kernel needs none; a caller that allocates none would take an empty tensor for failure */  \
    return refused;                                                                                                 \
  }
FIA(FusedInferAttentionScoreV2, nullptr, nullptr, FIA_HEAD, FIA_NUMBERS, FIA_OUT)
FIA(FusedInferAttentionScoreV3, query_rope, key_rope, FIA_HEAD, FIA_ROPE, FIA_NUMBERS, FIA_OUT)
FIA(FusedInferAttentionScoreV4, query_rope, key_rope, FIA_HEAD, FIA_ROPE, const Tensor*, const Tensor*, FIA_NUMBERS,
    int64_t, FIA_OUT)
FIA(FusedInferAttentionScoreV5, query_rope, key_rope, FIA_HEAD, FIA_ROPE, const Tensor*, const Tensor*, const IntArray*,
    const IntArray*, FIA_NUMBERS, int64_t, int64_t, FIA_OUT)

// One tensor of keys, as a list of one.
static TensorList one(const Tensor* tensor) {
  TensorList list;
  list.tensors.push_back(*tensor);
  return list;
}
OPERATOR(PromptFlashAttentionV3, const Tensor* query, const Tensor* key, const Tensor* value, const Tensor* bias,
         const Tensor* mask, const IntArray* query_lengths, const IntArray* key_lengths, const Tensor*, const Tensor*,
         const Tensor*, const Tensor*, const Tensor*, int64_t heads, double scale, int64_t previous, int64_t next,
         const char* layout, int64_t key_heads, int64_t sparse_mode, int64_t, const Tensor* out) {
  TensorList keys = one(key), values = one(value);
  return plan_attention(
      "aclnnPromptFlashAttentionV3", size_, executor_,
      Attention(query, &keys, &values, bias, mask, query_lengths, key_lengths, nullptr, nullptr, nullptr, heads, scale,
                previous, next, layout, key_heads, sparse_mode, 0, false, out, nullptr));
}
OPERATOR(IncreFlashAttentionV4, const Tensor* query, const TensorList* keys, const TensorList* values,
         const Tensor* bias, const Tensor* mask, const IntArray* key_lengths, const Tensor*, const Tensor*,
         const Tensor*, const Tensor*, const Tensor*, const Tensor*, const Tensor*, const Tensor* block_table,
         const Tensor*, int64_t heads, double scale, const char* layout, int64_t key_heads, int64_t block_size, int64_t,
         const Tensor* out) {
  return plan_attention("aclnnIncreFlashAttentionV4", size_, executor_,
                        Attention(query, keys, values, bias, mask, nullptr, key_lengths, block_table, nullptr, nullptr,
                                  heads, scale, 0, 0, layout, key_heads, 0, block_size, false, out, nullptr));
}

// ---------------------------------------------------------------- rotary position embedding
// mode 0: the halves of the last dimension rotate; mode 1: neighbouring pairs do.
OPERATOR(RotaryPositionEmbedding, const Tensor* self, const Tensor* cos, const Tensor* sin, int64_t mode,
         const Tensor* out) {
  return PLAN(RotaryPositionEmbedding, {self, cos, sin, out}, [a = *self, c = *cos, s = *sin, mode, o = *out] {
    std::vector<double> x = read<double>(a), cs = read<double>(c, a.shape), sn = read<double>(s, a.shape), y(x.size());
    size_t width = static_cast<size_t>(a.size(-1)), half = width / 2;
    for (size_t i = 0; i < x.size(); i++) {
      size_t place = i % width, row = i - place;
      bool first = mode == 0 ? place < half : place % 2 == 0;
      size_t partner = row + (mode == 0 ? (first ? place + half : place - half) : (first ? place + 1 : place - 1));
      y[i] = x[i] * cs[i] + (first ? -x[partner] : x[partner]) * sn[i];
    }
    write(o, y);
  });
}
