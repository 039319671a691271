// Literal time-domain simulation of a rule, equation by equation: the independent check of every
// root, and the source of trajectories and impulse responses.
//
//   k = max(0, i - D)
//   w_hat_i = w_k,  w_k - eta T v_k  or  w_k + T (w_k - w_{k-1})      w_{-1} = w_0, v_0 = 0
//   g_i = gradient(w_hat_i)
//   v_{i+1} = m v_i + g_i;   w_{i+1} = w_i - eta (a v_{i+1} + b g_i)
//
// The rule `linear` runs as the difference equation of rule.h. i counts updates from 0; the other symbols are those of rule.h. Nothing here is derived from the
// characteristic polynomial, on purpose.
//
// Source: Kosson et al., arXiv 2003.11666 (recalled).
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "batchless/analysis/rule.h"

namespace batchless::analysis {

/// Largest number of updates of one simulation: its points, and what is made of them, stay below 1 GB.
inline constexpr std::size_t kMaxUpdates = 5'000'000;

/// State before update i.
struct TrajectoryPoint {
  double weight;            ///< w_i
  double velocity;          ///< v_i (NaN for the rule `linear`, which has none)
  double predicted_weight;  ///< w_hat that gradient i is taken at (NaN in the final point)
};

struct SimulationOptions {
  RuleSpec rule;
  double momentum = 0;
  Delay delay = 0;
  double learning_rate = 1;  ///< eta, in [0, kMaxRate]
  double initial_weight = 1;
  std::size_t updates = 100;  ///< at most kMaxUpdates
};

/// Throws InvalidArgument with the name of the first member that is out of range.
void Validate(const SimulationOptions& options);

/// Delayed SGD on the gradient function g = gradient(w_hat): updates + 1 points, the first the
/// start. Gradient i is taken at the forward weights of version max(0, i - D). Throws
/// InvalidArgument, as the functions below do.
std::vector<TrajectoryPoint> Simulate(const SimulationOptions& options,
                                      const std::function<double(double)>& gradient);

/// On the quadratic w^2 / 2 with normalised rate x = learning_rate.
std::vector<TrajectoryPoint> SimulateQuadratic(const SimulationOptions& options);

/// Response to one unit gradient at update 0, applied `delay` updates late (by update number
/// `delay`); weights start at 0 whatever initial_weight is, and no other gradient follows.
/// Prediction plays no part: predicted_weight is NaN throughout.
std::vector<TrajectoryPoint> ImpulseResponse(const SimulationOptions& options);

}  // namespace batchless::analysis

// Example
//   SimulationOptions options;
//   options.rule = {FindRule("sgdm"), {}};
//   options.learning_rate = 0.5;
//   options.updates = 2;
//   const std::vector<TrajectoryPoint> points = SimulateQuadratic(options);
//   CHECK(points[0].weight == 1);
//   CHECK(points.back().weight == 0.25);
