// A map: where a rule is stable over momentum (down) and rate (across), and how fast it is there.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "batchless/analysis/rule.h"
#include "batchless/analysis/stability.h"
#include "batchless/analysis/sweep.h"

using namespace batchless::analysis;

int main() {
  SweepOptions options;
  options.rule.rule = FindRule("sc");
  options.delay = 4;
  for (int i = 0; i <= 10; ++i) options.momenta.push_back(0.099 * i);
  for (int i = 0; i <= 60; ++i) options.rates.push_back(1e-3 * std::pow(10.0, i / 20.0));
  const SweepSummary map = RunSweep(options);

  std::printf("log2 of the half-life in updates, dots where unstable; rates from %g to %g\n",
              options.rates.front(), options.rates.back());
  auto log_radius = map.log_radius.begin();
  for (const double momentum : options.momenta) {
    std::printf("m %.3f  ", momentum);
    for (std::size_t i = 0; i < options.rates.size(); ++i) {
      const double half_life = -std::numbers::ln2 / *log_radius++;
      const double digit = std::clamp(std::log2(half_life), 0.0, 9.0);
      std::putchar(half_life > 0 ? '0' + static_cast<int>(digit) : '.');
    }
    std::printf("  up to %.4f\n", CriticalRate(options.rule, momentum, options.delay));
  }
  std::printf("%zu points, %d threads, %.0f points a second\n", map.log_radius.size(), map.threads,
              map.pixels_per_second);
}
