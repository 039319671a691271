#include "backends/small_image_convolution.h"

#include "backends/kernel_convolution.h"
#include "backends/small_image_kernels.h"

namespace batchless::training {

bool SuitsSmallImage(const ConvolutionShape& shape) {
  // Measured at batch one (bench_convolution), speed relative to the next best, all three passes
  // together: 512-512x4 2.0 with AVX-512 and 1.4 with AVX2, 512-512x2 2.3 and 2.8.
  const hwmodel::Layer& layer = shape.layer;
  const hwmodel::FeatureShape& image = layer.input;
  if (layer.kernel != 3 || layer.stride != 1 || layer.padding != 1) return false;
  if (shape.microbatch != 1 || shape.input_block != shape.output_block) return false;
  return image.height == image.width && (image.width == 2 || image.width == 4);
}

std::unique_ptr<Convolution<float>> MakeSmallImageConvolution(const ConvolutionShape& shape) {
  const hwmodel::Layer& layer = shape.layer;
  return std::make_unique<KernelConvolution<SmallImageShape>>(
      shape,
      SmallImageShape{.in_channels = RoundUp(layer.input.channels, shape.input_block),
                      .out_channels = RoundUp(layer.output.channels, shape.output_block)},
      FindSmallImageKernels(shape.output_block, layer.input.width));
}

}  // namespace batchless::training
