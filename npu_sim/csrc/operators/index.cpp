// Gather, scatter, advanced indexing, embedding, and operators whose output size depends on the data.
#include <algorithm>
#include <map>

#include "operators/lines.h"

using namespace sim;

namespace {

int64_t wrap_index(int64_t index, int64_t length) { return index < 0 ? index + length : index; }

// Calls visit(row-major position in `index`, position in `other` with `dim` replaced by the index value).
template <class Visit>
void for_each_indexed(const Tensor& index, const Tensor& other, int64_t dim, Visit visit) {
  std::vector<int64_t> values = read<int64_t>(index);
  Shape strides = contiguous_strides(other.shape), place(index.shape.size(), 0);
  for (size_t i = 0; i < values.size(); i++) {
    int64_t position = 0;
    for (size_t d = 0; d < place.size(); d++) {
      bool indexed = static_cast<int64_t>(d) == dim;
      position += (indexed ? wrap_index(values[i], other.shape[d]) : place[d]) * strides[d];
    }
    visit(i, other.shape.empty() ? int64_t{0} : position);
    for (size_t d = place.size(); d-- > 0;) {
      if (++place[d] < index.shape[d]) break;
      place[d] = 0;
    }
  }
}

void gather(const Tensor& in, int64_t dim, const Tensor& index, const Tensor& out) {
  size_t width = element_size(in.dtype);
  std::vector<char> bytes(static_cast<size_t>(index.count()) * width);
  for_each_indexed(index, in, wrap_dim(dim, in.dims()), [&](size_t i, int64_t position) {
    memcpy(&bytes[i * width], element_address(in, position), width);
  });
  size_t i = 0;
  for_each_element(out, out.shape, [&](char* address) { memcpy(address, &bytes[width * i++], width); });
}

enum Reduction : int64_t { kReplace = 0, kAdd = 1, kMultiply = 2, kMaximum = 3, kMinimum = 4 };

template <class T>
T combine(int64_t reduction, T old, T value) {
  switch (reduction) {
    case kAdd:
      return add(old, value);
    case kMultiply:
      return multiply(old, value);
    case kMaximum:
      return std::max(old, value);
    case kMinimum:
      return std::min(old, value);
    default:
      return value;
  }
}

// The shape of `index` selects from `source` as well (torch: source may be larger).
template <class T>
std::vector<T> read_corner(const Tensor& source, const Shape& shape) {
  Tensor corner = source;
  corner.shape = shape;
  return read<T>(corner);
}

void scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, int64_t reduction,
             const Tensor& out) {
  in_type(is_floating(self.dtype), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> values = read_corner<T>(source, index.shape), result = read<T>(self);
    for_each_indexed(index, self, wrap_dim(dim, self.dims()), [&](size_t i, int64_t position) {
      T& element = result[static_cast<size_t>(position)];
      element = combine(reduction, element, values[i]);
    });
    write(out, result);
  });
}

void scatter_value(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, int64_t reduction,
                   const Tensor& out) {
  in_type(is_floating(self.dtype), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> result = read<T>(self);
    for_each_indexed(index, self, wrap_dim(dim, self.dims()), [&](size_t, int64_t position) {
      T& element = result[static_cast<size_t>(position)];
      element = combine(reduction, element, value.as<T>());
    });
    write(out, result);
  });
}

