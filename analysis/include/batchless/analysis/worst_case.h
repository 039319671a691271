// A certified rate of convergence for every smooth strongly convex function, in any dimension.
//
//   f mu-strongly convex and L-smooth, K = L / mu, gradients taken at y:   y = -G(z) grad f(y)
//   |y_i - y*| <= c rho^i for every such f, if for the rule's polynomial p of characteristic.h
//     all roots of p(z; x / K) lie in |z| < rho, and
//     Re[(1 - H(z)) p(z; x) / p(z; x / K)] > 0 on |z| = rho,   H(z) = sum_j theta_j z^-j,
//     theta_j >= 0,   sum_j theta_j <= 1,   sum_j theta_j rho^(-2 j) <= 1,   j = +-1 .. +-8
//
//   x      eta L                    K       condition number >= 1
//   rho    rate, in (0, 1)          theta   taps of a weighted Zames-Falb multiplier 1 - H
//
// Quadratics are such functions, so rho is never below their spectral radius at x / K or at x. With
// G~ = G / (1 + mu G) the quotient above is (L - mu) (1 / (L - mu) + G~). More taps gain little.
//
// Search. For a rho the best taps maximise the least real part, relative to the quotient's size, over
// frequencies: a linear program of 17 rows, solved by the simplex method on its dual; frequencies
// where the solution is least between those it knows enter one by one. What it says is no proof.
//
// Proof. The real part times |p(z; x / K)|^2 is a trigonometric polynomial T. The half circle is
// divided into arcs until each proves T > 0: factors of T are a quadratic in the angle and a bound on
// the rest, rounding with it, and so is their product. Taps are scaled until both sums are below 1
// with room for rounding, and the spectral radius at x / K comes with its own certificate.
//
// Sources: Lessard, Recht, Packard, SIAM J. Optim. 2016; Boczar, Lessard, Recht, CDC 2015; Freeman,
// ACC 2018 (multipliers, recalled); Van Scoy, Freeman, Lynch, IEEE L-CSS 2018 (triple momentum). The
// delay, and the form in p, are this project's.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "batchless/analysis/design.h"
#include "batchless/analysis/rates.h"

namespace batchless::analysis {

/// Taps of a multiplier on each side.
inline constexpr int kMultiplierTaps = 8;
/// theta_j for j = -8, ..., -1, 1, ..., 8.
using Multiplier = std::array<double, std::size_t{2} * kMultiplierTaps>;

/// Largest delay that is certified: arcs and frequencies grow with it.
inline constexpr Delay kMaxWorstCaseDelay = 256;
/// Largest condition number that is certified.
inline constexpr double kMaxWorstCaseCondition = 1e6;
/// The least rate, of which a share 1/K has to be a rate too.
inline constexpr double kMinWorstCaseRate = 1e-50;

/// A point: any rule; `momentum` is not read for the rule `linear`.
struct WorstCasePoint {
  RuleSpec rule;
  double momentum = 0;
  Delay delay = 0;          ///< at most kMaxWorstCaseDelay
  double rate = 0;          ///< x = eta L, kMinWorstCaseRate to kMaxRate
  double condition = 1000;  ///< 1 to kMaxWorstCaseCondition
};

/// Throws InvalidArgument with the name of the first member that is out of range.
void Validate(const WorstCasePoint& point);

struct WorstCase {
  /// rho, rounded up, and its half-life -ln 2 / ln rho; NaN where nothing is certified.
  double rate = std::numeric_limits<double>::quiet_NaN();
  double half_life_updates = std::numeric_limits<double>::quiet_NaN();
  /// ln rho; the proof is for this number.
  double log_rate = std::numeric_limits<double>::quiet_NaN();
  Multiplier taps{};
  SpectralRadius quadratic;  ///< the worst over [x / K, x]
};

/// Relative distance of ln rho from the least that these multipliers certify.
inline constexpr double kWorstCaseTolerance = 1e-6;

/// The least rate that is found, proven. Throws InvalidArgument.
WorstCase CertifyWorstCase(const WorstCasePoint& point);

/// Whether these taps prove the rate exp(log_rate) at a valid point. In double, then long double.
bool IsCertificate(const WorstCasePoint& point, double log_rate, const Multiplier& taps);

struct WorstCaseOptimum {
  double momentum = 0;  ///< NaN for the rule `linear`
  double rate = 0;      ///< x; NaN where nothing is certified
  WorstCase worst;
};

/// Throws InvalidArgument with the name of the first member that is out of range.
void ValidateWorstCase(const OptimumOptions& options);

/// The least certified rate over (x, m) that a search from the quadratic's optimum finds. Throws
/// InvalidArgument.
WorstCaseOptimum FindWorstCaseOptimum(const OptimumOptions& options, const Optimum& quadratic);
/// The same with that optimum from FindOptimum.
WorstCaseOptimum FindWorstCaseOptimum(const OptimumOptions& options);

struct WorstCaseDesign {
  /// N and D, highest power first, for a learning rate and a largest curvature of 1.
  std::vector<double> numerator, denominator;
  WorstCase worst;
};

/// Largest order of a rule that is designed for the worst case; the least is kMinDesignOrder.
inline constexpr int kMaxWorstCaseOrder = 5;

/// The linear rule of an order (design.h) with the least certified rate that a search finds: from the
/// best LWPw_D+SC_D, of order 2, with its pole at 0 freed and then poles and zeros added that cancel.
/// Not proven to be the best. Throws InvalidArgument.
WorstCaseDesign DesignForWorstCase(Delay delay, double condition, int order);

/// Half-life of D + 1 interleaved copies of the triple momentum method, 1 - 1 / sqrt(K) each: what
/// waiting for every gradient attains for every such function. Throws InvalidArgument.
double TripleMomentumHalfLife(Delay delay, double condition);

}  // namespace batchless::analysis

// Example
//   WorstCasePoint point{.rule = {FindRule("sgdm"), {}}, .rate = 1.8, .condition = 9};
//   const WorstCase worst = CertifyWorstCase(point);
//   CHECK(worst.rate == Approx((9.0 - 1) / (9 + 1)).margin(1e-6));  // eta = 2 / (L + mu)
//   CHECK(IsCertificate(point, worst.log_rate, worst.taps));
