// Limit of small rates: delay differential equations of the rules, on a curvature lambda = 1.
//
// Second order, time unit h = sqrt(eta): m = 1 - c h, tau = D h, V = h v,
//   V' = -c V + g,   w' = -(a V + beta g),   g(t) = w_hat(t - tau)
//   w_hat = w,  w - theta V (velocity form)  or  w + theta w' (weight form)
// First order (no momentum), time unit eta: tau = eta D, w' = -w(t - tau).
//
//   c      damping, above 0                    tau    delay in units of time, 0 or more
//   a      e^{-c d}, a lag of compensation     beta   (1 - e^{-c d}) / c, its lead; d = tau for SC
//   theta  horizon in units of time, tau;      s      root of the characteristic equation
//          (1 - e^{-c tau}) / c for msnag
//
//   first order      s + e^{-tau s} = 0, s = W_0(-tau) / tau, stable iff tau < pi / 2
//   velocity form    s (s + c) + e^{-tau s} (1 + (beta + theta) s) = 0
//   weight form      s (s + c) + e^{-tau s} (1 + beta s)(1 + theta s) = 0, of neutral type
//
// Any curvature: time in units of 1 / sqrt(lambda) (1 / lambda at first order), c over sqrt(lambda).
//
// A rule of the discrete world tends to this as h -> 0 with D = tau / h, at first order in h. Scales
// of the horizon and of the compensation's delay are kept; values given in updates have no limit.
//
// The equations are solved by the method of steps: Dormand and Prince's steps of order 5, which
// divide tau, so that every break of a derivative lies between two; their dense output of order 4 is
// what the delayed terms read one delay later.
//
// Sources: Kosson et al., arXiv 2003.11666 (rules, recalled); the limits are this project's. Bellen and
// Zennaro, Numerical Methods for Delay Differential Equations, 2003 (method of steps; recalled).
#pragma once

#include <complex>
#include <vector>

#include "batchless/analysis/rule.h"

namespace batchless::analysis {

/// Accepted ranges.
inline constexpr double kMinDamping = 1e-6;
inline constexpr double kMaxDamping = 1e3;
inline constexpr double kMaxDelayTime = 1e3;
inline constexpr double kMaxDuration = 1e6;
inline constexpr int kMaxStepsPerDelay = 100'000;
/// Most steps of one trajectory.
inline constexpr double kMaxContinuousSteps = 5e6;

struct ContinuousOptions {
  RuleSpec rule;
  /// c; nothing is the limit of first order, which `sgdm` alone has.
  double damping = 1;
  bool first_order = false;
  double delay_time = 0;  ///< tau
  double duration = 50;   ///< of a trajectory
  double initial_weight = 1;
  int steps_per_delay = 32;  ///< without delay: in a unit of time
};

/// Throws InvalidArgument with the name of the first member that is out of range.
void Validate(const ContinuousOptions& options);
/// Also where a trajectory takes more than kMaxContinuousSteps steps, which roots do not take.
void ValidateTrajectory(const ContinuousOptions& options);

struct ContinuousPoint {
  double time;
  double weight;
  double velocity;  ///< V; w' at first order
};

/// From a constant past w = initial_weight, V = 0: steps of equal length, the first at time 0.
std::vector<ContinuousPoint> SolveContinuous(const ContinuousOptions& options);

/// The characteristic function at s.
std::complex<double> ContinuousCharacteristic(const ContinuousOptions& options,
                                              std::complex<double> s);

/// A root of largest real part, of a pair the one with the imaginary part >= 0. First order: by the
/// principal branch of Lambert's W. Second order: Newton's method from the leading roots of the
/// discrete rule with a delay of kRootDelay updates. Throws std::runtime_error where none of these
/// converges, and InvalidArgument.
std::complex<double> RightmostRoot(const ContinuousOptions& options);
inline constexpr Delay kRootDelay = 48;

/// sup { tau : every delay in (0, tau) is stable }, from the phase at the one crossing of gain 1.
/// Second order: omega^2 is the positive root of
///   (1 - beta^2 theta^2) Omega^2 + (c^2 - beta^2 - theta^2) Omega - 1 = 0
/// (beta + theta in place of beta, and 0 of theta, for the velocity form); at beta theta = 1 the
/// neutral equation stops being stable at all frequencies. First order: pi / 2. The delay of the
/// options plays no part.
double CriticalDelayTime(const ContinuousOptions& options);

/// The same of the discrete rule with a delay of D updates: D h at the step h where it stops being
/// stable, m = 1 - c h and x = h^2 (first order: m = 0, x = h). Tends to CriticalDelayTime as
/// 1 / D. NaN where the smallest step that is looked at is not stable. The momentum's rounding lets steps be
/// told apart to 1e-16 / c: few digits are left where c is small and D large.
double DiscreteCriticalDelayTime(const ContinuousOptions& options, Delay delay);

}  // namespace batchless::analysis

// Example
//   ContinuousOptions options;
//   options.rule = {FindRule("sgdm"), {}};
//   options.first_order = true;  // w' = -w(t - tau)
//   CHECK(CriticalDelayTime(options) == Approx(std::numbers::pi / 2));
//   options.delay_time = 1;
//   CHECK(RightmostRoot(options).real() < 0);
