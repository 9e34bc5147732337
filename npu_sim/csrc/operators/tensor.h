// Tensors as operators see them (aclTensor and the other aclnn argument types), and element access by dtype.
#pragma once
#include <complex>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/acl.h"

namespace sim {

using Shape = std::vector<int64_t>;

int64_t element_count(const Shape& shape);
Shape contiguous_strides(const Shape& shape);
size_t element_size(int dtype);
bool is_floating(int dtype);
bool is_complex(int dtype);

struct Tensor {
  Shape shape, strides;
  int dtype = kFloat;
  int64_t offset = 0;  // in elements
  char* data = nullptr;

  int64_t count() const { return element_count(shape); }
  int64_t dims() const { return static_cast<int64_t>(shape.size()); }
  int64_t size(int64_t dim) const { return shape[static_cast<size_t>(dim < 0 ? dim + dims() : dim)]; }
  char* begin() const { return data + offset * static_cast<int64_t>(element_size(dtype)); }
  // [first byte, one past the last byte) that the elements occupy.
  std::pair<const char*, const char*> extent() const;
};

using Complex = std::complex<double>;

struct Scalar {
  int dtype = kFloat;
  double real = 0;
  int64_t integer = 0;
  double imaginary = 0;
  template <class T>
  T as() const {
    if constexpr (std::is_same_v<T, Complex>)
      return Complex(as<double>(), imaginary);
    else if (is_floating(dtype) || is_complex(dtype))
      return static_cast<T>(real);
    else
      return static_cast<T>(integer);
  }
};

struct IntArray {
  std::vector<int64_t> values;
};
struct BoolArray {
  std::vector<char> values;
};
struct FloatArray {
  std::vector<float> values;
};
struct TensorList {
  std::vector<Tensor> tensors;
  std::vector<const Tensor*> owned;
};
struct ScalarList {
  std::vector<Scalar> scalars;
  std::vector<const Scalar*> owned;
};

// One element as T (double, int64_t or Complex). Integers never pass through a double when T is int64_t; a complex
// element read as a real number is its real part, as CPU torch casts it.
template <class T>
T load(const char* address, int dtype);
template <class T>
void store(char* address, int dtype, T value);

// A tensor copied into contiguous T, in row-major order of `shape` (the tensor is broadcast to it).
template <class T>
std::vector<T> read(const Tensor& tensor, const Shape& shape);
template <class T>
std::vector<T> read(const Tensor& tensor) {
  return read<T>(tensor, tensor.shape);
}
// Contiguous values written into a tensor, in row-major order of its shape.
template <class T>
void write(const Tensor& tensor, const std::vector<T>& values);

// Calls visit(address) for each element in row-major order of `shape`.
template <class Visit>
void for_each_element(const Tensor& tensor, const Shape& shape, Visit visit) {
  size_t rank = shape.size(), missing = rank - tensor.shape.size();
  int64_t width = static_cast<int64_t>(element_size(tensor.dtype)), total = element_count(shape);
  std::vector<int64_t> step(rank, 0), index(rank, 0);
  for (size_t d = missing; d < rank; d++)
    step[d] = tensor.shape[d - missing] == 1 && shape[d] != 1 ? 0 : tensor.strides[d - missing] * width;
  char* address = tensor.begin();
  for (int64_t i = 0; i < total; i++) {
    visit(address);
    for (size_t d = rank; d-- > 0;) {
      address += step[d];
      if (++index[d] < shape[d]) break;
      address -= step[d] * shape[d];
      index[d] = 0;
    }
  }
}

// The address of an element by its row-major position in the tensor's own shape.
char* element_address(const Tensor& tensor, int64_t position);
// The tensor seen with other dimensions, sharing memory.
Tensor select(const Tensor& tensor, int64_t dim, int64_t index);
Tensor narrow(const Tensor& tensor, int64_t dim, int64_t start, int64_t length);
int64_t wrap_dim(int64_t dim, int64_t rank);
Shape broadcast_shapes(const Shape& a, const Shape& b);

}  // namespace sim
