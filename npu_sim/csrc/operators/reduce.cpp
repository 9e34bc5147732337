// Reductions, cumulative sums and extreme values along dimensions.
#include <algorithm>
#include <numeric>

#include "operators/lines.h"

using namespace sim;

namespace {

using Dims = std::vector<int64_t>;

template <class T>
bool is_nan(T x) {
  return x != x;
}

template <class T>
T sum_of(const std::vector<T>& values) {
  T total = 0;
  for (T value : values) total = add(total, value);
  return total;
}
template <class T>
T product_of(const std::vector<T>& values) {
  T total = 1;
  for (T value : values) total = multiply(total, value);
  return total;
}
// The position of the largest (or smallest) value; the first one, and a NaN before all.
template <class T>
size_t extreme_at(const std::vector<T>& values, bool largest) {
  size_t best = 0;
  for (size_t i = 0; i < values.size(); i++) {
    if (is_nan(values[best])) break;
    if (is_nan(values[i]) || (largest ? values[i] > values[best] : values[i] < values[best])) best = i;
  }
  return best;
}

template <class F>
void reduce(const Tensor& in, const Dims& dims, const Tensor& out, bool force_double, F f) {
  in_type(force_double || is_floating(in.dtype), [&](auto zero) {
    using T = decltype(zero);
    using R = StoredAs<decltype(f(std::vector<T>()))>;
    std::vector<R> results;
    for (const auto& group : grouped<T>(in, dims)) results.push_back(static_cast<R>(f(group)));
    write(out, results);
  });
}

// The sum goes in the type of the result: bool and int8 are summed as int64, int64 into float as double.
void reduce_sum(const Tensor& in, const Dims& dims, const Tensor& out) {
  reduce(in, dims, out, is_floating(out.dtype), [](const auto& group) { return sum_of(group); });
}

double mean_of(const std::vector<double>& values) { return sum_of(values) / static_cast<double>(values.size()); }
double variance_of(const std::vector<double>& values, double correction) {
  double mean = mean_of(values), total = 0;
  for (double value : values) total += (value - mean) * (value - mean);
  return total / std::max(0.0, static_cast<double>(values.size()) - correction);
}

double norm_of(const std::vector<double>& values, double p) {
  double total = p == -INFINITY ? INFINITY : 0;
  for (double value : values) {
    double size = std::fabs(value);
    if (p == INFINITY)
      total = std::max(total, size);
    else if (p == -INFINITY)
      total = std::min(total, size);
    else if (p == 0)
      total += size != 0;
    else
      total += std::pow(size, p);
  }
  return std::isinf(p) || p == 0 ? total : std::pow(total, 1 / p);
}

// Values and positions of extremes along one dimension.
void extreme_dim(const Tensor& in, int64_t dim, bool largest, const Tensor* values, const Tensor* indices) {
  in_type(is_floating(in.dtype), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> best;
    std::vector<int64_t> where;
    for (const auto& group : grouped<T>(in, in.shape.empty() ? Dims{} : Dims{dim})) {
      size_t at = extreme_at(group, largest);
      best.push_back(group[at]);
      where.push_back(static_cast<int64_t>(at));
    }
    if (values) write(*values, best);
    if (indices) write(*indices, where);
  });
}

template <class F>
void scan(const Tensor& in, int64_t dim, const Tensor& out, F f) {
  dim = wrap_dim(dim, in.dims());
  in_type(is_floating(in.dtype) || is_floating(out.dtype), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> values = read<T>(in);
    Lines lines(in.shape, dim);
    for (int64_t line = 0; line < lines.count; line++)
      for (int64_t i = 1; i < lines.length; i++)
        values[lines.at(line, i)] = f(values[lines.at(line, i - 1)], values[lines.at(line, i)]);
    write(out, values);
  });
}

}  // namespace

