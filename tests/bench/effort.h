#pragma once

// How much work a benchmark of the trainer does, and how long a benchmark runs: as it says, or once through
// where BATCHLESS_BENCH_ONCE is set (`make bench ONCE=1`), which the flags of Google Benchmark cannot ask for
// where a benchmark has numbers of its own.

#include <benchmark/benchmark.h>

#include <cstdlib>

namespace batchless {

using Registered = benchmark::internal::Benchmark;

inline bool OnceThrough() { return std::getenv("BATCHLESS_BENCH_ONCE") != nullptr; }

/// Repetitions of at least so many seconds.
inline Registered* ForSeconds(Registered* benchmark, double seconds, int repetitions) {
  if (OnceThrough()) return benchmark->Iterations(1);
  return benchmark->MinTime(seconds)->Repetitions(repetitions)->DisplayAggregatesOnly(true);
}

/// Repetitions of so many iterations.
inline Registered* ForIterations(Registered* benchmark, int iterations, int repetitions) {
  if (OnceThrough()) return benchmark->Iterations(1);
  return benchmark->Iterations(iterations)->Repetitions(repetitions)->DisplayAggregatesOnly(true);
}

/// Counters of the FLOPs of all iterations: how many a second, and the time relative to that at the peak.
inline void CountFlops(benchmark::State& state, double flops, double peak) {
  using benchmark::Counter;
  state.counters["peak_gflops"] = peak / 1e9;
  state.counters["gflops"] = Counter(flops / 1e9, Counter::kIsRate);
  state.counters["of_peak_time"] = Counter(flops / peak, Counter::kIsRate | Counter::kInvert);
}

}  // namespace batchless
