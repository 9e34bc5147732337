// Elementwise operators of three operands: clamps, selections, fused multiply-adds, interpolation.
#include <algorithm>

#include "operators/elementwise.h"

using namespace sim;

namespace {

template <class T>
T clamp_to(T x, const T* low, const T* high) {
  if (low && x < *low) x = *low;
  if (high && x > *high) x = *high;
  return x;
}

void clamp_scalars(const Tensor& a, const Scalar* low, const Scalar* high, const Tensor& out) {
  bool floating = is_floating(a.dtype) || (low && is_floating(low->dtype)) || (high && is_floating(high->dtype));
  in_type(floating, [&](auto zero) {
    using T = decltype(zero);
    T lower = low ? low->as<T>() : T(0), upper = high ? high->as<T>() : T(0);
    std::vector<T> x = read<T>(a, out.shape);
    for (T& value : x) value = clamp_to(value, low ? &lower : nullptr, high ? &upper : nullptr);
    write(out, x);
  });
}

struct MaybeScalar {
  bool present;
  Scalar scalar;
  MaybeScalar(const Scalar* pointer) : present(pointer != nullptr), scalar(pointer ? *pointer : Scalar{}) {}
  const Scalar* get() const { return present ? &scalar : nullptr; }
};

template <class T>
T lerp_of(T from, T to, T weight) {
  return weight < 0.5 ? from + weight * (to - from) : to - (to - from) * (1 - weight);
}

}  // namespace

OPERATOR(Clamp, const Tensor* self, const Scalar* low, const Scalar* high, const Tensor* out) {
  return PLAN(Clamp, {self, out}, [a = *self, low = MaybeScalar(low), high = MaybeScalar(high), o = *out] {
    clamp_scalars(a, low.get(), high.get(), o);
  });
}
OPERATOR(Hardtanh, const Tensor* self, const Scalar* low, const Scalar* high, const Tensor* out) {
  return PLAN(Hardtanh, {self, out}, [a = *self, l = *low, h = *high, o = *out] { clamp_scalars(a, &l, &h, o); });
}
OPERATOR(InplaceHardtanh, const Tensor* self, const Scalar* low, const Scalar* high) {
  return PLAN(InplaceHardtanh, {self}, [a = *self, l = *low, h = *high] { clamp_scalars(a, &l, &h, a); });
}
OPERATOR(ClampTensor, const Tensor* self, const Tensor* low, const Tensor* high, const Tensor* out) {
  return PLAN(
      ClampTensor, {self, low, high, out}, [a = *self, low = MaybeTensor(low), high = MaybeTensor(high), o = *out] {
        bool floating = is_floating(a.dtype) || (low && is_floating(low->dtype)) || (high && is_floating(high->dtype));
        in_type(floating, [&](auto zero) {
          using T = decltype(zero);
          std::vector<T> x = read<T>(a, o.shape), l, h;
          if (low) l = read<T>(*low, o.shape);
          if (high) h = read<T>(*high, o.shape);
          for (size_t i = 0; i < x.size(); i++) x[i] = clamp_to(x[i], low ? &l[i] : nullptr, high ? &h[i] : nullptr);
          write(o, x);
        });
      });
}

OPERATOR(SWhere, const Tensor* condition, const Tensor* self, const Tensor* other, const Tensor* out) {
  return PLAN(SWhere, {condition, self, other, out}, [c = *condition, a = *self, b = *other, o = *out] {
    std::vector<int64_t> chosen = read<int64_t>(c, o.shape);
    in_type(is_floating(a.dtype) || is_floating(b.dtype), [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> x = read<T>(a, o.shape), y = read<T>(b, o.shape);
      for (size_t i = 0; i < x.size(); i++)
        if (!chosen[i]) x[i] = y[i];
      write(o, x);
    });
  });
}

