#include "batchless/analysis/stability.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/spectral_radius.h"
#include "catch.h"
#include "near.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

using std::numbers::pi;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Bisection to the last bit, and a few roundings in the closed form.
constexpr double kClosedFormTolerance = 1e-14;
// The reference's crossings are bisected to 60 bits of a grid step; its phase loses what the angle
// of a complex number close to the axis and D times its rounding lose.
constexpr double kMarginTolerance = 1e-9;

TEST_CASE("SGD is stable up to 2 sin(pi / (4 D + 2))") {
  std::vector<Delay> delays = {336, 10'000, 1'000'000, kMaxDelay};
  for (Delay d = 0; d <= 200; ++d) delays.push_back(d);
  for (const Delay delay : delays) {
    CAPTURE(delay);
    const double expected = 2 * std::sin(pi / (4 * static_cast<double>(delay) + 2));
    CHECK(IsNear(CriticalRate(Spec("sgdm"), 0, delay), expected, kClosedFormTolerance));
  }
}

TEST_CASE(
    "Without delay the critical rates are 2 (1 + m), and 2 (1 + m) / (1 + 2 m) for Nesterov") {
  const double m = GENERATE(0.0, 1e-9, 0.3, 0.9, 0.999999);
  CAPTURE(m);
  for (const char* name : {"sgdm", "sc", "lwp-v", "lwp-w", "lwp-v+sc", "lwp-w+sc"}) {
    CHECK(IsNear(CriticalRate(Spec(name), m, 0), 2 * (1 + m), kClosedFormTolerance));
  }
  CHECK(IsNear(CriticalRate(Spec("nesterov"), m, 0), 2 * (1 + m) / (1 + 2 * m),
               kClosedFormTolerance));
}

TEST_CASE("At D = 1 SGDM is stable up to 1 - m") {
  const double m = GENERATE(0.0, 0.25, 0.9, 0.9999);
  CAPTURE(m);
  // z^2 - (1 + m) z + m + x: the product of the pair reaches 1.
  CHECK(IsNear(CriticalRate(Spec("sgdm"), m, 1), 1 - m, 4 * kClosedFormTolerance));
}

TEST_CASE("At momentum 1 stability takes a lead above D + 1") {
  // At small x the pair near 1 is z = exp(+-i sqrt(x) + (D + 1 - beta) x / 2).
  const Delay delay = GENERATE(1, 4, 30);
  CAPTURE(delay);
  for (const char* name : {"sgdm", "sc", "lwp-v", "lwp-w"}) {
    CHECK(CriticalRate(Spec(name), 1, delay) == 0);
    CHECK(RootsOutsideUnitCircle(Spec(name), 1, delay, 1e-3) == 2);
  }
  for (const char* name : {"lwp-v+sc", "lwp-w+sc"}) {
    const double critical = CriticalRate(Spec(name), 1, delay);
    CHECK(critical > 0);
    CHECK(ComputeSpectralRadius(Spec(name), 1, delay, critical * (1 - 1e-9)).stable());
    CHECK_FALSE(ComputeSpectralRadius(Spec(name), 1, delay, critical * (1 + 1e-9)).stable());
  }
  const double n = static_cast<double>(delay);
  // b = 0 and a = 1 at T: beta = 1 + T in the velocity form.
  CHECK(CriticalRate(FreeSpec(1, 0, n - 0.01), 1, delay) == 0);
  CHECK(CriticalRate(FreeSpec(1, 0, n + 0.01), 1, delay) > 0);
}

TEST_CASE("Momentum 1 without delay oscillates for ever under SGDM and converges under Nesterov") {
  CHECK(CriticalRate(Spec("sgdm"), 1, 0) == 0);
  CHECK(IsNear(CriticalRate(Spec("nesterov"), 1, 0), 4.0 / 3, kClosedFormTolerance));
}

TEST_CASE("A rule that never moves, or moves away, is stable at no rate") {
  CHECK(CriticalRate(FreeSpec(0, 0, 0), 0.5, 3) == 0);
  CHECK(RootsOutsideUnitCircle(FreeSpec(0, 0, 0), 0.5, 3, 0.1) == 0);
  CHECK_THROWS_AS(CriticalRate(Spec("sgdm"), 1.5, 3), InvalidArgument);
  CHECK_THROWS_AS(CriticalRate(Spec("sgdm"), 0.5, -3), InvalidArgument);
}

struct Point {
  RuleSpec spec;
  double momentum;
  Delay delay;
};

Point RandomPoint(std::mt19937_64& random, double largest_log10_delay) {
  std::uniform_real_distribution<double> unit(0, 1);
  std::uniform_int_distribution<std::size_t> row(0, Rules().size() - 1);
  const Rule& rule = Rules()[row(random)];
  RuleOptions options;
  if (rule.compensation == Compensation::kSpike) options.sc_delay_scale = 2 * unit(random);
  if (rule.prediction != Prediction::kNone) options.horizon_scale = 2 * unit(random);
  if (rule.compensation == Compensation::kFree) {
    options = {};
    options.sc_a = unit(random);
    options.sc_b = 5 * unit(random);
    options.horizon = 20 * unit(random);
  }
  const double delay = std::pow(10.0, largest_log10_delay * unit(random)) - 1;
  return {{rule, options}, 1 - std::pow(10.0, -4 * unit(random)), static_cast<Delay>(delay)};
}

TEST_CASE("A point is stable just below the critical rate and not just above it") {
  std::mt19937_64 random(11);
  // ln rho moves by about 1 / (D + 1) of this, far above its certified bound.
  constexpr double kStep = 1e-6;
  for (int trial = 0; trial < 400; ++trial) {
    const auto [spec, momentum, delay] = RandomPoint(random, 4);
    CAPTURE(spec.rule.name, momentum, delay, spec.options.sc_delay_scale,
            spec.options.horizon_scale);
    const double critical = CriticalRate(spec, momentum, delay);
    REQUIRE(critical > 0);
    CHECK(ComputeSpectralRadius(spec, momentum, delay, critical * (1 - kStep)).stable());
    CHECK_FALSE(ComputeSpectralRadius(spec, momentum, delay, critical * (1 + kStep)).stable());
    // Everything below is stable too, however far.
    for (double rate = critical / 3; rate > critical * 1e-6; rate /= 3) {
      CHECK(RootsOutsideUnitCircle(spec, momentum, delay, rate) == 0);
    }
  }
}

// The open loop L(e^{i theta}) at rate 1, written from the rule's equations in the z-domain:
// w_hat over w is the prediction, -w over g the update.
std::complex<double> OpenLoop(const Point& point, double theta) {
  const auto [a, b, horizon] = ComputeCoefficients<double>(point.spec, point.momentum, point.delay);
  const double m = point.momentum;
  const std::complex<double> z = std::polar(1.0, theta);
  // z v = m v + g gives the velocity after the update, z v; then (z - 1) w = -(a z v + b g).
  const std::complex<double> velocity_after = z / (z - m);
  const std::complex<double> weight = -(a * velocity_after + b) / (z - 1.0);
  std::complex<double> predicted = weight;
  if (point.spec.rule.prediction == Prediction::kVelocity) {
    predicted -= horizon * velocity_after / z;
  } else if (point.spec.rule.prediction == Prediction::kWeight) {
    predicted += horizon * weight * (1.0 - 1.0 / z);
  }
  return -predicted * std::polar(1.0, -theta * static_cast<double>(point.delay));
}

struct Crossing {
  double theta;
  double lag;  // in (0, 2 pi]: L e^{-i lag} = -1
};

// Crossings of |L| = 1 on a dense grid of frequencies, spaced evenly in their logarithm and again
// evenly, each bisected.
std::vector<Crossing> Crossings(const Point& point, double rate) {
  std::vector<double> grid;
  for (int i = 0; i <= 4000; ++i) {
    grid.push_back(pi * std::pow(10.0, -9 * (1 - i / 4000.0)));
    if (i > 0) grid.push_back(pi * i / 4000.0);
  }
  std::sort(grid.begin(), grid.end());
  const auto above = [&](double theta) { return rate * std::abs(OpenLoop(point, theta)) > 1; };
  std::vector<Crossing> crossings;
  for (std::size_t i = 1; i < grid.size(); ++i) {
    const bool left = above(grid[i - 1]);
    if (left == above(grid[i])) continue;
    double lo = grid[i - 1], hi = grid[i];
    for (int j = 0; j < 60; ++j) {
      const double middle = (lo + hi) / 2;
      (above(middle) == left ? lo : hi) = middle;
    }
    double lag = std::arg(-OpenLoop(point, lo));
    if (lag <= 0) lag += 2 * pi;
    crossings.push_back({lo, lag});
  }
  return crossings;
}

TEST_CASE("Margins are those of the open loop on a dense grid of frequencies") {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> unit(0, 1);
  for (int trial = 0; trial < 150; ++trial) {
    const Point point = RandomPoint(random, 3);
    const double critical = CriticalRate(point.spec, point.momentum, point.delay);
    const double rate = critical * std::pow(10.0, -3 * unit(random)) * 0.99;
    CAPTURE(point.spec.rule.name, point.momentum, point.delay, rate, critical);
    const Margins margins = ComputeMargins(point.spec, point.momentum, point.delay, rate);
    CHECK(margins.stable);
    CHECK(margins.gain_margin == critical / rate);
    const std::vector<Crossing> crossings = Crossings(point, rate);
    double phase = kInfinity, delay = kInfinity, at = 0;
    for (const Crossing& crossing : crossings) {
      if (crossing.lag < phase) {
        phase = crossing.lag;
        at = crossing.theta;
      }
      delay = std::min(delay, crossing.lag / crossing.theta);
    }
    // An integrator's gain starts at infinity, and a stable loop's ends below 1.
    REQUIRE_FALSE(crossings.empty());
    CHECK(IsNear(margins.phase_margin_radians, phase, kMarginTolerance));
    CHECK(IsNear(margins.gain_crossover_radians, at, kMarginTolerance));
    CHECK(IsNear(margins.delay_margin_updates, delay, kMarginTolerance));
  }
}

TEST_CASE("An unstable loop has no margins") {
  const double critical = CriticalRate(Spec("sc"), 0.9, 5);
  const Margins margins = ComputeMargins(Spec("sc"), 0.9, 5, 2 * critical);
  CHECK_FALSE(margins.stable);
  CHECK(margins.gain_margin == 0.5);
  CHECK(margins.phase_margin_radians == 0);
  CHECK(margins.delay_margin_updates == 0);
  CHECK(margins.largest_stable_delay < 5);
  CHECK_THROWS_AS(ComputeMargins(Spec("sc"), 0.9, 5, 0), InvalidArgument);
}

TEST_CASE("The gain margin of rates that are stable from one above 0 on") {
  // z^2 - 2.05 z + 1.05 + x (z - 0.9): a pole outside the circle, brought in by x > 0.05 / 0.9.
  RuleOptions options;
  options.numerator = {1, -0.9};
  options.denominator = {1, -2.05, 1.05};
  const RuleSpec spec = Spec("linear", options);
  for (const double rate : {0.06, 0.3, 1.0, 2.1}) {
    CAPTURE(rate);
    const Margins margins = ComputeMargins(spec, 0, 0, rate);
    CHECK(margins.stable);
    CHECK(IsNear(margins.gain_margin, 4.1 / 1.9 / rate, 1e-9));
  }
  CHECK_FALSE(ComputeMargins(spec, 0, 0, 0.05).stable);
  CHECK(ComputeMargins(spec, 0, 0, 0.05).gain_margin == 0);
}

// The same rule with its coefficients at (m, D) for whatever delay it is put to.
RuleSpec Held(const Point& point) {
  const auto c = ComputeCoefficients<double>(point.spec, point.momentum, point.delay);
  if (point.spec.rule.prediction != Prediction::kWeight) return FreeSpec(c.a, c.b, c.horizon);
  RuleOptions options;
  options.sc_a = c.a;
  options.sc_b = c.b;
  options.horizon = c.horizon;
  return Spec("lwp-w+sc", options);
}

TEST_CASE("The largest stable delay is found by trying them all") {
  std::mt19937_64 random(23);
  std::uniform_real_distribution<double> unit(0, 1);
  constexpr Delay kLongest = 1'000'000;
  int none = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const Point point = RandomPoint(random, 2.5);
    const double critical = CriticalRate(point.spec, point.momentum, point.delay);
    // Below the critical rate and above it.
    const double rate = critical * std::pow(10.0, -2 + 3 * unit(random));
    if (rate > kMaxRate) continue;
    const RuleSpec held = Held(point);
    Delay largest = -1;
    for (Delay d = 0; d < kLongest; ++d) {
      if (RootsOutsideUnitCircle(held, point.momentum, d, rate) > 0) break;
      largest = d;
    }
    CAPTURE(point.spec.rule.name, point.momentum, point.delay, rate, critical);
    const Margins margins = ComputeMargins(point.spec, point.momentum, point.delay, rate);
    CHECK(margins.largest_stable_delay == largest);
    none += largest < 0 ? 1 : 0;
    // A loop that is stable bears as many further updates as fit below its delay margin.
    if (margins.stable && largest >= point.delay) {
      CHECK(static_cast<double>(largest - point.delay) < margins.delay_margin_updates);
      CHECK(static_cast<double>(largest + 1 - point.delay) >= margins.delay_margin_updates);
    }
  }
  CHECK(none > 0);
}

TEST_CASE("SGD without momentum has the margins of an integrator with delay") {
  const Delay delay = GENERATE(0, 1, 10, 336, 100'000);
  CAPTURE(delay);
  const double critical = 2 * std::sin(pi / (4 * static_cast<double>(delay) + 2));
  const double rate = critical / 3;
  const Margins margins = ComputeMargins(Spec("sgdm"), 0, delay, rate);
  // L = x z^{1-D} / (z - 1)... with z - 1 = 2 i sin(theta / 2) e^{i theta / 2}.
  const double theta = 2 * std::asin(rate / 2);
  const double lag = pi / 2 - theta * (static_cast<double>(delay) + 0.5);
  CHECK(IsNear(margins.gain_margin, 3, kClosedFormTolerance));
  CHECK(IsNear(margins.gain_crossover_radians, theta, 1e-13));
  CHECK(IsNear(margins.phase_margin_radians, lag, 1e-13));
  CHECK(IsNear(margins.delay_margin_updates, lag / theta, 1e-13));
  CHECK(margins.largest_stable_delay == static_cast<Delay>(std::ceil(pi / (2 * theta) - 0.5)) - 1);
}

}  // namespace
}  // namespace batchless::analysis
