// Elementwise operators of one tensor.
#include <algorithm>

#include "operators/elementwise.h"

using namespace sim;

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x, double beta, double threshold) {
  return x * beta > threshold ? x : std::log1p(std::exp(x * beta)) / beta;
}
double gelu(double x) { return 0.5 * x * (1 + std::erf(x * M_SQRT1_2)); }
double gelu_tanh(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double round_even(double x) { return std::nearbyint(x); }
int64_t round_even(int64_t x) { return x; }
double floor_of(double x) { return std::floor(x); }
int64_t floor_of(int64_t x) { return x; }
double ceil_of(double x) { return std::ceil(x); }
int64_t ceil_of(int64_t x) { return x; }
double trunc_of(double x) { return std::trunc(x); }
int64_t trunc_of(int64_t x) { return x; }
double sign_of(double x) { return std::isnan(x) ? 0 : (x > 0) - (x < 0); }
int64_t sign_of(int64_t x) { return (x > 0) - (x < 0); }
double magnitude(double x) { return std::fabs(x); }
int64_t magnitude(int64_t x) { return x < 0 ? negate(x) : x; }
double magnitude(Complex x) { return std::abs(x); }
double log2_of(double x) { return std::log2(x); }
Complex log2_of(Complex x) { return std::log(x) / M_LN2; }
double relu(double x) { return x > 0 || std::isnan(x) ? x : 0; }
int64_t relu(int64_t x) { return x > 0 ? x : 0; }
double sinc(double x) { return x == 0 ? 1 : std::sin(M_PI * x) / (M_PI * x); }

// Newton's method on erf; starts from Giles' approximation (2010), which is good to single precision.
double erfinv(double x) {
  if (x <= -1 || x >= 1) return x == 1 ? INFINITY : x == -1 ? -INFINITY : NAN;
  double w = -std::log((1 - x) * (1 + x)), start;
  if (w < 5) {
    w -= 2.5;
    start = x * (1.50140941 + w * (0.246640727 + w * (-0.00417768164 + w * (-0.00125372503 + w * 0.000218580870))));
  } else {
    w = std::sqrt(w) - 3;
    start = x * (2.83297682 + w * (1.00167406 + w * (0.00943887047 + w * (-0.0076224613 + w * 0.00573950773))));
  }
  for (int i = 0; i < 3; i++) start -= (std::erf(start) - x) / (2 / std::sqrt(M_PI) * std::exp(-start * start));
  return start;
}

double round_to(double x, int64_t decimals) {
  double scale = std::pow(10.0, static_cast<double>(decimals < 0 ? -decimals : decimals));
  return decimals < 0 ? std::nearbyint(x / scale) * scale : std::nearbyint(x * scale) / scale;
}

}  // namespace

