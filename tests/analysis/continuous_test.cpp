#include "batchless/analysis/continuous.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/simulation.h"
#include "catch.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

using std::numbers::pi;

// Roots are polished to the last digits; tau and s are products of a few roundings.
constexpr double kRootTolerance = 1e-12;

ContinuousOptions Options(const char* rule, double damping, double delay_time) {
  return {.rule = Spec(rule), .damping = damping, .delay_time = delay_time};
}

ContinuousOptions FirstOrder(double delay_time) {
  ContinuousOptions options = Options("sgdm", 1, delay_time);
  options.first_order = true;
  return options;
}

// w' = -w(t - tau), w = 1 up to 0: sum_k (-1)^k (t - (k - 1) tau)^k / k! over the steps begun.
double ExactFirstOrder(double t, double tau) {
  double sum = 1;
  double factorial = 1;
  for (int k = 1; t - (k - 1) * tau > 0; ++k) {
    factorial *= k;
    sum += (k % 2 == 0 ? 1 : -1) * std::pow(t - (k - 1) * tau, k) / factorial;
  }
  return sum;
}

double LargestDifference(const std::vector<ContinuousPoint>& coarse,
                         const std::vector<ContinuousPoint>& fine, std::size_t ratio) {
  double largest = 0;
  for (std::size_t i = 0; i < coarse.size(); ++i) {
    largest = std::max(largest, std::abs(coarse[i].weight - fine[i * ratio].weight));
  }
  return largest;
}

// The order at which errors fall, each of a step half as long as the one before.
void CheckOrder(const std::vector<double>& errors, double least, double most) {
  for (std::size_t i = 1; i < errors.size(); ++i) {
    const double order = std::log2(errors[i - 1] / errors[i]);
    CAPTURE(i, errors[i], order);
    CHECK(order > least);
    CHECK(order < most);
  }
}

TEST_CASE("At first order the method of steps meets the exact solution at its order") {
  std::vector<double> errors;
  for (const int steps : {2, 4, 8, 16}) {
    ContinuousOptions options = FirstOrder(1);
    options.duration = 12;
    options.steps_per_delay = steps;
    double error = 0;
    for (const ContinuousPoint& point : SolveContinuous(options)) {
      error = std::max(error, std::abs(point.weight - ExactFirstOrder(point.time, 1)));
    }
    errors.push_back(error);
  }
  // The stepper's order is 5; a history of degree 4 has an error of order 5 as well.
  CheckOrder(errors, 4.7, 6.5);
  CHECK(errors.back() < 1e-9);
}

TEST_CASE("At second order, of neutral type too, the error falls at the stepper's order") {
  const char* rule = GENERATE("sgdm", "sc", "lwp-v", "lwp-w", "lwp-v+sc", "lwp-w+sc", "msnag");
  CAPTURE(rule);
  ContinuousOptions options = Options(rule, 1.2, 0.4);
  options.duration = 12;
  options.steps_per_delay = 128;
  const auto reference = SolveContinuous(options);
  std::vector<double> errors;
  for (const int steps : {2, 4, 8}) {
    options.steps_per_delay = steps;
    errors.push_back(LargestDifference(SolveContinuous(options), reference,
                                       static_cast<std::size_t>(128 / steps)));
  }
  CheckOrder(errors, 4.5, 7);
}

TEST_CASE("Discrete trajectories tend to the continuous one at first order of the step") {
  const char* rule = GENERATE("sgdm", "sc", "lwp-v", "lwp-w", "lwp-v+sc", "lwp-w+sc", "msnag");
  CAPTURE(rule);
  const double c = 1.2, tau = 0.4;
  ContinuousOptions options = Options(rule, c, tau);
  options.duration = 8;
  std::vector<double> errors;
  for (const int delay : {50, 100, 200}) {
    const double h = tau / delay;
    const auto points = SimulateQuadratic(
        {.rule = options.rule,
         .momentum = 1 - c * h,
         .delay = delay,
         .learning_rate = h * h,
         .updates = static_cast<std::size_t>(std::llround(options.duration / h))});
    options.steps_per_delay = delay;
    const auto limit = SolveContinuous(options);
    double error = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      error = std::max(error, std::abs(points[i].weight - limit[i].weight));
    }
    errors.push_back(error);
  }
  CheckOrder(errors, 0.9, 1.1);
}

