// Elementwise operators of two tensors, or of a tensor and a scalar.
#include "operators/elementwise.h"

using namespace sim;

namespace {

int64_t floor_divide(int64_t x, int64_t y) {
  if (y == 0) return 0;
  if (y == -1) return negate(x);
  return x / y - (x % y != 0 && (x < 0) != (y < 0));
}
double floor_divide(double x, double y) {  // as torch: the quotient that goes with the remainder
  double remainder = std::fmod(x, y), quotient = (x - remainder) / y;
  if (remainder != 0 && (y < 0) != (remainder < 0)) quotient -= 1;
  if (y == 0) return x / y;
  if (quotient == 0) return std::copysign(0.0, x / y);
  double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}
double quotient(double x, double y) { return x / y; }
double quotient(int64_t x, int64_t y) { return static_cast<double>(x) / static_cast<double>(y); }
Complex quotient(Complex x, Complex y) { return x / y; }
int64_t truncate_divide(int64_t x, int64_t y) { return y == 0 ? 0 : y == -1 ? negate(x) : x / y; }
double truncate_divide(double x, double y) { return std::trunc(x / y); }
int64_t remainder_of(int64_t x, int64_t y) {
  if (y == 0 || y == -1) return 0;
  int64_t r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
double remainder_of(double x, double y) {
  double r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
int64_t fmod_of(int64_t x, int64_t y) { return y == 0 || y == -1 ? 0 : x % y; }
double fmod_of(double x, double y) { return std::fmod(x, y); }
int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  int64_t result = 1;
  for (; exponent; exponent >>= 1, base = multiply(base, base))
    if (exponent & 1) result = multiply(result, base);
  return result;
}
double power(double base, double exponent) { return std::pow(base, exponent); }
template <class T>
T greater_of(T x, T y) {
  return x != x || y != y ? x + y : x > y ? x : y;  // a NaN wins, as in torch
}
template <class T>
T smaller_of(T x, T y) {
  return x != x || y != y ? x + y : x < y ? x : y;
}
int64_t greatest_divisor(int64_t x, int64_t y) {
  while (y) {
    int64_t rest = y == -1 ? 0 : x % y;
    x = y;
    y = rest;
  }
  return x < 0 ? negate(x) : x;
}
int64_t shift_left(int64_t x, int64_t n) { return n < 0 || n > 63 ? 0 : wrap(bits(x) << n); }
int64_t shift_right(int64_t x, int64_t n) { return x >> (n < 0 || n > 63 ? 63 : n); }
bool is_float_scalar(const Scalar& s) { return is_floating(s.dtype); }

}  // namespace

// ---------------------------------------------------------------- with a factor alpha
#define WITH_ALPHA(NAME, EXPRESSION)                                                                                 \
  OPERATOR(NAME, const Tensor* self, const Tensor* other, const Scalar* alpha, const Tensor* out) {                  \
    return PLAN(NAME, {self, other, out}, [a = *self, b = *other, k = *alpha, o = *out] { NAME##_of(a, b, k, o); }); \
  }                                                                                                                  \
  OPERATOR(NAME##s, const Tensor* self, const Scalar* other, const Scalar* alpha, const Tensor* out) {               \
    return PLAN(NAME##s, {self, out}, [a = *self, b = *other, k = *alpha, o = *out] { NAME##_of(a, b, k, o); });     \
  }                                                                                                                  \
  OPERATOR(Inplace##NAME, const Tensor* self, const Tensor* other, const Scalar* alpha) {                            \
    return PLAN(Inplace##NAME, {self, other}, [a = *self, b = *other, k = *alpha] { NAME##_of(a, b, k, a); });       \
  }                                                                                                                  \
  OPERATOR(Inplace##NAME##s, const Tensor* self, const Scalar* other, const Scalar* alpha) {                         \
    return PLAN(Inplace##NAME##s, {self}, [a = *self, b = *other, k = *alpha] { NAME##_of(a, b, k, a); });           \
  }
#define ALPHA_KERNELS(NAME, EXPRESSION)                                                           \
  static void NAME##_of(const Tensor& a, const Tensor& b, const Scalar& alpha, const Tensor& o) { \
    apply2(a, b, o, also_complex([&](auto x, auto y) {                                            \
             auto k = alpha.as<decltype(x)>();                                                    \
             return EXPRESSION;                                                                   \
           }),                                                                                    \
           is_float_scalar(alpha));                                                               \
  }                                                                                               \
  static void NAME##_of(const Tensor& a, const Scalar& b, const Scalar& alpha, const Tensor& o) { \
    apply_scalar(a, b, o, also_complex([&](auto x, auto y) {                                      \
                   auto k = alpha.as<decltype(x)>();                                              \
                   return EXPRESSION;                                                             \
                 }),                                                                              \
                 is_float_scalar(alpha));                                                         \
  }                                                                                               \
  WITH_ALPHA(NAME, EXPRESSION)

ALPHA_KERNELS(Add, add(x, multiply(k, y)))
ALPHA_KERNELS(Sub, subtract(x, multiply(k, y)))
ALPHA_KERNELS(Rsub, subtract(y, multiply(k, x)))

OPERATOR(Complex, const Tensor* real, const Tensor* imaginary, const Tensor* out) {
  return PLAN(Complex, {real, imaginary, out}, [a = *real, b = *imaginary, o = *out] {
    std::vector<double> x = read<double>(a, o.shape), y = read<double>(b, o.shape);
    std::vector<sim::Complex> z(x.size());
    for (size_t i = 0; i < z.size(); i++) z[i] = {x[i], y[i]};
    write(o, z);
  });
}

// ---------------------------------------------------------------- plain binary
#define TENSOR_TENSOR_AS(NAME, KIND, EXPRESSION)                                                                \
  OPERATOR(NAME, const Tensor* self, const Tensor* other, const Tensor* out) {                                  \
    return PLAN(NAME, {self, other, out}, [a = *self, b = *other, o = *out] {                                   \
      apply2(a, b, o, KIND([](auto x, auto y) { return EXPRESSION; }));                                         \
    });                                                                                                         \
  }                                                                                                             \
  OPERATOR(Inplace##NAME, const Tensor* self, const Tensor* other) {                                            \
    return PLAN(Inplace##NAME, {self, other},                                                                   \
                [a = *self, b = *other] { apply2(a, b, a, KIND([](auto x, auto y) { return EXPRESSION; })); }); \
  }
#define TENSOR_SCALAR_AS(NAME, KIND, EXPRESSION)                                                                      \
  OPERATOR(NAME, const Tensor* self, const Scalar* other, const Tensor* out) {                                        \
    return PLAN(NAME, {self, out}, [a = *self, b = *other, o = *out] {                                                \
      apply_scalar(a, b, o, KIND([](auto x, auto y) { return EXPRESSION; }));                                         \
    });                                                                                                               \
  }                                                                                                                   \
  OPERATOR(Inplace##NAME, const Tensor* self, const Scalar* other) {                                                  \
    return PLAN(Inplace##NAME, {self},                                                                                \
                [a = *self, b = *other] { apply_scalar(a, b, a, KIND([](auto x, auto y) { return EXPRESSION; })); }); \
  }
#define TENSOR_TENSOR(NAME, EXPRESSION) TENSOR_TENSOR_AS(NAME, , EXPRESSION)
#define TENSOR_SCALAR(NAME, EXPRESSION) TENSOR_SCALAR_AS(NAME, , EXPRESSION)
#define AS_DOUBLE(X) static_cast<double>(X)

TENSOR_TENSOR_AS(Mul, also_complex, multiply(x, y))
TENSOR_SCALAR_AS(Muls, also_complex, multiply(x, y))
TENSOR_TENSOR_AS(Div, also_complex, quotient(x, y))
TENSOR_SCALAR_AS(Divs, also_complex, quotient(x, y))
TENSOR_TENSOR(FloorDivide, floor_divide(x, y))
TENSOR_SCALAR(FloorDivides, floor_divide(x, y))
TENSOR_TENSOR(RemainderTensorTensor, remainder_of(x, y))
TENSOR_SCALAR(RemainderTensorScalar, remainder_of(x, y))
TENSOR_TENSOR(FmodTensor, fmod_of(x, y))
TENSOR_SCALAR(FmodScalar, fmod_of(x, y))
TENSOR_TENSOR(PowTensorTensor, power(x, y))
TENSOR_SCALAR(PowTensorScalar, power(x, y))
TENSOR_TENSOR(Maximum, greater_of(x, y))
TENSOR_TENSOR(Minimum, smaller_of(x, y))
TENSOR_TENSOR(Atan2, std::atan2(AS_DOUBLE(x), AS_DOUBLE(y)))
TENSOR_TENSOR(LogAddExp,
              greater_of(AS_DOUBLE(x), AS_DOUBLE(y)) + std::log1p(std::exp(-std::fabs(AS_DOUBLE(x) - AS_DOUBLE(y)))))
TENSOR_TENSOR_AS(EqTensor, also_complex, x == y)
TENSOR_SCALAR_AS(EqScalar, also_complex, x == y)
TENSOR_TENSOR_AS(NeTensor, also_complex, x != y)
TENSOR_SCALAR_AS(NeScalar, also_complex, x != y)
TENSOR_TENSOR(GtTensor, x > y)
TENSOR_SCALAR(GtScalar, x > y)
TENSOR_TENSOR(GeTensor, x >= y)
TENSOR_SCALAR(GeScalar, x >= y)
TENSOR_TENSOR(LtTensor, x < y)
TENSOR_SCALAR(LtScalar, x < y)
TENSOR_TENSOR(LeTensor, x <= y)
TENSOR_SCALAR(LeScalar, x <= y)
TENSOR_SCALAR(LessScalar, x < y)
TENSOR_TENSOR(LogicalAnd, x != 0 && y != 0)
TENSOR_TENSOR(LogicalOr, x != 0 || y != 0)
TENSOR_TENSOR(LogicalXor, (x != 0) != (y != 0))
TENSOR_SCALAR(ClampMin, greater_of(x, y))
TENSOR_SCALAR(ClampMax, smaller_of(x, y))
TENSOR_TENSOR(ClampMinTensor, greater_of(x, y))
TENSOR_TENSOR(ClampMaxTensor, smaller_of(x, y))

#define INTEGER_OP(TENSOR_NAME, SCALAR_NAME, EXPRESSION)                                 \
  OPERATOR(TENSOR_NAME, const Tensor* self, const Tensor* other, const Tensor* out) {    \
    return PLAN(TENSOR_NAME, {self, other, out}, [a = *self, b = *other, o = *out] {     \
      apply2(a, b, o, [](int64_t x, int64_t y) -> int64_t { return EXPRESSION; });       \
    });                                                                                  \
  }                                                                                      \
  OPERATOR(Inplace##TENSOR_NAME, const Tensor* self, const Tensor* other) {              \
    return PLAN(Inplace##TENSOR_NAME, {self, other}, [a = *self, b = *other] {           \
      apply2(a, b, a, [](int64_t x, int64_t y) -> int64_t { return EXPRESSION; });       \
    });                                                                                  \
  }                                                                                      \
  OPERATOR(SCALAR_NAME, const Tensor* self, const Scalar* other, const Tensor* out) {    \
    return PLAN(SCALAR_NAME, {self, out}, [a = *self, b = *other, o = *out] {            \
      apply_scalar(a, b, o, [](int64_t x, int64_t y) -> int64_t { return EXPRESSION; }); \
    });                                                                                  \
  }                                                                                      \
  OPERATOR(Inplace##SCALAR_NAME, const Tensor* self, const Scalar* other) {              \
    return PLAN(Inplace##SCALAR_NAME, {self}, [a = *self, b = *other] {                  \
      apply_scalar(a, b, a, [](int64_t x, int64_t y) -> int64_t { return EXPRESSION; }); \
    });                                                                                  \
  }
INTEGER_OP(BitwiseAndTensor, BitwiseAndScalar, x& y)
INTEGER_OP(BitwiseOrTensor, BitwiseOrScalar, x | y)
INTEGER_OP(BitwiseXorTensor, BitwiseXorScalar, x ^ y)
INTEGER_OP(LeftShift, LeftShifts, shift_left(x, y))
INTEGER_OP(RightShift, RightShifts, shift_right(x, y))
INTEGER_OP(Gcd, Gcds, greatest_divisor(x, y))

OPERATOR(PowScalarTensor, const Scalar* self, const Tensor* exponent, const Tensor* out) {
  return PLAN(PowScalarTensor, {exponent, out}, [s = *self, b = *exponent, o = *out] {
    apply_scalar(b, s, o, [](auto x, auto y) { return power(y, x); });
  });
}
OPERATOR(RemainderScalarTensor, const Scalar* self, const Tensor* other, const Tensor* out) {
  return PLAN(RemainderScalarTensor, {other, out}, [s = *self, b = *other, o = *out] {
    apply_scalar(b, s, o, [](auto x, auto y) { return remainder_of(y, x); });
  });
}

// Division with a rounding mode: 0 none, 1 trunc, 2 floor.
template <class Apply>
static void div_mod(int mode, Apply apply) {
  if (mode == 1)
    apply([](auto x, auto y) { return truncate_divide(x, y); });
  else if (mode == 2)
    apply([](auto x, auto y) { return floor_divide(x, y); });
  else
    apply([](auto x, auto y) { return AS_DOUBLE(x) / AS_DOUBLE(y); });
}
OPERATOR(DivMod, const Tensor* self, const Tensor* other, int mode, const Tensor* out) {
  return PLAN(DivMod, {self, other, out},
              [a = *self, b = *other, mode, o = *out] { div_mod(mode, [&](auto f) { apply2(a, b, o, f); }); });
}
OPERATOR(DivMods, const Tensor* self, const Scalar* other, int mode, const Tensor* out) {
  return PLAN(DivMods, {self, out},
              [a = *self, b = *other, mode, o = *out] { div_mod(mode, [&](auto f) { apply_scalar(a, b, o, f); }); });
}
OPERATOR(InplaceDivMod, const Tensor* self, const Tensor* other, int mode) {
  return PLAN(InplaceDivMod, {self, other},
              [a = *self, b = *other, mode] { div_mod(mode, [&](auto f) { apply2(a, b, a, f); }); });
}
OPERATOR(InplaceDivMods, const Tensor* self, const Scalar* other, int mode) {
  return PLAN(InplaceDivMods, {self},
              [a = *self, b = *other, mode] { div_mod(mode, [&](auto f) { apply_scalar(a, b, a, f); }); });
}

OPERATOR(IsClose, const Tensor* self, const Tensor* other, double relative, double absolute, bool equal_nan,
         const Tensor* out) {
  return PLAN(IsClose, {self, other, out}, [=, a = *self, b = *other, o = *out] {
    apply2(a, b, o, [=](auto x, auto y) {
      double p = AS_DOUBLE(x), q = AS_DOUBLE(y);
      if (x == y || (equal_nan && p != p && q != q)) return true;
      return std::isfinite(p) && std::isfinite(q) && std::fabs(p - q) <= absolute + relative * std::fabs(q);
    });
  });
}
