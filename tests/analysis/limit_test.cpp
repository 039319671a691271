// The limit against rules that attain it, rules that do not, and classical values.
#include "batchless/analysis/limit.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <complex>
#include <random>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/rates.h"
#include "catch.h"
#include "eigenvalues.h"
#include "polynomial.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

// Eigenvalues of a balanced companion matrix of this size, simple ones, are good to this.
constexpr double kEigenvalueTolerance = 1e-11;
// A random rule never comes near the limit; the margin is for eigenvalues that are nearly double.
constexpr double kDoubleRootTolerance = 1e-6;

using Powers = std::vector<double>;  // highest power first

/// Largest modulus over the roots of z^delay D + x N, by dense eigenvalues alone.
double DenseRadius(const Powers& numerator, const Powers& denominator, Delay delay, double x) {
  const Eigen::MatrixXd companion =
      test::Companion(test::ClosedLoop(numerator, denominator, delay, x));
  // Its shifts end the cycles that the real iteration stays in for roots in pairs of opposite signs.
  const Eigen::ComplexEigenSolver<Eigen::MatrixXcd> solver(companion.cast<std::complex<double>>(),
                                                           /*computeEigenvectors=*/false);
  REQUIRE(solver.info() == Eigen::Success);
  return solver.eigenvalues().cwiseAbs().maxCoeff();
}

/// w' = w_{i-D} + m (w_{i-D} - w_{i-2D-1}) - eta g as N/D.
RuleSpec InterleavedHeavyBalls(Delay delay, double momentum) {
  const auto d = static_cast<std::size_t>(delay);
  Powers denominator(2 * d + 3, 0), numerator(2 * d + 2, 0);
  denominator[0] = 1;
  denominator[d + 1] = -(1 + momentum);
  denominator[2 * d + 2] = momentum;
  numerator[0] = 1;
  return LinearSpec(numerator, denominator);
}

}  // namespace

TEST_CASE("Without delay the limit is the best heavy ball") {
  for (const double condition : {1.5, 10.0, 1000.0, 1e8}) {
    const Limit limit = LimitOfLinearRules(0, condition);
    const double root = std::sqrt(condition);
    // A rounding of 1 - rho, which is 2 / root.
    CHECK(limit.spectral_radius == Approx((root - 1) / (root + 1)).epsilon(1e-15));
    CHECK(limit.half_life_updates ==
          Approx(std::log(2) / std::log((root + 1) / (root - 1))).epsilon(1e-15 * root));
  }
  // Half-lives of the best undelayed momentum, and D + 1 times that.
  CHECK(LimitOfLinearRules(0, 1000).half_life_updates == Approx(10.956).epsilon(1e-4));
  CHECK(LimitOfLinearRules(1, 1000).half_life_updates == Approx(21.91).epsilon(1e-3));
  CHECK(LimitOfLinearRules(4, 1000).half_life_updates == Approx(54.78).epsilon(1e-4));
  CHECK(LimitOfLinearRules(4, 1).half_life_updates == 0);
  CHECK(LimitOfLinearRules(4, 1).spectral_radius == 0);
}

TEST_CASE("Arguments of the limit are checked by name") {
  CHECK_THROWS_AS(LimitOfLinearRules(-1, 10), InvalidArgument);
  CHECK_THROWS_AS(LimitOfLinearRules(1, 0.5), InvalidArgument);
  CHECK_THROWS_AS(LimitOfLinearRules(1, std::nan("")), InvalidArgument);
  CHECK_THROWS_AS(LimitOfLinearRules(1, 1e13), InvalidArgument);
}

TEST_CASE("Interleaved heavy balls attain the limit at every curvature") {
  for (const Delay delay : {0, 1, 4, 7}) {
    for (const double condition : {10.0, 1000.0}) {
      const Limit limit = LimitOfLinearRules(delay, condition);
      const RuleSpec rule = InterleavedHeavyBalls(delay, limit.momentum);
      INFO("delay " << delay << ", condition " << condition);
      for (int i = 0; i <= 20; ++i) {
        // Double roots at both ends of the spectrum, simple ones in between.
        const double x = limit.rate * std::pow(condition, -i / 20.0);
        const bool inside = i > 0 && i < 20;
        const double dense =
            DenseRadius(rule.options.numerator, rule.options.denominator, delay, x);
        CHECK(dense == Approx(limit.spectral_radius)
                           .epsilon(inside ? kEigenvalueTolerance : kDoubleRootTolerance));
        if (!inside) continue;
        const SpectralRadius certified = ComputeSpectralRadius(rule, 0, delay, x);
        CHECK(std::abs(certified.log_radius - limit.log_radius) <=
              certified.log_radius_error + 1e-14);
      }
    }
  }
}

