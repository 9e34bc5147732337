#include "operators/tensor.h"

#include <algorithm>
#include <cmath>

#include "core/call.h"

namespace sim {

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides(shape.size());
  int64_t step = 1;
  for (size_t d = shape.size(); d-- > 0; step *= std::max<int64_t>(shape[d], 1)) strides[d] = step;
  return strides;
}

size_t element_size(int dtype) {
  switch (dtype) {
    case kComplex128:
      return 16;
    case kInt64:
    case kUInt64:
    case kDouble:
    case kComplex64:
      return 8;
    case kFloat:
    case kInt32:
    case kUInt32:
      return 4;
    case kFloat16:
    case kBFloat16:
    case kInt16:
    case kUInt16:
      return 2;
    default:
      return 1;
  }
}

bool is_floating(int dtype) { return dtype == kFloat || dtype == kFloat16 || dtype == kBFloat16 || dtype == kDouble; }
bool is_complex(int dtype) { return dtype == kComplex64 || dtype == kComplex128; }

std::pair<const char*, const char*> Tensor::extent() const {
  int64_t low = 0, high = 0;
  for (size_t d = 0; d < shape.size(); d++) {
    if (shape[d] == 0) return {begin(), begin()};
    (strides[d] < 0 ? low : high) += (shape[d] - 1) * strides[d];
  }
  int64_t width = static_cast<int64_t>(element_size(dtype));
  return {begin() + low * width, begin() + (high + 1) * width};
}

namespace {

float bfloat16_to_float(uint16_t bits) {
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  memcpy(&value, &wide, 4);
  return value;
}

// Round to nearest even; a NaN keeps being one.
uint16_t float_to_bfloat16(float value) {
  uint32_t wide;
  memcpy(&wide, &value, 4);
  if ((wide & 0x7fffffff) > 0x7f800000) return 0x7fc0;
  wide += 0x7fff + ((wide >> 16) & 1);
  return static_cast<uint16_t>(wide >> 16);
}

template <class S>
S raw_load(const char* address) {
  S value;
  memcpy(&value, address, sizeof value);
  return value;
}
template <class S>
void raw_store(char* address, S value) {
  memcpy(address, &value, sizeof value);
}

// Conversion of a floating value to an integer type; out of range and NaN are undefined in C++, so they are pinned to
// what x86 gives, as CPU torch does.
template <class S>
S to_integer(double value) {
  if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0)) return static_cast<S>(INT64_MIN);
  return static_cast<S>(static_cast<int64_t>(value));
}
template <class S>
S to_integer(int64_t value) {
  return static_cast<S>(value);
}

template <class T>
T to_integer_or_float(double value);
template <>
double to_integer_or_float<double>(double value) {
  return value;
}
template <>
int64_t to_integer_or_float<int64_t>(double value) {
  return to_integer<int64_t>(value);
}

// A double outside float's range becomes infinite.
float to_float(double value) {
  if (std::isfinite(value) && std::fabs(value) > 3.4028235677973366e38) return value > 0 ? INFINITY : -INFINITY;
  return static_cast<float>(value);
}

}  // namespace

template <class T>
T load(const char* address, int dtype) {
  switch (dtype) {
    case kFloat:
      return to_integer_or_float<T>(raw_load<float>(address));
    case kDouble:
      return to_integer_or_float<T>(raw_load<double>(address));
    case kFloat16:
      return to_integer_or_float<T>(static_cast<double>(raw_load<_Float16>(address)));
    case kBFloat16:
      return to_integer_or_float<T>(bfloat16_to_float(raw_load<uint16_t>(address)));
    case kInt64:
      return static_cast<T>(raw_load<int64_t>(address));
    case kUInt64:
      return static_cast<T>(raw_load<uint64_t>(address));
    case kInt32:
      return static_cast<T>(raw_load<int32_t>(address));
    case kUInt32:
      return static_cast<T>(raw_load<uint32_t>(address));
    case kInt16:
      return static_cast<T>(raw_load<int16_t>(address));
    case kUInt16:
      return static_cast<T>(raw_load<uint16_t>(address));
    case kInt8:
      return static_cast<T>(raw_load<int8_t>(address));
    case kUInt8:
      return static_cast<T>(raw_load<uint8_t>(address));
    case kBool:
      return static_cast<T>(raw_load<uint8_t>(address) != 0);
    case kComplex64:
      return to_integer_or_float<T>(raw_load<float>(address));
    case kComplex128:
      return to_integer_or_float<T>(raw_load<double>(address));
    default:
      return T(0);
  }
}
template <>
Complex load<Complex>(const char* address, int dtype) {
  if (dtype == kComplex64) return raw_load<std::complex<float>>(address);
  if (dtype == kComplex128) return raw_load<Complex>(address);
  return load<double>(address, dtype);
}
template double load<double>(const char*, int);
template int64_t load<int64_t>(const char*, int);

