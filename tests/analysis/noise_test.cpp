#include "batchless/analysis/noise.h"

#include <Eigen/Core>
#include <cmath>
#include <complex>
#include <numbers>
#include <random>
#include <vector>

#include "../../analysis/src/impulse_energy-inl.h"
#include "batchless/analysis/argument.h"
#include "batchless/analysis/pipeline_stability.h"
#include "batchless/analysis/simulation.h"
#include "batchless/analysis/spectral_radius.h"
#include "batchless/analysis/stability.h"
#include "catch.h"
#include "near.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

// The closed forms lose a few roundings, the variance what its own tolerance says.
constexpr double kClosedFormTolerance = 2e-11;
// Powers of a state matrix in double: its squarings lose a rounding times the dimension over 1 - rho.
constexpr double kLyapunovTolerance = 1e-9;
// The trapezoidal rule on the circle is exact but for roundings once rho^points is below them.
constexpr double kContourTolerance = 1e-9;

const std::vector<const char*> kRules = {"sgdm",  "nesterov", "sc",      "lwp-v",
                                         "lwp-w", "lwp-v+sc", "lwp-w+sc"};

// X = A X A' + b b' for the state matrix of one stage, by doubling; X(0, 0).
double LyapunovVariance(const RuleSpec& spec, double momentum, Delay delay, double rate) {
  Eigen::MatrixXd power = StateMatrix({.rule = spec,
                                       .momentum = momentum,
                                       .hessian = Eigen::MatrixXd::Constant(1, 1, rate),
                                       .delays = {delay},
                                       .widths = {1}});
  const auto c = ComputeCoefficients<double>(spec, momentum, delay);
  Eigen::VectorXd input = Eigen::VectorXd::Zero(power.rows());
  input(0) = -(c.a + c.b);
  input(1) = 1;
  Eigen::MatrixXd covariance = input * input.transpose();
  for (int doubling = 0; doubling < 40 && power.cwiseAbs().maxCoeff() > 1e-30; ++doubling) {
    covariance += power * covariance * power.transpose();
    power = power * power;
  }
  return covariance(0, 0);
}

// Mean of |H|^2 over equally spaced points of the unit circle, from the equations of the rules.
double ContourVariance(const RuleSpec& spec, double momentum, Delay delay, double rate,
                       int points) {
  const auto c = ComputeCoefficients<double>(spec, momentum, delay);
  double sum = 0;
  for (int k = 0; k < points; ++k) {
    const std::complex<double> z = std::polar(1.0, 2 * std::numbers::pi * (k + 0.5) / points);
    const std::complex<double> lead = (c.a + c.b) * z - c.b * momentum;
    std::complex<double> forward = lead;
    if (spec.rule.prediction == Prediction::kVelocity) forward += c.horizon * (z - 1.0);
    if (spec.rule.prediction == Prediction::kWeight) forward *= 1.0 + c.horizon * (1.0 - 1.0 / z);
    const std::complex<double> loop =
        (z - 1.0) * (z - momentum) + rate * forward * std::pow(z, -static_cast<double>(delay));
    sum += std::norm(lead / loop);
  }
  return sum / points;
}

TEST_CASE("Without delay the variance has a closed form") {
  const double m = GENERATE(0.0, 0.5, 0.9, 0.9999);
  const double x = GENERATE(1e-14, 1e-6, 0.1, 1.5, 1.999999);
  CAPTURE(m, x);
  const double expected = (1 + m) / ((1 - m) * x * (2 * (1 + m) - x));
  for (const char* name : {"sgdm", "sc", "lwp-v", "lwp-w", "lwp-v+sc", "lwp-w+sc"}) {
    CHECK(IsNear(WeightVariance(Spec(name), m, 0, x), expected, kClosedFormTolerance));
  }
}

