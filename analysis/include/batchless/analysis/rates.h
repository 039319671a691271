// Convergence rates over a spectrum, and the hyperparameters that make them best.
//
//   worst rate   r(x, m) = max of rho over lambda in [lambda_max / K, lambda_max], x = eta lambda_max
//   optimum      min of r over (x, m);   half-life = -ln 2 / ln r updates
//
//   K  condition number >= 1
#pragma once

#include <optional>

#include "batchless/analysis/spectral_radius.h"

namespace batchless::analysis {

/// Worst (largest) rho over normalised rates in [rate / condition, rate]. For the rule `linear` the
/// bounds hold for every rate in between, by a count of roots for the whole interval at once.
SpectralRadius WorstSpectralRadius(const RuleSpec& spec, double momentum, Delay delay, double rate,
                                   double condition);

struct OptimumOptions {
  RuleSpec rule;
  Delay delay = 0;
  double condition = 1000;
  /// Momentum held fixed instead of searched for, where set.
  std::optional<double> momentum;
};

/// Throws InvalidArgument with the name of the first member that is out of range.
void Validate(const OptimumOptions& options);

struct Optimum {
  double half_life_updates = 0;
  double momentum = 0;  ///< NaN for the rule `linear`, which has none
  double rate = 0;      ///< eta * lambda_max
  SpectralRadius worst;
  std::size_t evaluations = 0;
};

/// The least worst rate over (x, m), within 0.1 % in half-life where that is 0.1 updates or more. Throws
/// InvalidArgument.
Optimum FindOptimum(const OptimumOptions& options);

}  // namespace batchless::analysis

// Example
//   OptimumOptions options;
//   options.rule = {FindRule("sgdm"), {}};
//   options.delay = 0;
//   options.condition = 100;
//   const Optimum best = FindOptimum(options);
//   // Heavy ball's (sqrt K - 1) / (sqrt K + 1).
//   CHECK(best.worst.radius == Approx(9.0 / 11).epsilon(1e-6));
