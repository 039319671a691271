#include "batchless/training/random.h"

#include <cmath>
#include <set>
#include <vector>

#include "catch.h"

namespace batchless::training {
namespace {

TEST_CASE("Philox gives the known answers of its authors", "[random]") {
  CHECK(Philox4x32({0, 0, 0, 0}, {0, 0}) ==
        std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t kOnes = 0xffffffff;
  CHECK(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) ==
        std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("A sequence depends on its place alone, and on all of it", "[random]") {
  CounterRandom first(7, RandomStream::kDropout, 3, 5);
  CounterRandom second(7, RandomStream::kDropout, 3, 5);
  for (int i = 0; i < 100; ++i) CHECK(first.Next() == second.Next());

  std::set<std::uint32_t> starts;
  for (const std::uint64_t seed : {0ULL, 1ULL, 1ULL << 32}) {
    for (const RandomStream stream : {RandomStream::kOrder, RandomStream::kAugmentation}) {
      for (const std::uint64_t a : {0ULL, 1ULL, 1ULL << 32, 1ULL << 55}) {
        for (const std::uint32_t b : {0U, 1U}) {
          starts.insert(CounterRandom(seed, stream, a, b).Next());
        }
      }
    }
  }
  CHECK(starts.size() == 3 * 2 * 4 * 2);
}

// The bounds are five standard deviations of the mean of n independent draws.
TEST_CASE("Uniform and normal numbers have their moments", "[random]") {
  constexpr int kDraws = 200000;
  CounterRandom random(1, RandomStream::kInitialization, 0);
  double uniform_sum = 0;
  double normal_sum = 0;
  double normal_squares = 0;
  double normal_fourths = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = random.Uniform();
    REQUIRE(u >= 0);
    REQUIRE(u < 1);
    uniform_sum += u;
    const double z = random.Normal();
    normal_sum += z;
    normal_squares += z * z;
    normal_fourths += z * z * z * z;
  }
  const double five_sigma = 5 / std::sqrt(kDraws);
  CHECK(std::abs(uniform_sum / kDraws - 0.5) < five_sigma / std::sqrt(12.0));
  CHECK(std::abs(normal_sum / kDraws) < five_sigma);
  CHECK(std::abs(normal_squares / kDraws - 1) < five_sigma * std::sqrt(2.0));
  CHECK(std::abs(normal_fourths / kDraws - 3) < five_sigma * std::sqrt(96.0));
}

TEST_CASE("Bounded integers are even over the whole range", "[random]") {
  CounterRandom random(2, RandomStream::kOrder, 0);
  constexpr int kDraws = 70000;
  std::vector<int> counts(7);
  for (int i = 0; i < kDraws; ++i) ++counts.at(random.Below(7));
  // Chi-squared with 6 degrees of freedom is above 30 once in 25,000 times.
  double chi_squared = 0;
  for (const int count : counts) chi_squared += (count - 1e4) * (count - 1e4) / 1e4;
  CHECK(chi_squared < 30);
  CHECK(random.Below(1) == 0);
}

}  // namespace
}  // namespace batchless::training