OPERATOR(ReduceSum, const Tensor* self, const IntArray* dims, bool, int, const Tensor* out) {
  return PLAN(ReduceSum, {self, out}, [a = *self, d = dims->values, o = *out] { reduce_sum(a, d, o); });
}
OPERATOR(Mean, const Tensor* self, const IntArray* dims, bool, int, const Tensor* out) {
  return PLAN(Mean, {self, out}, [a = *self, d = dims->values, o = *out] {
    reduce(a, d, o, true, [](const auto& g) { return mean_of({g.begin(), g.end()}); });
  });
}
OPERATOR(Prod, const Tensor* self, int, const Tensor* out) {
  return PLAN(Prod, {self, out}, [a = *self, o = *out] {
    reduce(a, {}, o, is_floating(o.dtype), [](const auto& g) { return product_of(g); });
  });
}
OPERATOR(ProdDim, const Tensor* self, int64_t dim, bool, int, const Tensor* out) {
  return PLAN(ProdDim, {self, out}, [a = *self, dim, o = *out] {
    reduce(a, {dim}, o, is_floating(o.dtype), [](const auto& g) { return product_of(g); });
  });
}
OPERATOR(All, const Tensor* self, const IntArray* dims, bool, const Tensor* out) {
  return PLAN(All, {self, out}, [a = *self, d = dims->values, o = *out] {
    reduce(a, d, o, false,
           [](const auto& g) { return std::all_of(g.begin(), g.end(), [](auto x) { return x != 0; }); });
  });
}
OPERATOR(Any, const Tensor* self, const IntArray* dims, bool, const Tensor* out) {
  return PLAN(Any, {self, out}, [a = *self, d = dims->values, o = *out] {
    reduce(a, d, o, false,
           [](const auto& g) { return std::any_of(g.begin(), g.end(), [](auto x) { return x != 0; }); });
  });
}

