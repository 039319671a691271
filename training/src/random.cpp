#include "batchless/training/random.h"

#include <cmath>
#include <numbers>

namespace batchless::training {

std::array<std::uint32_t, 4> Philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

CounterRandom::CounterRandom(std::uint64_t seed, RandomStream stream, std::uint64_t a,
                             std::uint32_t b)
    : counter_{0, static_cast<std::uint32_t>(stream) | static_cast<std::uint32_t>(a >> 32) << 8,
               static_cast<std::uint32_t>(a), b},
      key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)} {}

std::uint32_t CounterRandom::Next() {
  if (used_ == block_.size()) {
    block_ = Philox4x32(counter_, key_);
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
  if (has_normal_) {
    has_normal_ = false;
    return normal_;
  }
  const double radius = std::sqrt(-2 * std::log1p(-Uniform()));
  const double angle = 2 * std::numbers::pi * Uniform();
  normal_ = radius * std::sin(angle);
  has_normal_ = true;
  return radius * std::cos(angle);
}

}  // namespace batchless::training
