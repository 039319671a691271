// Literal time-domain simulation of a rule, equation by equation: the independent check of every
// root, and the source of trajectories and impulse responses.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "batchless/analysis/rule.h"

namespace batchless::analysis {

/// State after an update: w and v, and the weights that the next gradient was taken at.
struct TrajectoryPoint {
  double weight;
  double velocity;
  double predicted_weight;  ///< w_hat used for gradient i (NaN in the final point)
};

struct SimulationOptions {
  RuleSpec rule;
  double momentum = 0;
  Delay delay = 0;
  /// eta; with `curvature` lambda the normalised rate is eta * lambda.
  double learning_rate = 1;
  double initial_weight = 1;
  std::size_t updates = 100;
};

/// Delayed SGD on the gradient function g = gradient(w_hat): updates + 1 points, the first the
/// start. Gradient i is taken at the forward weights of version max(0, i - D).
std::vector<TrajectoryPoint> Simulate(const SimulationOptions& options,
                                      const std::function<double(double)>& gradient);

/// On the quadratic w^2 / 2 with normalised rate x = learning_rate.
std::vector<TrajectoryPoint> SimulateQuadratic(const SimulationOptions& options);

/// Response to one unit gradient at update 0, applied `delay` updates late; weights start at 0 and
/// no other gradient follows. Prediction plays no part.
std::vector<TrajectoryPoint> ImpulseResponse(const SimulationOptions& options);

/// ln of the asymptotic growth factor a trajectory shows: slope of ln(envelope) over its last half,
/// from the norm of (D + 2) successive weights, rescaled as it goes so that nothing underflows.
double FittedLogRate(const RuleSpec& spec, double momentum, Delay delay, double rate,
                     std::size_t updates);

}  // namespace batchless::analysis
