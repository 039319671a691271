#include "batchless/analysis/simulation.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/roots.h"
#include "batchless/analysis/stability.h"
#include "catch.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

using Limits = std::numeric_limits<double>;

constexpr double kEpsilon = Limits::epsilon();
// A sum of up to D + 1 terms against its closed form, relative: up to four roundings at D = 16.
constexpr double kImpulseTolerance = 1e-15;
// Slope of ln(envelope) where a real root dominates: rounding only.
constexpr double kRealSlopeTolerance = 1e-10;
// Where a complex pair at angle theta does, ln(envelope) has a ripple of amplitude up to about 2 and
// period pi / theta; the least-squares slope over L updates keeps 3 * amplitude / (theta L^2) of it.
double SlopeTolerance(double theta, double updates) {
  if (theta == 0) return kRealSlopeTolerance;
  return kRealSlopeTolerance + 6 / (theta * updates * updates);
}

// ln of the growth per update that a trajectory on the quadratic shows: the slope of ln(envelope) over its
// last half by least squares, the envelope being the norm of D + 2 successive weights. The state is scaled by
// powers of two, which round nothing, so that it stays within a double.
double FittedLogRate(const RuleSpec& spec, double momentum, Delay delay, double rate,
                     std::size_t updates) {
  const auto c = ComputeCoefficients<double>(spec, momentum, delay);
  const auto late = static_cast<std::size_t>(delay);
  const std::size_t length = late + 2, stride = std::max<std::size_t>(1, length / 4);
  std::deque<double> w(length, 1.0), v(length, 0.0);  // the newest first
  int scale = 0;                                      // of the state, a power of two
  std::vector<double> numbers, envelopes;
  for (std::size_t i = 0; i < updates; ++i) {
    double g = w[late];
    if (spec.rule.prediction == Prediction::kVelocity) g -= rate * c.horizon * v[late];
    if (spec.rule.prediction == Prediction::kWeight) g += c.horizon * (w[late] - w[late + 1]);
    v.push_front(momentum * v.front() + g);
    w.push_front(w.front() - rate * (c.a * v.front() + c.b * g));
    v.pop_back();
    w.pop_back();
    if (i % stride != 0) continue;
    double largest = 0, squares = 0;
    for (const auto* values : {&w, &v}) {
      for (const double value : *values) largest = std::max(largest, std::abs(value));
    }
    if (largest == 0) return -Limits::infinity();
    const int exponent = std::ilogb(largest);
    for (double& value : v) value = std::ldexp(value, -exponent);
    for (double& value : w) {
      value = std::ldexp(value, -exponent);
      squares += value * value;
    }
    scale += exponent;
    if (i < updates / 2) continue;
    numbers.push_back(static_cast<double>(i));
    envelopes.push_back(std::log(squares) / 2 + scale * std::log(2.0));
  }
  const auto count = static_cast<double>(numbers.size());
  const double mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) / count;
  double products = 0, squares = 0;
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    products += (numbers[k] - mean) * (envelopes[k] - envelopes[0]);
    squares += (numbers[k] - mean) * (numbers[k] - mean);
  }
  return products / squares;
}

SimulationOptions Options(const RuleSpec& rule, double momentum, Delay delay, double learning_rate,
                          std::size_t updates) {
  return {.rule = rule,
          .momentum = momentum,
          .delay = delay,
          .learning_rate = learning_rate,
          .updates = updates};
}

