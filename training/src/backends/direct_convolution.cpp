#include "backends/direct_convolution.h"

#include "backends/direct_kernels.h"
#include "backends/kernel_convolution.h"

namespace batchless::training {
namespace {

DirectShape ShapeOf(const ConvolutionShape& shape) {
  const hwmodel::Layer& layer = shape.layer;
  const bool planar = shape.input_block == 1;
  return {.microbatch = shape.microbatch,
          .in_channels = RoundUp(layer.input.channels, shape.input_block),
          .in_block = planar ? layer.input.channels : shape.input_block,
          .out_channels = RoundUp(layer.output.channels, shape.output_block),
          .planar_input = planar,
          .height = layer.input.height,
          .width = layer.input.width,
          .out_height = layer.output.height,
          .out_width = layer.output.width,
          .kernel = layer.kernel,
          .stride = layer.stride,
          .padding = layer.padding};
}

}  // namespace

bool SuitsDirect(const ConvolutionShape& shape) {
  // Measured on AVX2 at batch one (bench_convolution), all three passes together, speed relative to
  // oneDNN's: 16-32x32s2 1.1, 128-128x56s2 1.4, 512-512x14s2 1.1, 3-16x32 1.0, 1-6x28k5 far
  // above (its weight gradients there are plain loops), 3-64x224k7s2 1.0; 64-192x8k5 0.9, 1x1 kernels
  // 0.6 to 0.8. Where they are even, there is no library's call to pay for.
  return shape.layer.kernel == 3 || shape.input_block == 1;
}

std::unique_ptr<Convolution<float>> MakeDirectConvolution(const ConvolutionShape& shape) {
  return std::make_unique<KernelConvolution<DirectShape>>(shape, ShapeOf(shape),
                                                          FindDirectKernels(shape.output_block));
}

}  // namespace batchless::training