// A floating result even for integer input.
#define UNARY_MATH(NAME, EXPRESSION)                                                                                  \
  OPERATOR(NAME, const Tensor* self, const Tensor* out) {                                                             \
    return PLAN(NAME, {self, out},                                                                                    \
                [a = *self, o = *out] { apply1(a, o, [](double x) -> double { return EXPRESSION; }); });              \
  }                                                                                                                   \
  OPERATOR(Inplace##NAME, const Tensor* self) {                                                                       \
    return PLAN(Inplace##NAME, {self}, [a = *self] { apply1(a, a, [](double x) -> double { return EXPRESSION; }); }); \
  }
// The same for complex input: z is double or Complex, and an integer becomes a double first.
double real_or_complex(int64_t x) { return static_cast<double>(x); }
double real_or_complex(double x) { return x; }
Complex real_or_complex(Complex x) { return x; }
#define COMPLEX_MATH(NAME, EXPRESSION)                                          \
  static void NAME##_of(const Tensor& a, const Tensor& o) {                     \
    apply1(a, o, also_complex([](auto x) {                                      \
             auto z = real_or_complex(x);                                       \
             return EXPRESSION;                                                 \
           }));                                                                 \
  }                                                                             \
  OPERATOR(NAME, const Tensor* self, const Tensor* out) {                       \
    return PLAN(NAME, {self, out}, [a = *self, o = *out] { NAME##_of(a, o); }); \
  }                                                                             \
  OPERATOR(Inplace##NAME, const Tensor* self) {                                 \
    return PLAN(Inplace##NAME, {self}, [a = *self] { NAME##_of(a, a); });       \
  }
// Integers stay integers; x is double or int64_t.
#define UNARY_SAME(NAME, EXPRESSION)                                                                            \
  OPERATOR(NAME, const Tensor* self, const Tensor* out) {                                                       \
    return PLAN(NAME, {self, out}, [a = *self, o = *out] { apply1(a, o, [](auto x) { return EXPRESSION; }); }); \
  }                                                                                                             \
  OPERATOR(Inplace##NAME, const Tensor* self) {                                                                 \
    return PLAN(Inplace##NAME, {self}, [a = *self] { apply1(a, a, [](auto x) { return EXPRESSION; }); });       \
  }

#define COMPLEX_SAME(NAME, EXPRESSION)                                                                     \
  OPERATOR(NAME, const Tensor* self, const Tensor* out) {                                                  \
    return PLAN(NAME, {self, out},                                                                         \
                [a = *self, o = *out] { apply1(a, o, also_complex([](auto x) { return EXPRESSION; })); }); \
  }                                                                                                        \
  OPERATOR(Inplace##NAME, const Tensor* self) {                                                            \
    return PLAN(Inplace##NAME, {self},                                                                     \
                [a = *self] { apply1(a, a, also_complex([](auto x) { return EXPRESSION; })); });           \
  }

UNARY_MATH(Acos, std::acos(x))
UNARY_MATH(Acosh, std::acosh(x))
UNARY_MATH(Asin, std::asin(x))
UNARY_MATH(Asinh, std::asinh(x))
UNARY_MATH(Atan, std::atan(x))
UNARY_MATH(Atanh, std::atanh(x))
COMPLEX_MATH(Cos, std::cos(z))
COMPLEX_MATH(Cosh, std::cosh(z))
UNARY_MATH(Erf, std::erf(x))
UNARY_MATH(Erfc, std::erfc(x))
UNARY_MATH(Erfinv, erfinv(x))
COMPLEX_MATH(Exp, std::exp(z))
UNARY_MATH(Exp2, std::exp2(x))
UNARY_MATH(Expm1, std::expm1(x))
COMPLEX_MATH(Log, std::log(z))
COMPLEX_MATH(Log10, std::log10(z))
UNARY_MATH(Log1p, std::log1p(x))
COMPLEX_MATH(Log2, log2_of(z))
COMPLEX_MATH(Reciprocal, 1.0 / z)
COMPLEX_MATH(Rsqrt, 1.0 / std::sqrt(z))
UNARY_MATH(Sigmoid, sigmoid(x))
COMPLEX_MATH(Sin, std::sin(z))
UNARY_MATH(Sinc, sinc(x))
COMPLEX_MATH(Sinh, std::sinh(z))
COMPLEX_MATH(Sqrt, std::sqrt(z))
COMPLEX_MATH(Tan, std::tan(z))
UNARY_MATH(Tanh, std::tanh(x))
UNARY_MATH(Silu, x* sigmoid(x))
UNARY_MATH(Gelu, gelu(x))
UNARY_MATH(FastGelu, x / (1 + std::exp(-1.702 * x)))
UNARY_MATH(Mish, x* std::tanh(softplus(x, 1, 20)))
UNARY_MATH(Hardswish, x* std::clamp(x + 3, 0.0, 6.0) / 6)
UNARY_MATH(Hardsigmoid, std::clamp(x + 3, 0.0, 6.0) / 6)
UNARY_MATH(Selu, 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x)))
UNARY_MATH(Frac, x - std::trunc(x))
COMPLEX_SAME(Abs, magnitude(x))
UNARY_SAME(Ceil, ceil_of(x))
UNARY_SAME(Floor, floor_of(x))
COMPLEX_SAME(Neg, negate(x))
UNARY_SAME(Relu, relu(x))
UNARY_SAME(Round, round_even(x))
UNARY_SAME(Sign, sign_of(x))
UNARY_SAME(Trunc, trunc_of(x))
UNARY_SAME(LogicalNot, x == 0)
UNARY_SAME(IsFinite, std::isfinite(static_cast<double>(x)))
UNARY_SAME(IsPosInf, static_cast<double>(x) == INFINITY)
UNARY_SAME(IsNegInf, static_cast<double>(x) == -INFINITY)
UNARY_SAME(Signbit, std::signbit(static_cast<double>(x)))

OPERATOR(BitwiseNot, const Tensor* self, const Tensor* out) {
  return PLAN(BitwiseNot, {self, out}, [a = *self, o = *out] {
    bool boolean = a.dtype == kBool;
    apply1(a, o, [boolean](int64_t x) -> int64_t { return boolean ? !x : ~x; });
  });
}

OPERATOR(GeluV2, const Tensor* self, int64_t approximate, const Tensor* out) {
  return PLAN(GeluV2, {self, out}, [a = *self, o = *out, approximate] {
    apply1(a, o, [approximate](double x) { return approximate == 1 ? gelu_tanh(x) : gelu(x); });
  });
}

OPERATOR(Softplus, const Tensor* self, const Scalar* beta, const Scalar* threshold, const Tensor* out) {
  return PLAN(Softplus, {self, out}, [a = *self, o = *out, b = beta->as<double>(), t = threshold->as<double>()] {
    apply1(a, o, [b, t](double x) { return softplus(x, b, t); });
  });
}

OPERATOR(Elu, const Tensor* self, const Scalar* alpha, const Scalar* scale, const Scalar* input_scale,
         const Tensor* out) {
  return PLAN(Elu, {self, out},
              [a = *self, o = *out, k = alpha->as<double>(), s = scale->as<double>(), i = input_scale->as<double>()] {
                apply1(a, o, [=](double x) { return x > 0 ? s * x : s * k * std::expm1(x * i); });
              });
}

#define LEAKY(NAME, TARGET, ...)                                                          \
  OPERATOR(NAME, const Tensor* self, const Scalar* slope __VA_ARGS__) {                   \
    return PLAN(NAME, {self, TARGET}, [a = *self, o = *TARGET, k = slope->as<double>()] { \
      apply1(a, o, [k](double x) { return x > 0 ? x : k * x; });                          \
    });                                                                                   \
  }
LEAKY(LeakyRelu, out, , const Tensor* out)
LEAKY(InplaceLeakyRelu, self)

static double log_sigmoid(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::fabs(x))); }
OPERATOR(LogSigmoid, const Tensor* self, const Tensor* out) {
  return PLAN(LogSigmoid, {self, out},
              [a = *self, o = *out] { apply1(a, o, [](double x) { return log_sigmoid(x); }); });
}
OPERATOR(LogSigmoidForward, const Tensor* self, const Tensor* out, const Tensor*) {
  return PLAN(LogSigmoidForward, {self, out},
              [a = *self, o = *out] { apply1(a, o, [](double x) { return log_sigmoid(x); }); });
}

