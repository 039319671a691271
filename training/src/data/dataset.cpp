#include "batchless/training/dataset.h"

#include <string>

#include "batchless/analysis/argument.h"

namespace batchless::training {

using analysis::InvalidArgument;

void Dataset::Check(std::int64_t sample) const {
  if (sample >= 0 && sample < size()) return;
  throw InvalidArgument("sample", std::to_string(sample),
                        "an integer from 0 to " + std::to_string(size() - 1));
}

void Dataset::Check(std::int64_t sample, std::span<const std::uint8_t> pixels) const {
  Check(sample);
  if (static_cast<std::int64_t>(pixels.size()) == shape().size()) return;
  throw InvalidArgument("pixels", std::to_string(pixels.size()) + " bytes",
                        std::to_string(shape().size()) + " bytes");
}

int Dataset::label(std::int64_t sample) const {
  Check(sample);
  return content_.labels[static_cast<std::size_t>(sample)];
}

void Dataset::Read(std::int64_t sample, std::span<std::uint8_t> pixels) const {
  Check(sample, pixels);
  DoRead(sample, pixels);
}

void Dataset::ReadAugmented(std::int64_t sample, CounterRandom& random,
                            std::span<std::uint8_t> pixels) const {
  Check(sample, pixels);
  DoReadAugmented(sample, random, pixels);
}

}  // namespace batchless::training
