// Where a rule stops being stable: critical rate, and gain, phase and delay margins.
//
// Control view: the rule is a compensator around the delay, open loop
//   L(z) = x (kappa + beta u)(1 + gamma u) / (z^n (z - 1)(z - m)),  closed loop 1 + L(z) = 0.
#pragma once

#include <limits>

#include "batchless/analysis/characteristic.h"

namespace batchless::analysis {

/// sup { x : every rate in (0, x) is stable }, by bisection on the count of roots outside the unit
/// circle, to the last bits of a double. 0 where no small rate is stable; infinity where every rate
/// up to kMaxRate is. SGD without momentum: 2 sin(pi / (4 D + 2)).
double CriticalRate(const RuleSpec& spec, double momentum, Delay delay);

struct Margins {
  bool stable = false;
  /// Factor by which x may grow before the loop is unstable: critical rate / x.
  double gain_margin = 0;
  /// Least phase lag in radians that makes the loop unstable; infinity without a gain crossover.
  double phase_margin_radians = std::numeric_limits<double>::infinity();
  /// Phase margin / crossover frequency: extra (real) delay in updates before instability.
  double delay_margin_updates = std::numeric_limits<double>::infinity();
  /// Largest integer delay that is stable with the rule's coefficients held as they are;
  /// -1 where none is, kMaxDelay where the search ends there.
  Delay largest_stable_delay = -1;
  double gain_crossover_radians = 0;  ///< per update, of the least phase margin
};

Margins ComputeMargins(const RuleSpec& spec, double momentum, Delay delay, double rate);

}  // namespace batchless::analysis

// Example
//   const RuleSpec sgdm{FindRule("sgdm"), {}};
//   const double momentum = 0.9;
//   const double critical = CriticalRate(sgdm, momentum, /*delay=*/0);
//   CHECK(critical == Approx(2 * (1 + momentum)));
//   const Margins margins = ComputeMargins(sgdm, momentum, /*delay=*/0, critical / 2);
//   CHECK(margins.stable);
//   CHECK(margins.gain_margin == Approx(2));
