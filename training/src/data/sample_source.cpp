#include "batchless/training/sample_source.h"

#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "batchless/analysis/argument.h"
#include "batchless/training/random.h"

namespace batchless::training {

using analysis::InvalidArgument;

SampleSource::SampleSource(std::shared_ptr<const Dataset> dataset,
                           const SampleSourceOptions& options)
    : dataset_(std::move(dataset)),
      options_(options),
      epoch_size_(options.limit == 0 ? dataset_->size() : options.limit) {
  if (options.limit < 0 || options.limit > dataset_->size()) {
    throw InvalidArgument("limit", std::to_string(options.limit),
                          "an integer from 0 (all samples) to " + std::to_string(dataset_->size()));
  }
  for (int channel = 0; channel < dataset_->shape().channels; ++channel) {
    const float mean = dataset_->mean()[static_cast<std::size_t>(channel)];
    const float deviation = dataset_->deviation()[static_cast<std::size_t>(channel)];
    std::array<float, 256>& row = normalized_.emplace_back();
    for (std::size_t byte = 0; byte < row.size(); ++byte) {
      row[byte] = (static_cast<float>(byte) / 255.0F - mean) / deviation;
    }
  }
}

Sample SampleSource::At(std::int64_t position) const {
  const std::int64_t epoch = position / epoch_size_;
  if (position < 0 || epoch > std::numeric_limits<std::uint32_t>::max()) {
    throw InvalidArgument("position", std::to_string(position), "a position below 2^32 epochs");
  }
  const std::int64_t place = position % epoch_size_;
  const std::int64_t index = options_.order == Order::kSequential
                                 ? place
                                 : PermutationOf(epoch)->samples[static_cast<std::size_t>(place)];
  return {index, dataset_->label(index), epoch};
}

void SampleSource::Read(std::int64_t position, std::span<float> image) const {
  const auto size = static_cast<std::size_t>(dataset_->shape().size());
  if (image.size() != size) {
    throw InvalidArgument("image", std::to_string(image.size()) + " values",
                          std::to_string(size) + " values");
  }
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

std::shared_ptr<const SampleSource::Permutation> SampleSource::PermutationOf(
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
