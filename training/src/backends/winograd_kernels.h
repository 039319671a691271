// Convolutions 3x3 with stride 1 and padding 1 by Winograd's F(2x2, 3x3): four products for each
// output and pair of channels where the direct sum takes nine.
//
//   Y  = A' [sum over c of (G g G') * (B' d B)] A           forward, * elementwise
//   dg = G' [sum over tiles of (B' d B) * (A dY A')] G      weights
//
//   d   4x4 pixels of x, overlapping their neighbours' by two     (B' d B): V (16, tiles, C)
//   g   3x3 weights of one pair of channels                       (G g G'): U (16, K / B, C, B)
//   Y   2x2 pixels of y                                           (A dY A'): (16, tiles, K)
//
// Each of the 16 positions is a product of matrices, (tiles, C) by (C, K). The input's gradient is
// the forward of dy with in and out exchanged and the taps turned by 180 degrees. Rounding errors are
// about twice those of direct sums: the transforms add and subtract, and halve the weights.
//
// Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", arXiv 1509.09308,
// section 4.1; with the signs of B's and A's last columns turned, which saves negations.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/convolution_kernels.h"
#include "batchless/training/parameter_tensor.h"

namespace batchless::training {

/// x (microbatch, C / B, height, width, B), y the same with K. Channels are multiples of B.
struct WinogradShape {
  std::int64_t microbatch = 1;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t in_channels = 0;   // C
  std::int64_t out_channels = 0;  // K
  std::int64_t block = 0;         // B

  static constexpr std::int64_t kInChunk = 64;

  std::int64_t tile_rows() const { return (height + 1) / 2; }  // of one sample
  std::int64_t row_tiles() const { return (width + 1) / 2; }
  std::int64_t tiles() const { return microbatch * tile_rows() * row_tiles(); }

  // Rows of tiles, of any sample, that are worked on at once: enough for every product of matrices
  // to pay for reading its weights, few enough to stay in the nearest caches.
  std::int64_t block_rows() const {
    constexpr std::int64_t kTiles = 32;
    const std::int64_t all = microbatch * tile_rows();
    const std::int64_t rows = kTiles / row_tiles();
    return std::clamp<std::int64_t>(rows, 1, all);
  }
  std::int64_t block_tiles() const { return block_rows() * row_tiles(); }

  // Channels whose weights are worked on at once. Where one block has all tiles, a few, so that
  // their U stays in the nearest caches; several blocks share U, which is made once then.
  bool one_block() const { return block_rows() == microbatch * tile_rows(); }
  std::int64_t in_chunk() const {
    return one_block() ? std::min(kInChunk, in_channels) : in_channels;
  }
  std::int64_t out_chunk() const {
    return one_block() ? std::min(2 * block, out_channels) : out_channels;
  }

  // Distance between the planes of two positions: powers of two would put all 16 of them in the
  // same few sets of a cache.
  static std::int64_t Plane(std::int64_t size) { return RoundUp(size, 16) + 16; }
  std::int64_t filter_plane() const {
    const std::int64_t all = in_channels * out_channels;
    return Plane(one_block() ? std::min(kInChunk * 2 * block, all) : all);
  }
  std::int64_t in_plane() const { return Plane(block_tiles() * in_channels); }
  std::int64_t out_plane() const { return Plane(block_tiles() * out_channels); }

  // Elements of scratch that any of the kernels takes.
  std::int64_t workspace_size() const { return 16 * (filter_plane() + in_plane() + out_plane()); }
};

using WinogradKernels = ConvolutionKernels<WinogradShape>;

// For `block` 8 or 16.
WinogradKernels FindWinogradKernels(int block);

}  // namespace batchless::training
