// Elementwise kernels over any dtype, stride and broadcast.
//
// A kernel reads all its inputs before it writes (read(), write()), so overlapping views give what the operation
// means. It works in int64 when every input is an integer, else in double; int64 values never become doubles.
#pragma once
#include <cmath>
#include <type_traits>

#include "operators/kernel.h"

namespace sim {

// Integer arithmetic wraps as on the device; in C++ signed overflow would be undefined.
inline int64_t wrap(uint64_t value) { return static_cast<int64_t>(value); }
inline uint64_t bits(int64_t value) { return static_cast<uint64_t>(value); }
inline int64_t add(int64_t x, int64_t y) { return wrap(bits(x) + bits(y)); }
inline double add(double x, double y) { return x + y; }
inline int64_t subtract(int64_t x, int64_t y) { return wrap(bits(x) - bits(y)); }
inline double subtract(double x, double y) { return x - y; }
inline int64_t multiply(int64_t x, int64_t y) { return wrap(bits(x) * bits(y)); }
inline double multiply(double x, double y) { return x * y; }
inline int64_t negate(int64_t x) { return wrap(0 - bits(x)); }
inline double negate(double x) { return -x; }

inline Complex add(Complex x, Complex y) { return x + y; }
inline Complex subtract(Complex x, Complex y) { return x - y; }
inline Complex multiply(Complex x, Complex y) { return x * y; }
inline Complex negate(Complex x) { return -x; }

template <class R>
using StoredAs = std::conditional_t<std::is_same_v<R, Complex>, Complex,
                                    std::conditional_t<std::is_floating_point_v<R>, double, int64_t>>;

// Marks a formula that has a meaning for complex numbers too; which operators take them is in kernel.cpp.
template <class F>
struct AlsoComplex : F {};
template <class F>
AlsoComplex<F> also_complex(F f) {
  return {f};
}
template <class F>
constexpr bool takes_complex = false;
template <class F>
constexpr bool takes_complex<AlsoComplex<F>> = true;

template <class Body>
void in_type(bool floating, Body body) {
  if (floating)
    body(double(0));
  else
    body(int64_t(0));
}

// As in_type, with complex numbers for a formula that takes them.
template <class F, class Body>
void in_type_of(bool complex, bool floating, Body body) {
  if constexpr (takes_complex<F>)
    if (complex) return body(Complex(0));
  in_type(floating, body);
}

template <class F>
void apply1(const Tensor& in, const Tensor& out, F f) {
  in_type_of<F>(is_complex(in.dtype), is_floating(in.dtype), [&](auto zero) {
    using T = decltype(zero);
    using R = StoredAs<decltype(f(T()))>;
    std::vector<T> x = read<T>(in, out.shape);
    std::vector<R> y(x.size());
    for (size_t i = 0; i < x.size(); i++) y[i] = static_cast<R>(f(x[i]));
    write(out, y);
  });
}

// `floating_scalar`: a scalar operand that makes the computation floating although the tensors are integers.
template <class F>
void apply2(const Tensor& a, const Tensor& b, const Tensor& out, F f, bool floating_scalar = false) {
  bool complex = is_complex(a.dtype) || is_complex(b.dtype) || is_complex(out.dtype);
  in_type_of<F>(complex, floating_scalar || is_floating(a.dtype) || is_floating(b.dtype), [&](auto zero) {
    using T = decltype(zero);
    using R = StoredAs<decltype(f(T(), T()))>;
    std::vector<T> x = read<T>(a, out.shape), y = read<T>(b, out.shape);
    std::vector<R> z(x.size());
    for (size_t i = 0; i < x.size(); i++) z[i] = static_cast<R>(f(x[i], y[i]));
    write(out, z);
  });
}

template <class F>
void apply_scalar(const Tensor& a, const Scalar& s, const Tensor& out, F f, bool more_floating = false) {
  bool complex = is_complex(a.dtype) || is_complex(s.dtype) || is_complex(out.dtype);
  in_type_of<F>(complex, more_floating || is_floating(a.dtype) || is_floating(s.dtype), [&](auto zero) {
    using T = decltype(zero);
    using R = StoredAs<decltype(f(T(), T()))>;
    std::vector<T> x = read<T>(a, out.shape);
    T y = s.as<T>();
    std::vector<R> z(x.size());
    for (size_t i = 0; i < x.size(); i++) z[i] = static_cast<R>(f(x[i], y));
    write(out, z);
  });
}

template <class F>
void apply3(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& out, F f, bool floating_scalar = false) {
  bool floating = floating_scalar || is_floating(a.dtype) || is_floating(b.dtype) || is_floating(c.dtype);
  in_type(floating, [&](auto zero) {
    using T = decltype(zero);
    using R = StoredAs<decltype(f(T(), T(), T()))>;
    std::vector<T> x = read<T>(a, out.shape), y = read<T>(b, out.shape), z = read<T>(c, out.shape);
    std::vector<R> r(x.size());
    for (size_t i = 0; i < x.size(); i++) r[i] = static_cast<R>(f(x[i], y[i], z[i]));
    write(out, r);
  });
}

inline void fill(const Tensor& out, const Scalar& value) {
  if (is_complex(value.dtype))
    write(out, std::vector<Complex>(static_cast<size_t>(out.count()), value.as<Complex>()));
  else if (is_floating(value.dtype))
    write(out, std::vector<double>(static_cast<size_t>(out.count()), value.real));
  else
    write(out, std::vector<int64_t>(static_cast<size_t>(out.count()), value.integer));
}

void copy_elements(const Tensor& from, const Tensor& to);

}  // namespace sim
