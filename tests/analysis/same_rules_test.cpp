// Rules of the literature that are a rule of the table with particular options: the published recursions,
// written out, beside the row that says so.

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "batchless/analysis/rates.h"
#include "batchless/analysis/roots.h"
#include "batchless/analysis/simulation.h"
#include "batchless/analysis/stability.h"
#include "catch.h"
#include "eigenvalues.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

constexpr double kCurvature = 0.7;
constexpr std::size_t kUpdates = 400;
// 400 updates of a stable recursion, each a few roundings of numbers of size one.
constexpr double kTrajectoryTolerance = 1e-12;
// Two roundings of a coefficient move a simple root by little more.
constexpr double kRootTolerance = 1e-12;

using Roots = std::vector<std::complex<double>>;

RuleSpec WithHorizon(std::string_view name, double horizon) {
  RuleOptions options;
  options.horizon = horizon;
  return Spec(name, options);
}

RuleSpec ErrorFeedback(double m) { return FreeSpec(2 - 1 / m, 1 / m, 0); }

// Without zeros, which are common factors of z.
Roots NonzeroRoots(const RuleSpec& spec, double m, Delay delay, double rate) {
  Roots roots = AllRoots(spec, m, delay, rate);
  std::erase_if(roots, [](std::complex<double> z) { return std::abs(z) < 1e-14; });
  return roots;
}

void CheckSameRoots(const RuleSpec& first, const RuleSpec& second, double m, Delay delay) {
  for (const double rate : {0.003, 0.05, 0.4}) {
    const Roots expected = NonzeroRoots(first, m, delay, rate);
    const Roots roots = NonzeroRoots(second, m, delay, rate);
    CAPTURE(first.rule.name, second.rule.name, m, delay, rate);
    REQUIRE(roots.size() == expected.size());
    for (const std::complex<double> z : roots) {
      double nearest = 1;
      for (const std::complex<double> e : expected) nearest = std::min(nearest, std::abs(z - e));
      CHECK(nearest < kRootTolerance);
    }
  }
}

SimulationOptions Options(const RuleSpec& spec, double m, Delay delay, double learning_rate) {
  return {.rule = spec,
          .momentum = m,
          .delay = delay,
          .learning_rate = learning_rate,
          .updates = kUpdates};
}

double Slope(double w) { return kCurvature * w; }

void CheckTrajectory(const SimulationOptions& options, const std::vector<double>& expected,
                     double tolerance = kTrajectoryTolerance) {
  const auto points = Simulate(options, Slope);
  REQUIRE(points.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    worst = std::max(worst, std::abs(points[i].weight - expected[i]));
  }
  CAPTURE(options.rule.rule.name, options.momentum, options.delay);
  CHECK(worst < tolerance);
  CHECK(std::abs(expected.back()) < 1);  // stable: the tolerance is one of numbers of this size
  CHECK(std::abs(expected[2] - 1) > 1e-4);
}

TEST_CASE("Asynchronous Nesterov is lwp-w with T = m, and has the roots of nesterov") {
  const double gamma = GENERATE(0.5, 0.9, 0.99);
  const Delay delay = GENERATE(0, 1, 2, 5);
  constexpr double kRate = 0.02;
  // d_t = gamma (w_t - w_{t-1}); w_{t+1} = w_t + d_t - eta (1 - gamma) f'(w_{t-D} + d_{t-D})
  std::vector<double> w = {1}, d = {0};
  for (std::size_t t = 0; t < kUpdates; ++t) {
    const std::size_t late = t - std::min<std::size_t>(t, static_cast<std::size_t>(delay));
    w.push_back(w[t] + d[t] - kRate * (1 - gamma) * Slope(w[late] + d[late]));
    d.push_back(gamma * (w[t + 1] - w[t]));
  }
  const double rate = kRate * (1 - gamma);
  CheckTrajectory(Options(WithHorizon("lwp-w", gamma), gamma, delay, rate), w);
  CheckTrajectory(Options(WithHorizon("lwp-v", gamma), gamma, delay, rate), w);
  CheckSameRoots(Spec("nesterov"), WithHorizon("lwp-w", gamma), gamma, delay);
  CheckSameRoots(Spec("nesterov"), WithHorizon("lwp-v", gamma), gamma, delay);
}

TEST_CASE("Error feedback for one step of delay is free, and at D = 1 has the roots of lwp-w") {
  const double m = GENERATE(0.3, 0.9, 0.99);
  const Delay delay = GENERATE(0, 1, 3);
  constexpr double kRate = 0.001;
  // w' = w - eta (u_t + (u_t - u_{t-1})), u_t = m u_{t-1} + g
  std::vector<double> w = {1};
  double u = 0;
  for (std::size_t t = 0; t < kUpdates; ++t) {
    const double before = u;
    u = m * u + Slope(w[t - std::min<std::size_t>(t, static_cast<std::size_t>(delay))]);
    w.push_back(w[t] - kRate * (u + (u - before)));
  }
  CheckTrajectory(Options(ErrorFeedback(m), m, delay, kRate), w);
  CheckSameRoots(ErrorFeedback(m), WithHorizon("lwp-w", 1), m, delay);
  if (delay == 1) CheckSameRoots(ErrorFeedback(m), Spec("lwp-w"), m, delay);
}