// Advanced indexing: which element of `self` each element of the result names.
std::vector<int64_t> advanced_positions(const Tensor& self, const std::vector<MaybeTensor>& indices) {
  std::vector<size_t> indexed;
  Shape batch;
  for (size_t d = 0; d < indices.size(); d++)
    if (indices[d]) {
      indexed.push_back(d);
      batch = broadcast_shapes(batch, indices[d]->shape);
    }
  std::vector<std::vector<int64_t>> values;
  for (size_t d : indexed) values.push_back(read<int64_t>(*indices[d], batch));
  bool adjacent = indexed.empty() || indexed.back() - indexed.front() + 1 == indexed.size();
  size_t where = adjacent && !indexed.empty() ? indexed.front() : 0;
  // The result's dimensions: the free ones of self in order, the batch inserted at `where`.
  std::vector<size_t> free_dims;
  for (size_t d = 0; d < self.shape.size(); d++)
    if (d >= indices.size() || !indices[d]) free_dims.push_back(d);
  Shape shape;
  for (size_t i = 0; i <= free_dims.size(); i++) {
    if (i == where) shape.insert(shape.end(), batch.begin(), batch.end());
    if (i < free_dims.size()) shape.push_back(self.shape[free_dims[i]]);
  }
  Shape strides = contiguous_strides(self.shape), place(shape.size(), 0);
  std::vector<int64_t> positions(static_cast<size_t>(element_count(shape)));
  for (int64_t& position : positions) {
    int64_t batch_index = 0;
    for (size_t d = 0; d < batch.size(); d++) batch_index = batch_index * batch[d] + place[where + d];
    position = 0;
    for (size_t i = 0; i < free_dims.size(); i++)
      position += place[i < where ? i : i + batch.size()] * strides[free_dims[i]];
    for (size_t k = 0; k < indexed.size(); k++)
      position += wrap_index(values[k][static_cast<size_t>(batch_index)], self.shape[indexed[k]]) * strides[indexed[k]];
    for (size_t d = place.size(); d-- > 0;) {
      if (++place[d] < shape[d]) break;
      place[d] = 0;
    }
  }
  return positions;
}

// A missing index (":") arrives as a null or an empty tensor.
std::vector<MaybeTensor> index_list(const TensorList* list) {
  std::vector<MaybeTensor> indices;
  for (const Tensor* tensor : list->owned)
    indices.push_back(MaybeTensor(tensor && tensor->data && tensor->count() > 0 ? tensor : nullptr));
  bool all_missing = std::none_of(indices.begin(), indices.end(), [](const MaybeTensor& t) { return t.present; });
  if (all_missing && !list->owned.empty() && list->owned[0]) indices = {MaybeTensor(list->owned[0])};  // empty result
  return indices;
}
std::vector<Tensor> operands_of(const TensorList* list, std::initializer_list<const Tensor*> more) {
  std::vector<Tensor> operands;
  for (const Tensor* tensor : list->owned)
    if (tensor) operands.push_back(*tensor);
  for (const Tensor* tensor : more) operands.push_back(*tensor);
  return operands;
}

void index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha,
               const Tensor& out) {
  copy_elements(self, out);
  std::vector<int64_t> places = read<int64_t>(index);
  int64_t d = wrap_dim(dim, self.dims());
  for (size_t i = 0; i < places.size(); i++) {
    Tensor to = self.shape.empty() ? out : select(out, d, wrap_index(places[i], out.size(d)));
    Tensor from = source.shape.empty() ? source : select(source, d, static_cast<int64_t>(i));
    apply2(to, from, to, [&](auto x, auto y) { return add(x, multiply(alpha.as<decltype(x)>(), y)); });
  }
}

}  // namespace