TEST_CASE("The rightmost root") {
  // W_0(-1), the omega constant's complex relative, to the digits of its tables.
  const std::complex<double> root = RightmostRoot(FirstOrder(1));
  CHECK(std::abs(root - std::complex<double>(-0.31813150520476413, 1.3372357014306894)) <
        kRootTolerance);
  for (const double tau : {1e-3, 0.2, 1 / std::numbers::e, 0.5, 1.5, pi / 2, 3.0, 40.0}) {
    CAPTURE(tau);
    const ContinuousOptions options = FirstOrder(tau);
    const std::complex<double> s = RightmostRoot(options);
    // At tau = 1/e it is double.
    const double tolerance = std::abs(tau * std::numbers::e - 1) < 1e-9 ? 1e-7 : kRootTolerance;
    CHECK(std::abs(ContinuousCharacteristic(options, s)) < tolerance * (1 + std::abs(s)));
    CHECK((tau < pi / 2 * (1 - 1e-9)) == (s.real() < -1e-9));
  }
  // Without delay every rule is the damped oscillator.
  CHECK(std::abs(RightmostRoot(Options("lwp-w+sc", 0.8, 0)) -
                 std::complex<double>(-0.4, std::sqrt(1 - 0.16))) < kRootTolerance);
}

TEST_CASE("The rightmost root next to where two real ones meet") {
  // The pair is complex, that of the discrete rule real. By Newton's method in 30 digits from a grid of starts.
  struct Case {
    const char* rule;
    double damping, delay_time;
    std::complex<double> root;
  };
  for (const auto& [rule, damping, delay_time, expected] :
       {Case{"sc", 2, 0.01, {-0.9999998, 0.0070713}}, Case{"sgdm", 3.55, 1, {-0.73434, 0.08978}},
        Case{"lwp-v", 1.94, 0.3, {-1.03337, 0.06491}}}) {
    CAPTURE(rule);
    const ContinuousOptions options = Options(rule, damping, delay_time);
    const std::complex<double> s = RightmostRoot(options);
    CHECK(std::abs(s - expected) < 1e-5);
    CHECK(std::abs(ContinuousCharacteristic(options, s)) < kRootTolerance);
  }
  for (const double delay_time : {0.02, 0.005, 0.001, 1e-4}) {
    CAPTURE(delay_time);
    // (s + 1)^2 = -tau^2 / 2 to first order.
    const std::complex<double> s = RightmostRoot(Options("sc", 2, delay_time));
    CHECK(std::abs(s - std::complex<double>(-1, delay_time / std::sqrt(2.0))) <
          delay_time * delay_time + 1e-7);
  }
}

TEST_CASE("The rightmost root where damping bounds the discrete rule's step") {
  // c tau is no whole number of steps of momentum 0.
  for (const auto& [damping, delay_time, expected] :
       {std::array{20.0, 2.42, -0.0576521794857035}, std::array{30.0, 1.81, -0.0355937380732220}}) {
    CAPTURE(damping);
    const std::complex<double> s = RightmostRoot(Options("sgdm", damping, delay_time));
    CHECK(std::abs(s - expected) < kRootTolerance);
  }
  CHECK_THROWS_WITH(RightmostRoot(Options("sgdm", 500, 2.001)),
                    "delay_time: got 2.001, accepted: at most 2 at this damping");
}

TEST_CASE("A trajectory decays as the rightmost root says") {
  const char* rule = GENERATE("sgdm", "sc", "lwp-v", "lwp-v+sc", "lwp-w+sc", "msnag");
  CAPTURE(rule);
  ContinuousOptions options = Options(rule, 0.9, 0.5);
  const std::complex<double> s = RightmostRoot(options);
  CHECK(std::abs(ContinuousCharacteristic(options, s)) < kRootTolerance * (1 + std::norm(s)));
  options.duration = 60;
  options.steps_per_delay = 64;
  const auto points = SolveContinuous(options);
  // w(t + dt) - 2 Re(e^{s dt}) w(t) e^... : a pair obeys w(t + 2 dt) = 2 Re(q) w(t + dt) - |q|^2 w(t).
  const std::size_t stride = 40;
  const std::complex<double> q = std::exp(s * (points[stride].time - points[0].time));
  double left = 0, scale = 0;
  const std::size_t begin = points.size() / 3;
  for (std::size_t i = begin; i < begin + 2000; ++i) {
    const double next = 2 * q.real() * points[i + stride].weight - std::norm(q) * points[i].weight;
    left = std::max(left, std::abs(points[i + 2 * stride].weight - next));
    scale = std::max(scale, std::abs(points[i].weight));
  }
  // Whatever decays faster is gone to this part by a third of the time.
  CHECK(left < 1e-4 * scale);
}

