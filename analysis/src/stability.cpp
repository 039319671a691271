#include "batchless/analysis/stability.h"

#include <algorithm>
#include <cmath>

#include "largest_stable.h"
#include "linear_solver.h"
#include "point_solver.h"

namespace batchless::analysis {
namespace {

/// The polynomial with the rule's coefficients as they are and the delay moved by `shift` updates.
Characteristic<double> WithDelay(Characteristic<double> p, Delay shift) {
  p.n += static_cast<double>(shift);
  if (p.n < 0) {
    // A factor z had been divided out; without a delay it stands among the leads.
    p.n = 0;
    p.gamma = p.beta == 0 ? 0 : p.beta / p.kappa;
    p.beta = p.kappa;
  }
  return p;
}

}  // namespace

double CriticalRate(const RuleSpec& spec, double momentum, Delay delay) {
  Validate(spec, momentum);
  CheckDelay(delay);
  if (spec.is_linear()) return LinearCriticalRate(spec, delay);
  const auto coarse = MakeCharacteristic<double>(spec, momentum, delay);
  const auto fine = MakeCharacteristic<long double>(spec, momentum, delay);

  return LargestStable(
      kMinRate, kMaxRate, 1.1, 0,
      [&](double rate) { return CountOutsideUnitCircle(coarse, rate).all_inside(); },
      [&](double rate) { return CountOutsideUnitCircle(fine, rate).all_inside(); });
}

Margins ComputeMargins(const RuleSpec& spec, double momentum, Delay delay, double rate) {
  CheckRate(rate);
  Margins margins;
  const auto p = spec.is_linear() ? Characteristic<double>{}
                                  : MakeCharacteristic<double>(spec, momentum, delay);
  const auto crossovers = [&](Delay shift) {
    return spec.is_linear() ? LinearGainCrossovers(spec, delay + shift, rate)
                            : GainCrossovers(WithDelay(p, shift), rate);
  };
  const auto is_stable = [&](Delay shift) {
    return (spec.is_linear() ? CountLinearOutsideUnitCircle(spec, delay + shift, rate)
                             : CountOutsideUnitCircle(WithDelay(p, shift), rate))
        .all_inside();
  };
  margins.stable = is_stable(0);
  double critical = CriticalRate(spec, momentum, delay);
  // Stable rates may begin above 0, as those of an unstable pole do.
  if (margins.stable && critical <= rate) {
    const auto stable_at = [&](double other) {
      return (spec.is_linear() ? CountLinearOutsideUnitCircle(spec, delay, other)
                               : CountOutsideUnitCircle(p, other))
          .all_inside();
    };
    critical = LargestStable(rate, kMaxRate, 1.1, 0, stable_at, stable_at);
  }
  margins.gain_margin = critical / rate;
  if (margins.stable) {
    for (const GainCrossover& crossover : crossovers(0)) {
      if (crossover.lag < margins.phase_margin_radians) {
        margins.phase_margin_radians = crossover.lag;
        margins.gain_crossover_radians = crossover.theta;
      }
      margins.delay_margin_updates =
          std::min(margins.delay_margin_updates, crossover.lag / crossover.theta);
    }
  } else {
    margins.phase_margin_radians = 0;
    margins.delay_margin_updates = 0;
  }

  // The crossovers do not depend on the delay, only the lag does: the margin of the loop without
  // delay says how much delay it bears.
  if (is_stable(-delay)) {
    double bears = static_cast<double>(kMaxDelay) + 1;
    for (const GainCrossover& crossover : crossovers(-delay)) {
      bears = std::min(bears, crossover.lag / crossover.theta);
    }
    margins.largest_stable_delay = static_cast<Delay>(std::ceil(bears)) - 1;
  }
  // A rule that is made for a delay may need it.
  if (margins.stable) {
    const double bears =
        std::min(margins.delay_margin_updates, static_cast<double>(kMaxDelay - delay) + 1);
    const Delay largest = delay + static_cast<Delay>(std::ceil(bears)) - 1;
    margins.largest_stable_delay = std::max(margins.largest_stable_delay, largest);
  }
  return margins;
}

}  // namespace batchless::analysis
