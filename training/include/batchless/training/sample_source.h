// The samples of a run, as a function of their position in it: of a data set, or of the caller's own.
//
//   position p   0, 1, 2, ... from the start of the run, across epochs
//
// Samples of a data set:
//
//   epoch        p / n, n samples in an epoch
//   order        shuffled: Fisher and Yates' permutation of 0..n-1 from (seed, kOrder, epoch);
//                sequential: p mod n
//   image        (pixel / 255 - mean) / standard deviation in float, channel, row, column; augmented before
//                that, by choices from (seed, kAugmentation, sample, epoch); see dataset.h
//   tokens       as they are, float numbers of 0 to vocabulary - 1
//
// Nothing is remembered from one call to the next, so a run resumes at any position.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "batchless/training/dataset.h"

namespace batchless::training {

/// What a trainer reads. Any thread may ask for any position.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  SampleSource(const SampleSource&) = delete;
  SampleSource& operator=(const SampleSource&) = delete;

  /// What messages call it.
  virtual const std::string& name() const = 0;
  /// The shape of every image.
  virtual const ImageShape& shape() const = 0;
  /// Labels are from 0 to classes() - 1.
  virtual int classes() const = 0;
  /// These throw analysis::InvalidArgument for a position that is out of range.
  virtual int Label(std::int64_t position) const = 0;
  /// Writes the image as the network is to see it: shape().size() values, channel, row, column.
  virtual void Read(std::int64_t position, std::span<float> image) const = 0;
  /// A sequence has a label for each token, and Label is the last of them.
  virtual int labels_per_sample() const { return 1; }
  /// Writes the labels_per_sample() labels.
  void ReadLabels(std::int64_t position, std::span<std::int32_t> labels) const;

 protected:
  SampleSource() = default;
  virtual void DoReadLabels(std::int64_t position, std::span<std::int32_t> labels) const {
    labels[0] = Label(position);
  }
};

/// Samples that lie in memory, images one after the other, the first of them at position `first`.
class MemorySource final : public SampleSource {
 public:
  /// Refers to the images and labels. Throws analysis::InvalidArgument, naming `labels` or `images`, for a
  /// label below 0 and unless there is an image for each.
  MemorySource(const ImageShape& shape, std::span<const float> images, std::span<const int> labels,
               std::int64_t first = 0);

  const std::string& name() const override;
  const ImageShape& shape() const override { return shape_; }
  int classes() const override { return classes_; }
  int Label(std::int64_t position) const override;
  void Read(std::int64_t position, std::span<float> image) const override;

 private:
  std::size_t IndexOf(std::int64_t position) const;

  ImageShape shape_;
  std::span<const float> images_;
  std::span<const int> labels_;
  std::int64_t first_;
  int classes_ = 0;
};

enum class Order { kShuffled, kSequential };

struct DatasetSourceOptions {
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

class DatasetSource final : public SampleSource {
 public:
  /// Throws analysis::InvalidArgument for a limit that is negative or larger than the set.
  DatasetSource(std::shared_ptr<const Dataset> dataset, const DatasetSourceOptions& options);

  const Dataset& dataset() const { return *dataset_; }
  const DatasetSourceOptions& options() const { return options_; }
  /// n.
  std::int64_t epoch_size() const { return epoch_size_; }
  const std::string& name() const override { return dataset_->name(); }
  const ImageShape& shape() const override { return dataset_->shape(); }
  int classes() const override { return dataset_->classes(); }
  int labels_per_sample() const override { return dataset_->labels_per_sample(); }

  /// Throws analysis::InvalidArgument for a negative position, and beyond 2^32 epochs.
  Sample At(std::int64_t position) const;
  int Label(std::int64_t position) const override { return At(position).label; }
  /// Tokens are numbers. Throws DataError where the sample is a file that cannot be read.
  void Read(std::int64_t position, std::span<float> image) const override;

 private:
  struct Permutation {
    std::int64_t epoch = 0;
    std::vector<std::uint32_t> samples;
  };

  void DoReadLabels(std::int64_t position, std::span<std::int32_t> labels) const override;
  std::shared_ptr<const Permutation> PermutationOf(std::int64_t epoch) const;
  std::vector<std::int32_t> TokensAt(std::int64_t position) const;

  std::shared_ptr<const Dataset> dataset_;
  DatasetSourceOptions options_;
  std::int64_t epoch_size_;
  // (b / 255 - mean) / standard deviation for every channel and byte b.
  std::vector<std::array<float, 256>> normalized_;
  // The even and the odd epoch asked for last: around the end of an epoch both are in use.
  mutable std::mutex mutex_;
  mutable std::array<std::shared_ptr<const Permutation>, 2> permutations_;
};

}  // namespace batchless::training

// Example
//   const DatasetSource source(MakeSynthetic(1, Split::kTrain, 64, 16),
//                              {.seed = 2, .order = Order::kShuffled, .augment = true});
//   CHECK(source.epoch_size() == 64);
//   CHECK(source.At(63).epoch == 0);
//   CHECK(source.At(64).epoch == 1);
//   std::vector<float> image(source.shape().size());
//   source.Read(64, image);
//   const std::vector<int> labels = {7};
//   const MemorySource own(source.shape(), image, labels, 100);
//   CHECK(own.Label(100) == 7);