TEST_CASE("Three updates by hand, in binary fractions") {
  // m = 1/2, eta = 1/4, w_0 = 1, D = 1: a = 1/2, b = 1, T = 1. Gradients 0 and 1 are taken at w_0
  // (v_0 = 0 predicts nothing), gradient 2 at the forward weights of version 1.
  struct Expected {
    const char* rule;
    double w1, w2;         // after two gradients of 1: v_1 = 1, v_2 = 3/2
    double w_hat, v3, w3;  // after gradient 2
  };
  const Expected expected = GENERATE(
      // w_1 = 1 - 1/4, w_2 = w_1 - 3/8
      Expected{"sgdm", 3. / 4, 3. / 8, 3. / 4, 3. / 2, 0},
      Expected{"free", 3. / 4, 3. / 8, 3. / 4, 3. / 2, 0},
      // w_hat = w_1 - 1/4 v_1 = w_1 + (w_1 - w_0)
      Expected{"lwp-v", 3. / 4, 3. / 8, 1. / 2, 5. / 4, 1. / 16},
      Expected{"lwp-w", 3. / 4, 3. / 8, 1. / 2, 5. / 4, 1. / 16},
      // w_1 = 1 - 1/4 (1/2 + 1), w_2 = w_1 - 1/4 (3/4 + 1)
      Expected{"sc", 5. / 8, 3. / 16, 5. / 8, 11. / 8, -9. / 64},
      Expected{"nesterov", 5. / 8, 3. / 16, 5. / 8, 11. / 8, -9. / 64},
      // w_hat = 5/8 - 1/4
      Expected{"lwp-v+sc", 5. / 8, 3. / 16, 3. / 8, 9. / 8, -3. / 64},
      // w_hat = 5/8 + (5/8 - 1)
      Expected{"lwp-w+sc", 5. / 8, 3. / 16, 1. / 4, 1, 0});
  INFO(expected.rule);
  const auto points = SimulateQuadratic(Options(Spec(expected.rule), 0.5, 1, 0.25, 3));
  REQUIRE(points.size() == 4);
  CHECK((points[0].weight == 1 && points[0].velocity == 0 && points[0].predicted_weight == 1));
  CHECK((points[1].weight == expected.w1 && points[1].velocity == 1));
  CHECK(points[1].predicted_weight == 1);
  CHECK((points[2].weight == expected.w2 && points[2].velocity == 1.5));
  CHECK(points[2].predicted_weight == expected.w_hat);
  CHECK((points[3].weight == expected.w3 && points[3].velocity == expected.v3));
  CHECK(std::isnan(points[3].predicted_weight));
}

TEST_CASE("Gradient i is asked for at the prediction from version max(0, i - D)") {
  const Delay delay = 3;
  const double eta = 0.125;
  const double horizon = 3;
  const std::string name = GENERATE("sgdm", "lwp-v+sc", "lwp-w+sc");
  INFO(name);
  std::vector<double> asked;
  const auto points = Simulate(Options(Spec(name), 0.75, delay, eta, 20), [&](double w) {
    asked.push_back(w);
    return std::sin(3 * w) + w;  // nothing quadratic
  });
  REQUIRE(asked.size() == 20);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const std::size_t k = i < 3 ? 0 : i - 3;
    const double before = points[k == 0 ? 0 : k - 1].weight;
    double expected = points[k].weight;
    if (name == "lwp-v+sc") expected -= eta * horizon * points[k].velocity;
    if (name == "lwp-w+sc") expected += horizon * (points[k].weight - before);
    CHECK(asked[i] == expected);
    CHECK(points[i].predicted_weight == expected);
  }
}

TEST_CASE("Without delay every mitigation is SGDM, bit for bit") {
  const auto sgdm = SimulateQuadratic(Options(Spec("sgdm"), 0.9, 0, 0.3, 500));
  double m_v = 0;
  double w = 1;
  for (std::size_t i = 0; i < 500; ++i) {
    m_v = 0.9 * m_v + w;
    w -= 0.3 * m_v;
    REQUIRE(sgdm[i + 1].weight == w);
  }
  for (const char* name : {"sc", "lwp-v", "lwp-w", "lwp-v+sc", "lwp-w+sc", "free"}) {
    INFO(name);
    const auto points = SimulateQuadratic(Options(Spec(name), 0.9, 0, 0.3, 500));
    for (std::size_t i = 0; i < points.size(); ++i) {
      REQUIRE(points[i].weight == sgdm[i].weight);
      REQUIRE(points[i].velocity == sgdm[i].velocity);
    }
  }
  // The comparison can fail: Nesterov does something at D = 0.
  CHECK(SimulateQuadratic(Options(Spec("nesterov"), 0.9, 0, 0.3, 2))[1].weight != sgdm[1].weight);
}

