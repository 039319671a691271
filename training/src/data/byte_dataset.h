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
  struct Options {
    std::string name;
    ImageShape shape;
    int classes = 0;
    std::vector<float> mean;
    std::vector<float> standard_deviation;
    int padding = 0;  ///< black pixels around the image that a crop is taken from
    bool mirror = false;
  };

  /// `pixels` holds one image after the other. Labels have to be below 256.
  ByteDataset(const Options& options, const std::vector<int>& labels,
              std::vector<std::uint8_t> pixels);

 protected:
  /// For a set whose images its own Image() has.
  ByteDataset(const Options& options, std::vector<int> labels, std::string digest);

 private:
  void DoRead(std::int64_t sample, std::span<std::uint8_t> pixels) const override;
  void DoReadAugmented(std::int64_t sample, CounterRandom& random,
                       std::span<std::uint8_t> pixels) const override;
  virtual std::span<const std::uint8_t> Image(std::int64_t sample) const;

  int padding_;
  bool mirror_;
  std::vector<std::uint8_t> pixels_;
};

/// The options of CIFAR-10's shape, 3x32x32 in 10 classes, padding 4 and mirror.
ByteDataset::Options CifarShapedOptions(const std::string& name, std::vector<float> mean,
                                        std::vector<float> standard_deviation);

}  // namespace batchless::training
