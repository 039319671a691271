// Convolutions by the kernels of small_image_kernels.h, in the same layouts as those by oneDNN.
#pragma once

#include <memory>

#include "batchless/training/backend.h"

namespace batchless::training {

// Whether the kernels for small images can do the layer, and do it fastest.
bool SuitsSmallImage(const ConvolutionShape& shape);

std::unique_ptr<Convolution<float>> MakeSmallImageConvolution(const ConvolutionShape& shape);

}  // namespace batchless::training
