// Convolutions by the kernels of winograd_kernels.h, in the same layouts as those by oneDNN.
#pragma once

#include <memory>

#include "batchless/training/backend.h"

namespace batchless::training {

// The edge of the tiles by which the layer is done fastest, 2 or 4; 0 where Winograd's kernels cannot
// do it, or direct sums are faster.
int WinogradEdge(const ConvolutionShape& shape);

// By F(edge x edge, 3x3), edge 2 or 4.
std::unique_ptr<Convolution<float>> MakeWinogradConvolution(const ConvolutionShape& shape,
                                                            int edge);

}  // namespace batchless::training
