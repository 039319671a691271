#include "batchless/analysis/roots.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "batchless/analysis/argument.h"
#include "catch.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

using Complex = std::complex<double>;
using Extended = std::complex<long double>;

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
// A simple root is found in long double and rounded once; a few roundings more where the expected
// value is itself computed in double.
constexpr double kSimpleTolerance = 8 * kEpsilon;
// Two roots within 1e-9 of each other: the square root of a rounding of a long double, 3e-10, times
// a factor of order one from the polynomial.
constexpr double kDoubleRootTolerance = 4e-9;

double Distance(const std::vector<Complex>& roots, Complex expected) {
  double least = std::numeric_limits<double>::infinity();
  for (const Complex root : roots) least = std::min(least, std::abs(root - expected));
  return least;
}

// Every expected root has a root of its own within the tolerance.
void CheckSame(std::vector<Complex> roots, const std::vector<Complex>& expected, double tolerance) {
  REQUIRE(roots.size() == expected.size());
  for (const Complex e : expected) {
    const auto nearest = std::min_element(
        roots.begin(), roots.end(),
        [&](Complex left, Complex right) { return std::abs(left - e) < std::abs(right - e); });
    CAPTURE(e, *nearest);
    CHECK(std::abs(*nearest - e) <= tolerance * std::max(1.0, std::abs(e)));
    roots.erase(nearest);
  }
}

// Roots of z^2 - 2 half_sum z + product. In long double, because the roots of a quadratic can be
// far more sensitive than its coefficients.
std::vector<Complex> QuadraticRoots(long double half_sum, long double product) {
  const Extended radical = std::sqrt(Extended(half_sum * half_sum - product));
  // The larger by addition, the smaller from the product: no cancellation.
  const Extended large = half_sum + (half_sum >= 0 ? radical : -radical);
  if (large == Extended(0)) return {0, 0};
  return {Complex(large), Complex(product / large)};
}

TEST_CASE("Without delay the roots are those of z^2 - (1 + m - x) z + m") {
  const double m = GENERATE(0.25, 0.9, 0.999);
  const double x = GENERATE(1e-12, 1e-3, 0.5, 1.0, 3.0);
  CAPTURE(m, x);
  CheckSame(AllRoots(Spec("sgdm"), m, 0, x),
            QuadraticRoots((1 + static_cast<long double>(m) - x) / 2, m), kSimpleTolerance);
}

TEST_CASE("At D = 1 the roots of SGDM are those of z^2 - (1 + m) z + m + x") {
  const double m = GENERATE(0.0, 0.25, 0.9, 1.0);
  const double x = GENERATE(1e-3, 0.5, 3.0, 1e6);
  CAPTURE(m, x);
  CheckSame(AllRoots(Spec("sgdm"), m, 1, x),
            QuadraticRoots((1 + static_cast<long double>(m)) / 2, m + static_cast<long double>(x)),
            kSimpleTolerance);
}

void CheckAtCriticalRate(Delay delay) {
  CAPTURE(delay);
  const double angle = std::numbers::pi / (2 * static_cast<double>(delay) + 1);
  const auto roots = AllRoots(Spec("sgdm"), 0, delay, 2 * std::sin(angle / 2));
  // z^D (z - 1) + x at m = 0, where z u (u + 1)/z has lost one factor z.
  REQUIRE(roots.size() == static_cast<std::size_t>(delay) + 1);
  CHECK(std::abs(std::abs(roots[0]) - 1) <= kSimpleTolerance);
  CHECK(std::abs(roots[0] - std::polar(1.0, angle)) <= kSimpleTolerance);
  CHECK(roots[1] == std::conj(roots[0]));
}

TEST_CASE("SGD at its critical rate has a pair at exp(i pi / (2 D + 1))") {
  CheckAtCriticalRate(GENERATE(1, 2, 7, 40, 336));
}

TEST_CASE("SGD at its critical rate has a pair at exp(i pi / (2 D + 1)), D = 1000", "[.long]") {
  CheckAtCriticalRate(1000);
}

TEST_CASE("SGD at its breakaway has a double root at D / (D + 1)") {
  const Delay delay = GENERATE(1, 2, 5, 30);
  CAPTURE(delay);
  const double d = static_cast<double>(delay);
  const double x = std::pow(d / (d + 1), d) / (d + 1);
  const auto roots = AllRoots(Spec("sgdm"), 0, delay, x);
  // For D > 1 the rate is rounded, which moves the two apart by the square root of that.
  const double tolerance = delay == 1 ? kDoubleRootTolerance : 4 * std::sqrt(kEpsilon);
  CHECK(std::abs(roots[0] - d / (d + 1)) <= tolerance);
  CHECK(std::abs(roots[1] - d / (d + 1)) <= tolerance);
}

TEST_CASE("A complex pair that the companion matrix takes for a double real root is told apart") {
  // z^2 - (1 + m - x) z + m at m = 1/4, one rounding past the breakaway x = 1/4: the middle
  // coefficient is 1 - 2^-54, which rounds to 1 and a double root at 1/2.
  const double x = 0.25 + 0x1p-54;
  const auto roots = AllRoots(Spec("sgdm"), 0.25, 0, x);
  // 1/4 - ((1 - 2^-54) / 2)^2 = 2^-55 to first order. Half the distance of the pair is 5e-9, to
  // which a long double's rounding over that distance adds up to 1e-11.
  const double imaginary = std::sqrt(0x1p-55);
  CHECK(std::abs(roots[0].imag() / imaginary - 1) <= 1e-2);
  CHECK(std::abs(roots[1].imag() / imaginary + 1) <= 1e-2);
}

