// Stationary variance of the weight when every gradient carries noise.
//
//   g_i = lambda w_hat_{i-D} + xi_i        xi_i independent, mean 0, variance sigma^2
//   w(z) = -eta H(z) xi(z),   H(z) = z^n ((a + b) z - b m) / p(z)
//   variance of w = eta^2 sigma^2 V,   V = sum_k h_k^2 = (1 / 2 pi) int |H(e^{i theta})|^2 d theta
//
//   p(z)  characteristic polynomial, undivided: z^D (z - 1)(z - m) + x (...) without or with
//         velocity-form prediction (n = D), one degree more for the weight form (n = D + 1)
//   x     normalised rate eta * lambda          h_k  response of -w / eta to a unit of noise
//
// A compensator N(z)/D(z) in place of a rule has H = z^D N(z) / (z^D D(z) + x N(z)); ImpulseEnergy
// takes any such pair. An average of iterates is one more factor: wbar' = wbar + (w - wbar) / K has
// (1 - g) z / (z - g) with g = 1 - 1/K. For long averages V tends to 1 / (2 K x^2), whatever the
// rule and the delay: averaging asks for the rate alone.
//
// V is found by the recursion of Jury and Astrom: with a, b the coefficients of degree k,
//   a_i <- a_i - (a_k / a_0) a_{k-i},   b_i <- b_i - (b_k / a_0) a_{k-i},   V = sum_k b_k^2 / a_0
// (each a_0, b_k of its own step; over the first a_0). All terms are positive, and all a_0 keep the
// sign of the first exactly where the polynomial is stable. It costs n^2 operations.
//
// Source: K. J. Astrom, Introduction to Stochastic Control Theory, 1970 (recalled).
#pragma once

#include <span>

#include "batchless/analysis/characteristic.h"

namespace batchless::analysis {

/// Largest delay for which a variance is computed: the recursion takes seconds there.
inline constexpr Delay kMaxNoiseDelay = 10'000;

/// Range of the length K of an average of iterates, in updates; 1 is no average. The longest is more than
/// that of a frontier's longest half-life, over ln 2.
inline constexpr double kMinAverage = 1;
inline constexpr double kMaxAverage = 2e9;

/// Relative error of WeightVariance that its climb to higher precision is made for.
inline constexpr double kVarianceTolerance = 1e-11;

/// sum_k h_k^2 of H = numerator / denominator, coefficients by descending powers; NaN where a root
/// of the denominator is not inside the unit circle. In long double: the relative error grows as
/// 1e-19 / (1 - rho). Throws InvalidArgument for coefficients that are not finite, a denominator
/// that starts with 0, and a numerator of higher degree.
double ImpulseEnergy(std::span<const double> numerator, std::span<const double> denominator);
/// The same for coefficients that are known to be such, not rounded to doubles.
long double ImpulseEnergy(std::span<const long double> numerator,
                          std::span<const long double> denominator);

/// V of a rule, of the weights themselves or (average > 1) of their running average. NaN where the
/// rule is not stable. Computed in double and long double, and in 50 digits where these differ by
/// more than kVarianceTolerance lets them. Throws InvalidArgument.
double WeightVariance(const RuleSpec& spec, double momentum, Delay delay, double rate,
                      double average = kMinAverage);

}  // namespace batchless::analysis

// Example
//   const RuleSpec sgdm{FindRule("sgdm"), {}};
//   // w' = (1 - x) w - eta noise.
//   const double momentum = 0, rate = 0.5;
//   const double variance = WeightVariance(sgdm, momentum, /*delay=*/0, rate);
//   CHECK(variance == Approx(1 / (1 - (1 - rate) * (1 - rate))));
//   CHECK(std::isnan(WeightVariance(sgdm, momentum, /*delay=*/0, 2.5)));
