// Convolutions by oneDNN, versions 2 and 3, in layouts that are fixed beforehand.
//
//   images    nChwBc, the first layer's input nchw
//   weights   OIhwBiBo, and OhwiBo in the first layer. The input's gradient wants OIhwBoBi, which
//             is the same with every B x B block transposed: done at each call into scratch that
//             stays in the cache, which moves less memory than keeping a second copy of the weights
//
// One object serves one thread at a time and runs on one OpenMP thread: oneDNN's own threads would
// get in each other's way at batch one. Objects of the same shape share oneDNN's compiled code.
#pragma once

#include <memory>

#include "batchless/training/backend.h"

namespace batchless::training {

// Transposes the blocks of `size` numbers, B x B each.
using TransposeBlocks = void (*)(std::int64_t size, const float* from, float* to);

std::unique_ptr<Convolution<float>> MakeOneDnnConvolution(const ConvolutionShape& shape,
                                                          TransposeBlocks transpose);

}  // namespace batchless::training