TEST_CASE("No rule of two thousand random stable linear rules is faster than the limit") {
  std::mt19937_64 engine(2022);
  std::uniform_real_distribution<double> uniform(0, 1);
  // Zeros and poles: slow ones near 1 as in rules that work, and any others.
  const auto factors = [&](std::size_t degree) {
    Powers c = {1};
    while (c.size() <= degree) {
      const double size =
          uniform(engine) < 0.5 ? 1 - std::pow(10.0, -2 * uniform(engine)) : uniform(engine);
      if (c.size() < degree && uniform(engine) < 0.5) {
        const double angle = uniform(engine) < 0.5 ? 0.3 * uniform(engine) : 3.14 * uniform(engine);
        c = Multiply(c, {1, -2 * size * std::cos(angle), size * size});
      } else {
        c = Multiply(c, {1, uniform(engine) < 0.8 ? -size : size});
      }
    }
    return c;
  };
  int rules = 0, beaten = 0;
  double nearest = 1e300;
  for (int trial = 0; rules < 2'000 && trial < 100'000; ++trial) {
    const Delay delay = static_cast<Delay>(engine() % 7);
    const std::size_t order = 1 + engine() % 5;
    const Powers denominator = Multiply<double>({1, -1}, factors(order - 1));
    const Powers numerator = factors(engine() % order);
    const double condition = std::pow(10.0, 0.2 + 3 * uniform(engine));
    const Limit limit = LimitOfLinearRules(delay, condition);
    // The rate is drawn where it may be stable; both ends say whether it is.
    const double x = std::pow(10.0, -3 + 4 * uniform(engine)) / static_cast<double>(delay + 1);
    double worst = 0;
    for (const double at : {x, x / condition}) {
      worst = std::max(worst, DenseRadius(numerator, denominator, delay, at));
    }
    if (!(worst < 1)) continue;
    for (int i = 1; i < 40 && worst < limit.spectral_radius; ++i) {
      const double at = x * std::pow(condition, -i / 40.0);
      worst = std::max(worst, DenseRadius(numerator, denominator, delay, at));
    }
    ++rules;
    nearest = std::min(nearest, limit.log_radius / std::log(worst));
    beaten += std::log(worst) < limit.log_radius * (1 + kDoubleRootTolerance) ? 1 : 0;
  }
  CHECK(rules == 2'000);
  CHECK(beaten == 0);
  // The draw comes near enough to put the limit to the test.
  CHECK(nearest < 3);
  UNSCOPED_INFO("the fastest takes " << nearest << " times the limit");
  CHECK(nearest >= 1 - kDoubleRootTolerance);
}

TEST_CASE("Rules beside the one that attains the limit are slower") {
  std::mt19937_64 engine(7);
  std::normal_distribution<double> normal;
  for (int trial = 0; trial < 300; ++trial) {
    const Delay delay = 1 + trial % 4;
    const double condition = 100;
    const Limit limit = LimitOfLinearRules(delay, condition);
    RuleSpec rule = InterleavedHeavyBalls(delay, limit.momentum);
    const double size = std::pow(10.0, -1 - trial % 4);
    double sum = 0;
    for (double& c : rule.options.numerator) c += size * normal(engine) / 10;
    for (std::size_t k = 1; k < rule.options.denominator.size(); ++k) {
      rule.options.denominator[k] += size * normal(engine) / 10;
    }
    for (std::size_t k = 0; k + 1 < rule.options.denominator.size(); ++k) {
      sum += rule.options.denominator[k];
    }
    rule.options.denominator.back() = -sum;
    double worst = 0;
    for (int i = 0; i <= 40; ++i) {
      const double x = limit.rate * std::pow(condition, -i / 40.0);
      worst =
          std::max(worst, DenseRadius(rule.options.numerator, rule.options.denominator, delay, x));
    }
    CHECK(worst > limit.spectral_radius);
  }
}

TEST_CASE("No best half-life of a rule of a momentum is below the limit") {
  for (const Rule& rule : Rules()) {
    for (const Delay delay : {0, 1, 4}) {
      const double best = FindOptimum({{rule, {}}, delay, 100, {}}).half_life_updates;
      // The undelayed heavy ball is on it, to the resolution of the search.
      CHECK(best > LimitOfLinearRules(delay, 100).half_life_updates * (1 - 1e-9));
    }
  }
}

}  // namespace batchless::analysis