template <class T>
void store(char* address, int dtype, T value) {
  switch (dtype) {
    case kFloat:
      return raw_store(address, to_float(static_cast<double>(value)));
    case kDouble:
      return raw_store(address, static_cast<double>(value));
    case kFloat16:
      return raw_store(address, static_cast<_Float16>(to_float(static_cast<double>(value))));
    case kBFloat16:
      return raw_store(address, float_to_bfloat16(to_float(static_cast<double>(value))));
    case kInt64:
      return raw_store(address, to_integer<int64_t>(value));
    case kUInt64:
      return raw_store(address, to_integer<uint64_t>(value));
    case kInt32:
      return raw_store(address, to_integer<int32_t>(value));
    case kUInt32:
      return raw_store(address, to_integer<uint32_t>(value));
    case kInt16:
      return raw_store(address, to_integer<int16_t>(value));
    case kUInt16:
      return raw_store(address, to_integer<uint16_t>(value));
    case kInt8:
      return raw_store(address, to_integer<int8_t>(value));
    case kUInt8:
      return raw_store(address, to_integer<uint8_t>(value));
    case kBool:
      return raw_store(address, static_cast<uint8_t>(value != T(0)));
    case kComplex64:
      return raw_store(address, std::complex<float>(to_float(static_cast<double>(value)), 0));
    case kComplex128:
      return raw_store(address, Complex(static_cast<double>(value), 0));
    default:
      return;
  }
}
template <>
void store<Complex>(char* address, int dtype, Complex value) {
  if (dtype == kComplex64)
    return raw_store(address, std::complex<float>(to_float(value.real()), to_float(value.imag())));
  if (dtype == kComplex128) return raw_store(address, value);
  if (dtype == kBool) return raw_store(address, static_cast<uint8_t>(value != Complex(0)));
  store<double>(address, dtype, value.real());
}
template void store<double>(char*, int, double);
template void store<int64_t>(char*, int, int64_t);

template <class T>
std::vector<T> read(const Tensor& tensor, const Shape& shape) {
  std::vector<T> values;
  values.reserve(static_cast<size_t>(element_count(shape)));
  int dtype = tensor.dtype;
  for_each_element(tensor, shape, [&](char* address) { values.push_back(load<T>(address, dtype)); });
  return values;
}
template std::vector<double> read<double>(const Tensor&, const Shape&);
template std::vector<int64_t> read<int64_t>(const Tensor&, const Shape&);
template std::vector<Complex> read<Complex>(const Tensor&, const Shape&);

template <class T>
void write(const Tensor& tensor, const std::vector<T>& values) {
  size_t next = 0;
  for_each_element(tensor, tensor.shape, [&](char* address) { store<T>(address, tensor.dtype, values[next++]); });
}
template void write<double>(const Tensor&, const std::vector<double>&);
template void write<int64_t>(const Tensor&, const std::vector<int64_t>&);
template void write<Complex>(const Tensor&, const std::vector<Complex>&);

char* element_address(const Tensor& tensor, int64_t position) {
  int64_t offset = 0;
  for (size_t d = tensor.shape.size(); d-- > 0; position /= tensor.shape[d])
    offset += position % tensor.shape[d] * tensor.strides[d];
  return tensor.begin() + offset * static_cast<int64_t>(element_size(tensor.dtype));
}

int64_t wrap_dim(int64_t dim, int64_t rank) { return dim < 0 ? dim + std::max<int64_t>(rank, 1) : dim; }