TEST_CASE("The critical delay is where the rightmost root crosses") {
  const char* rule = GENERATE("sgdm", "sc", "lwp-v", "lwp-w", "lwp-v+sc", "lwp-w+sc", "msnag");
  const double damping = GENERATE(0.05, 0.5, 2.0, 5.0);
  CAPTURE(rule, damping);
  ContinuousOptions options = Options(rule, damping, 0);
  const double critical = CriticalDelayTime(options);
  options.delay_time = critical * (1 - 1e-6);
  CHECK(RightmostRoot(options).real() < 0);
  // Where the neutral equation gives out, infinitely many roots cross and none is rightmost.
  options.delay_time = critical * (1 + 1e-6);
  if (std::string(rule) != "lwp-w+sc" || damping < 1) CHECK(RightmostRoot(options).real() > 0);
}

TEST_CASE("The heavy ball's critical delay has a closed form") {
  const double c = GENERATE(0.01, 0.7, 3.0, kMaxDamping);
  const double omega = std::sqrt(2 / (c * c + std::sqrt(c * c * c * c + 4)));
  const double expected = std::atan2(c, omega) / omega;
  CHECK(std::abs(CriticalDelayTime(Options("sgdm", c, 0)) / expected - 1) < kRootTolerance);
  CHECK(CriticalDelayTime(FirstOrder(0)) == pi / 2);
}

TEST_CASE("The discrete boundary tends to the continuous one at first order") {
  const char* rule = GENERATE("sgdm", "sc", "lwp-v", "lwp-v+sc", "lwp-w+sc", "msnag");
  CAPTURE(rule);
  const ContinuousOptions options = Options(rule, 0.5, 0);
  const double limit = CriticalDelayTime(options);
  std::vector<double> errors;
  for (const Delay delay : {100, 200, 400, 800}) {
    errors.push_back(std::abs(DiscreteCriticalDelayTime(options, delay) - limit));
  }
  CheckOrder(errors, 0.9, 1.1);
  // SGD without momentum: D 2 sin(pi / (4 D + 2)).
  const double exact = 10 * 2 * std::sin(pi / 42);
  CHECK(std::abs(DiscreteCriticalDelayTime(FirstOrder(0), 10) / exact - 1) < kRootTolerance);
}

TEST_CASE("The discrete boundary of a weakly damped heavy ball is found") {
  // D = 1 is stable for x < 1 - m: D h = c, and with more updates the limit is as near.
  const double c = GENERATE(1e-6, 1e-5, 1e-4);
  // Momenta near 1 are multiples of 1.1e-16, which 1 - m is here.
  for (const Delay delay : {1, 4, 1000, 100'000}) {
    CAPTURE(c, delay);
    const double apart = std::abs(DiscreteCriticalDelayTime(Options("sgdm", c, 0), delay) / c - 1);
    CHECK(apart < (delay == 1 ? 0 : c * c) + 1e-12);
  }
}

TEST_CASE("A limit says what it does not take") {
  std::string why = WhyInvalid(Options("nesterov", 1, 1));
  CHECK(why.starts_with("rule: got nesterov"));
  why = WhyInvalid(Options("sgdm", 0, 1));
  CHECK(why.starts_with("damping: got 0"));
  why = WhyInvalid(Options("sgdm", 1, -1));
  CHECK(why.starts_with("delay_time: got -1"));
  ContinuousOptions first = FirstOrder(1);
  first.rule = Spec("sc");
  CHECK_THROWS_AS(SolveContinuous(first), InvalidArgument);
}

TEST_CASE("A delay too short for a trajectory has its root all the same") {
  for (const double tau : {1e-5, 1e-12, 1e-60, 1e-300}) {
    CAPTURE(tau);
    // As without delay: -1, and with a damping of 1 a pair (-1 +- i sqrt 3) / 2.
    CHECK(RightmostRoot(FirstOrder(tau)).real() == Approx(-1).epsilon(2 * tau));
    const std::complex<double> root = RightmostRoot(Options("sgdm", 1, tau));
    CHECK(root.real() == Approx(-0.5).epsilon(2 * tau + 1e-12));
    CHECK(root.imag() == Approx(std::sqrt(0.75)).epsilon(2 * tau + 1e-12));
    CHECK_THROWS_WITH(SolveContinuous(FirstOrder(tau)), Catch::Matchers::StartsWith("duration: "));
  }
}

}  // namespace
}  // namespace batchless::analysis