// N = z^{s+1}, D = (z - 1)(z^{s+1} - m): SGDM whose velocity is that of s updates before.
RuleSpec ShiftedMomentum(double m, Delay shift) {
  const auto s = static_cast<std::size_t>(shift);
  std::vector<double> numerator(s + 2), denominator(s + 3);
  numerator[0] = 1;
  denominator[0] = 1;
  denominator[1] = -1;
  denominator[s + 1] -= m;
  denominator[s + 2] = m;
  return LinearSpec(numerator, denominator);
}

TEST_CASE("Shifted momentum is linear: its recursion, and the eigenvalues of its states") {
  const double m = GENERATE(0.3, 0.9, 0.99);
  const Delay delay = GENERATE(0, 1, 4, 10);
  constexpr double kRate = 0.001;
  const auto d = static_cast<std::size_t>(delay);
  // v_i = m v_{i-D-1} + g_i; w' = w - eta v_i
  std::vector<double> w = {1}, v;
  for (std::size_t t = 0; t < kUpdates; ++t) {
    v.push_back((t > d ? m * v[t - d - 1] : 0) + Slope(w[t - std::min(t, d)]));
    w.push_back(w[t] - kRate * v[t]);
  }
  CheckTrajectory(Options(ShiftedMomentum(m, delay), m, delay, kRate), w);

  // States w_t .. w_{t-D}, v_{t-1} .. v_{t-D-1}, with v_t = m v_{t-D-1} + w_{t-D}.
  constexpr double kX = 0.05;
  const Eigen::Index n = delay + 1;
  Eigen::MatrixXd states = Eigen::MatrixXd::Zero(2 * n, 2 * n);
  states(n, 2 * n - 1) = m;
  states(n, n - 1) = 1;
  states.row(0) = -kX * states.row(n);
  states(0, 0) += 1;
  for (Eigen::Index k = 1; k < n; ++k) states(k, k - 1) = states(n + k, n + k - 1) = 1;
  const Roots roots = AllRoots(ShiftedMomentum(m, delay), m, delay, kX);
  const Eigen::VectorXcd eigenvalues = test::Eigenvalues(states);
  CHECK(std::abs(roots[0]) == Approx(eigenvalues.cwiseAbs().maxCoeff()).epsilon(1e-10));
  for (const std::complex<double> z : roots) {
    const std::complex<double> p = (z - 1.0) * (std::pow(z, delay + 1) - m) + kX * z;
    CHECK(std::abs(p) < 1e-10);
  }
}

TEST_CASE("Shifted momentum without a shift has the coefficients of sgdm") {
  const RuleSpec spec = ShiftedMomentum(0.9, 0);
  CHECK(spec.options.numerator == std::vector<double>{1, 0});
  CHECK(spec.options.denominator == std::vector<double>{1, -1.9, 0.9});
  CheckSameRoots(Spec("sgdm"), spec, 0.9, 0);
}

TEST_CASE("Shifted momentum's half-lives and critical rates, found by a search elsewhere") {
  constexpr double kPercent = 0.01, kCondition = 1000;
  // Rates are those of the optimum: half-lives change by 1 % where the fourth digit does.
  struct Case {
    Delay delay;
    double m, rate, half_life;
  };
  for (const Case& c : {Case{1, 0.9110, 0.1570, 377.2}, Case{4, 0.9019, 0.045608, 1455.1}}) {
    const auto half_life = [&](double m, double rate) {
      return WorstSpectralRadius(ShiftedMomentum(m, c.delay), m, c.delay, rate, kCondition)
          .half_life_updates();
    };
    CAPTURE(c.delay);
    CHECK(half_life(c.m, c.rate) == Approx(c.half_life).epsilon(kPercent));
    for (const double factor : {0.98, 1.02}) {
      CHECK_FALSE(half_life(c.m * factor, c.rate) < c.half_life);
      CHECK_FALSE(half_life(c.m, c.rate * factor) < c.half_life);
    }
  }
  const Optimum best = FindOptimum({ShiftedMomentum(0.9110, 1), 1, kCondition, {}});
  CHECK(best.half_life_updates == Approx(377.2).epsilon(kPercent));
  const auto critical = [](double m) {
    return CriticalRate(ShiftedMomentum(m, 4), m, 4) / (1 - m);
  };
  CHECK(critical(0) == Approx(0.347).margin(0.0005));
  CHECK(critical(0.5) == Approx(0.432).margin(0.0005));
  CHECK(critical(0.9) == Approx(0.487).margin(0.0005));
}

