// Attention for training (npu_fusion_attention, its gradient and their v3): forward with the softmax's statistics,
// backward by recomputing the probabilities.
//
// Formula and arguments: CANN ops-transformer attention/flash_attention_score/docs/aclnnFlashAttentionVarLenScore.md;
// Ascend/op-plugin docs/zh/custom_APIs/torch_npu/torch_npu-npu_fusion_attention_v3.md.
#include <algorithm>
#include <cmath>

#include "operators/elementwise.h"
#include "operators/kernel.h"

namespace sim {
namespace {

constexpr int64_t kStatisticWidth = 8;  // softmax max and sum are repeated over a last dimension of eight

struct Flash {
  Tensor query, key, value;
  MaybeTensor pse = nullptr, mask = nullptr;
  std::vector<int64_t> query_ends, key_ends;  // cumulative; only for TND
  double scale = 1, keep = 1;
  int64_t previous = 0, next = 0, heads = 1, sparse_mode = 0;
  std::string layout;
  bool tokens_first = false;  // statistics of TND as [tokens, heads, 8]
  bool refused_argument = false;

  std::string unsupported() const;
  int64_t batches() const { return packed() ? static_cast<int64_t>(query_ends.size()) : at("B", query); }
  int64_t key_heads() const;
  Tensor rows(const Tensor& t, int64_t batch, int64_t head, int64_t all_heads, bool keys) const;
  Tensor statistic(const Tensor& t, int64_t batch, int64_t head) const;
  std::vector<Tensor> operands() const;

  // Probabilities [rows, columns] of one head, and the statistics of each row.
  struct Probabilities {
    int64_t rows, columns;
    std::vector<double> values, largest, sum;
  };
  Probabilities probabilities(int64_t batch, int64_t head) const;

