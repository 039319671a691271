#include "batchless/training/sample_source.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "batchless/analysis/argument.h"
#include "batchless/training/random.h"

namespace batchless::training {

using analysis::RefuseIf;

namespace {

void CheckSize(std::span<const float> image, const ImageShape& shape) {
  RefuseIf(std::ssize(image) != shape.size(), "image", std::to_string(image.size()) + " values",
           std::to_string(shape.size()) + " values");
}

}  // namespace

MemorySource::MemorySource(const ImageShape& shape, std::span<const float> images,
                           std::span<const int> labels, std::int64_t first)
    : shape_(shape), images_(images), labels_(labels), first_(first) {
  for (const int label : labels) {
    RefuseIf(label < 0, "labels", label, "integers from 0 on");
    classes_ = std::max(classes_, label + 1);
  }
  const std::int64_t wanted = std::ssize(labels) * shape.size();
  RefuseIf(std::ssize(images) != wanted, "images", std::to_string(images.size()) + " values",
           std::to_string(wanted) + " for " + std::to_string(labels.size()) + " labels");
}

const std::string& MemorySource::name() const {
  static const std::string kName = "samples in memory";
  return kName;
}

int MemorySource::Label(std::int64_t position) const { return labels_[IndexOf(position)]; }

void MemorySource::Read(std::int64_t position, std::span<float> image) const {
  CheckSize(image, shape_);
  std::ranges::copy(images_.subspan(IndexOf(position) * image.size(), image.size()), image.begin());
}

std::size_t MemorySource::IndexOf(std::int64_t position) const {
  analysis::CheckInteger("position", position, first_, first_ + std::ssize(labels_) - 1);
  return static_cast<std::size_t>(position - first_);
}

DatasetSource::DatasetSource(std::shared_ptr<const Dataset> dataset,
                             const DatasetSourceOptions& options)
    : dataset_(std::move(dataset)),
      options_(options),
      epoch_size_(options.limit == 0 ? dataset_->size() : options.limit) {
  RefuseIf(options.limit < 0 || options.limit > dataset_->size(), "limit", options.limit,
           "an integer from 0 (all samples) to " + std::to_string(dataset_->size()));
  if (dataset_->context() > 0) return;
  for (int channel = 0; channel < dataset_->shape().channels; ++channel) {
    const float mean = dataset_->mean()[static_cast<std::size_t>(channel)];
    const float standard_deviation =
        dataset_->standard_deviation()[static_cast<std::size_t>(channel)];
    std::array<float, 256>& row = normalized_.emplace_back();
    for (std::size_t byte = 0; byte < row.size(); ++byte) {
      row[byte] = (static_cast<float>(byte) / 255.0F - mean) / standard_deviation;
    }
  }
}

Sample DatasetSource::At(std::int64_t position) const {
  const std::int64_t epoch = position / epoch_size_;
  RefuseIf(position < 0 || epoch > std::numeric_limits<std::uint32_t>::max(), "position", position,
           "a position below 2^32 epochs");
  const std::int64_t place = position % epoch_size_;
  const std::int64_t index = options_.order == Order::kSequential
                                 ? place
                                 : PermutationOf(epoch)->samples[static_cast<std::size_t>(place)];
  return {index, dataset_->label(index), epoch};
}

void DatasetSource::Read(std::int64_t position, std::span<float> image) const {
  CheckSize(image, shape());
  if (dataset_->context() > 0) {
    const std::vector<std::int32_t> tokens = TokensAt(position);
    std::transform(tokens.begin(), tokens.end() - 1, image.begin(),
                   [](std::int32_t token) { return static_cast<float>(token); });
    return;
  }
  const std::size_t size = image.size();
  const Sample sample = At(position);
  // The bytes go to the end of the image, where no value is written before its byte is read.
  auto* bytes = reinterpret_cast<std::uint8_t*>(image.data()) + size * (sizeof(float) - 1);
  if (options_.augment) {
    CounterRandom random(options_.seed, RandomStream::kAugmentation,
                         static_cast<std::uint64_t>(sample.index),
                         static_cast<std::uint32_t>(sample.epoch));
    dataset_->ReadAugmented(sample.index, random, {bytes, size});
  } else {
    dataset_->Read(sample.index, {bytes, size});
  }
  float* value = image.data();
  for (const std::array<float, 256>& row : normalized_) {
    for (std::size_t i = size / normalized_.size(); i > 0; --i) *value++ = row[*bytes++];
  }
}

void SampleSource::ReadLabels(std::int64_t position, std::span<std::int32_t> labels) const {
  RefuseIf(std::ssize(labels) != labels_per_sample(), "labels", labels.size(),
           std::to_string(labels_per_sample()));
  DoReadLabels(position, labels);
}

void DatasetSource::DoReadLabels(std::int64_t position, std::span<std::int32_t> labels) const {
  if (dataset_->context() == 0) {
    SampleSource::DoReadLabels(position, labels);
    return;
  }
  const std::vector<std::int32_t> tokens = TokensAt(position);
  std::copy(tokens.begin() + 1, tokens.end(), labels.begin());
}

std::vector<std::int32_t> DatasetSource::TokensAt(std::int64_t position) const {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(dataset_->context()) + 1);
  dataset_->ReadTokens(At(position).index, tokens);
  return tokens;
}

std::shared_ptr<const DatasetSource::Permutation> DatasetSource::PermutationOf(
    std::int64_t epoch) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Permutation>& cached = permutations_[static_cast<std::size_t>(epoch % 2)];
  if (cached == nullptr || cached->epoch != epoch) {
    auto made = std::make_shared<Permutation>();
    made->epoch = epoch;
    made->samples.resize(static_cast<std::size_t>(epoch_size_));
    std::iota(made->samples.begin(), made->samples.end(), std::uint32_t{0});
    CounterRandom random(options_.seed, RandomStream::kOrder, static_cast<std::uint64_t>(epoch));
    for (std::size_t i = made->samples.size(); i > 1; --i) {
      std::swap(made->samples[i - 1], made->samples[random.Below(static_cast<std::uint32_t>(i))]);
    }
    cached = std::move(made);
  }
  return cached;
}

}  // namespace batchless::training
