#include "batchless/hwmodel/core_allotment.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "batchless/analysis/argument.h"
#include "catch.h"

namespace batchless::hwmodel {
namespace {

double Slowest(const std::vector<double>& costs, const std::vector<std::int64_t>& cores) {
  double slowest = 0;
  for (std::size_t s = 0; s < costs.size(); ++s) {
    slowest = std::max(slowest, costs[s] / static_cast<double>(cores[s]));
  }
  return slowest;
}

// The least over every way to share the cores.
double Exhaustive(const std::vector<double>& costs, const std::vector<std::int64_t>& minimums,
                  std::size_t stage, std::int64_t cores) {
  if (stage == costs.size()) return 0;
  double best = std::numeric_limits<double>::infinity();
  for (std::int64_t k = minimums[stage]; k <= cores; ++k) {
    best = std::min(best, std::max(costs[stage] / static_cast<double>(k),
                                   Exhaustive(costs, minimums, stage + 1, cores - k)));
  }
  return best;
}

TEST_CASE("The allotment is as good as the best of all", "[core_allotment]") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const std::size_t stages = 1 + random() % 4;
    std::vector<double> costs(stages);
    std::vector<std::int64_t> minimums(stages);
    for (double& cost : costs) cost = static_cast<double>(random() % 10);
    for (std::int64_t& minimum : minimums) minimum = 1 + static_cast<std::int64_t>(random() % 3);
    const std::int64_t least = std::accumulate(minimums.begin(), minimums.end(), std::int64_t{0});
    const std::int64_t cores = least + static_cast<std::int64_t>(random() % 8);
    const std::vector<std::int64_t> allotted = AllotCores(costs, cores, minimums);
    CHECK(std::accumulate(allotted.begin(), allotted.end(), std::int64_t{0}) <= cores);
    for (std::size_t s = 0; s < stages; ++s) CHECK(allotted[s] >= minimums[s]);
    CHECK(Slowest(costs, allotted) == Exhaustive(costs, minimums, 0, cores));
  }
}

TEST_CASE("Many cores are shared in proportion", "[core_allotment]") {
  const std::vector<double> costs = {1, 2, 3, 4};
  CHECK(AllotCores(costs, 1'000'000) ==
        std::vector<std::int64_t>{100'000, 200'000, 300'000, 400'000});
}

TEST_CASE("What cannot be shared is refused", "[core_allotment]") {
  const std::vector<double> costs = {1, 2};
  const std::vector<std::int64_t> minimums = {1, 3};
  CHECK_THROWS_AS(AllotCores(costs, 1), analysis::InvalidArgument);
  CHECK_THROWS_AS(AllotCores(costs, 3, minimums), analysis::InvalidArgument);
  CHECK_THROWS_AS(AllotCores(std::vector<double>{-1}, 3), analysis::InvalidArgument);
  CHECK_THROWS_AS(AllotCores(costs, 3, std::vector<std::int64_t>{1}), analysis::InvalidArgument);
}

}  // namespace
}  // namespace batchless::hwmodel
