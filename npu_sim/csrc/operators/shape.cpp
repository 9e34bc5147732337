// Operators that build tensors or move elements without changing them.
#include <algorithm>

#include "operators/lines.h"

using namespace sim;

namespace {

// Elements that only move: as complex numbers too.
template <class Body>
void in_number(int dtype, Body body) {
  if (is_complex(dtype))
    body(Complex(0));
  else
    in_type(is_floating(dtype), body);
}

// out[i] = in[source(i)], elementwise by row-major index; `source` returns false for a place that keeps `value`.
template <class Source>
void gather_elements(const Tensor& in, const Tensor& out, const Scalar& value, Source source) {
  in_number(in.dtype, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> x = read<T>(in), y(static_cast<size_t>(out.count()), value.as<T>());
    Shape strides = contiguous_strides(in.shape), index(out.shape.size(), 0), from;
    for (T& element : y) {
      if (source(index, from)) {
        int64_t position = 0;
        for (size_t d = 0; d < from.size(); d++) position += from[d] * strides[d];
        element = x[static_cast<size_t>(position)];
      }
      for (size_t d = index.size(); d-- > 0;) {
        if (++index[d] < out.shape[d]) break;
        index[d] = 0;
      }
    }
    write(out, y);
  });
}
const Scalar kZeroScalar{kInt64, 0, 0};

void triangle(const Tensor& in, int64_t diagonal, bool upper, const Tensor& out) {
  in_number(in.dtype, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> x = read<T>(in);
    int64_t rows = in.size(-2), columns = in.size(-1);
    for (size_t i = 0; i < x.size(); i++) {
      int64_t row = static_cast<int64_t>(i) / columns % rows, column = static_cast<int64_t>(i) % columns;
      if (upper ? column - row < diagonal : column - row > diagonal) x[i] = 0;
    }
    write(out, x);
  });
}

void arithmetic_sequence(const Scalar& start, const Scalar& step, const Tensor& out) {
  if (is_floating(start.dtype) || is_floating(step.dtype) || is_floating(out.dtype)) {
    std::vector<double> values(static_cast<size_t>(out.count()));
    for (size_t i = 0; i < values.size(); i++)
      values[i] = start.as<double>() + static_cast<double>(i) * step.as<double>();
    return write(out, values);
  }
  std::vector<int64_t> values(static_cast<size_t>(out.count()));
  for (size_t i = 0; i < values.size(); i++)
    values[i] = add(start.as<int64_t>(), multiply(static_cast<int64_t>(i), step.as<int64_t>()));
  write(out, values);
}

void linear_sequence(double start, double end, const Tensor& out) {
  int64_t steps = out.count();
  std::vector<double> values(static_cast<size_t>(steps));
  double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  for (int64_t i = 0; i < steps; i++)  // from both ends, as torch
    values[static_cast<size_t>(i)] =
        i < steps / 2 ? start + step * static_cast<double>(i) : end - step * static_cast<double>(steps - 1 - i);
  if (steps == 1) values[0] = start;
  write(out, values);
}

}  // namespace

