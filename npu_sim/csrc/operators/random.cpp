// Random numbers: reproducible from seed and offset, not those of a device.
//
// In a capture torch_npu passes seed and offset as device tensors (the "...Tensor" operators), so that each replay
// draws new numbers; the value of element i depends on (seed, offset + offset in the graph, i) alone.
#include <algorithm>
#include <numeric>

#include "operators/elementwise.h"

using namespace sim;

namespace {

struct Stream64 {
  uint64_t seed, offset;
  // splitmix64 of the counter
  uint64_t word(uint64_t i) const {
    uint64_t x = seed * 0xD1342543DE82EF95ULL + offset * 0x9E3779B97F4A7C15ULL + (i + 1) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
  }
  double uniform(uint64_t i) const { return static_cast<double>(word(i) >> 11) / 9007199254740992.0; }
  double normal(uint64_t i) const {  // Box-Muller
    double u = uniform(2 * i), v = uniform(2 * i + 1);
    return std::sqrt(-2 * std::log(1 - u)) * std::cos(2 * M_PI * v);
  }
};

// The state that a graph reads at replay.
Stream64 state_of(const Tensor& seed, const Tensor& offset, uint64_t in_graph) {
  return {static_cast<uint64_t>(read<int64_t>(seed)[0]), static_cast<uint64_t>(read<int64_t>(offset)[0]) + in_graph};
}

void draw_uniform(const Tensor& out, double low, double high, const Stream64& s) {
  std::vector<double> values(static_cast<size_t>(out.count()));
  for (size_t i = 0; i < values.size(); i++) {
    double value = low + (high - low) * s.uniform(i);
    // Rounding to the tensor's type must not reach `high`.
    if (out.dtype == kFloat && static_cast<float>(value) >= high) value = low;
    values[i] = value;
  }
  write(out, values);
}
void draw_normal(const Tensor& out, double mean, double deviation, const Stream64& s) {
  std::vector<double> values(static_cast<size_t>(out.count()));
  for (size_t i = 0; i < values.size(); i++) values[i] = mean + deviation * s.normal(i);
  write(out, values);
}
void draw_integers(const Tensor& out, int64_t low, int64_t high, const Stream64& s) {
  std::vector<int64_t> values(static_cast<size_t>(out.count()));
  uint64_t span = bits(high) - bits(low);
  for (size_t i = 0; i < values.size(); i++) values[i] = wrap(bits(low) + (span ? s.word(i) % span : 0));
  write(out, values);
}
// Without bounds: as many values as the dtype holds exactly.
int64_t default_bound(int dtype) {
  switch (dtype) {
    case kFloat:
      return (int64_t{1} << 24) + 1;
    case kFloat16:
      return (int64_t{1} << 11) + 1;
    case kBFloat16:
      return (int64_t{1} << 8) + 1;
    case kDouble:
      return (int64_t{1} << 53) + 1;
    case kInt8:
      return 128;
    case kUInt8:
      return 256;
    case kInt16:
      return 32768;
    case kInt32:
      return int64_t{1} << 31;
    case kBool:
      return 2;
    default:
      return INT64_MAX;
  }
}
void draw_bernoulli(const Tensor& out, const std::vector<double>& p, const Stream64& s) {
  std::vector<int64_t> values(static_cast<size_t>(out.count()));
  for (size_t i = 0; i < values.size(); i++) values[i] = s.uniform(i) < p[p.size() == 1 ? 0 : i];
  write(out, values);
}
// One bit for each element, packed: 1 keeps it (probability 1 - p).
void draw_mask(const Tensor& mask, int64_t elements, double p, const Stream64& s) {
  std::vector<int64_t> bytes(static_cast<size_t>(mask.count()), 0);
  for (int64_t i = 0; i < elements; i++)
    if (s.uniform(static_cast<uint64_t>(i)) >= p) bytes[static_cast<size_t>(i / 8)] |= 1 << (i % 8);
  write(mask, bytes);
}
void draw_multinomial(const Tensor& weights, int64_t samples, bool replacement, const Stream64& s, const Tensor& out) {
  std::vector<double> all = read<double>(weights);
  int64_t classes = weights.size(-1), rows = weights.count() / std::max<int64_t>(classes, 1);
  std::vector<int64_t> drawn;
  for (int64_t row = 0; row < rows; row++) {
    std::vector<double> w(all.begin() + row * classes, all.begin() + (row + 1) * classes);
    for (int64_t k = 0; k < samples; k++) {
      double target = s.uniform(static_cast<uint64_t>(row * samples + k)) * std::accumulate(w.begin(), w.end(), 0.0);
      int64_t chosen = 0;
      for (; chosen < classes - 1 && (target -= w[static_cast<size_t>(chosen)]) >= 0; chosen++) {
      }
      while (chosen > 0 && w[static_cast<size_t>(chosen)] == 0) chosen--;
      drawn.push_back(chosen);
      if (!replacement) w[static_cast<size_t>(chosen)] = 0;
    }
  }
  write(out, drawn);
}

}  // namespace