TEST_CASE("The variance solves the discrete Lyapunov equation of the state matrix") {
  const char* name = GENERATE(from_range(kRules));
  const Delay delay = GENERATE(0, 1, 2, 4, 17, 60);
  const double m = GENERATE(0.0, 0.6, 0.95);
  CAPTURE(name, delay, m);
  const double critical = CriticalRate(Spec(name), m, delay);
  for (const double share : {0.001, 0.3, 0.95}) {
    const double rate = share * critical;
    CHECK(IsNear(WeightVariance(Spec(name), m, delay, rate),
                 LyapunovVariance(Spec(name), m, delay, rate), kLyapunovTolerance));
  }
}

TEST_CASE("At long delays the variance is the integral over the unit circle") {
  const char* name = GENERATE(from_range(kRules));
  const Delay delay = GENERATE(336, 1000);
  const double m = 0.99;
  CAPTURE(name, delay);
  const double rate = 0.7 * CriticalRate(Spec(name), m, delay);
  const double log_radius = ComputeSpectralRadius(Spec(name), m, delay, rate).log_radius;
  const int points = static_cast<int>(40 / -log_radius) + 4000;
  CHECK(IsNear(WeightVariance(Spec(name), m, delay, rate),
               ContourVariance(Spec(name), m, delay, rate, points), kContourTolerance));
}

TEST_CASE("A simulation with noisy gradients has the variance within its error bars") {
  struct Point {
    const char* rule;
    Delay delay;
    double momentum;
    double rate;
    double average;
  };
  const Point point = GENERATE(Point{"sgdm", 0, 0.5, 0.3, 1}, Point{"sgdm", 4, 0.5, 0.05, 1},
                               Point{"sc", 4, 0.8, 0.05, 1}, Point{"lwp-v", 4, 0.8, 0.03, 1},
                               Point{"lwp-w", 4, 0.8, 0.03, 1}, Point{"lwp-v+sc", 4, 0.9, 0.02, 1},
                               Point{"lwp-w+sc", 4, 0.9, 0.02, 1},
                               Point{"lwp-w+sc", 4, 0.9, 0.02, 30}, Point{"sgdm", 2, 0.5, 0.1, 8});
  CAPTURE(point.rule, point.delay, point.average);
  constexpr std::size_t kBatches = 200;
  constexpr std::size_t kBatch = 4000;
  std::mt19937_64 random(7);
  std::normal_distribution<double> noise;
  const auto points = Simulate({.rule = Spec(point.rule),
                                .momentum = point.momentum,
                                .delay = point.delay,
                                .initial_weight = 0,
                                .updates = (kBatches + 1) * kBatch},
                               [&](double w) { return point.rate * w + noise(random); });
  // Batch means: batches are much longer than the correlation, so their means are independent.
  double average = 0, mean = 0, square = 0;
  for (std::size_t batch = 0; batch <= kBatches; ++batch) {
    double sum = 0;
    for (std::size_t i = batch * kBatch; i < (batch + 1) * kBatch; ++i) {
      average += (points[i].weight - average) / point.average;
      sum += average * average / kBatch;
    }
    // The first batch leaves the start behind.
    if (batch == 0) continue;
    mean += sum / kBatches;
    square += sum * sum / kBatches;
  }
  const double error = std::sqrt((square - mean * mean) / (kBatches - 1));
  const double expected =
      WeightVariance(Spec(point.rule), point.momentum, point.delay, point.rate, point.average);
  CAPTURE(expected, mean, error);
  CHECK(error < 0.03 * expected);
  // Ten comparisons at 4 standard errors: chance fails one in 1500 seeds; this one is fixed.
  CHECK(std::abs(mean - expected) < 4 * error);
}

TEST_CASE("A long average of iterates forgets the rule") {
  const char* name = GENERATE(from_range(kRules));
  const Delay delay = GENERATE(0, 4);
  CAPTURE(name, delay);
  const double x = 0.02, length = 1e7;
  // H(z) is flat over the filter's band 1/K up to a relative correction of order 1 / (K x).
  CHECK(IsNear(WeightVariance(Spec(name), 0.5, delay, x, length), 1 / (2 * length * x * x), 1e-4));
  // A short one changes nothing at length 1, and less than averaging independent samples later.
  const double plain = WeightVariance(Spec(name), 0.5, delay, x);
  CHECK(WeightVariance(Spec(name), 0.5, delay, x, 1) == plain);
  CHECK(WeightVariance(Spec(name), 0.5, delay, x, 20) < plain);
}

