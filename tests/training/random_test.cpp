#include "batchless/training/random.h"

#include <cmath>
#include <set>
#include <vector>

#include "catch.h"

namespace batchless::training {
namespace {

TEST_CASE("A sequence is Philox4x32-10 of its counters", "[random]") {
  // Ten rounds in Python's integers, key (0x11, 0x22), counters (0, 1, 5, 7) and (1, 1, 5, 7).
  CounterRandom random(std::uint64_t{0x22} << 32 | 0x11, RandomStream::kInitialization, 5, 7);
  for (const std::uint32_t expected :
       std::initializer_list<std::uint32_t>{0xfc933959, 0x9fc5a0e1, 0x7bc71959, 0x4579e123,
                                            0x99d13d6d, 0xff6ec09b, 0x7197b7f9, 0x8c748b3b}) {
    CHECK(random.Next() == expected);
  }
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
