// Operators over lists of tensors, as optimisers use them.
#include "operators/elementwise.h"

using namespace sim;

namespace {

std::vector<Tensor> all_of(std::initializer_list<const TensorList*> lists) {
  std::vector<Tensor> all;
  for (const TensorList* list : lists) all.insert(all.end(), list->tensors.begin(), list->tensors.end());
  return all;
}

template <class F>
void each(const std::vector<Tensor>& a, const std::vector<Tensor>& out, F f) {
  for (size_t i = 0; i < a.size(); i++) f(i, a[i], out[i]);
}
Scalar scalar_of(const Tensor& t) { return Scalar{t.dtype, read<double>(t)[0], read<int64_t>(t)[0]}; }
template <class T>
T power(T x, T y) {
  return static_cast<T>(std::pow(static_cast<double>(x), static_cast<double>(y)));
}

}  // namespace

#define FOREACH_UNARY(NAME, EXPRESSION)                                                                                \
  OPERATOR(Foreach##NAME, const TensorList* self, const TensorList* out) {                                             \
    return PLAN(Foreach##NAME, all_of({self, out}), [a = self->tensors, o = out->tensors] {                            \
      each(a, o, [](size_t, const Tensor& x, const Tensor& y) { apply1(x, y, [](double x) { return EXPRESSION; }); }); \
    });                                                                                                                \
  }
FOREACH_UNARY(Abs, std::fabs(x))
FOREACH_UNARY(Cos, std::cos(x))
FOREACH_UNARY(Sin, std::sin(x))
FOREACH_UNARY(Tan, std::tan(x))
FOREACH_UNARY(Tanh, std::tanh(x))
FOREACH_UNARY(Exp, std::exp(x))
FOREACH_UNARY(Expm1, std::expm1(x))
FOREACH_UNARY(Erf, std::erf(x))
FOREACH_UNARY(Log, std::log(x))
FOREACH_UNARY(Log10, std::log10(x))
FOREACH_UNARY(Log1p, std::log1p(x))
FOREACH_UNARY(Log2, std::log2(x))
FOREACH_UNARY(Neg, -x)
FOREACH_UNARY(Reciprocal, 1 / x)
FOREACH_UNARY(Sigmoid, 1 / (1 + std::exp(-x)))
FOREACH_UNARY(Sqrt, std::sqrt(x))

OPERATOR(ForeachCopy, const TensorList* self, const TensorList* out) {
  return PLAN(ForeachCopy, all_of({self, out}), [a = self->tensors, o = out->tensors] {
    each(a, o, [](size_t, const Tensor& x, const Tensor& y) { copy_elements(x, y); });
  });
}
OPERATOR(ForeachZeroInplace, const TensorList* self) {
  return PLAN(ForeachZeroInplace, all_of({self}), [a = self->tensors] {
    for (const Tensor& x : a) fill(x, Scalar{kInt64, 0, 0});
  });
}

// With a scalar held in a tensor, a host scalar (V2), or one scalar each (ScalarList).
#define FOREACH_SCALAR(NAME, EXPRESSION)                                                                           \
  OPERATOR(Foreach##NAME##Scalar, const TensorList* self, const Tensor* scalar, const TensorList* out) {           \
    return PLAN(Foreach##NAME##Scalar, all_of({self, out}), [a = self->tensors, s = *scalar, o = out->tensors] {   \
      each(a, o, [&](size_t, const Tensor& x, const Tensor& y) {                                                   \
        apply_scalar(x, scalar_of(s), y, [](auto x, auto y) { return EXPRESSION; });                               \
      });                                                                                                          \
    });                                                                                                            \
  }                                                                                                                \
  OPERATOR(Foreach##NAME##ScalarV2, const TensorList* self, const Scalar* scalar, const TensorList* out) {         \
    return PLAN(Foreach##NAME##ScalarV2, all_of({self, out}), [a = self->tensors, s = *scalar, o = out->tensors] { \
      each(a, o, [&](size_t, const Tensor& x, const Tensor& y) {                                                   \
        apply_scalar(x, s, y, [](auto x, auto y) { return EXPRESSION; });                                          \
      });                                                                                                          \
    });                                                                                                            \
  }                                                                                                                \
  OPERATOR(Foreach##NAME##ScalarList, const TensorList* self, const ScalarList* scalars, const TensorList* out) {  \
    return PLAN(Foreach##NAME##ScalarList, all_of({self, out}),                                                    \
                [a = self->tensors, s = scalars->scalars, o = out->tensors] {                                      \
                  each(a, o, [&](size_t i, const Tensor& x, const Tensor& y) {                                     \
                    apply_scalar(x, s[i], y, [](auto x, auto y) { return EXPRESSION; });                           \
                  });                                                                                              \
                });                                                                                                \
  }
