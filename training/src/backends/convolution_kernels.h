// What a family of kernels of our own gives for its kind of shape: the three passes of a convolution.
#pragma once

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstdint>

#include "batchless/training/gradient_consumer.h"
#include "batchless/training/prefetcher.h"

namespace batchless::training {

// `weights` OIhwBiBo, or OhwiBo where the input is not in blocks. dw is overwritten, or scratch for
// the consumer's pieces where it is not null.
template <class Shape>
struct ConvolutionKernels {
  // `bias` may be null.
  void (*forward)(const Shape&, const float* x, const float* weights, const float* bias, float* y,
                  float* workspace, Prefetcher* ahead);
  void (*backward_input)(const Shape&, const float* dy, const float* weights, float* dx,
                         float* workspace, Prefetcher* ahead);
  void (*backward_weights)(const Shape&, const float* x, const float* dy, float* dw,
                           float* workspace, Prefetcher* ahead, GradientConsumer<float>* consumer);
};

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
