#include "batchless/training/dataset.h"

#include <string>

#include "batchless/analysis/argument.h"

namespace batchless::training {

using analysis::RefuseIf;

void Dataset::Check(std::int64_t sample) const {
  analysis::CheckInteger("sample", sample, 0, size() - 1);
}

void Dataset::Check(std::int64_t sample, std::span<const std::uint8_t> pixels) const {
  Check(sample, /*has_tokens=*/false);
  RefuseIf(std::ssize(pixels) != shape().size(), "pixels", std::to_string(pixels.size()) + " bytes",
           std::to_string(shape().size()) + " bytes");
}

void Dataset::Check(std::int64_t sample, bool has_tokens) const {
  Check(sample);
  RefuseIf(has_tokens != (context() > 0), "dataset", name(),
           has_tokens ? "one of tokens" : "one of images");
}

void Dataset::ReadTokens(std::int64_t sample, std::span<std::int32_t> tokens) const {
  Check(sample, /*has_tokens=*/true);
  RefuseIf(std::ssize(tokens) != std::int64_t{context()} + 1, "tokens",
           std::to_string(tokens.size()) + " numbers", std::to_string(context() + 1) + " numbers");
  DoReadTokens(sample, tokens);
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
