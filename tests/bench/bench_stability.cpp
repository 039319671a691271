// Time of the critical rate, of the margins, and of the count of roots that both rest on.

#include <string>

#include "batchless/analysis/spectral_radius.h"
#include "batchless/analysis/stability.h"
#include "bench_grid.h"
#include "effort.h"

namespace batchless::analysis {
namespace {

constexpr double kMomentum = 0.9;

void Critical(benchmark::State& state, const std::string& rule, Delay delay) {
  const RuleSpec spec = Spec(rule);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(CriticalRate(spec, kMomentum, delay));
  }
}

void Margin(benchmark::State& state, const std::string& rule, Delay delay) {
  const RuleSpec spec = Spec(rule);
  const double rate = CriticalRate(spec, kMomentum, delay) / 2;
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(ComputeMargins(spec, kMomentum, delay, rate));
  }
}

void Count(benchmark::State& state, const std::string& rule, Delay delay) {
  const RuleSpec spec = Spec(rule);
  const double rate = CriticalRate(spec, kMomentum, delay) / 2;
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(RootsOutsideUnitCircle(spec, kMomentum, delay, rate));
  }
}

const bool kRegistered = [] {
  for (const char* rule : {"sgdm", "sc", "lwp-w+sc"}) {
    for (const Delay delay : {1, 4, 66, 400, 1'000'000}) {
      const std::string name = rule;
      const std::string point = name + "/D:" + std::to_string(delay);
      const auto add = [&](const std::string& what, auto body) {
        auto* registered = benchmark::RegisterBenchmark(
            (what + "/" + point).c_str(),
            [=](benchmark::State& state) { body(state, name, delay); });
        ForSeconds(registered, 0.03, 3)->Unit(benchmark::kMicrosecond);
      };
      add("RootsOutside", Count);
      add("CriticalRate", Critical);
      add("Margins", Margin);
    }
  }
  return true;
}();

}  // namespace
}  // namespace batchless::analysis
