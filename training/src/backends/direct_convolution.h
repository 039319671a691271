// Convolutions by the kernels of direct_kernels.h, in the same layouts as those by oneDNN.
#pragma once

#include <memory>

#include "batchless/training/backend.h"

namespace batchless::training {

// Whether the direct kernels do the layer faster than oneDNN's.
bool SuitsDirect(const ConvolutionShape& shape);

std::unique_ptr<Convolution<float>> MakeDirectConvolution(const ConvolutionShape& shape);

}  // namespace batchless::training
