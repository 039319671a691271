#pragma once

// What the benchmarks share: the grid that `batchless sweep` takes by default, and the counters that
// the table of `make bench` reads.

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "batchless/analysis/rule.h"

namespace batchless::analysis {

/// Momenta 1 - 10^u, u evenly spaced over [-5, 0].
inline std::vector<double> Momenta(std::size_t count) {
  std::vector<double> momenta(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double u = -5 + 5 * static_cast<double>(i) / static_cast<double>(count - 1);
    momenta[i] = 1 - std::pow(10.0, u);
  }
  return momenta;
}

/// Rates with evenly spaced logarithms over [1e-6, 10].
inline std::vector<double> Rates(std::size_t count) {
  std::vector<double> rates(count);
  for (std::size_t i = 0; i < count; ++i) {
    rates[i] = std::pow(10.0, -6 + 7 * static_cast<double>(i) / static_cast<double>(count - 1));
  }
  return rates;
}

inline RuleSpec Spec(const std::string& name) { return RuleSpec{FindRule(name), {}}; }

/// Counter `name`: microseconds for each of the `items` that one iteration works through. Processor
/// time, or real time for a benchmark with UseRealTime.
inline void CountMicroseconds(benchmark::State& state, const std::string& name, double items) {
  state.counters[name] = benchmark::Counter(
      items * 1e-6, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// Says that counter `name` is meant to stay at or below `bar`. `make bench` prints both.
inline void SetBar(benchmark::State& state, const std::string& name, double bar) {
  state.counters["bar_" + name] = bar;
}

}  // namespace batchless::analysis
