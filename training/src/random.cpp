#include "batchless/training/random.h"

#include <Random123/philox.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace batchless::training {

CounterRandom::CounterRandom(std::uint64_t seed, RandomStream stream, std::uint64_t a,
                             std::uint32_t b)
    : counter_{0, static_cast<std::uint32_t>(stream) | static_cast<std::uint32_t>(a >> 32) << 8,
               static_cast<std::uint32_t>(a), b},
      key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)} {}

std::uint32_t CounterRandom::Next() {
  if (used_ == block_.size()) {
    const auto numbers = r123::Philox4x32()({{counter_[0], counter_[1], counter_[2], counter_[3]}},
                                            {{key_[0], key_[1]}});
    std::copy(numbers.begin(), numbers.end(), block_.begin());
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

double CounterRandom::Uniform() {
  const std::uint64_t high = Next() >> 5;
  const std::uint64_t low = Next() >> 6;
  return static_cast<double>(high << 26 | low) * 0x1p-53;
}

std::uint32_t CounterRandom::Below(std::uint32_t bound) {
  // Numbers past the last whole multiple of the bound would favour the small results.
  const std::uint64_t limit = (std::uint64_t{1} << 32) / bound * bound;
  for (;;) {
    const std::uint32_t number = Next();
    if (number < limit) return number % bound;
  }
}

double CounterRandom::Normal() {
  if (normal_) return *std::exchange(normal_, std::nullopt);
  const double radius = std::sqrt(-2 * std::log1p(-Uniform()));
  const double angle = 2 * std::numbers::pi * Uniform();
  normal_ = radius * std::sin(angle);
  return radius * std::cos(angle);
}

}  // namespace batchless::training