TEST_CASE("A rate of no effect leaves the roots 1, m and exact zeros") {
  const auto roots = AllRoots(FreeSpec(0, 0, 0), 0.75, 6, 0.5);
  REQUIRE(roots.size() == 7);
  CHECK(std::abs(roots[0] - 1.0) <= kSimpleTolerance);
  CHECK(std::abs(roots[1] - 0.75) <= kSimpleTolerance);
  for (std::size_t i = 2; i < roots.size(); ++i) CHECK(roots[i] == Complex(0));
}

TEST_CASE("A tiny rate moves the root at 1 by x / (1 - m)") {
  const auto roots = AllRoots(Spec("sc"), 0.5, 20, 1e-9);
  // Second order: D x^2 / (1 - m)^2 or so, 1e-16.
  CHECK(std::abs(roots[0] - (1 - 2e-9)) <= 1e-15);
}

struct RootPoint {
  double momentum;
  double rate;
  Delay delay;
};

RootPoint RandomPoint(std::mt19937_64& random, Delay longest) {
  std::uniform_real_distribution<double> unit(0, 1);
  return {1 - std::pow(10.0, -4 * unit(random)), std::pow(10.0, -5 + 6 * unit(random)),
          static_cast<Delay>(static_cast<double>(longest + 1) * unit(random))};
}

TEST_CASE("Residuals, Vieta's sum and product, order and conjugates, at random points") {
  std::mt19937_64 random(30);
  for (const Rule& rule : Rules()) {
    for (int trial = 0; trial < 60; ++trial) {
      const auto [momentum, rate, delay] = RandomPoint(random, 80);
      CAPTURE(rule.name, momentum, rate, delay);
      const RuleSpec spec = Spec(rule.name);
      const auto p = MakeCharacteristic<long double>(spec, momentum, delay);
      const auto c = DenseCoefficients(p, rate);
      const auto roots = AllRoots(spec, momentum, delay, rate);
      REQUIRE(roots.size() + 1 == c.size());
      const auto degree = static_cast<long double>(roots.size());

      Extended sum = 0;
      Extended product = 1;
      long double moduli = 0;
      for (const Complex root : roots) {
        const Extended z = root;
        sum += z;
        product *= -z;
        moduli += std::abs(z);
        // Horner's value against the same sum of moduli; rounding z to double moves the value by up
        // to degree roundings of that.
        Extended value = 0;
        long double size = 0;
        for (std::size_t k = c.size(); k-- > 0;) {
          value = value * z + c[k];
          size = size * std::abs(z) + std::abs(c[k]);
        }
        CHECK(std::abs(value) <= degree * kEpsilon * size);
      }
      CHECK(std::abs(sum + c[c.size() - 2] / c.back()) <= kEpsilon * moduli);
      CHECK(std::abs(product - c.front() / c.back()) <=
            degree * kEpsilon * std::abs(c.front() / c.back()));

      for (std::size_t i = 0; i < roots.size(); ++i) {
        if (i > 0) CHECK(std::abs(roots[i]) <= std::abs(roots[i - 1]));
        if (roots[i].imag() > 0) {
          REQUIRE(i + 1 < roots.size());
          CHECK(roots[i + 1] == std::conj(roots[i]));
        } else if (roots[i].imag() < 0) {
          REQUIRE(i > 0);
          CHECK(roots[i - 1] == std::conj(roots[i]));
        }
      }
    }
  }
}

TEST_CASE("The ends of the accepted ranges are solved") {
  const char* name = GENERATE("sgdm", "sc", "lwp-v+sc", "lwp-w+sc");
  const double m = GENERATE(0.0, 0.5, 1.0);
  const double x = GENERATE(kMinRate, kMaxRate);
  const Delay delay = GENERATE(0, 1, 150);
  CAPTURE(name, m, x, delay);
  const RuleSpec spec = Spec(name);
  const auto roots = AllRoots(spec, m, delay, x);
  const auto c = DenseCoefficients(MakeCharacteristic<long double>(spec, m, delay), x);
  REQUIRE(roots.size() + 1 == c.size());
  // The logarithm of the product of the moduli, which holds without underflow.
  if (c.front() != 0) {
    long double log_product = 0;
    for (const Complex root : roots) log_product += std::log(std::abs(Extended(root)));
    CHECK(std::abs(log_product - std::log(std::abs(c.front() / c.back()))) < 1e-12);
  }
}

TEST_CASE("Momentum 1 keeps its double root at 1 as the rate goes to 0") {
  // (z - 1)^2 + x z: roots 1 -+ i sqrt(x) to first order.
  const auto roots = AllRoots(Spec("sgdm"), 1, 0, 1e-12);
  CHECK(Distance(roots, {1 - 0.5e-12, 1e-6}) <= 1e-15);
}

TEST_CASE("What can not be answered is refused by name") {
  CHECK_THROWS_WITH(
      AllRoots(Spec("sc"), 0.9, kMaxRootsDelay + 1, 0.1),
      "delay: got 1001, accepted: an integer from 0 to 1000 where all roots are asked for");
  CHECK_THROWS_AS(AllRoots(Spec("sc"), 1.1, 1, 0.1), InvalidArgument);
  CHECK_THROWS_AS(AllRoots(Spec("sc"), 0.9, -1, 0.1), InvalidArgument);
  CHECK_THROWS_AS(AllRoots(Spec("sc"), 0.9, 1, 0), InvalidArgument);
  RuleOptions options;
  options.horizon = 1;
  CHECK_THROWS_AS(AllRoots(Spec("sc", options), 0.9, 1, 0.1), InvalidArgument);
}

}  // namespace
}  // namespace batchless::analysis
