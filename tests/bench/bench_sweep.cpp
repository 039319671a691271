// Time of a whole sweep over the default grid of `batchless sweep`.

#include <cstddef>
#include <string>

#include "batchless/analysis/sweep.h"
#include "bench_grid.h"
#include "effort.h"

namespace batchless::analysis {
namespace {

constexpr Delay kDelay = 336;
// Seconds for 512 x 512 and for 4096 x 4096 points.
constexpr double kSmallBar = 0.05;
constexpr double kLargeBar = 2;

void Sweep(benchmark::State& state, const std::string& rule, std::size_t size, int threads,
           double bar) {
  SweepOptions options;
  options.rule = Spec(rule);
  options.delay = kDelay;
  options.momenta = Momenta(size);
  options.rates = Rates(size);
  options.threads = threads;
  std::size_t refined = 0;
  for ([[maybe_unused]] auto _ : state) {
    const SweepSummary summary = RunSweep(options);
    refined = summary.refined_long_double + summary.refined_fifty_digits;
    benchmark::DoNotOptimize(summary.spectral_radius.data());
  }
  const double points = static_cast<double>(size * size);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(size * size));
  CountMicroseconds(state, "seconds", 1e6);
  SetBar(state, "seconds", bar);
  CountMicroseconds(state, "per_point_us", points);
  state.counters["refined_share"] = static_cast<double>(refined) / points;
}

void Register(const std::string& rule, std::size_t size, int threads, int repetitions, double bar) {
  const std::string edge = std::to_string(size);
  const std::string name = "Sweep" + edge + "x" + edge + "Threads" + std::to_string(threads) + "/" +
                           rule + "/D:" + std::to_string(kDelay);
  auto* registered = benchmark::RegisterBenchmark(
      name.c_str(), [=](benchmark::State& state) { Sweep(state, rule, size, threads, bar); });
  ForIterations(registered, 1, repetitions)
      ->MeasureProcessCPUTime()
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

const bool kRegistered = [] {
  for (const char* rule : {"sgdm", "sc", "lwp-w+sc"}) {
    for (const int threads : {1, 2}) Register(rule, 512, threads, 9, kSmallBar);
  }
  for (const char* rule : {"sgdm", "sc", "lwp-w+sc"}) Register(rule, 4096, 2, 3, kLargeBar);
  return true;
}();

}  // namespace
}  // namespace batchless::analysis