OPERATOR(Gather, const Tensor* self, int64_t dim, const Tensor* index, const Tensor* out) {
  return PLAN(Gather, {self, index, out}, [a = *self, dim, i = *index, o = *out] { gather(a, dim, i, o); });
}
OPERATOR(IndexSelect, const Tensor* self, int64_t dim, const Tensor* index, const Tensor* out) {
  return PLAN(IndexSelect, {self, index, out}, [a = *self, dim, i = *index, o = *out] {
    if (a.shape.empty()) return copy_elements(a, o);
    int64_t d = wrap_dim(dim, a.dims());
    std::vector<int64_t> places = read<int64_t>(i);
    for (size_t k = 0; k < places.size(); k++)
      copy_elements(select(a, d, wrap_index(places[k], a.size(d))), select(o, d, static_cast<int64_t>(k)));
  });
}
OPERATOR(Take, const Tensor* self, const Tensor* index, const Tensor* out) {
  return PLAN(Take, {self, index, out}, [a = *self, i = *index, o = *out] {
    in_type(is_floating(a.dtype), [&](auto zero) {
      std::vector<decltype(zero)> x = read<decltype(zero)>(a), y;
      for (int64_t place : read<int64_t>(i)) y.push_back(x[static_cast<size_t>(wrap_index(place, a.count()))]);
      write(o, y);
    });
  });
}
OPERATOR(Scatter, const Tensor* self, int64_t dim, const Tensor* index, const Tensor* source, int64_t reduction,
         const Tensor* out) {
  return PLAN(Scatter, {self, index, source, out},
              [a = *self, dim, i = *index, s = *source, reduction, o = *out] { scatter(a, dim, i, s, reduction, o); });
}
OPERATOR(InplaceScatter, const Tensor* self, int64_t dim, const Tensor* index, const Tensor* source,
         int64_t reduction) {
  return PLAN(InplaceScatter, {self, index, source},
              [a = *self, dim, i = *index, s = *source, reduction] { scatter(a, dim, i, s, reduction, a); });
}
OPERATOR(ScatterAdd, const Tensor* self, int64_t dim, const Tensor* index, const Tensor* source, const Tensor* out) {
  return PLAN(ScatterAdd, {self, index, source, out},
              [a = *self, dim, i = *index, s = *source, o = *out] { scatter(a, dim, i, s, kAdd, o); });
}
OPERATOR(ScatterValue, const Tensor* self, int64_t dim, const Tensor* index, const Scalar* value, int64_t reduction,
         const Tensor* out) {
  return PLAN(ScatterValue, {self, index, out}, [a = *self, dim, i = *index, v = *value, reduction, o = *out] {
    scatter_value(a, dim, i, v, reduction, o);
  });
}
OPERATOR(InplaceScatterValue, const Tensor* self, int64_t dim, const Tensor* index, const Scalar* value,
         int64_t reduction) {
  return PLAN(InplaceScatterValue, {self, index},
              [a = *self, dim, i = *index, v = *value, reduction] { scatter_value(a, dim, i, v, reduction, a); });
}
OPERATOR(IndexAdd, const Tensor* self, int64_t dim, const Tensor* index, const Tensor* source, const Scalar* alpha,
         const Tensor* out) {
  return PLAN(IndexAdd, {self, index, source, out},
              [a = *self, dim, i = *index, s = *source, k = *alpha, o = *out] { index_add(a, dim, i, s, k, o); });
}
OPERATOR(IndexAddV2, const Tensor* self, int64_t dim, const Tensor* index, const Tensor* source, const Scalar* alpha,
         int64_t, const Tensor* out) {
  return PLAN(IndexAddV2, {self, index, source, out},
              [a = *self, dim, i = *index, s = *source, k = *alpha, o = *out] { index_add(a, dim, i, s, k, o); });
}
OPERATOR(InplaceIndexCopy, const Tensor* self, int64_t dim, const Tensor* index, const Tensor* source) {
  return PLAN(InplaceIndexCopy, {self, index, source}, [a = *self, dim, i = *index, s = *source] {
    int64_t d = wrap_dim(dim, a.dims());
    std::vector<int64_t> places = read<int64_t>(i);
    for (size_t k = 0; k < places.size(); k++)
      copy_elements(select(s, d, static_cast<int64_t>(k)), select(a, d, wrap_index(places[k], a.size(d))));
  });
}
OPERATOR(InplaceIndexFillTensor, const Tensor* self, int64_t dim, const IntArray* index, const Scalar* value) {
  return PLAN(InplaceIndexFillTensor, {self}, [a = *self, dim, places = index->values, v = *value] {
    int64_t d = wrap_dim(dim, a.dims());
    for (int64_t place : places) fill(select(a, d, wrap_index(place, a.size(d))), v);
  });
}

