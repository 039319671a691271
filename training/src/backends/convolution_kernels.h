// Convolutions by kernels of our own, a family of them for each kind of shape.
#pragma once

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "backends/blocked_weights.h"

namespace batchless::training {

// `Kernels` has the three passes as functions of a shape, with the arguments of the methods here. Weights are
// OIhwBiBo, or OhwiBo where the input is not in blocks.
template <class Kernels, class Shape>
class KernelConvolution final : public Convolution<float> {
 public:
  KernelConvolution(const ConvolutionShape& convolution, const Shape& shape)
      : Convolution(BlockedWeights(convolution)), shape_(shape) {}

  std::int64_t workspace_size() const override { return shape_.workspace_size(); }

  void Forward(const float* x, const float* weights, const float* bias, float* y, float* workspace,
               Prefetcher* ahead) override {
    Kernels::Forward(shape_, x, weights, bias, y, workspace, ahead);
  }

  void BackwardInput(const float* dy, const float* weights, float* dx, float* workspace,
                     Prefetcher* ahead) override {
    Kernels::BackwardInput(shape_, dy, weights, dx, workspace, ahead);
  }

  void BackwardWeights(const float* x, const float* dy, float* dw, float* workspace,
                       Prefetcher* ahead, GradientConsumer<float>* consumer) override {
    Kernels::BackwardWeights(shape_, x, dy, dw, workspace, ahead, consumer);
  }

 private:
  Shape shape_;
};

template <class Kernels, class Shape>
std::unique_ptr<Convolution<float>> MakeKernelConvolution(const ConvolutionShape& convolution,
                                                          const Shape& shape) {
  return std::make_unique<KernelConvolution<Kernels, Shape>>(convolution, shape);
}

// Weights that a kernel works on together: `outs` output channels from `out` on by `ins` input
// channels from `in` on.
struct WeightPiece {
  std::int64_t out;
  std::int64_t outs;
  std::int64_t in;
  std::int64_t ins;
};

// visit(piece) for pieces of up to `outs` by `ins` channels, all input channels of some outputs
// before the next outputs.
template <class Shape, class Visit>
void ForEachPiece(const Shape& s, std::int64_t outs, std::int64_t ins, Visit visit) {
  for (std::int64_t out = 0; out < s.out_channels; out += outs) {
    for (std::int64_t in = 0; in < s.in_channels; in += ins) {
      visit(WeightPiece{.out = out,
                        .outs = std::min(outs, s.out_channels - out),
                        .in = in,
                        .ins = std::min(ins, s.in_channels - in)});
    }
  }
}

// Has `size` weights on their way into the caches that are worked on later: blocks are too short, or lie
// too far apart, for the machine to see where they go on.
HWY_INLINE void PrefetchWeights(const float* weights, int size) {
  constexpr int kLine = 16;
  for (int i = 0; i < size; i += kLine) hwy::Prefetch(weights + i);
}

}  // namespace batchless::training
