// Convolutions by the kernels of winograd_kernels.h, in the same layouts as those by oneDNN.
#pragma once

#include <memory>

#include "batchless/training/backend.h"

namespace batchless::training {

// Whether Winograd's kernels can do the layer, and do it faster than direct sums.
bool SuitsWinograd(const ConvolutionShape& shape);

std::unique_ptr<Convolution<float>> MakeWinogradConvolution(const ConvolutionShape& shape);

}  // namespace batchless::training
