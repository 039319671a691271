// Characteristic polynomial of a linear rule on one eigendirection of a convex quadratic.
//
//   p(z) = z^n (z - 1)(z - m) + x (kappa + beta u)(1 + gamma u),     u = z - 1
//
//   x      normalised rate eta * lambda > 0        m  momentum in [0, 1], mu = 1 - m
//   n      power left after common factors of z are divided out
//   kappa  a + b (1 - m); equal to 1 for every named rule
//   beta   the lead coefficient: a + b + T without, or with velocity-form, prediction
//   gamma  second lead coefficient: 1 + T for the weight form together with compensation
//
// Without compensation both forms of LWP give the same polynomial; SC, LWP and LWPv+SC differ only
// in beta, so on a quadratic they are one family. A lead with beta = kappa is a factor z and is
// divided out, which turns LWP with T = 0, or SC with d = 0, into plain SGDM.
//
// Sources: Kosson et al., arXiv 2003.11666 (rules, recalled). The polynomials are derived from the
// update written out, and checked against simulation.h; the common form in u is this project's.
#pragma once

#include <cmath>
#include <type_traits>
#include <vector>

#include "batchless/analysis/rule.h"

namespace batchless::analysis {

/// Accepted ranges, checked by MakeCharacteristic and by the front ends.
inline constexpr Delay kMaxDelay = 10'000'000;
inline constexpr double kMinRate = 1e-60;
inline constexpr double kMaxRate = 1e6;

/// Largest n for which DenseCoefficients answers.
inline constexpr int kMaxDenseDelay = 20'000;

/// p(z) without its rate: everything that is constant along a row of a sweep.
template <class Real>
struct Characteristic {
  Real n;
  Real momentum;
  Real one_minus_momentum;
  Real kappa;
  Real beta;
  Real gamma;
  /// Sums of the sizes of the terms that kappa and beta are added up from: what their rounding is
  /// relative to. Equal to them unless free coefficients cancel.
  Real kappa_size;
  Real beta_size;
};

/// The polynomial of `spec` (which has to be valid) at momentum m in [0, 1] and delay D in
/// [0, kMaxDelay]. The momentum is taken exactly; everything else is rounded to Real.
template <class Real>
Characteristic<Real> MakeCharacteristic(const RuleSpec& spec, double momentum, Delay delay) {
  const Real m = static_cast<Real>(momentum);
  const Coefficients<Real> k = ComputeCoefficients<Real>(spec, m, delay);
  Characteristic<Real> p;
  p.n = Real(delay);
  p.momentum = m;
  p.one_minus_momentum = 1 - m;
  const bool named = !spec.options.sc_a && !spec.options.sc_b;
  using std::abs;
  p.kappa = named ? Real(1) : Real(k.a + k.b * p.one_minus_momentum);
  p.kappa_size = named ? Real(1) : Real(abs(k.a) + abs(k.b) * p.one_minus_momentum);
  p.beta = k.a + k.b;
  p.beta_size = abs(k.a) + abs(k.b);
  p.gamma = 0;
  if (spec.rule.prediction == Prediction::kVelocity) {
    p.beta += k.horizon;
    p.beta_size += k.horizon;
  } else if (spec.rule.prediction == Prediction::kWeight) {
    p.gamma = 1 + k.horizon;
    p.n += 1;
  }
  // Leads that are a factor z.
  if (p.n > 0 && p.gamma == 1) {
    p.n -= 1;
    p.gamma = 0;
  }
  if (p.n > 0 && p.beta == p.kappa) {
    p.n -= 1;
    p.beta = 0;
    p.beta_size = 0;
  }
  // A single lead stands in beta.
  if (p.beta == 0 && p.gamma != 0) {
    p.beta = p.kappa * p.gamma;
    p.beta_size = p.kappa_size * p.gamma;
    p.gamma = 0;
  }
  return p;
}

/// Coefficients of p(z) at rate x, constant term first; n + 3 of them, the leading one non-zero.
/// Throws InvalidArgument where n > kMaxDenseDelay. Real is double or long double.
template <class Real>
std::vector<Real> DenseCoefficients(const Characteristic<Real>& p, std::type_identity_t<Real> rate);

/// Throws InvalidArgument unless momentum in [0, 1], delay in [0, kMaxDelay], and rate in
/// [kMinRate, kMaxRate].
void CheckMomentum(double momentum);
void CheckDelay(Delay delay);
void CheckRate(double rate);
/// The rule, and the momentum but for the rule `linear`, which has none.
void Validate(const RuleSpec& spec, double momentum);
/// All of a point.
void Validate(const RuleSpec& spec, double momentum, Delay delay, double rate);

}  // namespace batchless::analysis

// Example
//   // (z - 1)(z - m) + x at one update of delay, a factor z divided out.
//   const RuleSpec sgdm{FindRule("sgdm"), {}};
//   const auto p = MakeCharacteristic<double>(sgdm, /*momentum=*/0.9, /*delay=*/1);
//   const std::vector<double> coefficients = DenseCoefficients(p, 0.1);
//   CHECK(coefficients.size() == 3);
//   CHECK(coefficients[0] == Approx(0.9 + 0.1));
//   CHECK(coefficients[1] == Approx(-1.9));
//   CHECK(coefficients[2] == 1);
