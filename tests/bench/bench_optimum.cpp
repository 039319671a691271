// Time of the search for the best momentum and rate, one thread. Each benchmark takes one rule and
// delay through three condition numbers and counts the slowest of them.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <limits>
#include <string>

#include "batchless/analysis/rates.h"
#include "bench_grid.h"
#include "effort.h"

namespace batchless::analysis {
namespace {

constexpr double kBarMilliseconds = 20;
constexpr std::array<double, 3> kConditions = {10, 1000, 1e6};

// Processor time, so that other programs on the machine do not count.
double Milliseconds() {
  return 1e3 * static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

void Search(benchmark::State& state, const std::string& rule, Delay delay) {
  std::array<double, kConditions.size()> least;
  least.fill(std::numeric_limits<double>::infinity());
  std::size_t evaluations = 0;
  for ([[maybe_unused]] auto _ : state) {
    for (std::size_t i = 0; i < kConditions.size(); ++i) {
      OptimumOptions options;
      options.rule = Spec(rule);
      options.delay = delay;
      options.condition = kConditions[i];
      const double start = Milliseconds();
      const Optimum optimum = FindOptimum(options);
      least[i] = std::min(least[i], Milliseconds() - start);
      evaluations = std::max(evaluations, optimum.evaluations);
      benchmark::DoNotOptimize(optimum.half_life_updates);
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kConditions.size()));
  state.counters["slowest_ms"] = *std::max_element(least.begin(), least.end());
  SetBar(state, "slowest_ms", kBarMilliseconds);
  state.counters["most_evaluations"] = static_cast<double>(evaluations);
}

const bool kRegistered = [] {
  for (const char* rule : {"sgdm", "nesterov", "sc", "lwp-v", "lwp-w", "lwp-v+sc", "lwp-w+sc"}) {
    for (const Delay delay : {1, 4, 66, 400}) {
      const std::string name = rule;
      auto* registered = benchmark::RegisterBenchmark(
          ("Optimum/" + name + "/D:" + std::to_string(delay)).c_str(),
          [=](benchmark::State& state) { Search(state, name, delay); });
      ForIterations(registered, 3, 3)->Unit(benchmark::kMillisecond);
    }
  }
  return true;
}();

}  // namespace
}  // namespace batchless::analysis
