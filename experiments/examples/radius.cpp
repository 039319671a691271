// A radius: how fast a rule converges at one point, where it stops, and what is best.
#include <cmath>
#include <cstdio>
#include <string_view>

#include "batchless/analysis/rates.h"
#include "batchless/analysis/rule.h"
#include "batchless/analysis/spectral_radius.h"
#include "batchless/analysis/stability.h"

using namespace batchless::analysis;

int main() {
  // Without a delay the roots are a complex pair of the size sqrt(m).
  const double momentum = 0.9;
  const SpectralRadius rho =
      ComputeSpectralRadius({FindRule("sgdm"), {}}, momentum, /*delay=*/0, /*rate=*/0.1);
  std::printf("sgdm, delay 0: radius %.12f, sqrt(m) %.12f, certified to %.0e\n", rho.radius,
              std::sqrt(momentum), rho.error_bound);

  const Delay delay = 4;
  for (const std::string_view name : {"sgdm", "sc", "lwp-w+sc"}) {
    OptimumOptions options;
    options.rule.rule = FindRule(name);
    options.delay = delay;
    options.condition = 1000;
    const Optimum best = FindOptimum(options);
    std::printf(
        "%.*s, delay %d: stable up to the rate %.4f, best half-life %.1f updates, at m = %.4f\n",
        static_cast<int>(name.size()), name.data(), static_cast<int>(delay),
        CriticalRate(options.rule, momentum, delay), best.half_life_updates, best.momentum);
  }
}