#define EXTREME(NAME, LARGEST)                                                                                      \
  OPERATOR(NAME, const Tensor* self, const Tensor* out) {                                                           \
    return PLAN(NAME, {self, out}, [a = *self, o = *out] {                                                          \
      reduce(a, {}, o, false, [](const auto& g) { return g[extreme_at(g, LARGEST)]; });                             \
    });                                                                                                             \
  }                                                                                                                 \
  OPERATOR(NAME##Dim, const Tensor* self, int64_t dim, bool, const Tensor* out, const Tensor* indices) {            \
    return PLAN(NAME##Dim, {self, out, indices},                                                                    \
                [a = *self, dim, o = *out, i = *indices] { extreme_dim(a, dim, LARGEST, &o, &i); });                \
  }                                                                                                                 \
  OPERATOR(Arg##NAME, const Tensor* self, int64_t dim, bool, const Tensor* out) {                                   \
    return PLAN(Arg##NAME, {self, out}, [a = *self, dim, o = *out] { extreme_dim(a, dim, LARGEST, nullptr, &o); }); \
  }
EXTREME(Max, true)
EXTREME(Min, false)

#define EXTREME_DIMS(NAME, LARGEST)                                                    \
  OPERATOR(NAME, const Tensor* self, const IntArray* dims, bool, const Tensor* out) {  \
    return PLAN(NAME, {self, out}, [a = *self, d = dims->values, o = *out] {           \
      reduce(a, d, o, false, [](const auto& g) { return g[extreme_at(g, LARGEST)]; }); \
    });                                                                                \
  }
EXTREME_DIMS(Amax, true)
EXTREME_DIMS(Amin, false)

OPERATOR(LogSumExp, const Tensor* self, const IntArray* dims, bool, const Tensor* out) {
  return PLAN(LogSumExp, {self, out}, [a = *self, d = dims->values, o = *out] {
    reduce(a, d, o, true, [](const auto& g) -> double {
      if (g.empty()) return -INFINITY;
      double largest = static_cast<double>(g[extreme_at(g, true)]), total = 0;
      if (std::isinf(largest)) return largest;
      for (auto x : g) total += std::exp(static_cast<double>(x) - largest);
      return largest + std::log(total);
    });
  });
}
OPERATOR(Norm, const Tensor* self, const Scalar* p, const IntArray* dims, bool, const Tensor* out) {
  return PLAN(Norm, {self, out}, [a = *self, p = p->as<double>(), d = dims->values, o = *out] {
    reduce(a, d, o, true, [p](const auto& g) { return norm_of({g.begin(), g.end()}, p); });
  });
}
OPERATOR(LinalgVectorNorm, const Tensor* self, const Scalar* p, const IntArray* dims, bool, int, const Tensor* out) {
  Dims reduced = dims ? dims->values : Dims{};
  return PLAN(LinalgVectorNorm, {self, out}, [a = *self, p = p->as<double>(), d = reduced, o = *out] {
    reduce(a, d, o, true, [p](const auto& g) { return norm_of({g.begin(), g.end()}, p); });
  });
}

OPERATOR(Std, const Tensor* self, const IntArray* dims, int64_t correction, bool, const Tensor* out) {
  return PLAN(Std, {self, out}, [a = *self, d = dims->values, correction, o = *out] {
    reduce(a, d, o, true, [correction](const auto& g) {
      return std::sqrt(variance_of({g.begin(), g.end()}, static_cast<double>(correction)));
    });
  });
}
OPERATOR(VarCorrection, const Tensor* self, const IntArray* dims, int64_t correction, bool, const Tensor* out) {
  return PLAN(VarCorrection, {self, out}, [a = *self, d = dims->values, correction, o = *out] {
    reduce(a, d, o, true, [correction](const auto& g) {
      return variance_of({g.begin(), g.end()}, static_cast<double>(correction));
    });
  });
}
OPERATOR(VarMean, const Tensor* self, const IntArray* dims, int64_t correction, bool, const Tensor* var,
         const Tensor* mean) {
  return PLAN(VarMean, {self, var, mean}, [a = *self, d = dims->values, correction, v = *var, m = *mean] {
    reduce(a, d, v, true, [correction](const auto& g) {
      return variance_of({g.begin(), g.end()}, static_cast<double>(correction));
    });
    reduce(a, d, m, true, [](const auto& g) { return mean_of({g.begin(), g.end()}); });
  });
}
OPERATOR(StdMeanCorrection, const Tensor* self, const IntArray* dims, int64_t correction, bool, const Tensor* std,
         const Tensor* mean) {
  return PLAN(StdMeanCorrection, {self, std, mean}, [a = *self, d = dims->values, correction, s = *std, m = *mean] {
    reduce(a, d, s, true, [correction](const auto& g) {
      return std::sqrt(variance_of({g.begin(), g.end()}, static_cast<double>(correction)));
    });
    reduce(a, d, m, true, [](const auto& g) { return mean_of({g.begin(), g.end()}); });
  });
}

OPERATOR(Cumsum, const Tensor* self, int64_t dim, int, const Tensor* out) {
  return PLAN(Cumsum, {self, out},
              [a = *self, dim, o = *out] { scan(a, dim, o, [](auto x, auto y) { return add(x, y); }); });
}
OPERATOR(Cumprod, const Tensor* self, const Scalar* dim, int, const Tensor* out) {
  return PLAN(Cumprod, {self, out}, [a = *self, dim = dim->as<int64_t>(), o = *out] {
    scan(a, dim, o, [](auto x, auto y) { return multiply(x, y); });
  });
}

OPERATOR(Equal, const Tensor* self, const Tensor* other, const Tensor* out) {
  return PLAN(Equal, {self, other, out}, [a = *self, b = *other, o = *out] {
    bool same = a.shape == b.shape;
    if (same)
      in_type(is_floating(a.dtype) || is_floating(b.dtype), [&](auto zero) {
        using T = decltype(zero);
        same = read<T>(a) == read<T>(b);
      });
    write(o, std::vector<int64_t>{same});
  });
}

// ---------------------------------------------------------------- sorting
namespace {

// Positions of a line in order; NaN counts as the largest value, equal values keep their order.
template <class T>
std::vector<int64_t> sorted_positions(const std::vector<T>& values, const Lines& lines, int64_t line, bool descending) {
  std::vector<int64_t> order(static_cast<size_t>(lines.length));
  std::iota(order.begin(), order.end(), 0);
  auto value = [&](int64_t i) { return values[lines.at(line, i)]; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    T x = value(i), y = value(j);
    if (descending) return is_nan(x) ? !is_nan(y) : x > y;
    return is_nan(y) ? !is_nan(x) : x < y;
  });
  return order;
}

void top_k(const Tensor& in, int64_t k, int64_t dim, bool descending, const Tensor& values, const Tensor& indices) {
  dim = wrap_dim(dim, in.dims());
  in_type(is_floating(in.dtype), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> x = read<T>(in);
    Lines from(in.shape, dim), to(values.shape, dim);
    std::vector<T> best(static_cast<size_t>(values.count()));
    std::vector<int64_t> where(best.size());
    for (int64_t line = 0; line < from.count; line++) {
      std::vector<int64_t> order = sorted_positions(x, from, line, descending);
      for (int64_t i = 0; i < k; i++) {
        best[to.at(line, i)] = x[from.at(line, order[static_cast<size_t>(i)])];
        where[to.at(line, i)] = order[static_cast<size_t>(i)];
      }
    }
    write(values, best);
    write(indices, where);
  });
}

}  // namespace

OPERATOR(Sort, const Tensor* self, bool, int64_t dim, bool descending, const Tensor* values, const Tensor* indices) {
  return PLAN(Sort, {self, values, indices}, [a = *self, dim, descending, v = *values, i = *indices] {
    int64_t length = a.shape.empty() ? 1 : a.size(dim);
    top_k(a, length, dim, descending, v, i);
  });
}
OPERATOR(Topk, const Tensor* self, int64_t k, int64_t dim, bool largest, bool, const Tensor* values,
         const Tensor* indices) {
  return PLAN(Topk, {self, values, indices},
              [a = *self, k, dim, largest, v = *values, i = *indices] { top_k(a, k, dim, largest, v, i); });
}
