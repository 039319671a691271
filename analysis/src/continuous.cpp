#include "batchless/analysis/continuous.h"

#include <algorithm>
#include <array>
#include <boost/numeric/odeint/stepper/runge_kutta_dopri5.hpp>
#include <cmath>
#include <numbers>
#include <optional>
#include <stdexcept>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/characteristic.h"
#include "batchless/analysis/roots.h"
#include "largest_stable.h"
#include "not_finite.h"
#include "point_solver.h"

namespace batchless::analysis {
namespace {

using Complex = std::complex<double>;
using State = std::array<double, 2>;  // w, V
using Stepper = boost::numeric::odeint::runge_kutta_dopri5<State>;

// Points of a step at which the dense output is kept: a polynomial of degree 4, as it is itself.
constexpr std::size_t kSamples = 5;

struct Terms {
  double a;
  double beta;
  double theta;
  bool weight_form;
};

Terms MakeTerms(const ContinuousOptions& options, double tau) {
  const Rule& rule = options.rule.rule;
  const RuleOptions& scales = options.rule.options;
  Terms terms{1, 0, 0, rule.prediction == Prediction::kWeight};
  if (rule.compensation == Compensation::kSpike) {
    const double lag = scales.sc_delay_scale * tau;
    terms.a = std::exp(-options.damping * lag);
    terms.beta = -std::expm1(-options.damping * lag) / options.damping;
  }
  if (rule.prediction != Prediction::kNone) terms.theta = scales.horizon_scale * tau;
  if (rule.predicts_geometrically) {
    terms.theta = -std::expm1(-options.damping * terms.theta) / options.damping;
  }
  return terms;
}

double StepLength(const ContinuousOptions& options) {
  const double unit = options.delay_time > 0 ? options.delay_time : 1;
  return unit / options.steps_per_delay;
}

// Value at `fraction` of a step of the polynomial through its samples.
double Interpolate(const std::array<double, kSamples>& samples, double fraction) {
  const double x = fraction * (kSamples - 1);
  double sum = 0;
  for (std::size_t i = 0; i < kSamples; ++i) {
    double weight = 1;
    for (std::size_t j = 0; j < kSamples; ++j) {
      if (j == i) continue;
      weight *= (x - static_cast<double>(j)) / (static_cast<double>(i) - static_cast<double>(j));
    }
    sum += weight * samples[i];
  }
  return sum;
}

// Newton's method on the characteristic function; nothing where it does not settle.
bool Polish(const ContinuousOptions& options, Complex& s) {
  for (int i = 0; i < 60; ++i) {
    const double step = 1e-7 * (1 + std::abs(s));
    const Complex f = ContinuousCharacteristic(options, s);
    const Complex slope = (ContinuousCharacteristic(options, s + step) -
                           ContinuousCharacteristic(options, s - step)) /
                          (2 * step);
    const Complex change = f / slope;
    s -= change;
    if (!std::isfinite(s.real()) || !std::isfinite(s.imag())) return false;
    if (std::abs(change) <= 4e-16 * (1 + std::abs(s))) return true;
  }
  // Rounding may keep the last digits moving.
  return std::abs(ContinuousCharacteristic(options, s)) <= 1e-12 * (1 + std::norm(s));
}

// w e^w = -tau on the principal branch, the one of largest real part, imaginary part >= 0.
Complex PrincipalLambert(double tau) {
  // Near the branch point -1/e by its series; further out along the logarithm. Halley's method.
  const Complex p = std::sqrt(Complex(2 * (1 - std::numbers::e * tau), 0));
  const Complex l = std::log(Complex(-tau, 0));
  Complex w = tau < 1 ? -1.0 + p - p * p / 3.0 : l - std::log(l);
  for (int i = 0; i < 60; ++i) {
    const Complex e = std::exp(w);
    const Complex f = w * e + tau;
    const Complex denominator = e * (w + 1.0) - (w + 2.0) * f / (2.0 * (w + 1.0));
    if (f == 0.0 || denominator == 0.0) break;
    const Complex change = f / denominator;
    w -= change;
    if (std::abs(change) <= 1e-16 * std::abs(w)) break;
  }
  return {w.real(), std::abs(w.imag())};
}

// The discrete rule with D updates of step h.
struct DiscretePoint {
  double momentum;
  double rate;
};

DiscretePoint Discrete(const ContinuousOptions& options, double h) {
  if (options.first_order) return {0, h};
  // 0 at the largest step, but for roundings.
  return {std::max(0.0, 1 - options.damping * h), h * h};
}

}  // namespace

void Validate(const ContinuousOptions& options) {
  Validate(options.rule);
  RefuseLinear(options.rule);
  const RuleOptions& given = options.rule.options;
  const auto refuse = [](std::string_view name, const std::optional<double>& value) {
    RefuseIf(value.has_value(), name, value.value_or(0),
             "nothing in the limit, where a value in updates is 0");
  };
  refuse("horizon", given.horizon);
  refuse("sc_delay", given.sc_delay);
  refuse("sc_a", given.sc_a);
  refuse("sc_b", given.sc_b);
  RefuseIf(options.rule.rule.compensation == Compensation::kFree ||
               options.rule.rule.compensation == Compensation::kNesterov,
           "rule", options.rule.rule.name, "a rule whose coefficients grow with the delay");
  if (options.first_order) {
    RefuseIf(options.rule.rule.compensation != Compensation::kNone ||
                 options.rule.rule.prediction != Prediction::kNone,
             "rule", options.rule.rule.name, "sgdm where there is no --damping");
  } else {
    CheckNumber("damping", options.damping, kMinDamping, kMaxDamping);
  }
  CheckNumber("delay_time", options.delay_time, 0, kMaxDelayTime);
  CheckNumber("duration", options.duration, 0, kMaxDuration);
  RefuseIf(!std::isfinite(options.initial_weight), "initial_weight", options.initial_weight,
           "a finite number");
  CheckInteger("steps_per_delay", options.steps_per_delay, 1, kMaxStepsPerDelay);
}

void ValidateTrajectory(const ContinuousOptions& options) {
  Validate(options);
  const double steps = options.duration / StepLength(options);
  RefuseIf(!(steps <= kMaxContinuousSteps), "duration", ToText(steps) + " steps",
           "at most " + ToText(kMaxContinuousSteps));
}

std::vector<ContinuousPoint> SolveContinuous(const ContinuousOptions& options) {
  ValidateTrajectory(options);
  const Terms terms = MakeTerms(options, options.delay_time);
  const double c = options.damping;
  const double h = StepLength(options);
  const bool late = options.delay_time > 0;
  const auto steps = static_cast<std::size_t>(std::ceil(options.duration / h - 1e-9));
  const auto lag = static_cast<std::size_t>(options.steps_per_delay);

  // Samples of w_hat in every step so far; before the start it is the initial weight.
  std::vector<std::array<double, kSamples>> forward;
  forward.reserve(steps);
  std::size_t step = 0;
  const auto gradient = [&](const State& x, double fraction) {
    if (!late) return x[0];
    if (step < lag) return options.initial_weight;
    return Interpolate(forward[step - lag], fraction);
  };
  const auto derivative = [&](const State& x, State& dxdt, double t) {
    const double fraction = t / h - static_cast<double>(step);
    const double g = gradient(x, fraction);
    dxdt[0] = options.first_order ? -g : -(terms.a * x[1] + terms.beta * g);
    dxdt[1] = options.first_order ? 0 : -c * x[1] + g;
  };

  std::vector<ContinuousPoint> points;
  points.reserve(steps + 1);
  const auto append = [&](double t, const State& x, const State& dxdt) {
    points.push_back({t, x[0], options.first_order ? dxdt[0] : x[1]});
  };
  Stepper stepper;
  State x = {options.initial_weight, 0};
  State before = {};
  for (; step < steps; ++step) {
    const double t = static_cast<double>(step) * h;
    State after = {};
    State next = {};
    // Taken anew in every step: it jumps where one delay ends and the next begins.
    derivative(x, before, t);
    append(t, x, before);
    stepper.do_step(derivative, x, before, t, next, after, h);
    auto& samples = forward.emplace_back();
    for (std::size_t k = 0; k < kSamples; ++k) {
      const double fraction = static_cast<double>(k) / (kSamples - 1);
      State inside = {};
      stepper.calc_state(t + fraction * h, inside, x, before, t, next, after, t + h);
      samples[k] = inside[0];
      if (terms.theta == 0) continue;
      if (terms.weight_form) {
        const double g = gradient(inside, fraction);
        samples[k] -= terms.theta * (terms.a * inside[1] + terms.beta * g);
      } else {
        samples[k] -= terms.theta * inside[1];
      }
    }
    x = next;
    before = after;
  }
  append(static_cast<double>(steps) * h, x, before);
  return points;
}

Complex ContinuousCharacteristic(const ContinuousOptions& options, Complex s) {
  const double tau = options.delay_time;
  const Complex late = std::exp(-tau * s);
  if (options.first_order) return s + late;
  const Terms terms = MakeTerms(options, tau);
  const Complex leads = terms.weight_form ? (1.0 + terms.beta * s) * (1.0 + terms.theta * s)
                                          : 1.0 + (terms.beta + terms.theta) * s;
  return s * (s + options.damping) + late * leads;
}

Complex RightmostRoot(const ContinuousOptions& options) {
  Validate(options);
  const double tau = options.delay_time;
  if (options.first_order) return tau == 0 ? Complex(-1, 0) : PrincipalLambert(tau) / tau;
  const Complex apart = std::sqrt(Complex(options.damping * options.damping / 4 - 1, 0));
  const Complex undelayed = {-options.damping / 2 + apart.real(), apart.imag()};
  if (tau == 0) return undelayed;
  // A momentum of at least 0 bounds the step.
  const double updates = std::ceil(std::max<double>(kRootDelay, tau * options.damping));
  RefuseIf(updates > static_cast<double>(kMaxRootsDelay), "delay_time", tau,
           "at most " + ToText(static_cast<double>(kMaxRootsDelay) / options.damping) +
               " at this damping");
  const double h = tau / updates;
  const DiscretePoint point = Discrete(options, h);
  std::vector<Complex> starts;
  if (point.rate < kMinRate) {
    starts.push_back(undelayed);
  } else {
    const auto delay = static_cast<Delay>(updates);
    for (const Complex z : AllRoots(options.rule, point.momentum, delay, point.rate)) {
      if (z == 0.0 || starts.size() == 12) break;
      if (z.imag() >= 0) starts.push_back(std::log(z) / h);
    }
  }
  // Two real roots may stand for a pair, which Newton's method never finds from the real axis.
  for (std::size_t k = 0, count = starts.size(); k < count; ++k) {
    if (starts[k].imag() != 0) continue;
    for (const double angle : {0.01, 0.1, 0.5}) {
      starts.push_back(starts[k] * std::polar(1.0, angle));
    }
  }
  Complex rightmost(-kInfinity, 0);
  for (Complex s : starts) {
    if (Polish(options, s) && s.real() > rightmost.real()) rightmost = s;
  }
  if (!std::isfinite(rightmost.real())) {
    throw std::runtime_error("Newton's method found no root of the characteristic equation");
  }
  return {rightmost.real(), std::abs(rightmost.imag())};
}

double CriticalDelayTime(const ContinuousOptions& options) {
  Validate(options);
  if (options.first_order) return std::numbers::pi / 2;
  const double c = options.damping;
  // Phase that is left at the crossing of gain 1; no crossing is no more stable than phase 0.
  const auto margin = [&](double tau) {
    const Terms terms = MakeTerms(options, tau);
    const double first = terms.weight_form ? terms.beta : terms.beta + terms.theta;
    const double second = terms.weight_form ? terms.theta : 0;
    const double square = 1 - first * first * second * second;
    if (square <= 0) return -1.0;
    const double linear = c * c - first * first - second * second;
    // The positive root, without the difference of two near numbers.
    const double discriminant = std::sqrt(linear * linear + 4 * square);
    const double omega_squared =
        linear > 0 ? 2 / (linear + discriminant) : (discriminant - linear) / (2 * square);
    const double omega = std::sqrt(omega_squared);
    return std::atan(first * omega) + std::atan(second * omega) + std::atan2(c, omega) -
           omega * tau;
  };
  const auto stable = [&](double tau) { return margin(tau) > 0; };
  // The steps come to an end: the phases add up to less than 3 pi / 2, and leads only raise omega.
  return LargestStable(1e-9, kInfinity, 1.01, 0, stable, stable);
}

double DiscreteCriticalDelayTime(const ContinuousOptions& options, Delay delay) {
  Validate(options);
  const auto updates = static_cast<double>(delay);
  // Momenta of 0 and more.
  const double largest = options.first_order ? 4 : 1 / options.damping;
  const auto stable_at = [&](double h) {
    const DiscretePoint point = Discrete(options, h);
    auto p = MakeCharacteristic<long double>(options.rule, point.momentum, delay);
    // Where m is nearly 1 it has no digits of 1 - m.
    if (!options.first_order) {
      p.one_minus_momentum = std::min(1.0L, static_cast<long double>(options.damping) * h);
      p.momentum = 1 - p.one_minus_momentum;
    }
    return CountOutsideUnitCircle(p, point.rate).all_inside();
  };
  // Below the limit, too, which is as small as the damping where no lead helps.
  const double least = std::min(1e-4, CriticalDelayTime(options) / 2) / updates;
  if (!(least < largest)) return kNaN;
  const double critical = LargestStable(least, largest, 1.02, 0, stable_at, stable_at);
  return critical > 0 && critical < kInfinity ? critical * updates : kNaN;
}

}  // namespace batchless::analysis
