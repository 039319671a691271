#include "backends/winograd_convolution.h"

#include "backends/kernel_convolution.h"
#include "backends/winograd_kernels.h"

namespace batchless::training {
namespace {

WinogradShape ShapeOf(const ConvolutionShape& shape, int edge) {
  return {.microbatch = shape.microbatch,
          .height = shape.layer.input.height,
          .width = shape.layer.input.width,
          .in_channels = RoundUp(shape.layer.input.channels, shape.input_block),
          .out_channels = RoundUp(shape.layer.output.channels, shape.output_block),
          .block = shape.output_block,
          .edge = edge};
}

}  // namespace

int WinogradEdge(const ConvolutionShape& shape) {
  const hwmodel::Layer& layer = shape.layer;
  if (layer.kernel != 3 || layer.stride != 1 || layer.padding != 1) return 0;
  if (shape.input_block != shape.output_block) return 0;
  // Few tiles do not pay for 16/9 or 4 times the weights to be written and read. Measured on AVX2 at
  // batch one (bench_convolution), speed relative to direct sums': F(2x2) 1.6 to 1.9 with 8x8 pixels,
  // 16 tiles; 1.3 with 4x4 pixels, 4 tiles; 0.7 with one tile. F(4x4) relative to F(2x2): 1.2 to 1.7
  // with 32x32 and 16x16 pixels, 64 and 16 tiles; 0.8 to 1.1 with 8x8 pixels, 4 tiles.
  // An image of 2x2 pixels fills a quarter of a tile of F(4x4), which takes 36 products for it, F(2x2) 16.
  const bool fills = std::max(layer.input.height, layer.input.width) > 2;
  if (fills && ShapeOf(shape, 4).tiles() >= 16) return 4;
  if (ShapeOf(shape, 2).tiles() >= 4) return 2;
  return 0;
}

std::unique_ptr<Convolution<float>> MakeWinogradConvolution(const ConvolutionShape& shape,
                                                            int edge) {
  return std::make_unique<KernelConvolution<WinogradShape>>(
      shape, ShapeOf(shape, edge), FindWinogradKernels(shape.output_block, edge));
}

}  // namespace batchless::training
