// Convolutions 3x3 with stride 1 and padding 1 by Winograd's F(m x m, 3x3), m = 2 or 4: (m + 2)^2
// products for each m x m outputs and pair of channels where the direct sum takes 9 m^2; 4 and 2.25
// for each output.
//
//   Y  = A' [sum over c of (G g G') * (B' d B)] A           forward, * elementwise
//   dg = G' [sum over tiles of (B' d B) * (A dY A')] G      weights
//
//   d   m+2 x m+2 pixels of x, which overlap their           (B' d B): V (positions, C / B, tiles, B)
//       neighbours' by two
//   g   3x3 weights of one pair of channels                  (G g G'): U (positions, K / B, C, B)
//   Y   m x m pixels of y                                    (A dY A'): (positions, K / B, tiles, B)
//
// Each of the (m + 2)^2 positions is a product of matrices, (tiles, C) by (C, K). The input's gradient
// is the forward of dy with in and out exchanged and the taps turned by 180 degrees.
//
// F(2x2) interpolates at 0, 1, -1 and infinity, F(4x4) at 0, +-sqrt(1/2), +-sqrt(2) and infinity: the
// same transforms as with +-1, +-2 but for their factors, and half the rounding error. Errors of y
// beside those of direct sums: about the same for F(2x2), three times for F(4x4).
//
// Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", arXiv 1509.09308;
// in F(2x2) the signs of B's and A's last columns are turned, which saves negations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "batchless/training/backend.h"

namespace batchless::training {

/// x (microbatch, C / B, height, width, B), y the same with K. Channels are multiples of B.
struct WinogradShape {
  std::int64_t microbatch = 1;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t in_channels = 0;   // C
  std::int64_t out_channels = 0;  // K
  std::int64_t edge = 2;          // m

  std::int64_t tile_rows() const { return (height + edge - 1) / edge; }  // of one sample
  std::int64_t row_tiles() const { return (width + edge - 1) / edge; }
  std::int64_t tiles() const { return microbatch * tile_rows() * row_tiles(); }

  // Rows of tiles, of any sample, that are worked on at once: enough for every product of matrices
  // to pay for reading its weights, few enough to stay in the nearest caches. Weights whose U no cache holds
  // are read for more of them: VGG-16 by mini-batches of 128 trains 1.05 times as fast alone on the machine,
  // 1.25 times beside another run.
  std::int64_t block_rows() const {
    constexpr std::int64_t kMany = 1 << 17;
    const std::int64_t tiles = in_channels * out_channels >= kMany ? 128 : 32;
    const std::int64_t all = microbatch * tile_rows();
    const std::int64_t rows = tiles / row_tiles();
    return std::clamp<std::int64_t>(rows, 1, all);
  }
  std::int64_t block_tiles() const { return block_rows() * row_tiles(); }

  // Channels whose weights are worked on at once. Where one block has all tiles, a few, so that
  // their U stays in the near caches, and two blocks of outputs, so that what is read of a tile is
  // used twice: measured at batch one. Several blocks of tiles share U, which is made once then.
  std::int64_t most_ins() const { return 4 * kBlock; }
  std::int64_t most_outs() const { return 2 * kBlock; }
  bool one_block() const { return block_rows() == microbatch * tile_rows(); }
  std::int64_t in_piece() const {
    return one_block() ? std::min(most_ins(), in_channels) : in_channels;
  }
  std::int64_t out_piece() const {
    return one_block() ? std::min(most_outs(), out_channels) : out_channels;
  }

  // Distance between the planes of two positions: powers of two would put all of them in the
  // same few sets of a cache.
  static std::int64_t Plane(std::int64_t size) { return RoundUp(size, 16) + 16; }
  std::int64_t filter_plane() const {
    // The same when in and out are exchanged, as the input's gradient does.
    const std::int64_t all = in_channels * out_channels;
    return Plane(one_block() ? std::min(most_ins() * most_outs(), all) : all);
  }
  std::int64_t in_plane() const { return Plane(block_tiles() * in_channels); }
  std::int64_t out_plane() const { return Plane(block_tiles() * out_channels); }

  // Elements of scratch that any of the kernels takes.
  std::int64_t workspace_size() const {
    return (edge + 2) * (edge + 2) * (filter_plane() + in_plane() + out_plane());
  }
};

// The edge of the tiles by which the layer is done fastest, 2 or 4; 0 where these kernels cannot do it, or
// direct sums are faster.
int WinogradEdge(const ConvolutionShape& shape);

// By F(edge x edge, 3x3), edge 2 or 4.
std::unique_ptr<Convolution<float>> MakeWinogradConvolution(const ConvolutionShape& shape,
                                                            int edge);

}  // namespace batchless::training
