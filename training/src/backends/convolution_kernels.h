// What a family of kernels of our own gives for its kind of shape: the three passes of a convolution.
#pragma once

#include "batchless/training/gradient_consumer.h"

namespace batchless::training {

// `weights` OIhwBiBo, or OhwiBo where the input is not in blocks. dw is
// overwritten, or scratch for the consumer's pieces where it is not null.
template <class Shape>
struct ConvolutionKernels {
  // `bias` may be null.
  void (*forward)(const Shape&, const float* x, const float* weights, const float* bias, float* y,
                  float* workspace);
  void (*backward_input)(const Shape&, const float* dy, const float* weights, float* dx,
                         float* workspace);
  void (*backward_weights)(const Shape&, const float* x, const float* dy, float* dw,
                           float* workspace, GradientConsumer<float>* consumer);
};

}  // namespace batchless::training
