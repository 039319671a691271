// Data sets of labelled images; those of sequences are in token_dataset.h.
//
//   set          shape      classes   augmentation of training samples (RandomStream::kAugmentation)
//   cifar10      3x32x32    10        crop with 4 pixels of padding, mirror
//   synthetic    3x32x32    10        the same
//   mnist        1x28x28    10        crop with 2 pixels of padding; a mirrored digit is none
//   imagefolder  3xSxS      folders   crop of 8 % to 100 % of the area, aspect 3/4 to 4/3; mirror
//
// Pixels are bytes in the order channel, row, column. A network sees (pixel / 255 - mean) /
// standard deviation, with one of both for each channel. Augmentation comes before that, as in the
// usual PyTorch pipeline: padding is black (0), and becomes -mean / standard deviation.
//
// Files:
//   CIFAR-10  ROOT/cifar-10-batches-bin/{data_batch_1..5,test_batch}.bin: records of 1 label and
//             3072 pixels, any whole number of them in a file; the last of them may be missing.
//             https://www.cs.toronto.edu/~kriz/cifar.html
//   MNIST     ROOT/mnist/{train,t10k}-{images-idx3,labels-idx1}-ubyte, each plain or with .gz
//   folders   ROOT/{train,val}/CLASS/*.jpg|jpeg, in capitals or not: classes and files in the order
//             of their names, byte by byte; validation sees the middle 7/8 (224/256) of the shorter
//             side. Hidden files and others are left out and counted; a class that has no picture is
//             refused. Pixels are taken as they are stored: EXIF's orientation turns nothing
//
// Means and standard deviations: those of the training pixels (CIFAR-10, MNIST, synthetic), and the
// usual ones of ImageNet for folders of images.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "batchless/training/random.h"

namespace batchless::training {

struct ImageShape {
  int channels = 0;
  int height = 0;
  int width = 0;

  /// Values in one image.
  std::int64_t size() const { return std::int64_t{channels} * height * width; }
  bool operator==(const ImageShape&) const = default;
};

enum class Split : std::uint32_t { kTrain = 0, kValidation = 1 };

/// All of it may be called from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  /// As in the table above.
  const std::string& name() const { return content_.name; }
  const ImageShape& shape() const { return content_.shape; }
  /// Samples, at least one.
  std::int64_t size() const { return static_cast<std::int64_t>(content_.labels.size()); }
  int classes() const { return content_.classes; }
  /// Tokens of a sample, which has as many labels; 0: samples are images, of one label. Of tokens the
  /// shape is 1 x context x 1, the classes are the vocabulary, and a sample's label is its last token's.
  int context() const { return content_.context; }
  int labels_per_sample() const { return content_.context > 0 ? content_.context : 1; }
  /// Entropy rate of the source that made the tokens, bits a token; 0: unknown.
  double entropy_bits() const { return content_.entropy_bits; }
  /// Files in the folders of the set's images that are hidden or no pictures, and not samples.
  std::int64_t left_out() const { return content_.left_out; }
  /// From 0 to classes() - 1. Throws analysis::InvalidArgument unless 0 <= sample < size(), as all
  /// that take a sample do.
  int label(std::int64_t sample) const;
  /// The means of pixels / 255, one for each channel.
  std::span<const float> mean() const { return content_.mean; }
  std::span<const float> standard_deviation() const { return content_.standard_deviation; }
  /// SHA-256 in hexadecimal digits of what was read: label and pixels of one sample after the other
  /// as bytes (for CIFAR-10 its files, end to end), or for folders of images a line
  /// "CLASS/FILE LABEL BYTES" for each file.
  const std::string& digest() const { return content_.digest; }

  /// The sample as validation sees it; `pixels` holds shape().size() bytes. Throws DataError where
  /// the sample is a file that cannot be read.
  void Read(std::int64_t sample, std::span<std::uint8_t> pixels) const;
  /// The sample as training sees it; takes its choices from `random`.
  void ReadAugmented(std::int64_t sample, CounterRandom& random,
                     std::span<std::uint8_t> pixels) const;
  /// Its context() + 1 tokens, the last one a label alone.
  void ReadTokens(std::int64_t sample, std::span<std::int32_t> tokens) const;

 protected:
  struct Content {
    std::string name;
    ImageShape shape;
    int classes = 0;
    std::vector<float> mean;
    std::vector<float> standard_deviation;
    std::vector<int> labels;
    std::string digest;
    int context = 0;
    double entropy_bits = 0;
    std::int64_t left_out = 0;
  };
  explicit Dataset(Content content) : content_(std::move(content)) {}

 private:
  // A set of images overrides the first two, one of tokens the last.
  virtual void DoRead(std::int64_t /*sample*/, std::span<std::uint8_t> /*pixels*/) const {}
  virtual void DoReadAugmented(std::int64_t /*sample*/, CounterRandom& /*random*/,
                               std::span<std::uint8_t> /*pixels*/) const {}
  virtual void DoReadTokens(std::int64_t /*sample*/, std::span<std::int32_t> /*tokens*/) const {}
  void Check(std::int64_t sample, bool has_tokens) const;
  void Check(std::int64_t sample) const;
  void Check(std::int64_t sample, std::span<const std::uint8_t> pixels) const;

  Content content_;
};

/// Each throws DataError for a file that is missing, unreadable, empty or wrong, and
/// analysis::InvalidArgument for a number out of range. The first two read the whole set into
/// memory, 3 KB and 0.8 KB for a sample.
std::shared_ptr<const Dataset> LoadCifar10(const std::filesystem::path& root, Split split);
std::shared_ptr<const Dataset> LoadMnist(const std::filesystem::path& root, Split split);

/// Reads names and sizes of the files now and decodes an image (baseline or progressive JPEG) each
/// time it is read. `size` is the side of the square images, 1 to 4096. Both splits have the
/// classes of the training split.
std::shared_ptr<const Dataset> OpenImageFolder(const std::filesystem::path& root, Split split,
                                               int size);

/// What the program takes where no seed or size is given.
inline constexpr std::uint64_t kSyntheticSeed = 1;
inline constexpr std::int64_t kSyntheticTrainSize = 10'000;
inline constexpr std::int64_t kSyntheticValidationSize = 2'000;

/// Images made up from (seed, split, sample) alone; training/src/data/synthetic.cpp says how. A set
/// is a prefix of every larger one of its seed. Sizes from 1 to 10^7; the size of the other split
/// has no influence.
std::shared_ptr<const Dataset> MakeSynthetic(
    std::uint64_t seed, Split split, std::int64_t train_size = kSyntheticTrainSize,
    std::int64_t validation_size = kSyntheticValidationSize);

}  // namespace batchless::training

// Example
//   const std::shared_ptr<const Dataset> data = MakeSynthetic(/*seed=*/1, Split::kTrain, 64, 16);
//   CHECK(data->size() == 64);
//   std::vector<std::uint8_t> pixels(data->shape().size());
//   data->Read(3, pixels);
//   CHECK(data->label(3) < data->classes());