template <class Value>
static void masked_fill(const Tensor& out, const Tensor& mask, Value value) {
  std::vector<int64_t> chosen = read<int64_t>(mask, out.shape);
  size_t i = 0;
  for_each_element(out, out.shape, [&](char* address) {
    if (chosen[i++]) store(address, out.dtype, value);
  });
}
OPERATOR(InplaceMaskedFillScalar, const Tensor* self, const Tensor* mask, const Scalar* value) {
  return PLAN(InplaceMaskedFillScalar, {self, mask}, [a = *self, m = *mask, v = *value] {
    if (is_floating(v.dtype))
      masked_fill(a, m, v.real);
    else
      masked_fill(a, m, v.integer);
  });
}
OPERATOR(InplaceMaskedFillTensor, const Tensor* self, const Tensor* mask, const Tensor* value) {
  return PLAN(InplaceMaskedFillTensor, {self, mask, value}, [a = *self, m = *mask, v = *value] {
    if (is_floating(v.dtype))
      masked_fill(a, m, read<double>(v)[0]);
    else
      masked_fill(a, m, read<int64_t>(v)[0]);
  });
}

#define ADD_FUSED(NAME, EXPRESSION)                                                                                \
  static void NAME##_of(const Tensor& a, const Tensor& b, const Tensor& c, const Scalar& value, const Tensor& o) { \
    apply3(                                                                                                        \
        a, b, c, o,                                                                                                \
        [&](auto x, auto y, auto z) {                                                                              \
          auto k = value.as<decltype(x)>();                                                                        \
          return EXPRESSION;                                                                                       \
        },                                                                                                         \
        is_floating(value.dtype));                                                                                 \
  }                                                                                                                \
  OPERATOR(NAME, const Tensor* self, const Tensor* t1, const Tensor* t2, const Scalar* value, const Tensor* out) { \
    return PLAN(NAME, {self, t1, t2, out},                                                                         \
                [a = *self, b = *t1, c = *t2, v = *value, o = *out] { NAME##_of(a, b, c, v, o); });                \
  }                                                                                                                \
  OPERATOR(Inplace##NAME, const Tensor* self, const Tensor* t1, const Tensor* t2, const Scalar* value) {           \
    return PLAN(Inplace##NAME, {self, t1, t2},                                                                     \
                [a = *self, b = *t1, c = *t2, v = *value] { NAME##_of(a, b, c, v, a); });                          \
  }
ADD_FUSED(Addcmul, add(x, multiply(k, multiply(y, z))))
ADD_FUSED(Addcdiv, static_cast<double>(x) + static_cast<double>(k) * static_cast<double>(y) / static_cast<double>(z))

OPERATOR(Lerp, const Tensor* self, const Tensor* end, const Tensor* weight, const Tensor* out) {
  return PLAN(Lerp, {self, end, weight, out}, [a = *self, b = *end, w = *weight, o = *out] {
    apply3(
        a, b, w, o, [](double x, double y, double z) { return lerp_of(x, y, z); }, true);
  });
}
OPERATOR(InplaceLerp, const Tensor* self, const Tensor* end, const Tensor* weight) {
  return PLAN(InplaceLerp, {self, end, weight}, [a = *self, b = *end, w = *weight] {
    apply3(
        a, b, w, a, [](double x, double y, double z) { return lerp_of(x, y, z); }, true);
  });
}
OPERATOR(Lerps, const Tensor* self, const Tensor* end, const Scalar* weight, const Tensor* out) {
  return PLAN(Lerps, {self, end, out}, [a = *self, b = *end, w = weight->as<double>(), o = *out] {
    apply2(
        a, b, o, [w](double x, double y) { return lerp_of(x, y, w); }, true);
  });
}
OPERATOR(InplaceLerps, const Tensor* self, const Tensor* end, const Scalar* weight) {
  return PLAN(InplaceLerps, {self, end}, [a = *self, b = *end, w = weight->as<double>()] {
    apply2(
        a, b, a, [w](double x, double y) { return lerp_of(x, y, w); }, true);
  });
}

OPERATOR(Threshold, const Tensor* self, const Scalar* threshold, const Scalar* value, const Tensor* out) {
  return PLAN(Threshold, {self, out}, [a = *self, t = *threshold, v = *value, o = *out] {
    apply1(a, o, [&](auto x) {
      using T = decltype(x);
      return x > t.as<T>() ? x : v.as<T>();
    });
  });
}