TEST_CASE("Nesterov is SC with a delay of 1 of its own, bit for bit") {
  RuleOptions one;
  one.sc_delay = 1;
  for (const Delay delay : {0, 1, 5}) {
    const auto nesterov = SimulateQuadratic(Options(Spec("nesterov"), 0.9, delay, 0.02, 300));
    const auto sc = SimulateQuadratic(Options(Spec("sc", one), 0.9, delay, 0.02, 300));
    for (std::size_t i = 0; i < sc.size(); ++i) REQUIRE(sc[i].weight == nesterov[i].weight);
  }
}

TEST_CASE("SC restores the undelayed impulse response once the late gradient arrives") {
  const double m = GENERATE(0.5, 0.9, 0.99, 1.0);
  const Delay delay = GENERATE(1, 4, 16);
  CAPTURE(m, delay);
  const std::size_t updates = 200;
  const auto undelayed = ImpulseResponse(Options(Spec("sgdm"), m, 0, 0.125, updates));
  const auto late = ImpulseResponse(Options(Spec("sgdm"), m, delay, 0.125, updates));
  const auto restored = ImpulseResponse(Options(Spec("sc"), m, delay, 0.125, updates));
  // The gradient makes update number D, which leads to point D + 1.
  const auto arrival = static_cast<std::size_t>(delay) + 1;
  double worst = 0;
  for (std::size_t i = 0; i <= updates; ++i) {
    if (i < arrival) {
      CHECK((restored[i].weight == 0 && restored[i].velocity == 0));
    } else {
      worst = std::max(worst, std::abs(restored[i].weight / undelayed[i].weight - 1));
      CHECK(restored[i].velocity == undelayed[i - arrival + 1].velocity);
    }
  }
  CHECK(worst <= kImpulseTolerance);
  // Uncompensated, the response is short of what it should be.
  CHECK(late[arrival].weight > 1.01 * undelayed[arrival].weight);
}

TEST_CASE("Trajectories satisfy the recurrence that the characteristic polynomial states") {
  std::mt19937_64 random(50);
  std::uniform_real_distribution<double> unit(0, 1);
  for (const Rule& rule : Rules()) {
    for (int trial = 0; trial < 30; ++trial) {
      const auto delay = static_cast<Delay>(12 * unit(random));
      const double momentum = unit(random);
      const double rate = 0.5 * unit(random);
      RuleOptions options;
      if (rule.compensation != Compensation::kNone) {
        options.sc_a = 2 * unit(random);
        options.sc_b = 2 * unit(random);
      }
      if (rule.prediction != Prediction::kNone) options.horizon = 5 * unit(random);
      CAPTURE(rule.name, delay, momentum, rate);
      const RuleSpec spec = Spec(rule.name, options);
      const auto points = SimulateQuadratic(Options(spec, momentum, delay, rate, 60));
      const auto c = DenseCoefficients(MakeCharacteristic<double>(spec, momentum, delay), rate);
      // From version D + 2 on no gradient was taken at the start for want of an older version.
      for (auto i = static_cast<std::size_t>(delay) + 2; i + c.size() <= points.size(); ++i) {
        double sum = 0;
        double size = 0;
        for (std::size_t k = 0; k < c.size(); ++k) {
          sum += c[k] * points[i + k].weight;
          size += std::abs(c[k] * points[i + k].weight);
        }
        CHECK(std::abs(sum) <= 32 * kEpsilon * size);
      }
    }
  }
}

