// Data sets that lie in memory as bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "batchless/training/dataset.h"

namespace batchless::training {

class ByteDataset : public Dataset {
 public:
  using Content = Dataset::Content;

  /// `pixels` holds one image after the other; none for a set whose images its own Image() has. Where there is no
  /// digest, it is that of labels, which have to be below 256, and pixels. Crops are taken from the image with
  /// `padding` black pixels around it.
  ByteDataset(Content content, int padding, bool mirror, std::vector<std::uint8_t> pixels);

 private:
  void DoRead(std::int64_t sample, std::span<std::uint8_t> pixels) const override;
  void DoReadAugmented(std::int64_t sample, CounterRandom& random,
                       std::span<std::uint8_t> pixels) const override;
  virtual std::span<const std::uint8_t> Image(std::int64_t sample) const;

  int padding_;
  bool mirror_;
  std::vector<std::uint8_t> pixels_;
};

/// Images of CIFAR-10's shape, 3x32x32 in 10 classes, which are also mirrored.
inline constexpr int kCifarPadding = 4;
ByteDataset::Content CifarShaped(std::string name, std::vector<float> mean,
                                 std::vector<float> standard_deviation, std::vector<int> labels,
                                 std::string digest = {});

}  // namespace batchless::training