 private:
  bool packed() const { return layout == "TND"; }
  int64_t at(const char* dimension, const Tensor& t) const {
    return t.size(static_cast<int64_t>(layout.find(*dimension)));
  }
  bool visible(int64_t batch, int64_t head, int64_t row, int64_t column, int64_t rows, int64_t columns) const;
  int64_t start(int64_t batch, bool keys) const {
    const auto& ends = keys ? key_ends : query_ends;
    return batch ? ends[static_cast<size_t>(batch) - 1] : 0;
  }
};

std::string Flash::unsupported() const {
  bool known = false;
  for (const char* name : {"BSH", "SBH", "BSND", "BNSD", "TND"}) known = known || layout == name;
  if (!known) return "input_layout " + layout + " is not simulated";
  if (refused_argument) return "a sink or a rope tensor is not simulated: their formula is not in the public pages";
  // The order of the bits in the dropout mask is not public.
  if (keep != 1) return "keep_prob other than 1 is not simulated";
  // Modes of the page: 5 and 6 take the prefix, 7 and 8 are for a sequence that was cut outside; none is computed here.
  if (sparse_mode < 0 || sparse_mode > 4) return "sparse_mode " + std::to_string(sparse_mode) + " is not simulated";
  if (!is_floating(query.dtype)) return "quantised attention is not simulated";
  // Other shapes are the compressed alibi encodings.
  if (pse && (packed() || pse->dims() != 4)) return "this shape of pse is not simulated";
  if (packed() && (query_ends.empty() || query_ends.size() != key_ends.size()))
    return "TND without equally many actual_seq_qlen and actual_seq_kvlen is not simulated";
  if (heads < 1 || key_heads() < 1 || heads % key_heads()) return "head_num that key's heads do not divide is refused";
  // "the cumulative length of each sequence" (page of npu_fusion_attention_v3): it ascends, and ends within the tokens.
  for (bool keys : {false, true}) {
    int64_t last = 0;
    for (int64_t end : keys ? key_ends : query_ends) {
      if (end < last || end > (keys ? key : query).size(0)) return "a sequence length out of range is refused";
      last = end;
    }
  }
  return "";
}

std::vector<Tensor> Flash::operands() const {
  std::vector<Tensor> all = {query, key, value};
  for (const MaybeTensor* t : {&pse, &mask})
    if (*t) all.push_back(**t);
  return all;
}

int64_t Flash::key_heads() const {
  if (layout.find('N') != std::string::npos) return at("N", key);
  return key.size(2) / std::max<int64_t>(query.size(2) / heads, 1);  // H is heads * width
}

// One head of one sequence as [rows, width].
Tensor Flash::rows(const Tensor& t, int64_t batch, int64_t head, int64_t all_heads, bool keys) const {
  const Shape& s = t.strides;
  Tensor view = t;
  if (packed()) {
    int64_t first = start(batch, keys), last = (keys ? key_ends : query_ends)[static_cast<size_t>(batch)];
    view.shape = {last - first, t.size(2)};
    view.strides = {s[0], s[2]};
    view.offset += first * s[0] + head * s[1];
  } else if (layout == "BNSD" || layout == "BSND") {
    size_t sequence = layout == "BNSD" ? 2 : 1;
    view.shape = {t.size(static_cast<int64_t>(sequence)), t.size(3)};
    view.strides = {s[sequence], s[3]};
    view.offset += batch * s[0] + head * s[3 - sequence];
  } else {
    size_t sequence = layout == "BSH" ? 1 : 0;
    int64_t width = t.size(2) / all_heads;
    view.shape = {t.size(static_cast<int64_t>(sequence)), width};
    view.strides = {s[sequence], s[2]};
    view.offset += batch * s[1 - sequence] + head * width * s[2];
  }
  return view;
}

// [rows, 8] in the softmax's statistics: [batch, heads, rows, 8]; TND: heads before tokens within each sequence
// (MindSpeed context_parallel flatten_softmax), unless softmax_layout asks for [tokens, heads, 8].
Tensor Flash::statistic(const Tensor& t, int64_t batch, int64_t head) const {
  Tensor view = t;
  int64_t count = rows(query, batch, head, heads, false).size(0);
  view.shape = {count, kStatisticWidth};
  view.strides = {kStatisticWidth, 1};
  if (!packed()) {
    view.offset += (batch * heads + head) * count * kStatisticWidth;
  } else if (tokens_first) {
    view.strides[0] = heads * kStatisticWidth;
    view.offset += (start(batch, false) * heads + head) * kStatisticWidth;
  } else {
    view.offset += (start(batch, false) * heads + head * count) * kStatisticWidth;
  }
  return view;
}

// Sparse modes: 0 the mask as given, 1 all of the mask, 2 upper-left causal, 3 lower-right causal, 4 band.
bool Flash::visible(int64_t batch, int64_t head, int64_t row, int64_t column, int64_t rows, int64_t columns) const {
  int64_t distance = column - row - (sparse_mode == 2 ? 0 : columns - rows);
  if (sparse_mode == 2 || sparse_mode == 3) return distance <= 0;
  if (sparse_mode == 4) return distance <= next && -distance <= previous;
  if (!mask) return true;
  const Tensor& m = *mask;
  int64_t position = 0, place[4] = {batch, head, row, column};
  for (int64_t d = 0; d < m.dims(); d++) {
    int64_t index = place[4 - m.dims() + d];
    position = position * m.size(d) + (m.size(d) == 1 ? 0 : std::min(index, m.size(d) - 1));
  }
  return load<int64_t>(element_address(m, position), m.dtype) == 0;
}

Flash::Probabilities Flash::probabilities(int64_t batch, int64_t head) const {
  int64_t group = heads / key_heads();
  Tensor queries = rows(query, batch, head, heads, false), keys = rows(key, batch, head / group, key_heads(), true);
  std::vector<double> q = read<double>(queries), k = read<double>(keys);
  int64_t width = queries.size(1), row_count = queries.size(0), columns = keys.size(0);
  Probabilities p{row_count, columns, std::vector<double>(static_cast<size_t>(row_count * columns), 0),
                  std::vector<double>(static_cast<size_t>(row_count), 0),
                  std::vector<double>(static_cast<size_t>(row_count), 0)};
  std::vector<double> shift;
  if (pse) {
    Tensor one = select(select(*pse, 0, pse->size(0) == 1 ? 0 : batch), 0, pse->size(1) == 1 ? 0 : head);
    shift = read<double>(one, {row_count, columns});
  }
  for (int64_t row = 0; row < row_count; row++) {
    double* line = p.values.data() + row * columns;
    double largest = -INFINITY, sum = 0;
    for (int64_t c = 0; c < columns; c++) {
      line[c] = -INFINITY;
      if (!visible(batch, head, row, c, row_count, columns)) continue;
      double dot = shift.empty() ? 0 : shift[static_cast<size_t>(row * columns + c)];
      for (int64_t i = 0; i < width; i++)
        dot += q[static_cast<size_t>(row * width + i)] * k[static_cast<size_t>(c * width + i)];
      line[c] = dot * scale;
      largest = std::max(largest, line[c]);
    }
    bool nothing = std::isinf(largest);  // a row that sees no key: zeros
    for (int64_t c = 0; c < columns; c++) sum += line[c] = nothing ? 0 : std::exp(line[c] - largest);
    for (int64_t c = 0; c < columns && !nothing; c++) line[c] /= sum;
    p.largest[static_cast<size_t>(row)] = nothing ? 0 : largest;
    p.sum[static_cast<size_t>(row)] = sum;
  }
  return p;
}

// out[rows, columns] += a[rows, inner] * b[inner, columns]; `transposed`: a is [inner, rows].
void multiply_add(std::vector<double>& out, const std::vector<double>& a, const std::vector<double>& b, int64_t rows,
                  int64_t inner, int64_t columns, double factor, bool transposed) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < inner; i++) {
      double left = factor * a[static_cast<size_t>(transposed ? i * rows + r : r * inner + i)];
      for (int64_t c = 0; c < columns; c++)
        out[static_cast<size_t>(r * columns + c)] += left * b[static_cast<size_t>(i * columns + c)];
    }
}

