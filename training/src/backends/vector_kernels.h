// The loops of the vector backend, compiled for several instruction sets and chosen when the
// program runs. A vector's lanes are channels, so the order of every sum, and with it every bit,
// depends on the block alone and not on the width of the machine's vectors.
#pragma once

#include "batchless/training/backend.h"

namespace batchless::training {

// The backend's methods of the same names; B = block.
struct VectorKernels {
  void (*statistics)(const NormalizationShape&, const float* x, const float* gamma,
                     const float* beta, const ChannelConstants<float>&);
  void (*normalized_relu)(const NormalizationShape&, const float* x, const ChannelConstants<float>&,
                          float* h);
  void (*normalized_relu_backward)(const NormalizationShape&,
                                   const Backend<float>::NormalizationGradient&);
  void (*bias_gradient)(const NormalizationShape&, const float* dy, bool add, float* sums);
  void (*max_pool)(const PoolShape&, const float* x, float* y, std::uint8_t* winners);
  void (*average_pool)(const PoolShape&, const float* x, float* y);
  void (*average_pool_backward)(const PoolShape&, const float* dy, float* dx);
  void (*add)(std::int64_t size, const float* a, const float* b, float* sum);
  void (*relu)(std::int64_t size, const float* x, float* y);
  void (*relu_backward)(std::int64_t size, const float* y, const float* dy, bool add, float* dx);
  void (*linear)(std::int64_t n, std::int64_t in, std::int64_t out, const float* x, const float* w,
                 const float* b, float* y);
  void (*linear_backward_input)(std::int64_t n, std::int64_t in, std::int64_t out, const float* dy,
                                const float* w, float* dx);
  void (*linear_backward_weights)(std::int64_t n, std::int64_t in, std::int64_t out, const float* x,
                                  const float* dy, bool add, float* dw, float* db);
  // Transposes `size` numbers, every B x B of them a block.
  void (*transpose_blocks)(std::int64_t size, const float* from, float* to);
};

// For `block` 8 or 16.
VectorKernels FindVectorKernels(int block);

// The block that suits this machine.
int PreferredBlock();

}  // namespace batchless::training
