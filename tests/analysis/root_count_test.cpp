// The count of roots outside a circle against counts that share nothing with it: the step-down
// recursion of Schur and Cohn for the verdict, and the winding of p sampled around the circle.

#include <cmath>
#include <complex>
#include <numbers>
#include <random>
#include <vector>

#include "batchless/analysis/spectral_radius.h"
#include "catch.h"

namespace batchless::analysis {
namespace {

// A double's verdict and the recursion's may differ only where a root is this near the circle.
constexpr double kDoubtfulLogRadius = 1e-9;

/// Whether every root is inside the unit circle: all reflection coefficients of the step-down
/// recursion are smaller than 1 in size.
bool InsideBySchurCohn(std::vector<long double> p) {
  while (p.size() > 1) {
    const std::size_t degree = p.size() - 1;
    const long double k = p[0] / p[degree];
    if (std::abs(k) >= 1) return false;
    std::vector<long double> next(degree);
    for (std::size_t i = 0; i < degree; ++i) next[i] = p[i + 1] - k * p[degree - 1 - i];
    p = std::move(next);
  }
  return true;
}

/// p(z) with every factor multiplied out, constant term first.
std::vector<long double> Expand(const Characteristic<double>& p, long double rate) {
  std::vector<long double> c(static_cast<std::size_t>(p.n) + 3, 0);
  const auto n = static_cast<std::size_t>(p.n);
  const long double m = p.momentum;
  c[n] += m;
  c[n + 1] -= 1 + m;
  c[n + 2] += 1;
  const long double k0 = static_cast<long double>(p.kappa) - p.beta, k1 = p.beta;
  const long double g0 = 1 - static_cast<long double>(p.gamma), g1 = p.gamma;
  c[0] += rate * k0 * g0;
  c[1] += rate * (k0 * g1 + k1 * g0);
  c[2] += rate * k1 * g1;
  return c;
}

std::vector<RuleSpec> NamedSpecs() {
  std::vector<RuleSpec> specs;
  for (const Rule& rule : Rules()) specs.push_back({rule, {}});
  return specs;
}

// Points in rows of 100.
void CheckVerdicts(std::size_t rows) {
  std::mt19937_64 engine(11);
  std::uniform_real_distribution<double> uniform(0, 1);
  const std::vector<RuleSpec> specs = NamedSpecs();
  constexpr std::size_t kColumns = 100;
  std::size_t wrong = 0, wrong_count = 0, doubtful = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const RuleSpec& spec = specs[engine() % specs.size()];
    const auto delay = static_cast<Delay>(engine() % 16);
    const double m = uniform(engine) < 0.1 ? 0 : 1 - std::pow(10.0, -4 * uniform(engine));
    std::vector<double> rates(kColumns);
    for (double& x : rates) x = std::pow(10.0, -5 + 5.6 * uniform(engine));
    const Track track{MakeCharacteristic<double>(spec, m, delay), &spec, m, delay, rates};
    std::vector<double> log_radius(kColumns), error(kColumns);
    EvaluateTracks({&track, 1}, {log_radius, error, {}, {}, {}});
    for (std::size_t j = 0; j < kColumns; ++j) {
      if (std::abs(log_radius[j]) < kDoubtfulLogRadius) {
        ++doubtful;
        continue;
      }
      const bool stable = log_radius[j] < 0;
      wrong += stable != InsideBySchurCohn(Expand(track.polynomial, rates[j])) ? 1 : 0;
      // The count costs what a point costs; a tenth of the points is enough for it.
      if (j % 10 != 0) continue;
      wrong_count += stable != (RootsOutsideUnitCircle(spec, m, delay, rates[j]) == 0) ? 1 : 0;
    }
  }
  CHECK(wrong == 0);
  CHECK(wrong_count == 0);
  // Random points almost never lie on the boundary, so hardly anything was left out.
  CHECK(doubtful < rows * kColumns / 10'000);
}

}  // namespace

TEST_CASE("No verdict on stability is wrong in fifty thousand random points") {
  CheckVerdicts(500);
}

TEST_CASE("No verdict on stability is wrong in a million random points", "[.long]") {
  CheckVerdicts(10'000);
}

TEST_CASE("The count equals the winding of p around the unit circle, any delay") {
  std::mt19937_64 engine(13);
  std::uniform_real_distribution<double> uniform(0, 1);
  const std::vector<RuleSpec> specs = NamedSpecs();
  int compared = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const RuleSpec& spec = specs[engine() % specs.size()];
    const Delay delay = std::vector<Delay>{1, 4, 32, 128, 336, 5000}[engine() % 6];
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
  CHECK(compared > 350);
}

}  // namespace batchless::analysis
