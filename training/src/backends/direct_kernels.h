// Convolutions of any kernel, stride and padding as direct sums: those of some neighbouring pixels by
// some output channels stay in the registers.
//
//   y[k, p, q]       = bias[k] + sum over c, i, j of w[k, c, i, j] x[c, s p + i - P, s q + j - P]
//   dw[k, c, i, j]   = sum over p, q of dy[k, p, q] x[c, s p + i - P, s q + j - P]
//   dx[c, h, w]      = sum over k and those i, j, p, q with s p + i - P = h, s q + j - P = w
//
// The image is copied once with zeros around it, where it needs any. In it, and in the weights, the columns j and the
// channels c of a block lie side by side, so that one run of kernel x Bi steps does both: for y they
// are summed over, for dw they are rows. For dx the pixels with equal (h + P) mod s and (w + P) mod s
// are a convolution of stride 1 over dy, by the taps that reach them, turned by 180 degrees.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "batchless/training/backend.h"

namespace batchless::training {

/// x (microbatch, C / Bi, height, width, Bi) or, where Bi = C, (microbatch, C, height, width);
/// y (microbatch, K / B, out_height, out_width, B); weights (K / B, C / Bi, kernel, kernel, Bi, B).
struct DirectShape {
  std::int64_t microbatch = 1;
  std::int64_t in_channels = 0;   // C, a multiple of Bi
  std::int64_t in_block = 0;      // Bi
  std::int64_t out_channels = 0;  // K, a multiple of B
  bool planar_input = false;      // x in planes of one channel each
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t out_height = 0;
  std::int64_t out_width = 0;
  std::int64_t kernel = 0;
  std::int64_t stride = 1;
  std::int64_t padding = 0;  // P

  // Whether x is not its own framed image, dy not its own framed one.
  bool frames_input() const { return planar_input || padding > 0; }
  bool frames_output() const {
    return framed_out_height() * framed_out_width() != out_height * out_width;
  }

  // The image with its frame: as far as the last output's taps reach, or the image itself does.
  std::int64_t framed_height() const { return Framed(height, out_height); }
  std::int64_t framed_width() const { return Framed(width, out_width); }
  // None where x is that itself.
  std::int64_t framed_size() const {
    return frames_input() ? microbatch * in_channels * framed_height() * framed_width() : 0;
  }

  // Taps in one dimension that reach a pixel, at most.
  std::int64_t reach() const { return (kernel + stride - 1) / stride; }
  // dy with its frame: reach() - 1 zeros before it, and after it as many as the last pixels need.
  std::int64_t framed_out_height() const { return FramedOut(height, out_height); }
  std::int64_t framed_out_width() const { return FramedOut(width, out_width); }
  std::int64_t framed_out_size() const {
    return frames_output() ? microbatch * out_channels * framed_out_height() * framed_out_width()
                           : 0;
  }

  // Elements of scratch that any of the kernels takes: the framed image, or the framed dy and the
  // turned weights of two blocks of input channels.
  std::int64_t workspace_size() const {
    const std::int64_t turned = 2 * kBlock * out_channels * reach() * reach();
    return std::max(framed_size(), RoundUp(framed_out_size(), kBlock) + turned);
  }

 private:
  std::int64_t Framed(std::int64_t size, std::int64_t out) const {
    return std::max((out - 1) * stride + kernel, size + padding);
  }
  std::int64_t FramedOut(std::int64_t size, std::int64_t out) const {
    const std::int64_t reached = (size - 1 + padding) / stride + 1;
    return reach() - 1 + std::max(reached, out);
  }
};

std::unique_ptr<Convolution<float>> MakeDirectConvolution(const ConvolutionShape& shape);

}  // namespace batchless::training
