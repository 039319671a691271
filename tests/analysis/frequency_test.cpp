#include "batchless/analysis/frequency.h"

#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/stability.h"
#include "catch.h"
#include "polynomial.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

using std::numbers::pi;

// A few roundings per factor; the phase D times that of theta.
constexpr double kResponseTolerance = 1e-12;

TEST_CASE("The open loop is the rules' equations on the unit circle") {
  const char* name = GENERATE("sgdm", "nesterov", "sc", "lwp-v", "lwp-w", "lwp-v+sc", "lwp-w+sc");
  const Delay delay = GENERATE(0, 1, 4, 60);
  const double m = GENERATE(0.0, 0.9);
  const double x = 0.05;
  CAPTURE(name, delay, m);
  const auto c = ComputeCoefficients<double>(Spec(name), m, delay);
  std::vector<double> frequencies;
  for (int k = 1; k <= 400; ++k) frequencies.push_back(pi * k / 400);
  double before = 0;
  for (const FrequencyPoint& point : FrequencyResponse(Spec(name), m, delay, x, frequencies)) {
    const std::complex<double> z = std::polar(1.0, point.frequency);
    std::complex<double> forward = (c.a + c.b) * z - c.b * m;
    if (Spec(name).rule.prediction == Prediction::kVelocity) forward += c.horizon * (z - 1.0);
    if (Spec(name).rule.prediction == Prediction::kWeight) {
      forward *= 1.0 + c.horizon * (1.0 - 1.0 / z);
    }
    const std::complex<double> expected =
        x * forward / ((z - 1.0) * (z - m)) * std::pow(z, -static_cast<double>(delay));
    CHECK(std::abs(std::polar(point.magnitude, point.phase_radians) - expected) <=
          kResponseTolerance * 60 * std::abs(expected));
    // No jump: less than the delay's own slope and half a turn of the other factors.
    if (before != 0) {
      CHECK(std::abs(point.phase_radians - before) <
            (static_cast<double>(delay) + 1) * pi / 400 + pi / 2);
    }
    before = point.phase_radians;
  }
}

TEST_CASE("A rule by its coefficients has the response of the rule that it is") {
  const char* name = GENERATE("sgdm", "nesterov", "sc", "lwp-v", "lwp-w", "lwp-v+sc", "lwp-w+sc");
  const Delay delay = GENERATE(0, 1, 4, 60);
  const double m = GENERATE(0.3, 0.9, 0.999);
  CAPTURE(name, delay, m);
  std::vector<double> frequencies;
  for (int k = -60; k <= 0; ++k) frequencies.push_back(pi * std::pow(10, k / 10.0));
  const auto expected = FrequencyResponse(Spec(name), m, delay, 0.05, frequencies);
  const auto found =
      FrequencyResponse(AsLinear(name, m, delay), std::nan(""), delay, 0.05, frequencies);
  for (std::size_t k = 0; k < frequencies.size(); ++k) {
    CAPTURE(frequencies[k]);
    // Its coefficients are rounded, which the pole at m feels near 1.
    CHECK(std::abs(found[k].magnitude / expected[k].magnitude - 1) < 1e-10);
    CHECK(std::abs(found[k].phase_radians - expected[k].phase_radians) < 1e-10);
  }
}

TEST_CASE("A quotient's phase has no jumps, with zeros and poles on both sides of the circle") {
  // Zeros at 1.25 e^{+-0.5i} and -0.4, poles at 1, 0.95 e^{+-0.3i} and -1.5.
  const std::vector<double> zeros = {1, -2.5 * std::cos(0.5), 1.5625};
  const std::vector<double> poles = {1, -1.9 * std::cos(0.3), 0.9025};
  const double sign = GENERATE(1, -1);
  std::vector<double> numerator = Multiply(zeros, {1, 0.4});
  for (double& c : numerator) c *= sign;
  const RuleSpec rule = LinearSpec(numerator, Multiply(Multiply(poles, {1, -1}), {1, 1.5}));
  constexpr Delay kDelay = 3;
  constexpr int kPoints = 4000;
  std::vector<double> frequencies;
  for (int k = 1; k <= kPoints; ++k) frequencies.push_back(pi * k / kPoints);
  const auto value = [](const std::vector<double>& c, std::complex<double> z) {
    std::complex<double> sum = 0;
    for (const double each : c) sum = sum * z + each;
    return sum;
  };
  const auto points = FrequencyResponse(rule, std::nan(""), kDelay, 0.2, frequencies);
  for (std::size_t k = 0; k < points.size(); ++k) {
    const std::complex<double> z = std::polar(1.0, frequencies[k]);
    const std::complex<double> expected =
        0.2 * value(rule.options.numerator, z) / value(rule.options.denominator, z) / (z * z * z);
    CHECK(std::abs(std::polar(points[k].magnitude, points[k].phase_radians) - expected) <
          1e-10 * std::abs(expected));
    if (k > 0) CHECK(std::abs(points[k].phase_radians - points[k - 1].phase_radians) < 0.1);
  }
  // A pole at 1 turns the phase back by a quarter, a sign by a half.
  CHECK(std::abs(points[0].phase_radians - (sign < 0 ? pi / 2 : -pi / 2)) < 0.02);
}

TEST_CASE("Margins read off the frequency response are those of the analyzer") {
  const char* name = GENERATE("sgdm", "sc", "lwp-v", "lwp-v+sc", "lwp-w+sc");
  CAPTURE(name);
  const double m = 0.9, x = 0.5 * CriticalRate(Spec(name), m, 4);
  const Margins margins = ComputeMargins(Spec(name), m, 4, x);
  const std::vector<double> at = {margins.gain_crossover_radians};
  const FrequencyPoint point = FrequencyResponse(Spec(name), m, 4, x, at)[0];
  CHECK(std::abs(point.magnitude - 1) < 1e-9);
  CHECK(std::abs(std::remainder(point.phase_radians + pi - margins.phase_margin_radians, 2 * pi)) <
        1e-9);
}

TEST_CASE("A frequency is above 0 and at most pi") {
  for (const double frequency : {0.0, -1.0, 3.2, std::nan("")}) {
    CHECK_THROWS_AS(FrequencyResponse(Spec("sgdm"), 0.9, 4, 0.01, std::vector{frequency}),
                    InvalidArgument);
  }
}

}  // namespace
}  // namespace batchless::analysis
