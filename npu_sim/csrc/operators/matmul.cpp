// Matrix products. Integers multiply in int64, everything else in double.
#include "operators/elementwise.h"

using namespace sim;

namespace {

// A tensor as a batch of matrices [batch..., rows, columns].
struct Matrices {
  Shape batch;
  int64_t rows, columns;
};

Matrices as_matrices(const Shape& shape, bool left) {
  if (shape.size() == 1) return left ? Matrices{{}, 1, shape[0]} : Matrices{{}, shape[0], 1};
  return {{shape.begin(), shape.end() - 2}, shape[shape.size() - 2], shape.back()};
}

// The tensor broadcast to `batch`, as values of [batch, rows, columns].
template <class T>
std::vector<T> read_matrices(Tensor tensor, const Matrices& m, const Shape& batch) {
  if (tensor.shape.size() == 1) {
    int64_t step = tensor.strides[0];
    tensor.shape = {m.rows, m.columns};
    tensor.strides = {m.rows == 1 ? 0 : step, m.rows == 1 ? step : 0};
  }
  Shape whole = batch;
  whole.insert(whole.end(), {m.rows, m.columns});
  return read<T>(tensor, whole);
}

template <class T>
std::vector<T> product(const Tensor& a, const Tensor& b) {
  Matrices left = as_matrices(a.shape, true), right = as_matrices(b.shape, false);
  Shape batch = broadcast_shapes(left.batch, right.batch);
  std::vector<T> x = read_matrices<T>(a, left, batch), y = read_matrices<T>(b, right, batch);
  int64_t rows = left.rows, inner = left.columns, columns = right.columns;
  std::vector<T> z(static_cast<size_t>(element_count(batch) * rows * columns), T(0));
  for (int64_t k = 0; k < element_count(batch); k++)
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < inner; j++) {
        T factor = x[static_cast<size_t>((k * rows + i) * inner + j)];
        const T* row = y.data() + (k * inner + j) * columns;
        T* to = z.data() + (k * rows + i) * columns;
        for (int64_t c = 0; c < columns; c++) to[c] = add(to[c], multiply(factor, row[c]));
      }
  return z;
}

bool floating_product(const Tensor& a, const Tensor& b, const Tensor& out) {
  return is_floating(a.dtype) || is_floating(b.dtype) || is_floating(out.dtype);
}

void matmul(const Tensor& a, const Tensor& b, const Tensor& out) {
  in_type(floating_product(a, b, out), [&](auto zero) { write(out, product<decltype(zero)>(a, b)); });
}

// out = beta * base + alpha * a @ b; beta 0 ignores base, NaN included. `sum_batches`: addbmm.
void matmul_add(const Tensor& base, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                const Tensor& out, bool sum_batches = false) {
  in_type(floating_product(a, b, out), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> z = product<T>(a, b), old = read<T>(base, out.shape);
    if (sum_batches) {
      size_t one = static_cast<size_t>(out.count());
      std::vector<T> total(one, T(0));
      for (size_t i = 0; i < z.size(); i++) total[i % one] = add(total[i % one], z[i]);
      z = total;
    }
    T k = alpha.as<T>(), old_k = beta.as<T>();
    for (size_t i = 0; i < z.size(); i++) {
      z[i] = multiply(k, z[i]);
      if (old_k != T(0)) z[i] = add(z[i], multiply(old_k, old[i]));
    }
    write(out, z);
  });
}

}  // namespace

#define PRODUCT(NAME)                                                                              \
  OPERATOR(NAME, const Tensor* self, const Tensor* other, const Tensor* out, int8_t) {             \
    return PLAN(NAME, {self, other, out}, [a = *self, b = *other, o = *out] { matmul(a, b, o); }); \
  }
PRODUCT(Mm)
PRODUCT(Matmul)
PRODUCT(BatchMatMul)
PRODUCT(Mv)
PRODUCT(MatmulWeightNz)

OPERATOR(Dot, const Tensor* self, const Tensor* other, const Tensor* out) {
  return PLAN(Dot, {self, other, out}, [a = *self, b = *other, o = *out] { matmul(a, b, o); });
}
OPERATOR(Addmm, const Tensor* self, const Tensor* mat1, const Tensor* mat2, const Scalar* beta, const Scalar* alpha,
         const Tensor* out, int8_t) {
  return PLAN(Addmm, {self, mat1, mat2, out},
              [c = *self, a = *mat1, b = *mat2, be = *beta, al = *alpha, o = *out] { matmul_add(c, a, b, be, al, o); });
}
OPERATOR(InplaceAddmm, const Tensor* self, const Tensor* mat1, const Tensor* mat2, const Scalar* beta,
         const Scalar* alpha, int8_t) {
  return PLAN(InplaceAddmm, {self, mat1, mat2},
              [c = *self, a = *mat1, b = *mat2, be = *beta, al = *alpha] { matmul_add(c, a, b, be, al, c); });
}
OPERATOR(Baddbmm, const Tensor* self, const Tensor* mat1, const Tensor* mat2, const Scalar* beta, const Scalar* alpha,
         const Tensor* out, int8_t) {
  return PLAN(Baddbmm, {self, mat1, mat2, out},
              [c = *self, a = *mat1, b = *mat2, be = *beta, al = *alpha, o = *out] { matmul_add(c, a, b, be, al, o); });
}
OPERATOR(Addbmm, const Tensor* self, const Tensor* mat1, const Tensor* mat2, const Scalar* beta, const Scalar* alpha,
         const Tensor* out, int8_t) {
  return PLAN(Addbmm, {self, mat1, mat2, out}, [c = *self, a = *mat1, b = *mat2, be = *beta, al = *alpha, o = *out] {
    matmul_add(c, a, b, be, al, o, true);
  });
}
OPERATOR(Addmv, const Tensor* self, const Tensor* mat, const Tensor* vec, const Scalar* alpha, const Scalar* beta,
         const Tensor* out, int8_t) {
  return PLAN(Addmv, {self, mat, vec, out},
              [c = *self, a = *mat, b = *vec, be = *beta, al = *alpha, o = *out] { matmul_add(c, a, b, be, al, o); });
}
OPERATOR(Addr, const Tensor* self, const Tensor* vec1, const Tensor* vec2, const Scalar* beta, const Scalar* alpha,
         const Tensor* out) {
  return PLAN(Addr, {self, vec1, vec2, out}, [c = *self, x = *vec1, y = *vec2, be = *beta, al = *alpha, o = *out] {
    Tensor column = x, row = y;
    column.shape.push_back(1);
    column.strides.push_back(0);
    row.shape.insert(row.shape.begin(), 1);
    row.strides.insert(row.strides.begin(), 0);
    matmul_add(c, column, row, be, al, o);
  });
}
