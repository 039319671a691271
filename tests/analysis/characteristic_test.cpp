#include "batchless/analysis/characteristic.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "batchless/analysis/argument.h"
#include "catch.h"
#include "polynomial.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

using Polynomial = std::vector<long double>;  // constant term first
using Limits = std::numeric_limits<double>;

// A handful of roundings, relative to the largest term that goes into a coefficient.
constexpr double kValueTolerance = 1e-14;

Polynomial operator*(const Polynomial& p, const Polynomial& q) { return Multiply(p, q); }

Polynomial operator+(const Polynomial& p, const Polynomial& q) {
  Polynomial sum(std::max(p.size(), q.size()), 0.0L);
  for (std::size_t i = 0; i < p.size(); ++i) sum[i] += p[i];
  for (std::size_t i = 0; i < q.size(); ++i) sum[i] += q[i];
  return sum;
}

Polynomial PowerOfZ(Delay n) {
  Polynomial p(static_cast<std::size_t>(n) + 1, 0.0L);
  p.back() = 1;
  return p;
}

// The polynomials as the delayed recursion gives them, common factors of z and all:
//   velocity form  z^D (z-1)(z-m) + x T (z-1) + x ((a+b) z - b m)
//   weight form    z^{D+1} (z-1)(z-m) + x ((a+b) z - b m)((1+T) z - T)
Polynomial Reference(const RuleSpec& spec, double momentum, Delay delay, double rate) {
  const long double m = momentum;
  const long double x = rate;
  const auto [a, b, horizon] = ComputeCoefficients<long double>(spec, m, delay);
  const Polynomial quadratic = Polynomial{-1, 1} * Polynomial{-m, 1};
  const Polynomial compensation = {-b * m * x, (a + b) * x};
  if (spec.rule.prediction == Prediction::kWeight) {
    return PowerOfZ(delay + 1) * quadratic + compensation * Polynomial{-horizon, 1 + horizon};
  }
  return PowerOfZ(delay) * quadratic + Polynomial{-x * horizon, x * horizon} + compensation;
}

// Reference = z^j * polynomial for some j; returns j, or -1 where it is not so.
int FactorsOfZ(const Polynomial& reference, const std::vector<double>& polynomial,
               long double scale) {
  const long double tolerance = kValueTolerance * scale;
  const auto factors = static_cast<std::ptrdiff_t>(reference.size()) -
                       static_cast<std::ptrdiff_t>(polynomial.size());
  if (factors < 0) return -1;
  const auto j = static_cast<std::size_t>(factors);
  for (std::size_t k = 0; k < reference.size(); ++k) {
    const long double have = k < j ? 0.0L : static_cast<long double>(polynomial[k - j]);
    if (!(std::abs(reference[k] - have) <= tolerance)) return -1;
  }
  return static_cast<int>(factors);
}

long double Scale(const RuleSpec& spec, double momentum, Delay delay, double rate) {
  const auto c = ComputeCoefficients<double>(spec, momentum, delay);
  return 2 + static_cast<long double>(rate) * (c.a + c.b) * (1 + c.horizon);
}

int FactorsOfZ(const RuleSpec& spec, double momentum, Delay delay, double rate) {
  const auto p = MakeCharacteristic<double>(spec, momentum, delay);
  const std::vector<double> dense = DenseCoefficients(p, rate);
  CHECK(dense.size() == static_cast<std::size_t>(p.n) + 3);
  CHECK(dense.back() != 0);
  return FactorsOfZ(Reference(spec, momentum, delay, rate), dense,
                    Scale(spec, momentum, delay, rate));
}

TEST_CASE("Every rule has the polynomial of its recursion, at random points") {
  std::mt19937_64 random(20);
  std::uniform_real_distribution<double> unit(0, 1);
  for (const Rule& rule : Rules()) {
    // Without mitigation x z has a factor z; the weight form without SC has x z too, times a lead.
    int expected = 0;
    if (rule.name == "sgdm" || rule.name == "free" || rule.name == "lwp-w") expected = 1;
    for (int trial = 0; trial < 200; ++trial) {
      const double momentum = 1 - std::pow(10.0, -4 * unit(random));
      const double rate = std::pow(10.0, -6 + 7 * unit(random));
      const Delay delay = 1 + static_cast<Delay>(40 * unit(random));
      CAPTURE(rule.name, momentum, rate, delay);
      CHECK(FactorsOfZ(Spec(rule.name), momentum, delay, rate) == expected);
    }
  }
}

TEST_CASE("Free coefficients and horizons have the polynomial of their recursion") {
  std::mt19937_64 random(21);
  std::uniform_real_distribution<double> unit(0, 1);
  for (int trial = 0; trial < 500; ++trial) {
    const double momentum = unit(random);
    const double rate = std::pow(10.0, -6 + 7 * unit(random));
    const auto delay = static_cast<Delay>(20 * unit(random));
    RuleOptions options;
    options.sc_a = 3 * unit(random);
    options.sc_b = 3 * unit(random);
    options.horizon = 10 * unit(random);
    CAPTURE(momentum, rate, delay, *options.sc_a, *options.sc_b, *options.horizon);
    CHECK(FactorsOfZ(Spec("free", options), momentum, delay, rate) == 0);
    CHECK(FactorsOfZ(Spec("lwp-v+sc", options), momentum, delay, rate) == 0);
    CHECK(FactorsOfZ(Spec("lwp-w+sc", options), momentum, delay, rate) == 0);
  }
}

