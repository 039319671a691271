#include "batchless/hwmodel/core_allotment.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "batchless/analysis/argument.h"
#include "catch.h"

namespace batchless::hwmodel {
namespace {

using Workers = std::vector<std::vector<CoreWork>>;

double Slowest(const Workers& workers, const std::vector<std::int64_t>& cores) {
  double slowest = 0;
  for (std::size_t w = 0; w < workers.size(); ++w) {
    slowest = std::max(slowest, SecondsOn(workers[w], static_cast<double>(cores[w])));
  }
  return slowest;
}

// The least over every way to share the cores.
double Exhaustive(const Workers& workers, const std::vector<std::int64_t>& minimums, std::size_t w,
                  std::int64_t cores) {
  if (w == workers.size()) return 0;
  double best = std::numeric_limits<double>::infinity();
  for (std::int64_t k = minimums[w]; k <= cores; ++k) {
    best = std::min(best, std::max(SecondsOn(workers[w], static_cast<double>(k)),
                                   Exhaustive(workers, minimums, w + 1, cores - k)));
  }
  return best;
}

TEST_CASE("Time on cores", "[core_allotment]") {
  const std::vector<CoreWork> work = {{6, 2}, {4, 4}, {0, 1}};
  CHECK(SecondsOn(work, 1) == 10);
  CHECK(SecondsOn(work, 2) == 5);
  CHECK(SecondsOn(work, 4) == 4);
  CHECK(SecondsOn(work, 100) == 4);
}

TEST_CASE("Exchange falls with the edge, and never makes cores a burden", "[core_allotment]") {
  const std::vector<CoreWork> work = {{8, 16, 6}};
  CHECK(SecondsOn(work, 1) == 8);
  CHECK(SecondsOn(work, 2) == 6 / std::sqrt(2.0));
  CHECK(SecondsOn(work, 4) == 3);
  CHECK(SecondsOn(work, 16) == 1.5);
  CHECK(SecondsOn(work, 100) == 1.5);
  CHECK(SecondsOn(std::vector<CoreWork>{{1, 16, 6}}, 4) == 1);  // alone
}

TEST_CASE("The fewest cores for a time are those that a search finds", "[core_allotment]") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 1000; ++trial) {
    std::vector<CoreWork> work(1 + random() % 5);
    for (CoreWork& part : work) {
      part = {static_cast<double>(random() % 10), static_cast<double>(1 + random() % 9),
              trial % 2 == 0 ? 0 : static_cast<double>(random() % 10)};
    }
    const double seconds = 0.1 + static_cast<double>(random() % 300) / 10;
    double least = std::numeric_limits<double>::infinity();
    for (int k = 9; k >= 1; --k) {
      if (SecondsOn(work, k) <= seconds) least = k;
    }
    CAPTURE(trial, seconds);
    CHECK(CoresWithin(work, seconds) == least);
  }
}

TEST_CASE("The allotment is as good as the best of all", "[core_allotment]") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    Workers workers(1 + random() % 4);
    std::vector<std::int64_t> minimums(workers.size());
    for (std::vector<CoreWork>& worker : workers) {
      worker.resize(1 + random() % 3);
      for (CoreWork& part : worker) {
        part.seconds = static_cast<double>(random() % 10);
        if (trial % 2 == 0) part.most_cores = static_cast<double>(1 + random() % 6);
        if (trial % 3 == 0) part.exchange_seconds = static_cast<double>(random() % 12);
      }
    }
    for (std::int64_t& minimum : minimums) minimum = 1 + static_cast<std::int64_t>(random() % 3);
    const std::int64_t least = std::accumulate(minimums.begin(), minimums.end(), std::int64_t{0});
    const std::int64_t cores = least + static_cast<std::int64_t>(random() % 8);
    const std::vector<std::int64_t> allotted = AllotCores(workers, cores, minimums);
    CHECK(std::accumulate(allotted.begin(), allotted.end(), std::int64_t{0}) <= cores);
    for (std::size_t w = 0; w < workers.size(); ++w) CHECK(allotted[w] >= minimums[w]);
    CHECK(Slowest(workers, allotted) ==
          Approx(Exhaustive(workers, minimums, 0, cores)).epsilon(1e-14));
  }
}

TEST_CASE("Many cores are shared in proportion", "[core_allotment]") {
  const Workers workers = {{{1}}, {{2}}, {{3}}, {{4}}};
  CHECK(AllotCores(workers, 1'000'000) ==
        std::vector<std::int64_t>{100'000, 200'000, 300'000, 400'000});
}

TEST_CASE("Cores that nobody can use are left", "[core_allotment]") {
  // The first worker takes a second on its two cores, whatever there is.
  const Workers workers = {{{2, 2}}, {{3, 50}}};
  CHECK(AllotCores(workers, 1'000'000) == std::vector<std::int64_t>{2, 3});
  // An exchange that takes longer than the work on one core, on up to 2500 of them.
  const Workers exchanging = {{{2, 1e9, 100}}, {{1, 50}}};
  CHECK(AllotCores(exchanging, 1000)[0] == 1);
  CHECK(CoresUsed(exchanging[0][0], 1000) == 1);
  CHECK(AllotCores(exchanging, 10'000)[0] > 2500);
}

TEST_CASE("What cannot be shared is refused", "[core_allotment]") {
  const Workers costs = {{{1}}, {{2}}};
  const std::vector<std::int64_t> minimums = {1, 3};
  CHECK_THROWS_AS(AllotCores(costs, 1), analysis::InvalidArgument);
  CHECK_THROWS_AS(AllotCores(costs, 3, minimums), analysis::InvalidArgument);
  CHECK_THROWS_AS(AllotCores(Workers{{{-1}}}, 3), analysis::InvalidArgument);
  CHECK_THROWS_AS(AllotCores(Workers{{{1, 0.5}}}, 3), analysis::InvalidArgument);
  CHECK_THROWS_AS(AllotCores(Workers{{{1, 1, -1}}}, 3), analysis::InvalidArgument);
  CHECK_THROWS_AS(AllotCores(costs, 3, std::vector<std::int64_t>{1}), analysis::InvalidArgument);
}

}  // namespace
}  // namespace batchless::hwmodel
