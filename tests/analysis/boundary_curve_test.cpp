// The edge of stability as a curve: closed forms, the certificate between the curve's points, corners.
#include "batchless/analysis/boundary_curve.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <string>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/stability.h"
#include "catch.h"
#include "refusal.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

constexpr double kPi = std::numbers::pi;

double Place(double momentum) { return -std::log1p(-momentum); }

// The curve between its points: straight in ln x over ln(1 - m).
double RateOn(const std::vector<BoundaryPoint>& edge, double momentum) {
  std::size_t i = 1;
  while (i + 1 < edge.size() && edge[i].momentum < momentum) ++i;
  const BoundaryPoint& a = edge[i - 1];
  const BoundaryPoint& b = edge[i];
  const double way =
      (Place(momentum) - Place(a.momentum)) / (Place(b.momentum) - Place(a.momentum));
  return std::exp(std::lerp(std::log(a.critical_rate), std::log(b.critical_rate), way));
}

// |p(e^{i theta})| over the size of its terms, from the polynomial itself.
double Residual(const RuleSpec& spec, Delay delay, const BoundaryPoint& point) {
  const auto p = MakeCharacteristic<double>(spec, point.momentum, delay);
  const std::complex<double> z = std::polar(1.0, point.frequency), u = z - 1.0;
  const std::complex<double> first =
      std::polar(1.0, p.n * point.frequency) * u * (z - point.momentum);
  const std::complex<double> second =
      point.critical_rate * (p.kappa + p.beta * u) * (1.0 + p.gamma * u);
  return std::abs(first + second) / (std::abs(first) + std::abs(second));
}

std::string NameOfRefused(const RuleSpec& spec, const BoundaryCurve& curve) {
  return test::RefusedName([&] { TraceBoundary(spec, 1, curve); });
}

TEST_CASE("Frequencies in closed form: SGD under any delay, momentum under none and one step") {
  for (const Delay delay : {0, 1, 4, 64, 10'000}) {
    const BoundaryPoint first = TraceBoundary(Spec("sgdm"), delay, {}).front();
    const double angle = kPi / (2 * static_cast<double>(delay) + 1);
    CAPTURE(delay);
    CHECK(first.momentum == 0);
    CHECK(first.critical_rate == Approx(2 * std::sin(angle / 2)).epsilon(1e-12));
    CHECK(first.frequency == Approx(angle).epsilon(1e-9));
  }
  for (const BoundaryPoint& point : TraceBoundary(Spec("sgdm"), 0, {})) {
    CHECK(point.frequency == kPi);
  }
  // Under one step it is the angle whose cosine is (1 + m)/2.
  for (const BoundaryPoint& point : TraceBoundary(Spec("sgdm"), 1, {})) {
    CHECK(std::cos(point.frequency) == Approx((1 + point.momentum) / 2).epsilon(1e-9));
  }
}

TEST_CASE("Every point has a root on the circle, and the critical rate of its momentum") {
  for (const Rule& rule : Rules()) {
    for (const Delay delay : {0, 1, 2, 5, 33}) {
      const RuleSpec spec{rule, {}};
      CAPTURE(std::string(rule.name), delay);
      const BoundaryCurve curve{.least_momentum = 0.1, .largest_momentum = 0.999};
      const std::vector<BoundaryPoint> edge = TraceBoundary(spec, delay, curve);
      CHECK(edge.front().momentum == 0.1);
      CHECK(edge.back().momentum == 0.999);
      double largest = 0;
      for (const BoundaryPoint& point : edge) {
        largest = std::max(largest, Residual(spec, delay, point));
        CHECK(point.critical_rate == CriticalRate(spec, point.momentum, delay));
      }
      CHECK(largest < 1e-8);
      CHECK(std::is_sorted(edge.begin(), edge.end(),
                           [](const auto& a, const auto& b) { return a.momentum < b.momentum; }));
    }
  }
}

TEST_CASE("Between its points the edge is as near the straight line as was asked for") {
  for (const double tolerance : {1e-2, 1e-4}) {
    for (const char* name : {"sgdm", "sc", "lwp-v+sc", "lwp-w+sc"}) {
      const BoundaryCurve curve{.tolerance = tolerance};
      const std::vector<BoundaryPoint> edge = TraceBoundary(Spec(name), 4, curve);
      double worst = 0;
      for (int k = 1; k < 300; ++k) {
        const double m = -std::expm1(-Place(0.9999) * k / 300);
        worst =
            std::max(worst, std::abs(std::log(RateOn(edge, m) / CriticalRate(Spec(name), m, 4))));
      }
      CAPTURE(name, tolerance, edge.size());
      // The middle of a step is where it bends most, to a third.
      CHECK(worst < 1.3 * tolerance);
    }
  }
}

TEST_CASE("Where another root comes first there is a corner, to the last digits") {
  // z^2 - (1 + m - x) z + m (1 + x): a root at -1 at x = 2 (1 + m)/(1 - m), a pair at x = 1/m - 1.
  const double corner = std::sqrt(5.0) - 2;
  const std::vector<BoundaryPoint> edge = TraceBoundary(FreeSpec(2, -1, 0), 0, {});
  std::vector<BoundaryPoint> corners;
  for (const BoundaryPoint& point : edge) {
    const double m = point.momentum;
    const double expected = m < corner ? 2 * (1 + m) / (1 - m) : 1 / m - 1;
    CHECK(point.critical_rate == Approx(expected).epsilon(1e-11));
    if (point.is_corner) {
      corners.push_back(point);
      continue;
    }
    CHECK((point.frequency == kPi) == (m < corner));
  }
  REQUIRE(corners.size() == 2);
  CHECK(corners[0].frequency == kPi);
  CHECK(corners[1].frequency < kPi);
  // The branches' rates, which agree to 1e-8 where one is followed, part by more from here on.
  for (const BoundaryPoint& point : corners) CHECK(std::abs(point.momentum - corner) < 5e-9);
  CHECK(corners[1].momentum - corners[0].momentum < 2e-9);
}

TEST_CASE("Where no rate is stable the curve has no rate and no frequency") {
  // kappa = a + b (1 - m) = 2 - 4 m is positive up to a half.
  const std::vector<BoundaryPoint> edge = TraceBoundary(FreeSpec(-2, 4, 0), 1, {});
  for (const BoundaryPoint& point : edge) {
    CHECK((point.critical_rate == 0) == (point.momentum >= 0.5));
    CHECK(std::isnan(point.frequency) == (point.momentum >= 0.5));
  }
}

TEST_CASE("What a curve cannot be is refused by name") {
  CHECK(NameOfRefused(LinearSpec({1}, {1, -1}), {}) == "rule");
  CHECK(NameOfRefused(Spec("sgdm"), {.largest_momentum = 1}) == "momentum");
  CHECK(NameOfRefused(Spec("sgdm"), {.least_momentum = 0.5, .largest_momentum = 0.5}) ==
        "momentum");
  CHECK(NameOfRefused(Spec("sgdm"), {.tolerance = 0}) == "tolerance");
}

}  // namespace
}  // namespace batchless::analysis