TEST_CASE("The energy of a transfer function") {
  // 1 / (z - p): p^2 sums to 1 / (1 - p^2); a factor z and a common scale change nothing.
  CHECK(IsNear(ImpulseEnergy(std::vector{1.0}, std::vector{1.0, -0.9}), 1 / 0.19, 1e-15));
  CHECK(IsNear(ImpulseEnergy(std::vector{-3.0, 0.0}, std::vector{-3.0, 2.7}), 1 / 0.19, 1e-15));
  // Finite responses, constants included.
  CHECK(ImpulseEnergy(std::vector{3.0, 4.0}, std::vector{1.0, 0.0}) == 25);
  CHECK(ImpulseEnergy(std::vector{2.0}, std::vector{4.0}) == 0.25);
  // Poles p and q: (1 + pq) / ((1 - pq)(1 - p^2)(1 - q^2)).
  const double p = 0.5, q = -0.8;
  CHECK(IsNear(ImpulseEnergy(std::vector{1.0}, std::vector{1.0, -(p + q), p * q}),
               (1 + p * q) / ((1 - p * q) * (1 - p * p) * (1 - q * q)), 1e-15));
  CHECK(std::isnan(ImpulseEnergy(std::vector{1.0}, std::vector{1.0, -1.0})));
  CHECK(std::isnan(ImpulseEnergy(std::vector{1.0}, std::vector{1.0, 0.0, 4.0})));
  CHECK_THROWS_AS(ImpulseEnergy(std::vector{1.0}, std::vector{0.0, 1.0}), InvalidArgument);
  CHECK_THROWS_AS(ImpulseEnergy(std::vector{1.0, 1.0}, std::vector{1.0}), InvalidArgument);
  CHECK_THROWS_AS(ImpulseEnergy(std::vector<double>{}, std::vector{1.0}), InvalidArgument);
  CHECK_THROWS_AS(ImpulseEnergy(std::vector{std::nan("")}, std::vector{1.0}), InvalidArgument);
}

TEST_CASE("Products of impulse responses solve X = A X A' + I, not X = A' X A + I") {
  // A = [[a, 1], [0, a]]: of both coordinates to both inputs, over (z - a)^2.
  const auto solve = [](double a) {
    return ImpulseProducts<double>({{0, 1, -a}, {0, 0, 1}, {0, 1, -a}}, {1, -2 * a, a * a});
  };
  const auto products = solve(0.5);
  REQUIRE(products.size() == 3);
  CHECK(products[0][0] + products[1][1] == Approx(116.0 / 27));
  CHECK(products[1][2] == Approx(8.0 / 9));
  CHECK(products[2][1] == products[1][2]);
  CHECK(products[2][2] == Approx(4.0 / 3));
  // The equation has a solution, -2.27 in one place of the diagonal, and the sum has none.
  CHECK(solve(1.2).empty());
}

TEST_CASE("Where a rule is not stable there is no variance") {
  const char* name = GENERATE(from_range(kRules));
  CAPTURE(name);
  const double critical = CriticalRate(Spec(name), 0.9, 4);
  CHECK(WeightVariance(Spec(name), 0.9, 4, critical * (1 - 1e-9)) > 0);
  CHECK(std::isnan(WeightVariance(Spec(name), 0.9, 4, critical * (1 + 1e-9))));
  CHECK_THROWS_AS(WeightVariance(Spec(name), 0.9, kMaxNoiseDelay + 1, 0.1), InvalidArgument);
  CHECK_THROWS_AS(WeightVariance(Spec(name), 0.9, 4, 0.1, 0.5), InvalidArgument);
  CHECK_THROWS_AS(WeightVariance(Spec(name), 1.1, 4, 0.1), InvalidArgument);
}

}  // namespace
}  // namespace batchless::analysis
