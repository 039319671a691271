// Photographs: decoding, and the part of one at another size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace batchless::training {

/// Red, green and blue for each pixel, row by row.
struct Photograph {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> pixels;
};

/// Grey and CMYK images become RGB. Throws DataError for what is no JPEG, or one that is damaged.
Photograph DecodeJpeg(const std::filesystem::path& path);

/// A part of a photograph, in its pixels; pixel i covers [i, i+1).
struct Box {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
};

/// The part scaled to size x size in the order channel, row, column, and mirrored if so asked.
///
/// out(x) = sum_i w_i in(i) / sum_i w_i,  w_i = max(0, 1 - |i + 1/2 - c| / s)
///
///   c   middle of the output pixel in the photograph      s   max(1, pixels in to pixels out)
///
/// in each direction: bilinear for s = 1, and a mean over the pixels that meet in one otherwise, as
/// in Pillow's resize with BILINEAR.
void ResizePart(const Photograph& photograph, const Box& part, int size, bool mirrored,
                std::span<std::uint8_t> pixels);

}  // namespace batchless::training
