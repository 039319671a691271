// The least half-life that any linear rule can have under a delay.
//
//   rho >= ((sqrt(K) - 1) / (sqrt(K) + 1))^(1 / (D + 1))
//   half-life = -ln 2 / ln rho >= (D + 1) times the undelayed optimum
//
//   D  delay in updates >= 0           K  condition number >= 1
//
// A linear rule is a causal rational C(z) from gradients to weights with a pole at z = 1, the same
// for every curvature. The bound follows from Schwarz's lemma; analysis/limit.md has the derivation.
// It is attained by D + 1 interleaved heavy balls, none of which is delayed,
//
//   w' = w_{i-D} + m (w_{i-D} - w_{i-2D-1}) - eta g,    p(z) = z^(2D+2) - (1 + m - x) z^(D+1) + m,
//
// with the momentum m and the rate x that are best without delay.
//
// Source: this project; the undelayed optimum is Polyak's, 1964.
#pragma once

#include "batchless/analysis/rule.h"

namespace batchless::analysis {

struct Limit {
  double half_life_updates = 0;
  double spectral_radius = 0;
  double log_radius = 0;  ///< ln of the spectral radius; -infinity where that is 0
  /// Interleaved heavy balls that attain it: momentum, and rate eta * lambda_max.
  double momentum = 0;
  double rate = 0;
};

/// The limit, to a few roundings of a double in every field. Throws InvalidArgument.
Limit LimitOfLinearRules(Delay delay, double condition);

/// Throws InvalidArgument unless the condition number is in [1, kMaxCondition].
inline constexpr double kMaxCondition = 1e12;
void CheckCondition(double condition);

}  // namespace batchless::analysis

// Example
//   const double condition = 100;
//   const Limit at_once = LimitOfLinearRules(0, condition);
//   const Limit late = LimitOfLinearRules(4, condition);
//   CHECK(at_once.spectral_radius == Approx(9.0 / 11));
//   CHECK(late.half_life_updates == Approx(5 * at_once.half_life_updates));