OPERATOR(RoundDecimals, const Tensor* self, int64_t decimals, const Tensor* out) {
  return PLAN(RoundDecimals, {self, out},
              [a = *self, o = *out, decimals] { apply1(a, o, [=](double x) { return round_to(x, decimals); }); });
}

OPERATOR(NanToNum, const Tensor* self, float nan, float positive, float negative, const Tensor* out) {
  return PLAN(NanToNum, {self, out}, [a = *self, o = *out, nan, positive, negative] {
    apply1(a, o, [=](double x) -> double {
      if (std::isnan(x)) return nan;
      if (std::isinf(x)) return x > 0 ? positive : negative;
      return x;
    });
  });
}

// ---------------------------------------------------------------- copies and constants
namespace sim {

// Same dtype: bytes, so that every dtype and NaN payload survives. Else a conversion.
void copy_elements(const Tensor& from, const Tensor& to) {
  if (from.dtype == to.dtype) {
    size_t width = element_size(from.dtype);
    std::vector<char> bytes;
    bytes.reserve(static_cast<size_t>(to.count()) * width);
    for_each_element(from, to.shape, [&](char* address) { bytes.insert(bytes.end(), address, address + width); });
    const char* next = bytes.data();
    for_each_element(to, to.shape, [&](char* address) {
      memcpy(address, next, width);
      next += width;
    });
    return;
  }
  apply1(from, to, also_complex([](auto x) { return x; }));
}

}  // namespace sim

OPERATOR(InplaceCopy, const Tensor* self, const Tensor* source) {
  return PLAN(InplaceCopy, {self, source}, [o = *self, a = *source] { copy_elements(a, o); });
}
OPERATOR(Cast, const Tensor* self, int, const Tensor* out) {
  return PLAN(Cast, {self, out}, [a = *self, o = *out] { copy_elements(a, o); });
}
OPERATOR(InplaceFillScalar, const Tensor* self, const Scalar* value) {
  return PLAN(InplaceFillScalar, {self}, [o = *self, v = *value] { fill(o, v); });
}
OPERATOR(InplaceFillTensor, const Tensor* self, const Tensor* value) {
  return PLAN(InplaceFillTensor, {self, value}, [o = *self, v = *value] { copy_elements(v, o); });
}
OPERATOR(InplaceZero, const Tensor* self) {
  return PLAN(InplaceZero, {self}, [o = *self] { fill(o, Scalar{kInt64, 0, 0}); });
}
OPERATOR(InplaceOne, const Tensor* self) {
  return PLAN(InplaceOne, {self}, [o = *self] { fill(o, Scalar{kInt64, 1, 1}); });
}