OPERATOR(Cat, const TensorList* list, int64_t dim, const Tensor* out) {
  std::vector<Tensor> operands = list->tensors;
  operands.push_back(*out);
  return PLAN(Cat, operands, [parts = list->tensors, dim, o = *out] {
    int64_t d = wrap_dim(dim, o.dims()), start = 0;
    std::vector<std::pair<Tensor, Tensor>> moves;
    for (const Tensor& part : parts) {
      if (part.shape.size() == 1 && part.shape[0] == 0) continue;  // torch lets an empty vector join anything
      moves.push_back({part, narrow(o, d, start, part.size(d))});
      start += part.size(d);
    }
    for (auto& [from, to] : moves) copy_elements(from, to);
  });
}
OPERATOR(Stack, const TensorList* list, int64_t dim, const Tensor* out) {
  std::vector<Tensor> operands = list->tensors;
  operands.push_back(*out);
  return PLAN(Stack, operands, [parts = list->tensors, dim, o = *out] {
    int64_t d = wrap_dim(dim, o.dims());
    for (size_t i = 0; i < parts.size(); i++) copy_elements(parts[i], select(o, d, static_cast<int64_t>(i)));
  });
}
OPERATOR(SplitWithSize, const Tensor* self, const IntArray* sizes, int64_t dim, const TensorList* out) {
  std::vector<Tensor> operands = out->tensors;
  operands.push_back(*self);
  return PLAN(SplitWithSize, operands, [a = *self, sizes = sizes->values, dim, parts = out->tensors] {
    int64_t start = 0;
    for (size_t i = 0; i < parts.size(); i++) {
      copy_elements(narrow(a, wrap_dim(dim, a.dims()), start, sizes[i]), parts[i]);
      start += sizes[i];
    }
  });
}
OPERATOR(Repeat, const Tensor* self, const IntArray*, const Tensor* out) {
  return PLAN(Repeat, {self, out}, [a = *self, o = *out] {
    size_t missing = o.shape.size() - a.shape.size();
    gather_elements(a, o, kZeroScalar, [&](const Shape& index, Shape& from) {
      from.assign(a.shape.size(), 0);
      for (size_t d = 0; d < from.size(); d++) from[d] = index[missing + d] % a.shape[d];
      return true;
    });
  });
}
OPERATOR(Flip, const Tensor* self, const IntArray* dims, const Tensor* out) {
  return PLAN(Flip, {self, out}, [a = *self, dims = dims->values, o = *out] {
    gather_elements(a, o, kZeroScalar, [&](const Shape& index, Shape& from) {
      from = index;
      for (int64_t dim : dims) {
        size_t d = static_cast<size_t>(wrap_dim(dim, a.dims()));
        from[d] = a.shape[d] - 1 - index[d];
      }
      return true;
    });
  });
}
OPERATOR(Roll, const Tensor* self, const IntArray* shifts, const IntArray* dims, const Tensor* out) {
  return PLAN(Roll, {self, out}, [a = *self, shifts = shifts->values, dims = dims->values, o = *out] {
    if (a.count() == 0) return;
    if (dims.empty()) {  // the flattened tensor
      int64_t total = a.count(), shift = ((shifts[0] % total) + total) % total;
      in_type(is_floating(a.dtype), [&](auto zero) {
        using T = decltype(zero);
        std::vector<T> x = read<T>(a);
        std::rotate(x.begin(), x.end() - shift, x.end());
        write(o, x);
      });
      return;
    }
    gather_elements(a, o, kZeroScalar, [&](const Shape& index, Shape& from) {
      from = index;
      for (size_t i = 0; i < dims.size(); i++) {
        size_t d = static_cast<size_t>(wrap_dim(dims[i], a.dims()));
        from[d] = ((from[d] - shifts[i]) % a.shape[d] + a.shape[d]) % a.shape[d];
      }
      return true;
    });
  });
}
OPERATOR(Permute, const Tensor* self, const IntArray* dims, const Tensor* out) {
  return PLAN(Permute, {self, out}, [a = *self, dims = dims->values, o = *out] {
    Tensor view = a;
    for (size_t d = 0; d < dims.size(); d++) {
      size_t from = static_cast<size_t>(wrap_dim(dims[d], a.dims()));
      view.shape[d] = a.shape[from];
      view.strides[d] = a.strides[from];
    }
    copy_elements(view, o);
  });
}
OPERATOR(ConstantPadNd, const Tensor* self, const IntArray* pad, const Scalar* value, const Tensor* out) {
  return PLAN(ConstantPadNd, {self, out}, [a = *self, pad = pad->values, v = *value, o = *out] {
    gather_elements(a, o, v, [&](const Shape& index, Shape& from) {
      from = index;
      for (size_t i = 0; i * 2 < pad.size(); i++) from[from.size() - 1 - i] -= pad[2 * i];
      for (size_t d = 0; d < from.size(); d++)
        if (from[d] < 0 || from[d] >= a.shape[d]) return false;
      return true;
    });
  });
}