OPERATOR(Index, const Tensor* self, const TensorList* indices, const Tensor* out) {
  return PLAN(Index, operands_of(indices, {self, out}), [a = *self, list = index_list(indices), o = *out] {
    if (o.count() == 0) return;
    std::vector<int64_t> positions = advanced_positions(a, list);
    size_t width = element_size(a.dtype), i = 0;
    std::vector<char> bytes(positions.size() * width);
    for (int64_t position : positions) memcpy(&bytes[width * i++], element_address(a, position), width);
    i = 0;
    for_each_element(o, o.shape, [&](char* address) { memcpy(address, &bytes[width * i++], width); });
  });
}
OPERATOR(IndexPutImpl, const Tensor* self, const TensorList* indices, const Tensor* values, bool accumulate, bool) {
  return PLAN(IndexPutImpl, operands_of(indices, {self, values}),
              [a = *self, list = index_list(indices), v = *values, accumulate] {
                std::vector<int64_t> positions = advanced_positions(a, list);
                if (positions.empty() || v.count() == 0) return;
                in_type(is_floating(a.dtype), [&](auto zero) {
                  using T = decltype(zero);
                  std::vector<T> put = read<T>(v);  // broadcast from the last dimensions
                  for (size_t i = 0; i < positions.size(); i++) {
                    char* address = element_address(a, positions[i]);
                    T value = put[i % put.size()];
                    store<T>(address, a.dtype, accumulate ? add(load<T>(address, a.dtype), value) : value);
                  }
                });
              });
}

OPERATOR(Embedding, const Tensor* weight, const Tensor* indices, const Tensor* out) {
  return PLAN(Embedding, {weight, indices, out}, [w = *weight, i = *indices, o = *out] {
    std::vector<double> rows;
    std::vector<int64_t> places = read<int64_t>(i);
    std::vector<double> table = read<double>(w);
    size_t width = static_cast<size_t>(w.size(1));
    for (int64_t place : places) {
      size_t start = static_cast<size_t>(wrap_index(place, w.size(0))) * width;
      rows.insert(rows.end(), table.begin() + static_cast<long>(start),
                  table.begin() + static_cast<long>(start + width));
    }
    write(o, rows);
  });
}
OPERATOR(EmbeddingDenseBackward, const Tensor* grad, const Tensor* indices, int64_t, int64_t padding, bool scale,
         const Tensor* out) {
  return PLAN(EmbeddingDenseBackward, {grad, indices, out}, [g = *grad, i = *indices, padding, scale, o = *out] {
    std::vector<double> rows = read<double>(g), total(static_cast<size_t>(o.count()), 0);
    std::vector<int64_t> places = read<int64_t>(i);
    std::map<int64_t, int64_t> uses;
    for (int64_t place : places) uses[place]++;
    size_t width = static_cast<size_t>(o.size(1));
    for (size_t k = 0; k < places.size(); k++) {
      if (places[k] == padding) continue;
      double share = scale ? 1.0 / static_cast<double>(uses[places[k]]) : 1.0;
      for (size_t c = 0; c < width; c++)
        total[static_cast<size_t>(places[k]) * width + c] += share * rows[k * width + c];
    }
    write(o, total);
  });
}
OPERATOR(OneHot, const Tensor* self, int64_t classes, const Tensor* on, const Tensor* off, int64_t, const Tensor* out) {
  return PLAN(OneHot, {self, on, off, out}, [a = *self, classes, on = *on, off = *off, o = *out] {
    int64_t hot = read<int64_t>(on)[0], cold = read<int64_t>(off)[0];
    std::vector<int64_t> values;
    for (int64_t label : read<int64_t>(a))
      for (int64_t c = 0; c < classes; c++) values.push_back(c == label ? hot : cold);
    write(o, values);
  });
}
OPERATOR(SearchSorted, const Tensor* sorted, const Tensor* self, bool, bool right, const Tensor*, const Tensor* out) {
  return PLAN(SearchSorted, {sorted, self, out}, [s = *sorted, a = *self, right, o = *out] {
    std::vector<double> keys = read<double>(s), values = read<double>(a);
    std::vector<int64_t> places;
    size_t length = static_cast<size_t>(s.size(-1)), per_row = a.shape.empty() ? 1 : static_cast<size_t>(a.size(-1));
    for (size_t i = 0; i < values.size(); i++) {
      auto begin = keys.begin() + static_cast<long>(s.dims() == 1 ? 0 : i / per_row * length);
      auto end = begin + static_cast<long>(length);
      auto found = right ? std::upper_bound(begin, end, values[i]) : std::lower_bound(begin, end, values[i]);
      places.push_back(found - begin);
    }
    write(o, places);
  });
}

