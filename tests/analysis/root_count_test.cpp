// The count of roots outside a circle against the winding of p sampled around it.

#include <cmath>
#include <complex>
#include <numbers>
#include <random>
#include <vector>

#include "batchless/analysis/spectral_radius.h"
#include "catch.h"

namespace batchless::analysis {
namespace {

TEST_CASE("The count equals the winding of p around the unit circle, any delay") {
  std::mt19937_64 engine(13);
  std::uniform_real_distribution<double> uniform(0, 1);
  int compared = 0;
  for (int trial = 0; trial < 600; ++trial) {
    const RuleSpec spec{Rules()[engine() % Rules().size()], {}};
    const Delay delay = std::vector<Delay>{0, 1, 2, 4, 15, 32, 128, 336, 5000}[engine() % 9];
    const double m = 1 - std::pow(10.0, -3 * uniform(engine));
    const double x = std::pow(10.0, -4 + 4.5 * uniform(engine));
    const Characteristic<double> p = MakeCharacteristic<double>(spec, m, delay);
    // arg p from z = 1 to z = -1 in steps that turn z^n by less than 0.02.
    const auto value = [&](double theta) {
      const std::complex<double> z = std::polar(1.0, theta), u = z - 1.0;
      return std::polar(1.0, p.n * theta) * u * (u + p.one_minus_momentum) +
             x * (p.kappa + p.beta * u) * (1.0 + p.gamma * u);
    };
    const int steps = 2000 + static_cast<int>(p.n * std::numbers::pi / 0.02);
    double turned = 0, largest = 0;
    std::complex<double> before = value(0);
    for (int i = 1; i <= steps; ++i) {
      const std::complex<double> now = value(std::numbers::pi * i / steps);
      const double turn = std::arg(now / before);
      turned += turn;
      largest = std::max(largest, std::abs(turn));
      before = now;
    }
    // A root so near the circle that the samples may have jumped past it proves nothing.
    if (largest > 1.5) continue;
    const int inside = static_cast<int>(std::lround(turned / std::numbers::pi));
    INFO(spec.rule.name << " D=" << delay << " m=" << m << " x=" << x);
    CHECK(RootsOutsideUnitCircle(spec, m, delay, x) == static_cast<int>(p.n) + 2 - inside);
    ++compared;
  }
  CHECK(compared > 500);
}

}  // namespace
}  // namespace batchless::analysis