std::vector<double> repeated(const std::vector<double>& values) {
  std::vector<double> all;
  for (double value : values) all.insert(all.end(), kStatisticWidth, value);
  return all;
}

void forward(const Flash& f, const Tensor& largest, const Tensor& sum, const Tensor& out) {
  int64_t group = f.heads / f.key_heads();
  for (int64_t batch = 0; batch < f.batches(); batch++)
    for (int64_t head = 0; head < f.heads; head++) {
      Flash::Probabilities p = f.probabilities(batch, head);
      std::vector<double> v = read<double>(f.rows(f.value, batch, head / group, f.key_heads(), true));
      Tensor target = f.rows(out, batch, head, f.heads, false);
      std::vector<double> result(static_cast<size_t>(target.count()), 0);
      multiply_add(result, p.values, v, p.rows, p.columns, target.size(1), 1, false);
      write(target, result);
      write(f.statistic(largest, batch, head), repeated(p.largest));
      write(f.statistic(sum, batch, head), repeated(p.sum));
    }
}

struct Gradients {
  Tensor query, key, value;
  MaybeTensor pse = nullptr;
};

void backward(const Flash& f, const Tensor& out_gradient, const Gradients& to) {
  int64_t key_heads = f.key_heads(), group = f.heads / key_heads;
  std::vector<double> shift(to.pse ? static_cast<size_t>(to.pse->count()) : 0, 0);
  for (int64_t batch = 0; batch < f.batches(); batch++)
    for (int64_t key_head = 0; key_head < key_heads; key_head++) {
      Tensor keys = f.rows(f.key, batch, key_head, key_heads, true);
      Tensor values = f.rows(f.value, batch, key_head, key_heads, true);
      std::vector<double> k = read<double>(keys), v = read<double>(values), dk(k.size(), 0), dv(v.size(), 0);
      for (int64_t head = key_head * group; head < (key_head + 1) * group; head++) {
        Flash::Probabilities p = f.probabilities(batch, head);
        Tensor queries = f.rows(f.query, batch, head, f.heads, false);
        std::vector<double> q = read<double>(queries);
        std::vector<double> dy = read<double>(f.rows(out_gradient, batch, head, f.heads, false));
        int64_t width = queries.size(1), value_width = values.size(1);
        multiply_add(dv, p.values, dy, p.columns, p.rows, value_width, 1, true);
        std::vector<double> ds(p.values.size(), 0);
        for (int64_t r = 0; r < p.rows; r++) {
          double mean = 0;
          double* line = ds.data() + r * p.columns;
          const double* chance = p.values.data() + r * p.columns;
          for (int64_t c = 0; c < p.columns; c++) {
            for (int64_t i = 0; i < value_width; i++)
              line[c] += dy[static_cast<size_t>(r * value_width + i)] * v[static_cast<size_t>(c * value_width + i)];
            mean += line[c] * chance[c];
          }
          for (int64_t c = 0; c < p.columns; c++) line[c] = f.scale * chance[c] * (line[c] - mean);
        }
        std::vector<double> dq(q.size(), 0);
        multiply_add(dq, ds, k, p.rows, p.columns, width, 1, false);
        multiply_add(dk, ds, q, p.columns, p.rows, width, 1, true);
        write(f.rows(to.query, batch, head, f.heads, false), dq);
        if (!to.pse) continue;
        const Tensor& t = *to.pse;
        int64_t place[2] = {t.size(0) == 1 ? 0 : batch, t.size(1) == 1 ? 0 : head};
        for (int64_t i = 0; i < p.rows * p.columns; i++) {
          int64_t row = t.size(2) == 1 ? 0 : i / p.columns, column = t.size(3) == 1 ? 0 : i % p.columns;
          shift[static_cast<size_t>(((place[0] * t.size(1) + place[1]) * t.size(2) + row) * t.size(3) + column)] +=
              ds[static_cast<size_t>(i)];
        }
      }
      write(f.rows(to.key, batch, key_head, key_heads, true), dk);
      write(f.rows(to.value, batch, key_head, key_heads, true), dv);
    }
  if (to.pse) write(*to.pse, shift);
}

