// Rules under delays that vary: growth of the mean square, stationary variance, critical rate, optimum.
//
//   g_i = lambda w_hat_{i - d_i} + xi_i,  d_i by a DelayModel (delay_model.h), xi_i noise of variance sigma^2
//
// The state s (weights and velocities back to the largest delay M) follows s' = A_d s + B_d xi. Three
// verdicts, of which none says the others:
//
//   mean           E[s], by the mean matrix sum_d p_d A_d
//   mean square    E[s s'] = P,  P' = sum_d p_d (A_d P A_d' + sigma^2 B_d B_d'); for a chain one P for each
//                  delay, P_j' = sum_i pi_ij A_i P_i A_i'. Its radius is the root of the spectral radius of
//                  P -> P'; for a trace it is that of the product over a period, to the power 1/L
//   log rate       lim ln |s_i| / i of almost every run, from a long run
//
// Two ways of compensation (a, b, T of rule.h; a constant delay gives the same for both):
//
//   mean   a, b, T made for the mean delay dbar
//   own    each gradient by its own: v' = m v + a_d g, w' = w - eta (v' + b_d g), T = T_d; prediction by
//          velocity goes along this v. Where a and b are the same for all delays the update is `mean`'s
//
// Independent delays need no operator. Given the past, what a gradient g adds to the core (weight and
// velocity) deviates from its mean by something white; its covariance Q renews itself: with G_d what a unit
// of g adds, y_d[k] the response of what delay d reads, in the loop closed by the mean, k updates after a
// deviation of covariance Q,
//
//   (K(r) Q) = sum_k r^{-k} (E_d[(G_d y_d[k]) (G_d y_d[k])'] - E_d[G_d y_d[k]] E_d[G_d y_d[k]]')
//   radius^2 = max(radius of the mean^2, the r where the spectral radius of K(r) is 1)
//   variance = that of the mean's loop under a white Q = K(1) Q + (the noise's)
//
// Where only what is read varies (`mean`; `own` without compensation for spikes) K is one number, else a
// matrix over the three of Q. It is a few sums of products of impulse responses, by the recursion in noise.h:
// (M + 3)^2 operations a response in long double, of which `own` has eight, and four times as many where
// weight and velocity are both read with delays' own factors.
//
// In a chain of L delays old signals have the covariances that they had when they were new, but for powers of
// pi and of r: what is left is the covariances of the core with the state, some L^2 (M + 3)
// operations a step. Where r is above radius^2, and nowhere else, moments that renew themselves under a noise
// that grows by r are covariances; their size has a pole at radius^2, along which the search goes.
//
// Source: the criterion is this project's, by renewal; second moments of systems with multiplicative
// noise: Willems & Blankenship 1971 (recalled).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "batchless/analysis/delay_model.h"
#include "batchless/analysis/spectral_radius.h"

namespace batchless::analysis {

enum class DelayCompensation { kMean, kOwn };

/// Ranges under delays that vary: past them 1 - rho is lost in roundings.
inline constexpr double kMinVaryingRate = 1e-9;
inline constexpr double kMaxVaryingMomentum = 0.999999;
inline constexpr double kMaxVaryingCondition = 1e6;
/// Largest delay of a trace and where each gradient is compensated by its own, and of a chain.
inline constexpr Delay kMaxOwnDelay = 128;
inline constexpr Delay kMaxMarkovDelay = 64;

struct VaryingDelay {
  RuleSpec rule;
  double momentum = 0;  ///< unused by the rule `linear`
  DelayModel delays;
  DelayCompensation compensation = DelayCompensation::kMean;
};

/// Throws InvalidArgument with the name of the first member that is out of range. Of chains and traces the
/// length and the largest delay are bounded together, more closely for critical rates and optima: where they
/// would take minutes.
void Validate(const VaryingDelay& point);

/// The rule with its coefficients held at those of the real delay `mean`.
RuleSpec AtMeanDelay(const RuleSpec& spec, double mean);

/// a_d, b_d, T_d of each delay of the model's list, and which of them are the same for all. Where a and b
/// are, the update is that of `mean`.
struct DelayCoefficients {
  std::vector<Coefficients<double>> each;
  bool same_update = true;   ///< a and b
  bool same_horizon = true;  ///< T
};
DelayCoefficients CoefficientsOf(const VaryingDelay& point);

/// All throw InvalidArgument, and std::runtime_error where an iteration does not settle. A distribution of
/// one delay has the results of that constant delay, to the bit.
/// The certified radius where a distribution has one delay, which is that of mean, mean square and every run;
/// none where delays vary.
std::optional<SpectralRadius> ConstantDelayRadius(const VaryingDelay& point, double rate);
/// Root of the growth of the mean square per update.
double MeanSquareRadius(const VaryingDelay& point, double rate);
/// Spectral radius of the mean; for a trace that of the period, which is not random.
double MeanRadius(const VaryingDelay& point, double rate);
/// In units of eta^2 sigma^2, the mean over a trace's period; NaN where the mean square is not stable.
double WeightVariance(const VaryingDelay& point, double rate);

/// ln of the growth per update along one run of random delays, and the standard error of it.
struct LogRate {
  double rate = 0;
  double standard_error = 0;
};
inline constexpr std::size_t kLogRateUpdates = 200'000;
LogRate SimulateLogRate(const VaryingDelay& point, double rate, std::uint64_t seed = 1,
                        std::size_t updates = kLogRateUpdates);

/// sup { x : the mean square is stable for every rate in (0, x) }, from kMinVaryingRate up in steps of a
/// quarter, to eight digits, fewer at momenta beyond 0.9999; 0 and infinity as CriticalRate in stability.h.
double CriticalRate(const VaryingDelay& point);

/// Least half-life of the mean square over momentum and rate, its worst over curvatures in
/// [lambda_max / K, lambda_max]. The search goes over rows of points about the optimum of the constant delay
/// next to the mean, half a unit of ln(1 - m) and a quarter of ln x apart, and on from their minima: of
/// conditions near 1, whose minima are narrow, it may miss one. `momentum` holds it fixed. NaN where no rate is stable. The largest delay is 128, with coefficients
/// of each delay's own 64; beyond a condition number of 1e4 they are 64 and 40.
struct VaryingOptimum {
  double half_life_updates = std::numeric_limits<double>::quiet_NaN();
  double momentum = 0;
  double rate = 0;  ///< eta * lambda_max
  double radius = std::numeric_limits<double>::quiet_NaN();
};
VaryingOptimum FindOptimum(const VaryingDelay& point, double condition,
                           std::optional<double> momentum);

/// -ln 2 / ln radius; infinity where that is not below 1.
inline double HalfLife(double radius) {
  return radius < 1 ? -std::log(2.0) / std::log(radius) : std::numeric_limits<double>::infinity();
}

}  // namespace batchless::analysis

// Example
//   const VaryingDelay constant{{FindRule("sgdm"), {}}, /*momentum=*/0, UniformDelays(0, 0)};
//   CHECK(MeanSquareRadius(constant, 0.5) == Approx(0.5));
//   VaryingDelay uniform{{FindRule("lwp-w+sc"), {}}, /*momentum=*/0.9, UniformDelays(0, 8)};
//   const double mean = MeanSquareRadius(uniform, 0.02);
//   CHECK(mean == Approx(0.9006571116));
//   uniform.compensation = DelayCompensation::kOwn;
//   CHECK(MeanSquareRadius(uniform, 0.02) > mean);
