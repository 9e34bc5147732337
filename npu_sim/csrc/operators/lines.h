// Work along one dimension: a tensor seen as many lines of equal length.
#pragma once
#include "operators/elementwise.h"

namespace sim {

// The positions of a contiguous array of `shape`, as lines along `dim`.
struct Lines {
  int64_t length, inner, count;
  Lines(const Shape& shape, int64_t dim) {
    length = shape.empty() ? 1 : shape[static_cast<size_t>(dim)];
    inner = 1;
    for (size_t d = static_cast<size_t>(dim) + 1; d < shape.size(); d++) inner *= shape[d];
    int64_t total = element_count(shape);
    count = length == 0 ? 0 : total / length;
  }
  // The i-th element of a line.
  size_t at(int64_t line, int64_t i) const {
    return static_cast<size_t>((line / inner * length + i) * inner + line % inner);
  }
};

// Reduces `dims` of `in` (all when empty): groups[k] collects the input positions of the k-th output.
template <class T>
std::vector<std::vector<T>> grouped(const Tensor& in, const std::vector<int64_t>& dims) {
  std::vector<bool> reduced(in.shape.size(), dims.empty());
  for (int64_t dim : dims) {
    int64_t wrapped = wrap_dim(dim, in.dims());
    if (wrapped < in.dims()) reduced[static_cast<size_t>(wrapped)] = true;
  }
  Shape strides(in.shape.size(), 0);
  int64_t groups = 1;
  for (size_t d = in.shape.size(); d-- > 0;)
    if (!reduced[d]) {
      strides[d] = groups;
      groups *= in.shape[d];
    }
  std::vector<std::vector<T>> result(static_cast<size_t>(groups));
  Shape index(in.shape.size(), 0);
  for (T value : read<T>(in)) {
    int64_t group = 0;
    for (size_t d = 0; d < index.size(); d++) group += index[d] * strides[d];
    result[static_cast<size_t>(group)].push_back(value);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < in.shape[d]) break;
      index[d] = 0;
    }
  }
  return result;
}

}  // namespace sim