int plan_forward(const char* name, uint64_t* size, Executor** executor, const Flash& f, const Tensor* largest,
                 const Tensor* sum, const Tensor* out) {
  std::string missing = f.unsupported();
  if (!missing.empty()) return bad_argument(name, missing + " by npu_sim");
  std::vector<Tensor> operands = f.operands();
  operands.insert(operands.end(), {*largest, *sum, *out});
  return plan(name, size, executor, operands, [f, m = *largest, s = *sum, o = *out] { forward(f, m, s, o); });
}

int plan_backward(const char* name, uint64_t* size, Executor** executor, const Flash& f, const Tensor* out_gradient,
                  const Gradients& to) {
  std::string missing = f.unsupported();
  if (!missing.empty()) return bad_argument(name, missing + " by npu_sim");
  std::vector<Tensor> operands = f.operands();
  operands.insert(operands.end(), {*out_gradient, to.query, to.key, to.value});
  if (to.pse) operands.push_back(*to.pse);
  return plan(name, size, executor, operands, [f, dy = *out_gradient, to] { backward(f, dy, to); });
}

// The versions of the operators differ in which of these they have.
struct Extra {
  const IntArray *query_ends = nullptr, *key_ends = nullptr;
  const char* softmax_layout = "";
  bool refused_argument = false;  // a sink, or a rope tensor
};

Flash make_flash(const Tensor* query, const Tensor* key, const Tensor* value, const Tensor* pse, const Tensor* mask,
                 double scale, double keep, int64_t previous, int64_t next, int64_t heads, const char* layout,
                 int64_t sparse_mode, const Extra& extra) {
  Flash f;
  f.query = *query, f.key = *key, f.value = *value;
  // An empty tensor stands for one that is absent.
  if (pse && pse->count()) f.pse = MaybeTensor(pse);
  if (mask && mask->count()) f.mask = MaybeTensor(mask);
  if (extra.query_ends) f.query_ends = extra.query_ends->values;
  if (extra.key_ends) f.key_ends = extra.key_ends->values;
  f.scale = scale, f.keep = keep, f.previous = previous, f.next = next, f.heads = heads, f.sparse_mode = sparse_mode;
  f.layout = layout;
  std::string order = extra.softmax_layout;
  f.tokens_first = order == "same_as_input" || order == "TND";
  f.refused_argument = extra.refused_argument;
  return f;
}

Gradients make_gradients(const Tensor* query, const Tensor* key, const Tensor* value, const Tensor* pse,
                         const Flash& f) {
  Gradients to{*query, *key, *value};
  if (f.pse && pse && pse->count()) to.pse = MaybeTensor(pse);
  return to;
}

}  // namespace
}  // namespace sim

using namespace sim;

#define QKV const Tensor *query, const Tensor *key, const Tensor *value
#define QKV_ROPE \
  const Tensor *query, const Tensor *query_rope, const Tensor *key, const Tensor *key_rope, const Tensor *value
#define MASKS \
  const Tensor *pse, const Tensor *, const Tensor *, const Tensor *mask   // position, drop, padding, attention
#define SAVED const Tensor*, const Tensor*, const Tensor*, const Tensor*  // recomputed: max, sum, softmax, output
#define ENDS const IntArray *query_ends, const IntArray *key_ends
#define NUMBERS \
  double scale, double keep, int64_t previous, int64_t next, int64_t heads, const char *layout, int64_t, int64_t mode