TEST_CASE("The growth of a trajectory is the logarithm of the largest root") {
  struct Place {
    double momentum;
    Delay delay;
    double rate;
  };
  constexpr std::size_t kFittedUpdates = 40'000;
  // A complex pair that decays, one that grows, a real root, a long delay, little momentum.
  const Place place = GENERATE(Place{0.9, 4, 0.01}, Place{0.9, 4, 0.2}, Place{0.9, 3, 1e-4},
                               Place{0.99, 40, 1e-4}, Place{0.3, 7, 0.05});
  for (const Rule& rule : Rules()) {
    CAPTURE(rule.name, place.momentum, place.delay, place.rate);
    const RuleSpec spec = Spec(rule.name);
    const auto root = AllRoots(spec, place.momentum, place.delay, place.rate).front();
    const double fitted =
        FittedLogRate(spec, place.momentum, place.delay, place.rate, kFittedUpdates);
    CHECK(std::abs(fitted - std::log(std::abs(root))) <=
          SlopeTolerance(std::abs(std::arg(root)), kFittedUpdates / 2.0));
  }
}

TEST_CASE("A trajectory that ends in zero has an infinite rate") {
  // SGD with x = 1 and no delay: w_1 = 0.
  CHECK(FittedLogRate(Spec("sgdm"), 0, 0, 1, 100) == -Limits::infinity());
}

TEST_CASE("Growth and decay far beyond a double's range are measured") {
  // w <- (1 - x) w
  CHECK(FittedLogRate(Spec("sgdm"), 0, 0, 1e6, 1000) == Approx(std::log(1e6 - 1)).epsilon(1e-12));
  // Powers of two throughout, so nothing is rounded.
  CHECK(FittedLogRate(Spec("sgdm"), 0, 0, 1 - 0x1p-30, 1000) ==
        Approx(-30 * std::log(2.0)).epsilon(1e-12));
}

TEST_CASE("What can not be run is refused by name") {
  const SimulationOptions good = Options(Spec("sc"), 0.9, 2, 0.1, 10);
  CHECK(WhyInvalid(good).empty());
  const auto error = [&](auto change) {
    SimulationOptions options = good;
    change(options);
    std::string text = WhyInvalid(options);
    CHECK_THROWS_WITH(SimulateQuadratic(options), text);
    CHECK_THROWS_WITH(ImpulseResponse(options), text);
    return text;
  };
  CHECK(error([](auto& o) { o.momentum = 2; }) ==
        "momentum: got 2, accepted: a number from 0 to 1");
  CHECK(error([](auto& o) { o.delay = -1; }).find("delay: got -1") == 0);
  CHECK(error([](auto& o) {
          o.learning_rate = Limits::quiet_NaN();
        }).find("learning_rate: got nan") == 0);
  CHECK(error([](auto& o) {
          o.initial_weight = Limits::infinity();
        }).find("initial_weight: got inf") == 0);
  CHECK(error([](auto& o) { o.updates = kMaxUpdates + 1; }) ==
        "updates: got 5000001, accepted: an integer from 0 to 5000000");
  CHECK(error([](auto& o) { o.rule.options.horizon = 1; }).find("horizon: got 1") == 0);
}

TEST_CASE("One update of delay, written out, is stable up to half of what it is without") {
  const std::vector<double> expected = {1, 0.5, 0, -0.25, -0.25, -0.125};
  const auto points = Simulate(Options(Spec("sgdm"), 0, 1, 0.5, 5), [](double w) { return w; });
  REQUIRE(points.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(points[i].weight == expected[i]);
  CHECK(CriticalRate(Spec("sgdm"), 0, 1) == Approx(1).epsilon(1e-14));
  CHECK(CriticalRate(Spec("sgdm"), 0, 0) == Approx(2).epsilon(1e-14));
}

}  // namespace
}  // namespace batchless::analysis
