// Convolutions by oneDNN, versions 2 and 3, in layouts that are fixed beforehand.
//
//   images    nChwBc, the first layer's input nchw
//   weights   OIhwBiBo in the forward and for their gradient, OIhwBoBi for the input's gradient:
//             the same with every B x B block transposed. First layer: OhwiBo
//
// One object serves one thread at a time and runs on one OpenMP thread: oneDNN's own threads would
// get in each other's way at batch one. Objects of the same shape share oneDNN's compiled code.
#pragma once

#include <memory>

#include "batchless/training/backend.h"

namespace batchless::training {

std::unique_ptr<Convolution<float>> MakeOneDnnConvolution(const ConvolutionShape& shape);

}  // namespace batchless::training