TEST_CASE("Without delay every mitigation is SGDM's quadratic") {
  const double m = 0.875;
  const double x = 0.25;
  // (z - 1)(z - m) + x z; binary fractions, so exactly.
  const std::vector<double> quadratic = {0.875, -1.625, 1};
  for (const Rule& rule : Rules()) {
    if (rule.compensation == Compensation::kNesterov) continue;
    INFO(rule.name);
    CHECK(DenseCoefficients(MakeCharacteristic<double>(Spec(rule.name), m, 0), x) == quadratic);
  }
  // Nesterov: (z - 1)(z - m) + x ((1 + m) z - m)
  CHECK(DenseCoefficients(MakeCharacteristic<double>(Spec("nesterov"), m, 0), x) ==
        std::vector<double>{0.65625, -1.40625, 1});
}

TEST_CASE("A lead that does nothing leaves SGDM's polynomial at the same delay") {
  const auto sgdm = DenseCoefficients(MakeCharacteristic<double>(Spec("sgdm"), 0.75, 6), 0.5);
  CHECK(sgdm.size() == 8);  // z^5 (z - 1)(z - m) + x
  RuleOptions nothing;
  nothing.sc_delay_scale = 0;
  CHECK(DenseCoefficients(MakeCharacteristic<double>(Spec("sc", nothing), 0.75, 6), 0.5) == sgdm);
  nothing.horizon_scale = 0;
  for (const char* name : {"lwp-v+sc", "lwp-w+sc"}) {
    CHECK(DenseCoefficients(MakeCharacteristic<double>(Spec(name, nothing), 0.75, 6), 0.5) == sgdm);
  }
  CHECK(DenseCoefficients(MakeCharacteristic<double>(Spec("free"), 0.75, 6), 0.5) == sgdm);
}

TEST_CASE("Both forms of LWP have the roots of SC with a = 1 + T - T/m, b = T/m") {
  const double m = 0.9;
  const Delay delay = 5;
  const double horizon = 3;
  const double rate = 0.01;
  RuleOptions options;
  options.horizon = horizon;
  const auto v =
      DenseCoefficients(MakeCharacteristic<double>(Spec("lwp-v", options), m, delay), rate);
  const auto w =
      DenseCoefficients(MakeCharacteristic<double>(Spec("lwp-w", options), m, delay), rate);
  CHECK(v == w);
  // a is negative for T > m/(1 - m) and no rule option then: the polynomial is made by hand.
  const long double a = 1 + horizon - horizon / static_cast<long double>(m);
  const long double b = horizon / static_cast<long double>(m);
  const long double x = rate;
  const Polynomial sc = PowerOfZ(delay) * (Polynomial{-1, 1} * Polynomial{-m, 1}) +
                        Polynomial{-b * static_cast<long double>(m) * x, (a + b) * x};
  CHECK(FactorsOfZ(sc, v, 2) == 0);
}

TEST_CASE("The bounds of momentum, delay and rate are named as on the command line") {
  CHECK_NOTHROW(CheckMomentum(0));
  CHECK_NOTHROW(CheckMomentum(1));
  CHECK_NOTHROW(CheckDelay(0));
  CHECK_NOTHROW(CheckDelay(kMaxDelay));
  CHECK_NOTHROW(CheckRate(kMinRate));
  CHECK_NOTHROW(CheckRate(kMaxRate));
  CHECK_THROWS_WITH(CheckDelay(-1), "delay: got -1, accepted: an integer from 0 to 10000000");
  CHECK_THROWS_WITH(CheckDelay(kMaxDelay + 1),
                    "delay: got 10000001, accepted: an integer from 0 to 10000000");
  CHECK_THROWS_WITH(CheckMomentum(1.5), "momentum: got 1.5, accepted: a number from 0 to 1");
  CHECK_THROWS_WITH(CheckRate(0),
                    "rate: got 0, accepted: a number from " + ToText(kMinRate) + " to 1e+06");
  for (const double bad : {-1.0, Limits::quiet_NaN(), Limits::infinity()}) {
    CHECK_THROWS_AS(CheckMomentum(bad), InvalidArgument);
    CHECK_THROWS_AS(CheckRate(bad), InvalidArgument);
  }
}

TEST_CASE("Coefficients of a polynomial that is too large are refused") {
  CHECK(DenseCoefficients(MakeCharacteristic<double>(Spec("sc"), 0.9, kMaxDenseDelay), 1).size() ==
        kMaxDenseDelay + 3);
  CHECK_THROWS_AS(DenseCoefficients(MakeCharacteristic<double>(Spec("sc"), 0.9, kMaxDelay), 1),
                  InvalidArgument);
}

}  // namespace
}  // namespace batchless::analysis
