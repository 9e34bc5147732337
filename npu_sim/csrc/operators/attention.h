// Scaled dot-product attention over the layouts of CANN's fused operators.
#pragma once
#include <string>
#include <vector>

#include "operators/kernel.h"

namespace sim {

struct Attention {
  Attention(const Tensor* query, const TensorList* keys, const TensorList* values, const Tensor* bias,
            const Tensor* mask, const IntArray* query_lengths, const IntArray* key_lengths, const Tensor* block_table,
            const Tensor* query_rope, const Tensor* key_rope, int64_t heads, double scale, int64_t previous,
            int64_t next, const char* layout, int64_t key_heads, int64_t sparse_mode, int64_t block_size,
            bool write_lse, const Tensor* out, const Tensor* lse);

  // What the simulator cannot compute, or "".
  std::string unsupported() const;
  std::vector<Tensor> operands() const;
  void run() const;

 private:
  // One sequence: where its rows lie.
  struct Rows {
    Tensor view;  // [heads, rows, width]
    int64_t valid;
  };
  Tensor heads_of(const Tensor& packed, int64_t batch, int64_t heads, bool keys, bool out) const;
  std::vector<double> key_rows(const Tensor& packed, int64_t batch, int64_t head, int64_t rows) const;
  int64_t batches() const;
  int64_t rows_of(const Tensor& packed, int64_t batch, const std::vector<int64_t>& lengths, bool cumulative) const;
  int64_t key_length(int64_t batch) const;
  bool visible(int64_t batch, int64_t head, int64_t row, int64_t column, int64_t rows, int64_t columns) const;

  Tensor query_, out_, lse_;
  std::vector<Tensor> keys_, values_;
  MaybeTensor bias_, mask_, block_table_, query_rope_, key_rope_;
  std::vector<int64_t> query_lengths_, key_lengths_;
  int64_t heads_, key_heads_, previous_, next_, sparse_mode_, block_size_;
  double scale_;
  std::string layout_, out_layout_;
  bool write_lse_;
};

}  // namespace sim