// ---------------------------------------------------------------- size known only after the kernel has run
// torch_npu launches these and then reads the shape of the output tensor object (aclGetViewShape).
OPERATOR(MaskedSelect, const Tensor* self, const Tensor* mask, Tensor* out) {
  return PLAN(MaskedSelect, {self, mask}, [a = *self, m = *mask, out] {
    Shape shape = broadcast_shapes(a.shape, m.shape);
    std::vector<int64_t> chosen = read<int64_t>(m, shape);
    std::vector<double> kept;
    std::vector<int64_t> kept_integers;
    size_t i = 0;
    for_each_element(a, shape, [&](char* address) {
      if (!chosen[i++]) return;
      kept.push_back(load<double>(address, a.dtype));
      kept_integers.push_back(load<int64_t>(address, a.dtype));
    });
    out->shape = {static_cast<int64_t>(kept.size())};
    out->strides = {1};
    if (is_floating(a.dtype))
      write(*out, kept);
    else
      write(*out, kept_integers);
  });
}
// Coordinates of the elements that are not zero: one row each, or (V2) one column each.
static void write_coordinates(const Tensor& in, bool columns, Tensor* out) {
  std::vector<int64_t> found;
  int64_t position = 0;
  for (double value : read<double>(in)) {
    if (value != 0) found.push_back(position);
    position++;
  }
  int64_t count = static_cast<int64_t>(found.size());
  Shape strides = contiguous_strides(in.shape);
  std::vector<int64_t> places(static_cast<size_t>(count * in.dims()));
  for (int64_t i = 0; i < count; i++)
    for (int64_t d = 0; d < in.dims(); d++) {
      int64_t place = found[static_cast<size_t>(i)] / strides[static_cast<size_t>(d)] % in.size(d);
      places[static_cast<size_t>(columns ? d * count + i : i * in.dims() + d)] = place;
    }
  out->shape = columns ? Shape{in.dims(), count} : Shape{count, in.dims()};
  out->strides = contiguous_strides(out->shape);
  write(*out, places);
}
OPERATOR(Nonzero, const Tensor* self, Tensor* out) {
  return PLAN(Nonzero, {self}, [a = *self, out] { write_coordinates(a, false, out); });
}
OPERATOR(NonzeroV2, const Tensor* self, Tensor* out) {
  return PLAN(NonzeroV2, {self}, [a = *self, out] { write_coordinates(a, true, out); });
}
OPERATOR(Unique2, const Tensor* self, bool, bool inverse, bool counts, Tensor* out, Tensor* out_inverse,
         Tensor* out_counts) {
  return PLAN(Unique2, {self}, [a = *self, inverse, counts, out, out_inverse, out_counts] {
    in_type(is_floating(a.dtype), [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> values = read<T>(a), distinct = values;
      std::sort(distinct.begin(), distinct.end());
      distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
      std::vector<int64_t> where, uses(distinct.size(), 0);
      for (T value : values) {
        where.push_back(std::lower_bound(distinct.begin(), distinct.end(), value) - distinct.begin());
        uses[static_cast<size_t>(where.back())]++;
      }
      out->shape = {static_cast<int64_t>(distinct.size())};
      out->strides = {1};
      write(*out, distinct);
      if (inverse) write(*out_inverse, where);
      if (counts) {
        out_counts->shape = out->shape;
        out_counts->strides = {1};
        write(*out_counts, uses);
      }
    });
  });
}
OPERATOR(InplaceMaskedScatter, const Tensor* self, const Tensor* mask, const Tensor* source) {
  return PLAN(InplaceMaskedScatter, {self, mask, source}, [a = *self, m = *mask, s = *source] {
    std::vector<int64_t> chosen = read<int64_t>(m, a.shape);
    in_type(is_floating(a.dtype), [&](auto zero) {
      std::vector<decltype(zero)> values = read<decltype(zero)>(s);
      size_t i = 0, next = 0;
      for_each_element(a, a.shape, [&](char* address) {
        if (chosen[i++] && next < values.size()) store(address, a.dtype, values[next++]);
      });
    });
  });
}
