// Convolutions 3x3 with stride 1 and padding 1 of one sample's square image of 2x2 or 4x4 pixels, as
// direct sums over the taps that lie inside of it: y, dw and dx as in direct_kernels.h.
//
// Such layers are the last ones of a network: their weights are far more than caches hold and each is
// used for a few multiplications only, so that reading them takes the time. Each of the kernels reads
// or writes them once, for dx a block of channels at a time and else in the order in which they lie.
// The sums of all pixels stay in the registers while taps are added: for y those over c, for dx those
// over the blocks of k, each lane for itself.
#pragma once

#include <cstdint>
#include <memory>

#include "batchless/training/backend.h"

namespace batchless::training {

/// x (C / B, edge, edge, B), y the same with K. Channels are multiples of B.
struct SmallImageShape {
  std::int64_t in_channels = 0;   // C
  std::int64_t out_channels = 0;  // K

  static std::int64_t workspace_size() { return 0; }
};

// Whether these kernels can do the layer, and do it fastest.
bool SuitsSmallImage(const ConvolutionShape& shape);

std::unique_ptr<Convolution<float>> MakeSmallImageConvolution(const ConvolutionShape& shape);

}  // namespace batchless::training
