#include "backends/winograd_convolution.h"

#include "backends/kernel_convolution.h"
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

}  // namespace

bool SuitsWinograd(const ConvolutionShape& shape) {
  const hwmodel::Layer& layer = shape.layer;
  if (layer.kernel != 3 || layer.stride != 1 || layer.padding != 1) return false;
  if (shape.input_block != shape.output_block) return false;
  // Few tiles do not pay for 16/9 of the weights to be written and read. Measured on AVX2 at batch
  // one (bench_convolution), speed relative to direct sums': 8x8 pixels, 16 tiles, 1.6 to 1.9; 4x4
  // pixels, 4 tiles, 0.9; 2x2 pixels, one tile, 0.7.
  constexpr std::int64_t kFewestTiles = 16;
  return ShapeOf(shape).tiles() >= kFewestTiles;
}

std::unique_ptr<Convolution<float>> MakeWinogradConvolution(const ConvolutionShape& shape) {
  return std::make_unique<KernelConvolution<WinogradShape>>(
      shape, ShapeOf(shape), FindWinogradKernels(shape.output_block));
}

}  // namespace batchless::training
