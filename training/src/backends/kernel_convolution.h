// A convolution by kernels of our own: their shape and their table of three functions.
#pragma once

#include "backends/blocked_weights.h"
#include "backends/convolution_kernels.h"

namespace batchless::training {

template <class Shape>
class KernelConvolution final : public Convolution<float> {
 public:
  KernelConvolution(const ConvolutionShape& convolution, const Shape& shape,
                    const ConvolutionKernels<Shape>& kernels)
      : weight_(BlockedWeights(convolution)), shape_(shape), kernels_(kernels) {}

  ParameterTensor weight_tensor() const override { return weight_; }
  std::int64_t workspace_size() const override { return shape_.workspace_size(); }

  void Forward(const float* x, const float* weights, const float* bias, float* y, float* workspace,
               Prefetcher* ahead) override {
    kernels_.forward(shape_, x, weights, bias, y, workspace, ahead);
  }

  void BackwardInput(const float* dy, const float* weights, float* dx, float* workspace,
                     Prefetcher* ahead) override {
    kernels_.backward_input(shape_, dy, weights, dx, workspace, ahead);
  }

  void BackwardWeights(const float* x, const float* dy, float* dw, float* workspace,
                       Prefetcher* ahead, GradientConsumer<float>* consumer) override {
    kernels_.backward_weights(shape_, x, dy, dw, workspace, ahead, consumer);
  }

 private:
  ParameterTensor weight_;
  Shape shape_;
  ConvolutionKernels<Shape> kernels_;
};

}  // namespace batchless::training
