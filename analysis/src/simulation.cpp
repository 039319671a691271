#include "batchless/analysis/simulation.h"

#include <cmath>
#include <cstdint>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/characteristic.h"
#include "not_finite.h"

namespace batchless::analysis {
namespace {

// Run for the rule `linear`, as a difference equation.
template <class Gradient>
std::vector<TrajectoryPoint> SimulateLinear(const SimulationOptions& options, double start,
                                            Gradient gradient) {
  const std::vector<double>& d = options.rule.options.denominator;
  std::vector<double> n = options.rule.options.numerator;
  const std::size_t order = d.size() - 1;
  // Padded, or cut of leading zeros, to one coefficient for each gradient.
  n.insert(n.begin(), order > n.size() ? order - n.size() : 0, 0.0);
  n.erase(n.begin(), n.end() - static_cast<std::ptrdiff_t>(order));
  std::vector<TrajectoryPoint> points = {{start, kNaN, kNaN}};
  points.reserve(options.updates + 1);
  std::vector<double> gradients;
  for (std::size_t i = 0; i < options.updates; ++i) {
    gradients.push_back(gradient(i, points));
    double w = 0;
    for (std::size_t k = 1; k <= order; ++k) {
      w -= d[k] * (i + 1 >= k ? points[i + 1 - k].weight : start);
    }
    for (std::size_t j = 0; j < order && j <= i; ++j) {
      w -= options.learning_rate * n[j] * gradients[i - j];
    }
    points.push_back({w, kNaN, kNaN});
  }
  return points;
}

// updates + 1 points, the first at `start`; gradient(i, points) is what arrives at update i.
template <class Gradient>
std::vector<TrajectoryPoint> Run(const SimulationOptions& options, double start,
                                 Gradient gradient) {
  if (options.rule.is_linear()) return SimulateLinear(options, start, gradient);
  const auto c = ComputeCoefficients<double>(options.rule, options.momentum, options.delay);
  std::vector<TrajectoryPoint> points = {{start, 0.0, kNaN}};
  points.reserve(options.updates + 1);
  for (std::size_t i = 0; i < options.updates; ++i) {
    const double g = gradient(i, points);
    const double v = options.momentum * points[i].velocity + g;
    const double w = points[i].weight - options.learning_rate * (c.a * v + c.b * g);
    points.push_back({w, v, kNaN});
  }
  return points;
}

}  // namespace

void Validate(const SimulationOptions& options) {
  Validate(options.rule, options.momentum);
  CheckDelay(options.delay);
  CheckNumber("learning_rate", options.learning_rate, 0, kMaxRate);
  RefuseIf(!std::isfinite(options.initial_weight), "initial_weight", options.initial_weight,
           "a finite number");
  CheckInteger("updates", static_cast<std::int64_t>(options.updates), 0,
               static_cast<std::int64_t>(kMaxUpdates));
}

std::vector<TrajectoryPoint> Simulate(const SimulationOptions& options,
                                      const std::function<double(double)>& gradient) {
  Validate(options);
  const auto delay = static_cast<std::size_t>(options.delay);
  const auto c = ComputeCoefficients<double>(options.rule, options.momentum, options.delay);
  const Prediction prediction = options.rule.rule.prediction;
  return Run(options, options.initial_weight,
             [&](std::size_t i, std::vector<TrajectoryPoint>& points) {
               const std::size_t k = i > delay ? i - delay : 0;
               const double w = points[k].weight;
               double w_hat = w;
               if (prediction == Prediction::kVelocity) {
                 w_hat -= options.learning_rate * c.horizon * points[k].velocity;
               } else if (prediction == Prediction::kWeight) {
                 w_hat += c.horizon * (w - points[k > 0 ? k - 1 : 0].weight);
               }
               points[i].predicted_weight = w_hat;
               return gradient(w_hat);
             });
}

std::vector<TrajectoryPoint> SimulateQuadratic(const SimulationOptions& options) {
  return Simulate(options, [](double w) { return w; });
}

std::vector<TrajectoryPoint> ImpulseResponse(const SimulationOptions& options) {
  Validate(options);
  const auto delay = static_cast<std::size_t>(options.delay);
  return Run(options, 0.0, [&](std::size_t i, const std::vector<TrajectoryPoint>&) {
    return i == delay ? 1.0 : 0.0;
  });
}

}  // namespace batchless::analysis
