// Time of the critical rate, of the margins, and of the count of roots that both rest on.

#include <string>

#include "batchless/analysis/spectral_radius.h"
#include "batchless/analysis/stability.h"
#include "bench_grid.h"
#include "effort.h"

namespace batchless::analysis {
namespace {

constexpr double kMomentum = 0.9;

const bool kRegistered = [] {
  for (const char* rule : {"sgdm", "sc", "lwp-w+sc"}) {
    for (const Delay delay : {1, 4, 66, 400, 1'000'000}) {
      const RuleSpec spec = Spec(rule);
      const std::string point = std::string(rule) + "/D:" + std::to_string(delay);
      // The body gets half the critical rate.
      const auto add = [&](const std::string& what, auto body) {
        auto* registered = benchmark::RegisterBenchmark(
            (what + "/" + point).c_str(), [=](benchmark::State& state) {
              const double rate = CriticalRate(spec, kMomentum, delay) / 2;
              for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(body(rate));
            });
        ForSeconds(registered, 0.03, 3)->Unit(benchmark::kMicrosecond);
      };
      add("RootsOutside",
          [=](double rate) { return RootsOutsideUnitCircle(spec, kMomentum, delay, rate); });
      add("CriticalRate", [=](double /*rate*/) { return CriticalRate(spec, kMomentum, delay); });
      add("Margins", [=](double rate) { return ComputeMargins(spec, kMomentum, delay, rate); });
    }
  }
  return true;
}();

}  // namespace
}  // namespace batchless::analysis
