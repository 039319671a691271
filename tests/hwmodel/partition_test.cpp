#include "batchless/hwmodel/partition.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "batchless/analysis/argument.h"
#include "catch.h"

namespace batchless::hwmodel {
namespace {

double LargestLoad(const std::vector<double>& costs, const std::vector<int>& boundaries) {
  double largest = 0;
  int begin = 0;
  for (const int end : boundaries) {
    largest = std::max(largest, std::accumulate(costs.begin() + begin, costs.begin() + end, 0.0));
    begin = end;
  }
  return largest;
}

// The least load over every way to place the boundaries.
double Exhaustive(const std::vector<double>& costs, int workers, int begin) {
  const int stages = static_cast<int>(costs.size());
  if (workers == 1) return std::accumulate(costs.begin() + begin, costs.end(), 0.0);
  double best = std::numeric_limits<double>::infinity();
  double load = 0;
  for (int end = begin + 1; end <= stages - workers + 1; ++end) {
    load += costs[end - 1];
    best = std::min(best, std::max(load, Exhaustive(costs, workers - 1, end)));
  }
  return best;
}

TEST_CASE("The partition is as good as the best of all", "[partition]") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const int stages = 1 + static_cast<int>(random() % 9);
    std::vector<double> costs(stages);
    for (double& cost : costs) cost = static_cast<double>(random() % 20);
    const std::vector<std::vector<int>> all = BalancedPartitions(costs, stages);
    for (int workers = 1; workers <= stages; ++workers) {
      const std::vector<int> boundaries = BalancedPartition(costs, workers);
      REQUIRE(boundaries.size() == static_cast<std::size_t>(workers));
      CHECK(boundaries.back() == stages);
      CHECK(boundaries.front() > 0);
      CHECK(std::adjacent_find(boundaries.begin(), boundaries.end(), std::greater_equal<>()) ==
            boundaries.end());
      CHECK(LargestLoad(costs, boundaries) == Exhaustive(costs, workers, 0));
      CHECK(all[workers - 1] == boundaries);
    }
  }
}

TEST_CASE("A partition that cannot be is refused", "[partition]") {
  CHECK_THROWS_AS(BalancedPartition(std::vector<double>{1, 2}, 3), analysis::InvalidArgument);
  CHECK_THROWS_AS(BalancedPartition(std::vector<double>{1, 2}, 0), analysis::InvalidArgument);
  CHECK_THROWS_AS(BalancedPartition(std::vector<double>{1, -2}, 1), analysis::InvalidArgument);
}

}  // namespace
}  // namespace batchless::hwmodel
