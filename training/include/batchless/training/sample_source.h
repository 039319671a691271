// The samples of a run, as a function of their position in it.
//
//   position p   0, 1, 2, ... from the start of the run, across epochs
//   epoch        p / n, n samples in an epoch
//   order        shuffled: Fisher and Yates' permutation of 0..n-1 from (seed, kOrder, epoch);
//                sequential: p mod n
//   image        (pixel / 255 - mean) / deviation in float, channel, row, column; augmented before
//                that, by choices from (seed, kAugmentation, sample, epoch); see dataset.h
//
// Nothing is remembered from one call to the next, so a run resumes at any position, and any thread
// may ask for any of them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "batchless/training/dataset.h"

namespace batchless::training {

enum class Order { kShuffled, kSequential };

struct SampleSourceOptions {
  std::uint64_t seed = 0;
  Order order = Order::kShuffled;
  bool augment = false;
  std::int64_t limit = 0;  ///< the first samples of the set make an epoch; 0: all of them
};

struct Sample {
  std::int64_t index = 0;  ///< in the data set
  int label = 0;
  std::int64_t epoch = 0;  ///< from 0

  bool operator==(const Sample&) const = default;
};

class SampleSource {
 public:
  /// Throws analysis::InvalidArgument for a limit that is negative or larger than the set.
  SampleSource(std::shared_ptr<const Dataset> dataset, const SampleSourceOptions& options);

  const Dataset& dataset() const { return *dataset_; }
  const SampleSourceOptions& options() const { return options_; }
  /// n.
  std::int64_t epoch_size() const { return epoch_size_; }

  /// Throws analysis::InvalidArgument for a negative position, and beyond 2^32 epochs.
  Sample At(std::int64_t position) const;
  /// Writes the image of At(position), dataset().shape().size() values. Throws DataError where the
  /// sample is a file that cannot be read.
  void Read(std::int64_t position, std::span<float> image) const;

 private:
  struct Permutation {
    std::int64_t epoch = 0;
    std::vector<std::uint32_t> samples;
  };

  std::shared_ptr<const Permutation> PermutationOf(std::int64_t epoch) const;

  std::shared_ptr<const Dataset> dataset_;
  SampleSourceOptions options_;
  std::int64_t epoch_size_;
  // (b / 255 - mean) / deviation for every channel and byte b.
  std::vector<std::array<float, 256>> normalized_;
  // The even and the odd epoch asked for last: around the end of an epoch both are in use.
  mutable std::mutex mutex_;
  mutable std::array<std::shared_ptr<const Permutation>, 2> permutations_;
};

}  // namespace batchless::training