Tensor select(const Tensor& tensor, int64_t dim, int64_t index) {
  Tensor view = narrow(tensor, dim, index, 1);
  view.shape.erase(view.shape.begin() + dim);
  view.strides.erase(view.strides.begin() + dim);
  return view;
}

Tensor narrow(const Tensor& tensor, int64_t dim, int64_t start, int64_t length) {
  Tensor view = tensor;
  size_t d = static_cast<size_t>(dim);
  view.offset += start * view.strides[d];
  view.shape[d] = length;
  return view;
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (const Shape* shape : {&a, &b}) {
    size_t missing = result.size() - shape->size();
    for (size_t d = 0; d < shape->size(); d++)
      if ((*shape)[d] != 1) result[missing + d] = (*shape)[d];
  }
  return result;
}

}  // namespace sim

using namespace sim;

// ---------------------------------------------------------------- creation by the caller (nnopbase acl_meta.h)
API Tensor* aclCreateTensor(const int64_t* dims, uint64_t rank, int dtype, const int64_t* strides, int64_t offset, int,
                            const int64_t*, uint64_t, void* data) {
  Tensor* tensor = new Tensor;
  if (rank) {
    tensor->shape.assign(dims, dims + rank);
    if (strides)
      tensor->strides.assign(strides, strides + rank);
    else
      tensor->strides = contiguous_strides(tensor->shape);
  }
  tensor->dtype = dtype;
  tensor->offset = offset;
  tensor->data = static_cast<char*>(data);
  return tensor;
}
API int aclDestroyTensor(const Tensor* tensor) {
  delete tensor;
  return kSuccess;
}
API Scalar* aclCreateScalar(void* value, int dtype) {
  Scalar* scalar = new Scalar;
  scalar->dtype = dtype;
  scalar->real = load<double>(static_cast<char*>(value), dtype);
  scalar->integer = load<int64_t>(static_cast<char*>(value), dtype);
  scalar->imaginary = load<Complex>(static_cast<char*>(value), dtype).imag();
  return scalar;
}
API int aclDestroyScalar(const Scalar* scalar) {
  delete scalar;
  return kSuccess;
}
API IntArray* aclCreateIntArray(const int64_t* values, uint64_t count) {
  auto* array = new IntArray;
  if (count) array->values.assign(values, values + count);
  return array;
}
API int aclDestroyIntArray(const IntArray* array) {
  delete array;
  return kSuccess;
}
API BoolArray* aclCreateBoolArray(const bool* values, uint64_t count) {
  auto* array = new BoolArray;
  if (count) array->values.assign(values, values + count);
  return array;
}
API int aclDestroyBoolArray(const BoolArray* array) {
  delete array;
  return kSuccess;
}
API FloatArray* aclCreateFloatArray(const float* values, uint64_t count) {
  auto* array = new FloatArray;
  if (count) array->values.assign(values, values + count);
  return array;
}
API int aclDestroyFloatArray(const FloatArray* array) {
  delete array;
  return kSuccess;
}
API TensorList* aclCreateTensorList(const Tensor* const* tensors, uint64_t count) {
  auto* list = new TensorList;
  for (uint64_t i = 0; i < count; i++) {
    list->tensors.push_back(tensors[i] ? *tensors[i] : Tensor{});
    list->owned.push_back(tensors[i]);
  }
  return list;
}
API int aclDestroyTensorList(const TensorList* list) {
  for (const Tensor* tensor : list->owned) delete tensor;
  delete list;
  return kSuccess;
}
API ScalarList* aclCreateScalarList(const Scalar* const* scalars, uint64_t count) {
  auto* list = new ScalarList;
  for (uint64_t i = 0; i < count; i++) {
    list->scalars.push_back(*scalars[i]);
    list->owned.push_back(scalars[i]);
  }
  return list;
}
API int aclDestroyScalarList(const ScalarList* list) {
  for (const Scalar* scalar : list->owned) delete scalar;
  delete list;
  return kSuccess;
}
// The caller frees *dims with delete[] (acl_meta.h aclGetViewShape).
API int aclGetViewShape(const Tensor* tensor, int64_t** dims, uint64_t* rank) {
  *rank = tensor->shape.size();
  *dims = new int64_t[*rank + 1];
  std::copy(tensor->shape.begin(), tensor->shape.end(), *dims);
  return kSuccess;
}
