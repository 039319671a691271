// The vector backend's functions of sequences, compiled for several instruction sets and chosen when
// the program runs. A vector's lanes are columns of the result, so the order of every sum depends on
// the block alone.
#pragma once

#include "batchless/training/backend.h"

namespace batchless::training {

// The backend's methods of the same names.
struct TokenKernels {
  std::int64_t (*product_workspace)(std::int64_t rows, std::int64_t columns, std::int64_t steps);
  void (*multiply)(const Product<float>&, float* workspace);
  void (*sum_rows)(std::int64_t rows, std::int64_t columns, const float* y, bool add, float* sums);
  void (*row_statistics)(const RowNormalization<float>&);
  void (*normalize_rows)(const RowNormalization<float>&, const float* gamma, const float* beta,
                         float* y);
  void (*normalize_rows_backward)(const RowNormalization<float>&, const float* gamma,
                                  const float* dy, bool add_dx, float* dx, bool add_gradient,
                                  float* dgamma, float* dbeta);
  void (*gelu)(std::int64_t size, const float* x, float* y);
  void (*gelu_backward)(std::int64_t size, const float* x, const float* dy, bool add, float* dx);
  void (*squared_relu)(std::int64_t size, const float* x, float* y);
  void (*squared_relu_backward)(std::int64_t size, const float* x, const float* dy, bool add,
                                float* dx);
  std::int64_t (*attention_workspace)(const AttentionShape&);
  void (*attention)(const AttentionShape&, const float* x, float* y, float* log_sums,
                    float* workspace);
  void (*attention_backward)(const AttentionShape&, const float* x, const float* log_sums,
                             const float* dy, float* dx, float* workspace);
  void (*cross_entropy)(std::int64_t rows, std::int64_t classes, const float* z,
                        const std::int32_t* labels, float* p, float* losses, std::uint8_t* correct);
};

// For `block` 8 or 16.
TokenKernels FindTokenKernels(int block);

}  // namespace batchless::training
