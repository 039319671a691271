#include "batchless/analysis/simulation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/characteristic.h"
#include "not_finite.h"

namespace batchless::analysis {
namespace {

void CheckUpdates(std::size_t updates, std::size_t least) {
  if (updates < least || updates > kMaxUpdates) {
    throw InvalidArgument(
        "updates", std::to_string(updates),
        "an integer from " + std::to_string(least) + " to " + std::to_string(kMaxUpdates));
  }
}

// The two lines of the update. `v` and `w` are those after i updates and become those after i + 1.
void Update(const Coefficients<double>& c, double momentum, double learning_rate, double g,
            double& v, double& w) {
  v = momentum * v + g;
  w = w - learning_rate * (c.a * v + c.b * g);
}

double ForwardWeight(Prediction prediction, const Coefficients<double>& c, double learning_rate,
                     double w_k, double w_before_k, double v_k) {
  switch (prediction) {
    case Prediction::kNone:
      break;
    case Prediction::kVelocity:
      return w_k - learning_rate * c.horizon * v_k;
    case Prediction::kWeight:
      return w_k + c.horizon * (w_k - w_before_k);
  }
  return w_k;
}

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
    double v = points[i].velocity;
    double w = points[i].weight;
    Update(c, options.momentum, options.learning_rate, g, v, w);
    points.push_back({w, v, kNaN});
  }
  return points;
}

// Weights and velocities after the last D + 2 updates, all that a gradient can ask for.
class History {
 public:
  History(std::size_t length, double weight) : weights_(length, weight), velocities_(length, 0.0) {}

  // States by age: 0 is the newest, length - 1 the oldest.
  double weight(std::size_t age) const { return weights_[Place(age)]; }
  double velocity(std::size_t age) const { return velocities_[Place(age)]; }

  void Push(double weight, double velocity) {
    newest_ = (newest_ + 1) % weights_.size();
    weights_[newest_] = weight;
    velocities_[newest_] = velocity;
  }

  double LargestWeight() const { return Largest(weights_); }

  double LargestState() const { return std::max(Largest(weights_), Largest(velocities_)); }

  // Multiplies every state by 2^exponent, which rounds nothing.
  void Scale(int exponent) {
    for (double& w : weights_) w = std::ldexp(w, exponent);
    for (double& v : velocities_) v = std::ldexp(v, exponent);
  }

  // sum (w / scale)^2.
  double SquaredNorm(double scale) const {
    double sum = 0;
    for (const double w : weights_) sum += (w / scale) * (w / scale);
    return sum;
  }

 private:
  std::size_t Place(std::size_t age) const {
    return (newest_ + weights_.size() - age) % weights_.size();
  }

  static double Largest(const std::vector<double>& values) {
    double largest = 0;
    for (const double value : values) largest = std::max(largest, std::abs(value));
    return largest;
  }

  std::vector<double> weights_;
  std::vector<double> velocities_;
  std::size_t newest_ = 0;
};

// Slope of the least-squares line through (x, y).
double Slope(const std::vector<double>& x, const std::vector<double>& y) {
  const auto count = static_cast<double>(x.size());
  double mean_x = 0;
  double mean_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean_x += x[i] / count;
    mean_y += y[i] / count;
  }
  double products = 0;
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    products += (x[i] - mean_x) * (y[i] - mean_y);
    squares += (x[i] - mean_x) * (x[i] - mean_x);
  }
  return products / squares;
}

}  // namespace

void Validate(const SimulationOptions& options) {
  Validate(options.rule, options.momentum);
  CheckDelay(options.delay);
  CheckNumber("learning_rate", options.learning_rate, 0, kMaxRate);
  if (!std::isfinite(options.initial_weight)) {
    throw InvalidArgument("initial_weight", options.initial_weight, "a finite number");
  }
  CheckUpdates(options.updates, 0);
}

std::vector<TrajectoryPoint> Simulate(const SimulationOptions& options,
                                      const std::function<double(double)>& gradient) {
  Validate(options);
  const auto delay = static_cast<std::size_t>(options.delay);
  const auto c = ComputeCoefficients<double>(options.rule, options.momentum, options.delay);
  return Run(
      options, options.initial_weight, [&](std::size_t i, std::vector<TrajectoryPoint>& points) {
        const std::size_t k = i > delay ? i - delay : 0;
        const double w_hat =
            ForwardWeight(options.rule.rule.prediction, c, options.learning_rate, points[k].weight,
                          points[k > 0 ? k - 1 : 0].weight, points[k].velocity);
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

double FittedLogRate(const RuleSpec& spec, double momentum, Delay delay, double rate,
                     std::size_t updates) {
  Validate(spec);
  if (spec.is_linear()) {
    throw InvalidArgument("rule", spec.rule.name, "a rule of a momentum, whose velocity is fitted");
  }
  CheckMomentum(momentum);
  CheckDelay(delay);
  CheckRate(rate);
  const auto late = static_cast<std::size_t>(delay);
  const std::size_t length = late + 2;
  CheckUpdates(updates, 8 * length);
  const auto c = ComputeCoefficients<double>(spec, momentum, delay);

  // Growth by up to the largest coefficients between two looks at the size stays within a double.
  constexpr double kLarge = 1e60;
  constexpr double kSmall = 1e-60;
  const std::size_t stride = std::max<std::size_t>(1, length / 4);
  History history(length, 1.0);
  double v = 0;
  double w = 1;
  double log_scale = 0;
  std::vector<double> update_numbers;
  std::vector<double> log_envelopes;
  for (std::size_t i = 0; i < updates; ++i) {
    // Before update D the oldest state kept is the start, which is what max(0, i - D) asks for.
    const double g = ForwardWeight(spec.rule.prediction, c, rate, history.weight(late),
                                   history.weight(late + 1), history.velocity(late));
    Update(c, momentum, rate, g, v, w);
    history.Push(w, v);
    const double size = std::max(std::abs(w), std::abs(v));
    const bool sampled = i >= updates / 2 && i % stride == 0;
    if (!(sampled || size > kLarge || i % length == 0)) continue;

    const double largest_state = history.LargestState();
    if (largest_state > kLarge || (largest_state < kSmall && largest_state > 0)) {
      const int exponent = -std::ilogb(largest_state);
      history.Scale(exponent);
      w = history.weight(0);
      v = history.velocity(0);
      log_scale -= exponent * std::log(2.0);
    }
    const double largest = history.LargestWeight();
    if (largest == 0 && largest_state == 0) return -std::numeric_limits<double>::infinity();
    if (sampled && largest > 0) {
      update_numbers.push_back(static_cast<double>(i));
      log_envelopes.push_back(std::log(largest) + std::log(history.SquaredNorm(largest)) / 2 +
                              log_scale);
    }
  }
  return Slope(update_numbers, log_envelopes);
}

}  // namespace batchless::analysis