// Each operator exists with the state as numbers and with the state as tensors.
#define RANDOM(NAME, OPERANDS, BODY, ...)                                                                            \
  OPERATOR(NAME, __VA_ARGS__, uint64_t seed, uint64_t offset) {                                                      \
    return PLAN(NAME, OPERANDS, [=, o = *self] {                                                                     \
      Stream64 s{seed, offset};                                                                                      \
      BODY;                                                                                                          \
    });                                                                                                              \
  }                                                                                                                  \
  OPERATOR(NAME##Tensor, __VA_ARGS__, const Tensor* seed, const Tensor* offset, uint64_t in_graph) {                 \
    return PLAN(NAME##Tensor, (std::vector<Tensor>{*self, *seed, *offset}), [=, o = *self, a = *seed, b = *offset] { \
      Stream64 s = state_of(a, b, in_graph);                                                                         \
      BODY;                                                                                                          \
    });                                                                                                              \
  }
RANDOM(InplaceUniform, {self}, draw_uniform(o, low, high, s), const Tensor* self, double low, double high)
RANDOM(InplaceNormal, {self}, draw_normal(o, mean, deviation, s), const Tensor* self, float mean, float deviation)
RANDOM(InplaceRandom, {self}, draw_integers(o, low, high, s), const Tensor* self, int64_t low, int64_t high)
RANDOM(InplaceRandomWithoutFromTo, {self}, draw_integers(o, 0, default_bound(o.dtype), s), const Tensor* self)

OPERATOR(NormalFloatFloat, float mean, float deviation, uint64_t seed, uint64_t offset, const Tensor* out) {
  return PLAN(NormalFloatFloat, {out}, [=, o = *out] { draw_normal(o, mean, deviation, {seed, offset}); });
}
OPERATOR(InplaceBernoulli, const Tensor* self, const Scalar* p, uint64_t seed, uint64_t offset) {
  return PLAN(InplaceBernoulli, {self}, [=, o = *self, p = p->as<double>()] {
    draw_bernoulli(o, {p}, {seed, offset});
  });
}
OPERATOR(InplaceBernoulliTensor, const Tensor* self, const Tensor* p, uint64_t seed, uint64_t offset) {
  return PLAN(InplaceBernoulliTensor, {self, p}, [=, o = *self, p = *p] {
    draw_bernoulli(o, read<double>(p, o.shape), {seed, offset});
  });
}
OPERATOR(Randperm, int64_t n, uint64_t seed, uint64_t offset, const Tensor* out) {
  return PLAN(Randperm, {out}, [=, o = *out] {
    Stream64 s{seed, offset};
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; i--) std::swap(order[i - 1], order[s.word(i) % i]);
    write(o, order);
  });
}
OPERATOR(Multinomial, const Tensor* self, int64_t samples, bool replacement, uint64_t seed, uint64_t offset,
         const Tensor* out) {
  return PLAN(Multinomial, {self, out}, [=, w = *self, o = *out] {
    draw_multinomial(w, samples, replacement, {seed, offset}, o);
  });
}
OPERATOR(MultinomialTensor, const Tensor* self, int64_t samples, bool replacement, const Tensor* seed,
         const Tensor* offset, uint64_t in_graph, const Tensor* out) {
  return PLAN(MultinomialTensor, {self, seed, offset, out}, [=, w = *self, a = *seed, b = *offset, o = *out] {
    draw_multinomial(w, samples, replacement, state_of(a, b, in_graph), o);
  });
}
OPERATOR(DropoutGenMaskV2, const IntArray* shape, double p, uint64_t seed, uint64_t offset, int, const Tensor* mask) {
  return PLAN(DropoutGenMaskV2, {mask}, [=, shape = shape->values, m = *mask] {
    draw_mask(m, element_count(shape), p, {seed, offset});
  });
}
OPERATOR(DropoutGenMaskV2Tensor, const IntArray* shape, double p, const Tensor* seed, const Tensor* offset,
         uint64_t in_graph, int, const Tensor* mask) {
  return PLAN(DropoutGenMaskV2Tensor, {seed, offset, mask},
              [=, shape = shape->values, a = *seed, b = *offset, m = *mask] {
                draw_mask(m, element_count(shape), p, state_of(a, b, in_graph));
              });
}
OPERATOR(DropoutDoMask, const Tensor* self, const Tensor* mask, double p, const Tensor* out) {
  return PLAN(DropoutDoMask, {self, mask, out}, [=, a = *self, m = *mask, o = *out] {
    std::vector<double> values = read<double>(a);
    std::vector<int64_t> bytes = read<int64_t>(m);
    for (size_t i = 0; i < values.size(); i++) values[i] = bytes[i / 8] >> (i % 8) & 1 ? values[i] / (1 - p) : 0;
    write(o, values);
  });
}
