#include "backends/winograd_convolution.h"

#include "backends/blocked_weights.h"
#include "backends/winograd_kernels.h"

namespace batchless::training {
namespace {

WinogradShape ShapeOf(const ConvolutionShape& shape) {
  return {.microbatch = shape.microbatch,
          .height = shape.layer.input.height,
          .width = shape.layer.input.width,
          .in_channels = RoundUp(shape.layer.input.channels, shape.input_block),
          .out_channels = RoundUp(shape.layer.output.channels, shape.output_block),
          .block = shape.output_block};
}

class WinogradConvolution final : public Convolution<float> {
 public:
  explicit WinogradConvolution(const ConvolutionShape& shape)
      : weight_(BlockedWeights(shape)),
        shape_(ShapeOf(shape)),
        kernels_(FindWinogradKernels(shape.output_block)) {}

  ParameterTensor weight_tensor() const override { return weight_; }
  std::int64_t workspace_size() const override { return shape_.workspace_size(); }

  void Forward(const float* x, const float* weights, const float* bias, float* y,
               float* workspace) override {
    kernels_.forward(shape_, x, weights, bias, y, workspace);
  }

  void BackwardInput(const float* dy, const float* weights, float* dx, float* workspace) override {
    kernels_.backward_input(shape_, dy, weights, dx, workspace);
  }

  void BackwardWeights(const float* x, const float* dy, float* dw, float* workspace) override {
    kernels_.backward_weights(shape_, x, dy, dw, workspace);
  }

 private:
  ParameterTensor weight_;
  WinogradShape shape_;
  WinogradKernels kernels_;
};

}  // namespace

bool SuitsWinograd(const ConvolutionShape& shape) {
  const hwmodel::Layer& layer = shape.layer;
  if (layer.kernel != 3 || layer.stride != 1 || layer.padding != 1) return false;
  if (shape.input_block != shape.output_block) return false;
  // Few tiles do not pay for 16/9 of the weights to be written and read. Measured on AVX2 at batch
  // one (bench_convolution), speed relative to oneDNN's: 8x8 pixels, 16 tiles, 1.6 to 1.9; 4x4
  // pixels, 4 tiles, 0.6.
  constexpr std::int64_t kFewestTiles = 16;
  if (ShapeOf(shape).tiles() >= kFewestTiles) return true;
  // Images of up to 2x2 pixels have a weight gradient by plain loops in oneDNN for AVX2: 360 ms for
  // 512 channels, where ours takes 3 and the other two passes lose 5.
  return shape.output_block == 8 && layer.input.pixels() <= 4;
}

std::unique_ptr<Convolution<float>> MakeWinogradConvolution(const ConvolutionShape& shape) {
  return std::make_unique<WinogradConvolution>(shape);
}

}  // namespace batchless::training
