#include "data/byte_dataset.h"

#include <algorithm>
#include <utility>

#include "aligned_buffer.h"
#include "batchless/training/sha256.h"

namespace batchless::training {
namespace {

ByteDataset::Content WithDigest(ByteDataset::Content content,
                                const std::vector<std::uint8_t>& pixels) {
  if (!content.digest.empty()) return content;
  Sha256 sha256;
  const auto bytes = std::as_bytes(std::span(pixels));
  const auto image_bytes = static_cast<std::size_t>(content.shape.size());
  for (std::size_t i = 0; i < content.labels.size(); ++i) {
    const auto label = static_cast<std::byte>(content.labels[i]);
    sha256.Update(std::span(&label, 1));
    sha256.Update(bytes.subspan(i * image_bytes, image_bytes));
  }
  content.digest = sha256.HexDigest();
  return content;
}

}  // namespace

ByteDataset::ByteDataset(Content content, int padding, bool mirror,
                         std::vector<std::uint8_t> pixels)
    : Dataset(WithDigest(std::move(content), pixels)),
      padding_(padding),
      mirror_(mirror),
      pixels_(std::move(pixels)) {
  // Samples are read in random order, each from pages that were not read for long.
  MoveToHugePages(pixels_.data(), static_cast<std::int64_t>(pixels_.size()));
}

std::span<const std::uint8_t> ByteDataset::Image(std::int64_t sample) const {
  const auto bytes = static_cast<std::size_t>(shape().size());
  return std::span(pixels_).subspan(static_cast<std::size_t>(sample) * bytes, bytes);
}

void ByteDataset::DoRead(std::int64_t sample, std::span<std::uint8_t> pixels) const {
  const std::span<const std::uint8_t> image = Image(sample);
  std::copy(image.begin(), image.end(), pixels.begin());
}

// The padded image is never made: a row of the crop is zeros, a piece of a row, and zeros.
void ByteDataset::DoReadAugmented(std::int64_t sample, CounterRandom& random,
                                  std::span<std::uint8_t> pixels) const {
  const auto shifts = static_cast<std::uint32_t>(2 * padding_ + 1);
  // Where the crop's corner lies in the image, from -padding to padding.
  const int top = static_cast<int>(random.Below(shifts)) - padding_;
  const int left = static_cast<int>(random.Below(shifts)) - padding_;
  const bool mirrored = mirror_ && random.Below(2) == 1;

  const auto [channels, height, width] = shape();
  const int first = std::max(left, 0);
  const int length = std::max(std::min(left + width, width) - first, 0);
  const std::uint8_t* image = Image(sample).data();
  std::uint8_t* row = pixels.data();
  std::fill(pixels.begin(), pixels.end(), std::uint8_t{0});
  for (int channel = 0; channel < channels; ++channel, image += height * width) {
    for (int y = top; y < top + height; ++y, row += width) {
      if (y < 0 || y >= height) continue;
      const std::uint8_t* from = image + y * width + first;
      if (mirrored) {
        std::reverse_copy(from, from + length, row + (left + width - first - length));
      } else {
        std::copy(from, from + length, row + (first - left));
      }
    }
  }
}

ByteDataset::Content CifarShaped(std::string name, std::vector<float> mean,
                                 std::vector<float> standard_deviation, std::vector<int> labels,
                                 std::string digest) {
  return {std::move(name),   {3, 32, 32},      10, std::move(mean), std::move(standard_deviation),
          std::move(labels), std::move(digest)};
}

}  // namespace batchless::training