FOREACH_SCALAR(Add, add(x, y))
FOREACH_SCALAR(Sub, subtract(x, y))
FOREACH_SCALAR(Mul, multiply(x, y))
FOREACH_SCALAR(Div, static_cast<double>(x) / static_cast<double>(y))
FOREACH_SCALAR(Maximum, x > y ? x : y)
FOREACH_SCALAR(Minimum, x < y ? x : y)
FOREACH_SCALAR(Pow, power(x, y))

#define FOREACH_LIST(NAME, EXPRESSION)                                                                    \
  OPERATOR(Foreach##NAME##List, const TensorList* self, const TensorList* other, const TensorList* out) { \
    return PLAN(Foreach##NAME##List, all_of({self, other, out}),                                          \
                [a = self->tensors, b = other->tensors, o = out->tensors] {                               \
                  each(a, o, [&](size_t i, const Tensor& x, const Tensor& y) {                            \
                    apply2(x, b[i], y, [](auto x, auto y) { return EXPRESSION; });                        \
                  });                                                                                     \
                });                                                                                       \
  }
FOREACH_LIST(Mul, multiply(x, y))
FOREACH_LIST(Div, static_cast<double>(x) / static_cast<double>(y))
FOREACH_LIST(Maximum, x > y ? x : y)
FOREACH_LIST(Minimum, x < y ? x : y)

#define FOREACH_ALPHA(NAME, SCALAR_TYPE, GET, EXPRESSION)                                                            \
  OPERATOR(NAME, const TensorList* self, const TensorList* other, const SCALAR_TYPE* alpha, const TensorList* out) { \
    return PLAN(NAME, all_of({self, other, out}),                                                                    \
                [a = self->tensors, b = other->tensors, s = *alpha, o = out->tensors] {                              \
                  Scalar alpha = GET;                                                                                \
                  each(a, o, [&](size_t i, const Tensor& x, const Tensor& y) {                                       \
                    apply2(x, b[i], y, [&](auto x, auto y) {                                                         \
                      auto k = alpha.as<decltype(x)>();                                                              \
                      return EXPRESSION;                                                                             \
                    });                                                                                              \
                  });                                                                                                \
                });                                                                                                  \
  }
FOREACH_ALPHA(ForeachAddList, Tensor, scalar_of(s), add(x, multiply(k, y)))
FOREACH_ALPHA(ForeachAddListV2, Scalar, s, add(x, multiply(k, y)))
FOREACH_ALPHA(ForeachSubList, Tensor, scalar_of(s), subtract(x, multiply(k, y)))
FOREACH_ALPHA(ForeachSubListV2, Scalar, s, subtract(x, multiply(k, y)))
FOREACH_ALPHA(ForeachLerpScalar, Scalar, s, x + k * (y - x))

#define FOREACH_FUSED(NAME, SCALAR_TYPE, GET, EXPRESSION)                                                      \
  OPERATOR(NAME, const TensorList* self, const TensorList* t1, const TensorList* t2, const SCALAR_TYPE* value, \
           const TensorList* out) {                                                                            \
    return PLAN(NAME, all_of({self, t1, t2, out}),                                                             \
                [a = self->tensors, b = t1->tensors, c = t2->tensors, s = *value, o = out->tensors] {          \
                  each(a, o, [&](size_t i, const Tensor& x, const Tensor& y) {                                 \
                    double k = (GET).template as<double>();                                                    \
                    (void)i;                                                                                   \
                    apply3(                                                                                    \
                        x, b[i], c[i], y, [k](double x, double y, double z) { return EXPRESSION; }, true);     \
                  });                                                                                          \
                });                                                                                            \
  }
FOREACH_FUSED(ForeachAddcmulScalar, Tensor, scalar_of(s), x + k * y * z)
FOREACH_FUSED(ForeachAddcmulScalarV2, Scalar, s, x + k * y * z)
FOREACH_FUSED(ForeachAddcmulScalarList, ScalarList, s.scalars[i], x + k * y * z)
FOREACH_FUSED(ForeachAddcdivScalar, Tensor, scalar_of(s), x + k * y / z)
FOREACH_FUSED(ForeachAddcdivScalarV2, Scalar, s, x + k * y / z)
FOREACH_FUSED(ForeachAddcdivScalarList, Tensor, (Scalar{kDouble, read<double>(s)[i], 0}), x + k * y / z)