// N = z ((1 + T (1 - gamma)) z - gamma - T (1 - gamma)), D = (z - 1)(z - m)(z - gamma).
RuleSpec EmaNesterov(double m, double gamma, double horizon) {
  const double lead = horizon * (1 - gamma);
  return LinearSpec({1 + lead, -gamma - lead, 0},
                    {1, -1 - m - gamma, m + gamma + m * gamma, -m * gamma});
}

TEST_CASE("EMA-Nesterov is linear: its recursion, and the eigenvalues of its states") {
  const double m = GENERATE(0.3, 0.9);
  const double gamma = GENERATE(0.0, 0.8, 0.99);
  const Delay delay = GENERATE(0, 1, 4, 10);
  const auto horizon = static_cast<double>(delay);
  constexpr double kRate = 0.001;
  // v' = m v + g; w' = w - eta v'; e' = gamma e + (1 - gamma)(w' - w); reads w' + T e'.
  std::vector<double> read = {1};
  double w = 1, v = 0, e = 0;
  for (std::size_t t = 0; t < kUpdates; ++t) {
    v = m * v + Slope(read[t - std::min<std::size_t>(t, static_cast<std::size_t>(delay))]);
    e = gamma * e + (1 - gamma) * (-kRate * v);
    w -= kRate * v;
    read.push_back(w + horizon * e);
  }
  // The rounding of each of 400 updates counts 1 / ((1 - m)(1 - gamma)) times, up to 1000.
  CheckTrajectory(Options(EmaNesterov(m, gamma, horizon), m, delay, kRate), read, 1e-10);

  // States: what was read at t .. t-D, then w, v and e.
  constexpr double kX = 0.05;
  const Eigen::Index n = delay + 1;
  Eigen::MatrixXd states = Eigen::MatrixXd::Zero(n + 3, n + 3);
  for (Eigen::Index k = 1; k < n; ++k) states(k, k - 1) = 1;
  states(n + 1, n + 1) = m;
  states(n + 1, n - 1) += 1;
  states.row(n) = -kX * states.row(n + 1);
  states(n, n) += 1;
  states.row(n + 2) = -(1 - gamma) * kX * states.row(n + 1);
  states(n + 2, n + 2) += gamma;
  states.row(0) = states.row(n) + horizon * states.row(n + 2);
  const Roots roots = AllRoots(EmaNesterov(m, gamma, horizon), m, delay, kX);
  CHECK(std::abs(roots[0]) == Approx(test::LargestEigenvalue(states)).epsilon(1e-10));
  if (gamma == 0) CheckSameRoots(Spec("lwp-v"), EmaNesterov(m, 0, horizon), m, delay);
}

TEST_CASE("Geometric prediction is where the velocity alone arrives after n updates") {
  const double m = GENERATE(0.3, 0.9, 0.99);
  const Delay delay = GENERATE(0, 1, 2, 5);
  constexpr double kRate = 0.001;
  std::vector<double> w = {1}, v = {0}, forward = {1};
  for (std::size_t t = 0; t < kUpdates; ++t) {
    const std::size_t late = t - std::min<std::size_t>(t, static_cast<std::size_t>(delay));
    v.push_back(m * v[t] + Slope(forward[late]));
    w.push_back(w[t] - kRate * v[t + 1]);
    double predicted = w[t + 1], velocity = v[t + 1];
    for (Delay k = 0; k < delay; ++k) {
      velocity *= m;
      predicted -= kRate * velocity;
    }
    forward.push_back(predicted);
  }
  CheckTrajectory(Options(Spec("msnag"), m, delay, kRate), w);
}

TEST_CASE("Geometric prediction at its limits is what the table says, to the same roots") {
  const double m = GENERATE(0.0, 0.3, 0.9, 0.999);
  const Delay delay = GENERATE(0, 1, 4, 20);
  const auto horizon = [&](const RuleSpec& spec, double momentum) {
    return ComputeCoefficients<double>(spec, momentum, delay).horizon;
  };
  CHECK(horizon(WithHorizon("msnag", 0), m) == 0);
  CHECK(horizon(WithHorizon("msnag", 1), m) == m);
  CHECK(horizon(WithHorizon("msnag", 2), m) == Approx(m + m * m).epsilon(1e-15));
  CHECK(horizon(Spec("msnag"), 1.0) == static_cast<double>(delay));
  CHECK(horizon(Spec("msnag"), 0.0) == 0);
  CHECK(horizon(Spec("msnag"), 1 - 1e-9) == Approx(static_cast<double>(delay)).epsilon(3e-8));
  CHECK(AllRoots(WithHorizon("msnag", 0), m, delay, 0.1) == AllRoots(Spec("sgdm"), m, delay, 0.1));
  CHECK(AllRoots(WithHorizon("msnag", 1), m, delay, 0.1) ==
        AllRoots(WithHorizon("lwp-v", m), m, delay, 0.1));
  // One step of delay makes geometric prediction asynchronous Nesterov.
  if (delay == 1) CheckSameRoots(Spec("nesterov"), Spec("msnag"), m, delay);
}

}  // namespace
}  // namespace batchless::analysis