#define RESULTS const Tensor *largest, const Tensor *sum, const Tensor *, const Tensor *out
#define GRADIENTS const Tensor *dq, const Tensor *dk, const Tensor *dv, const Tensor *dpse

// Each has its GetMaxWorkspaceSize, which captures of torch_npu ask before they record (FA3ForwardHandler).
#define FORWARD(NAME, EXTRA, ...)                                                                                \
  OPERATOR(NAME, __VA_ARGS__) {                                                                                  \
    Flash f = make_flash(query, key, value, pse, mask, scale, keep, previous, next, heads, layout, mode, EXTRA); \
    return plan_forward("aclnn" #NAME, size_, executor_, f, largest, sum, out);                                  \
  }                                                                                                              \
  API int aclnn##NAME##GetMaxWorkspaceSize(__VA_ARGS__, uint64_t* size_, Executor** executor_) {                 \
    Flash f = make_flash(query, key, value, pse, mask, scale, keep, previous, next, heads, layout, mode, EXTRA); \
    int refused = plan_forward("aclnn" #NAME, size_, executor_, f, largest, sum, out);                           \
    *size_ = 512; /* as for FusedInferAttentionScore: none is needed, but an empty one would pass for failure */ \
    return refused;                                                                                              \
  }
#define BACKWARD(NAME, EXTRA, ...)                                                                               \
  OPERATOR(NAME, __VA_ARGS__) {                                                                                  \
    Flash f = make_flash(query, key, value, pse, mask, scale, keep, previous, next, heads, layout, mode, EXTRA); \
    return plan_backward("aclnn" #NAME, size_, executor_, f, dy, make_gradients(dq, dk, dv, dpse, f));           \
  }                                                                                                              \
  API int aclnn##NAME##GetMaxWorkspaceSize(__VA_ARGS__, uint64_t* size_, Executor** executor_) {                 \
    Flash f = make_flash(query, key, value, pse, mask, scale, keep, previous, next, heads, layout, mode, EXTRA); \
    int refused = plan_backward("aclnn" #NAME, size_, executor_, f, dy, make_gradients(dq, dk, dv, dpse, f));    \
    *size_ = 512;                                                                                                \
    return refused;                                                                                              \
  }
#define LENGTHS (Extra{query_ends, key_ends})
#define LENGTHS_AND_LAYOUT (Extra{query_ends, key_ends, softmax_layout})
#define ALL_EXTRA (Extra{query_ends, key_ends, softmax_layout, sink || query_rope || key_rope})

FORWARD(FlashAttentionScore, (Extra{}), QKV, MASKS, const IntArray*, NUMBERS, RESULTS)
FORWARD(FlashAttentionVarLenScore, LENGTHS, QKV, MASKS, const IntArray*, ENDS, NUMBERS, RESULTS)
FORWARD(FlashAttentionVarLenScoreV4, LENGTHS_AND_LAYOUT, QKV, MASKS, const IntArray*, ENDS, NUMBERS,
        const char* softmax_layout, RESULTS)
FORWARD(FlashAttentionVarLenScoreV5, ALL_EXTRA, QKV_ROPE, MASKS, const Tensor* sink, const IntArray*, ENDS,
        const IntArray*, const IntArray*, NUMBERS, int64_t, const char* softmax_layout, RESULTS)

BACKWARD(FlashAttentionScoreGrad, (Extra{}), QKV, const Tensor* dy, MASKS, SAVED, const IntArray*, NUMBERS, GRADIENTS)
BACKWARD(FlashAttentionUnpaddingScoreGrad, LENGTHS, QKV, const Tensor* dy, MASKS, SAVED, const IntArray*, ENDS, NUMBERS,
         GRADIENTS)
BACKWARD(FlashAttentionUnpaddingScoreGradV4, LENGTHS_AND_LAYOUT, QKV, const Tensor* dy, MASKS, SAVED, const IntArray*,
         ENDS, NUMBERS, GRADIENTS, const char* softmax_layout)
BACKWARD(FlashAttentionUnpaddingScoreGradV5, ALL_EXTRA, QKV_ROPE, const Tensor* dy, MASKS, SAVED, const Tensor* sink,
         const IntArray*, ENDS, const IntArray*, const IntArray*, NUMBERS, int64_t, const char* softmax_layout,
         const Tensor* dq, const Tensor*, const Tensor* dk, const Tensor*, const Tensor* dv, const Tensor* dpse,
         const Tensor*)