#define TRIANGLE(NAME, UPPER)                                                                             \
  OPERATOR(NAME, const Tensor* self, int64_t diagonal, const Tensor* out) {                               \
    return PLAN(NAME, {self, out}, [a = *self, diagonal, o = *out] { triangle(a, diagonal, UPPER, o); }); \
  }                                                                                                       \
  OPERATOR(Inplace##NAME, const Tensor* self, int64_t diagonal) {                                         \
    return PLAN(Inplace##NAME, {self}, [a = *self, diagonal] { triangle(a, diagonal, UPPER, a); });       \
  }
TRIANGLE(Tril, false)
TRIANGLE(Triu, true)

OPERATOR(Arange, const Scalar* start, const Scalar*, const Scalar* step, const Tensor* out) {
  return PLAN(Arange, {out}, [s = *start, k = *step, o = *out] { arithmetic_sequence(s, k, o); });
}
OPERATOR(Range, const Scalar* start, const Scalar*, const Scalar* step, const Tensor* out) {
  return PLAN(Range, {out}, [s = *start, k = *step, o = *out] { arithmetic_sequence(s, k, o); });
}
OPERATOR(Linspace, const Scalar* start, const Scalar* end, int64_t, const Tensor* out) {
  return PLAN(Linspace, {out},
              [s = start->as<double>(), e = end->as<double>(), o = *out] { linear_sequence(s, e, o); });
}
OPERATOR(Eye, int64_t, int64_t, const Tensor* out) {
  return PLAN(Eye, {out}, [o = *out] {
    std::vector<int64_t> values(static_cast<size_t>(o.count()), 0);
    for (int64_t i = 0; i < std::min(o.size(0), o.size(1)); i++) values[static_cast<size_t>(i * o.size(1) + i)] = 1;
    write(o, values);
  });
}

namespace {
template <class Count>
void repeat_each(const Tensor& in, int64_t dim, const Tensor& out, Count count) {
  std::vector<int64_t> source;
  for (int64_t i = 0; i < in.size(dim); i++)
    for (int64_t k = count(i); k > 0; k--) source.push_back(i);
  for (size_t i = 0; i < source.size(); i++)
    copy_elements(select(in, dim, source[i]), select(out, dim, static_cast<int64_t>(i)));
}
Tensor flattened(const Tensor& in, std::vector<char>* storage) {
  Tensor flat = in;
  flat.shape = {in.count()};
  flat.strides = {1};
  flat.offset = 0;
  size_t width = element_size(in.dtype);
  storage->clear();
  for_each_element(in, in.shape, [&](char* address) { storage->insert(storage->end(), address, address + width); });
  flat.data = storage->data();
  return flat;
}
}  // namespace

OPERATOR(RepeatInterleaveInt, const Tensor* self, int64_t repeats, int64_t, const Tensor* out) {
  return PLAN(RepeatInterleaveInt, {self, out}, [a = *self, repeats, o = *out] {
    std::vector<char> storage;
    repeat_each(flattened(a, &storage), 0, o, [=](int64_t) { return repeats; });
  });
}
OPERATOR(RepeatInterleaveIntWithDim, const Tensor* self, int64_t repeats, int64_t dim, int64_t, const Tensor* out) {
  return PLAN(RepeatInterleaveIntWithDim, {self, out}, [a = *self, repeats, dim, o = *out] {
    repeat_each(a, wrap_dim(dim, a.dims()), o, [=](int64_t) { return repeats; });
  });
}
OPERATOR(RepeatInterleaveWithDim, const Tensor* self, const Tensor* repeats, int64_t dim, int64_t, const Tensor* out) {
  return PLAN(RepeatInterleaveWithDim, {self, repeats, out}, [a = *self, r = *repeats, dim, o = *out] {
    std::vector<int64_t> counts = read<int64_t>(r);
    repeat_each(a, wrap_dim(dim, a.dims()), o,
                [&](int64_t i) { return counts[counts.size() == 1 ? 0 : static_cast<size_t>(i)]; });
  });
}
