#include "batchless/analysis/random_delay.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "../../analysis/src/delay_operator.h"
#include "../../analysis/src/krylov.h"
#include "batchless/analysis/argument.h"
#include "batchless/analysis/noise.h"
#include "batchless/analysis/rates.h"
#include "batchless/analysis/spectral_radius.h"
#include "batchless/analysis/stability.h"
#include "catch.h"
#include "near.h"
#include "refusal.h"

namespace batchless::analysis {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// The criterion errs by roundings in long double, the operator by its residuals.
constexpr double kMethodsTolerance = 1e-9;
// A mean square of 400,000 updates errs by this much: some ten of them at a time are correlated.
constexpr double kSimulationTolerance = 0.01;

const std::vector<const char*> kRules = {"sgdm",  "nesterov", "sc",       "lwp-v",
                                         "lwp-w", "lwp-v+sc", "lwp-w+sc", "msnag"};

VaryingDelay Point(const char* rule, DelayCompensation compensation = DelayCompensation::kMean,
                   const DelayModel& delays = UniformDelays(0, 8), double momentum = 0.9) {
  return {{FindRule(rule), {}}, momentum, delays, compensation};
}

// The equations, written out: the mean square of the weight over many updates, with unit noise.
template <class Draw>
double SimulatedVariance(const VaryingDelay& point, double rate, std::size_t updates, Draw draw) {
  const bool own = point.compensation == DelayCompensation::kOwn;
  const double m = point.momentum;
  const double mean = point.delays.mean();
  const Compensation compensation = point.rule.rule.compensation;
  const Prediction prediction = point.rule.rule.prediction;
  std::vector<double> w(updates + 1, 0), v(updates + 1, 0);
  std::mt19937_64 random(7);
  std::normal_distribution<double> noise;
  double squares = 0;
  const std::size_t start = updates / 20;
  for (std::size_t i = 0; i < updates; ++i) {
    const std::size_t delay = draw(random);
    const std::size_t k = i >= delay ? i - delay : 0;
    const double d = own ? static_cast<double>(delay) : mean;
    double read = w[k];
    if (prediction == Prediction::kVelocity) read -= d * v[k];
    if (prediction == Prediction::kWeight) read += d * (w[k] - w[k > 0 ? k - 1 : 0]);
    const double g = rate * read + noise(random);
    const double power = compensation == Compensation::kSpike ? std::pow(m, d) : 1;
    const double b = (1 - power) / (1 - m);
    v[i + 1] = m * v[i] + (own ? power : 1) * g;
    w[i + 1] = w[i] - ((own ? 1 : power) * v[i + 1] + b * g);
    if (i >= start) squares += w[i + 1] * w[i + 1];
  }
  return squares / static_cast<double>(updates - start);
}

// The radius of the mean square and, where that is stable, E[w^2] under unit noise in the gradient, by the
// operator on second moments: (dimension)^2 operations a regime.
LinearMap SecondMoments(const DelaySystem& system, const Regimes& regimes) {
  return OverRegimes(regimes, system.dimension(), system.dimension(),
                     [&](std::size_t regime, const MatrixXd& covariance) {
                       return system.Second(regimes.draws[regime], covariance);
                     });
}

double OperatorRadius(const DelaySystem& system, const Regimes& regimes) {
  const Index dimension = system.dimension();
  const MatrixXd start = MatrixXd::Identity(dimension, dimension)
                             .reshaped()
                             .replicate(1, AsIndex(regimes.draws.size()));
  return std::sqrt(
      SpectralRadiusOf(SecondMoments(system, regimes), dimension, start.reshaped(), true, kBasis));
}

double OperatorRadius(const VaryingDelay& point, double rate) {
  return OperatorRadius(DelaySystem(point, rate), RegimesOf(point.delays));
}

double OperatorVariance(const VaryingDelay& point, double rate) {
  const DelaySystem system(point, rate);
  const Regimes regimes = RegimesOf(point.delays);
  const Index dimension = system.dimension();
  MatrixXd noise = MatrixXd::Zero(dimension * dimension, AsIndex(regimes.draws.size()));
  for (std::size_t i = 0; i < regimes.draws.size(); ++i) {
    MatrixXd each = MatrixXd::Zero(dimension, dimension);
    for (const auto& [entry, probability] : regimes.draws[i]) {
      each.topLeftCorner(system.core(), system.core()) +=
          probability * system.input(entry) * system.input(entry).transpose();
    }
    noise.col(AsIndex(i)) = regimes.shares(AsIndex(i)) * each.reshaped();
  }
  const MatrixXd mixed = noise * regimes.transition;
  const VectorXd covariances =
      FixedPoint(SecondMoments(system, regimes), mixed.reshaped(), dimension, kBasis, 1e-12);
  double variance = 0;
  for (std::size_t i = 0; i < regimes.draws.size(); ++i) {
    variance += covariances(AsIndex(i) * dimension * dimension);
  }
  return variance;
}

using test::MessageOf;

}  // namespace

TEST_CASE("uniform delays from 0 to 8 at momentum 0.9 and rate 0.02 give known numbers") {
  struct Known {
    const char* rule;
    double radius;
    double variance;
  };
  for (const auto& [rule, radius, variance] :
       {Known{"sgdm", 0.9886720002, 952.264}, Known{"sc", 0.9610954784, 429.090},
        Known{"lwp-w", 0.9510078872, 287.148}, Known{"lwp-v+sc", 0.9227705859, 265.244},
        Known{"lwp-w+sc", 0.9006571116, 245.134}}) {
    INFO(rule);
    CHECK(std::abs(MeanSquareRadius(Point(rule), 0.02) - radius) < 0.6e-10);
    CHECK(std::abs(WeightVariance(Point(rule), 0.02) - variance) < 0.6e-3);
  }
  for (const auto& [rule, radius, unused] :
       {Known{"sc", 0.9662103374, 0}, Known{"lwp-w", 0.9569208654, 0},
        Known{"lwp-w+sc", 0.9385784321, 0}}) {
    INFO(rule);
    const VaryingDelay own = Point(rule, DelayCompensation::kOwn);
    CHECK(std::abs(MeanSquareRadius(own, 0.02) - radius) < 0.6e-10);
  }
}

TEST_CASE("delays longer than a Krylov basis settle") {
  const VaryingDelay sc = Point("sc", DelayCompensation::kOwn, UniformDelays(0, 64));
  // By bases of 80 and of 120 vectors.
  const double radius = 0.97769038737;
  CHECK(IsNear(MeanSquareRadius(sc, 1e-3), radius, 1e-10));
  CHECK(IsNear(OperatorRadius(sc, 1e-3), radius, 1e-10));
  const auto uniform = [](std::mt19937_64& random) { return random() % 65; };
  CHECK(IsNear(SimulatedVariance(sc, 1e-3, 4'000'000, uniform), WeightVariance(sc, 1e-3),
               kSimulationTolerance));
  for (const char* rule : {"sgdm", "lwp-w"}) {
    INFO(rule);
    const VaryingDelay point = Point(rule, DelayCompensation::kOwn, UniformDelays(30, 64));
    CHECK(IsNear(OperatorRadius(point, 1e-3), MeanSquareRadius(point, 1e-3), kMethodsTolerance));
    CHECK(IsNear(OperatorVariance(point, 1e-3), WeightVariance(point, 1e-3), 1e-8));
  }
}

TEST_CASE("best half-lives at condition 100 under uniform delays from 0 to 8") {
  struct Known {
    const char* rule;
    DelayCompensation compensation;
    double half_life;
  };
  // Local searches of another program, as many digits as it gave.
  for (const auto& [rule, compensation, half_life] :
       {Known{"sc", DelayCompensation::kMean, 83.39},
        Known{"lwp-w", DelayCompensation::kMean, 73.70},
        Known{"lwp-v+sc", DelayCompensation::kMean, 40.89},
        Known{"lwp-w+sc", DelayCompensation::kMean, 35.01},
        Known{"sgdm", DelayCompensation::kMean, 165.9},
        Known{"lwp-w", DelayCompensation::kOwn, 88.3}, Known{"sc", DelayCompensation::kOwn, 101.3},
        Known{"lwp-v+sc", DelayCompensation::kOwn, 50.3},
        Known{"lwp-w+sc", DelayCompensation::kOwn, 46.6}}) {
    INFO(rule);
    const VaryingOptimum optimum = FindOptimum(Point(rule, compensation), 100, std::nullopt);
    CHECK(IsNear(optimum.half_life_updates, half_life, 1e-3));
  }
}

TEST_CASE("at a condition number of 1e6 the least curvature is no faster than its closed form") {
  // Without compensation, momentum 0 and one delay of 0: 1 - rate at the least curvature.
  const VaryingDelay undelayed = Point("sgdm", DelayCompensation::kMean, UniformDelays(0, 0), 0);
  const VaryingOptimum plain = FindOptimum(undelayed, 1e6, 0.0);
  CHECK(IsNear(plain.half_life_updates, std::log(2.0) / 2e-6, 1e-4));
  for (const char* rule : {"sc", "lwp-v+sc"}) {
    INFO(rule);
    const VaryingDelay own = Point(rule, DelayCompensation::kOwn, GeometricDelays(0.4, 16));
    const VaryingOptimum optimum = FindOptimum(own, 1e6, std::nullopt);
    // The slower root of (z - 1)(z - m) + x z: the delay of the small rate changes nothing in it.
    const double x = optimum.rate / 1e6, damping = 1 - optimum.momentum;
    const double apart = damping * damping / 4 - x;
    const double slow = damping / 2 - (apart > 0 ? std::sqrt(apart) : 0);
    CHECK(optimum.half_life_updates >= std::log(2.0) / slow * 0.999);
  }
}

TEST_CASE("criterion and operator agree where both apply") {
  const DelayModel listed = IndependentDelays({7, 0, 3}, {0.2, 0.5, 0.3});
  const VaryingDelay linear{
      LinearSpec({1.092803, -1.707838, 0.696482}, {1, -1.903855, 0.82638, 0.077475}), 0, listed};
  std::vector<VaryingDelay> points = {linear};
  for (const char* rule : kRules) {
    points.push_back(Point(rule));
    points.push_back(Point(rule, DelayCompensation::kMean, listed, 0.6));
    points.push_back(Point(rule, DelayCompensation::kOwn, GeometricDelays(0.4, 16), 0.8));
  }
  // Own compensation at one horizon, and one compensation at own horizons.
  for (const bool horizon : {true, false}) {
    points.push_back(Point("lwp-v+sc", DelayCompensation::kOwn, listed, 0.7));
    (horizon ? points.back().rule.options.horizon : points.back().rule.options.sc_delay) = 2.5;
  }
  for (const VaryingDelay& point : points) {
    INFO(point.rule.rule.name);
    for (const double rate : {1e-3, 0.02, 0.3}) {
      const double radius = MeanSquareRadius(point, rate);
      CHECK(IsNear(OperatorRadius(point, rate), radius, kMethodsTolerance));
      CHECK(MeanRadius(point, rate) <= radius * (1 + kMethodsTolerance));
      const double variance = WeightVariance(point, rate);
      CHECK(std::isnan(variance) == !(radius < 1));
      if (radius >= 1) continue;
      CHECK(IsNear(OperatorVariance(point, rate), variance, 1e-8));
    }
  }
}

TEST_CASE("the operator settles where delay lines are longer than its Krylov basis") {
  const VaryingDelay mean = Point("lwp-w+sc", DelayCompensation::kMean, UniformDelays(0, 64));
  CHECK(IsNear(OperatorRadius(mean, 1e-3), MeanSquareRadius(mean, 1e-3), kMethodsTolerance));
  CHECK(IsNear(OperatorVariance(mean, 1e-3), WeightVariance(mean, 1e-3), 1e-8));
}

TEST_CASE("one delay is a constant delay, by either compensation, as a chain and as a trace") {
  for (const char* rule : {"sgdm", "sc", "lwp-w", "lwp-w+sc"}) {
    INFO(rule);
    const RuleSpec spec{FindRule(rule), {}};
    const double radius = ComputeSpectralRadius(spec, 0.9, 4, 0.01).radius;
    const double variance = WeightVariance(spec, 0.9, 4, 0.01);
    for (const DelayModel& delays :
         {UniformDelays(4, 4), MarkovDelays({4}, {{1}}), TraceDelays({4, 4, 4})}) {
      for (const DelayCompensation compensation :
           {DelayCompensation::kMean, DelayCompensation::kOwn}) {
        const VaryingDelay point = Point(rule, compensation, delays);
        CHECK(IsNear(MeanSquareRadius(point, 0.01), radius, kMethodsTolerance));
        CHECK(IsNear(MeanRadius(point, 0.01), radius, kMethodsTolerance));
        CHECK(IsNear(WeightVariance(point, 0.01), variance, 1e-8));
      }
    }
    const double critical = CriticalRate(spec, 0.9, 4);
    const VaryingDelay trace = Point(rule, DelayCompensation::kMean, TraceDelays({4, 4}));
    CHECK(IsNear(CriticalRate(trace), critical, kMethodsTolerance));
    const Optimum best = FindOptimum({spec, 4, 100, std::nullopt});
    CHECK(IsNear(FindOptimum(trace, 100, std::nullopt).half_life_updates, best.half_life_updates,
                 2e-3));
    // That of a distribution is the same to the bit.
    for (const DelayCompensation compensation :
         {DelayCompensation::kMean, DelayCompensation::kOwn}) {
      const VaryingDelay point = Point(rule, compensation, UniformDelays(4, 4));
      CHECK(ConstantDelayRadius(point, 0.01)->radius == radius);
      CHECK_FALSE(ConstantDelayRadius(trace, 0.01));
      CHECK(MeanSquareRadius(point, 0.01) == radius);
      CHECK(MeanRadius(point, 0.01) == radius);
      CHECK(WeightVariance(point, 0.01) == variance);
      CHECK(CriticalRate(point) == critical);
      const LogRate growth = SimulateLogRate(point, 0.01);
      CHECK(growth.rate == ComputeSpectralRadius(spec, 0.9, 4, 0.01).log_radius);
      CHECK(growth.standard_error == 0);
      const VaryingOptimum found = FindOptimum(point, 100, std::nullopt);
      CHECK(found.half_life_updates == best.half_life_updates);
      CHECK(found.momentum == best.momentum);
      CHECK(found.rate == best.rate);
      CHECK(found.radius == best.worst.radius);
    }
  }
}

TEST_CASE("a chain whose rows are alike draws independently") {
  const std::vector<double> row = {0.5, 0.2, 0.3};
  const DelayModel chain = MarkovDelays({0, 2, 5}, {row, row, row});
  const DelayModel same = IndependentDelays({0, 2, 5}, row);
  for (const DelayCompensation compensation : {DelayCompensation::kMean, DelayCompensation::kOwn}) {
    const VaryingDelay a = Point("lwp-w+sc", compensation, chain);
    const VaryingDelay b = Point("lwp-w+sc", compensation, same);
    CHECK(IsNear(MeanSquareRadius(a, 0.02), MeanSquareRadius(b, 0.02), kMethodsTolerance));
    CHECK(IsNear(MeanRadius(a, 0.02), MeanRadius(b, 0.02), kMethodsTolerance));
    CHECK(IsNear(WeightVariance(a, 0.02), WeightVariance(b, 0.02), 1e-8));
  }
}

TEST_CASE("a chain of 65 delays whose rows are alike draws independently") {
  std::vector<Delay> delays;
  std::vector<double> row;
  double sum = 0;
  for (Delay delay = 0; delay <= 64; ++delay) {
    delays.push_back(delay);
    row.push_back(std::exp(-static_cast<double>(delay) / 20));
    sum += row.back();
  }
  for (double& probability : row) probability /= sum;
  const VaryingDelay chain = Point("lwp-w+sc", DelayCompensation::kOwn,
                                   MarkovDelays(delays, std::vector(row.size(), row)));
  const VaryingDelay independent =
      Point("lwp-w+sc", DelayCompensation::kOwn, IndependentDelays(delays, row));
  CHECK(IsNear(MeanSquareRadius(chain, 1e-3), MeanSquareRadius(independent, 1e-3), 1e-11));
  CHECK(IsNear(MeanRadius(chain, 1e-3), MeanRadius(independent, 1e-3), kMethodsTolerance));
  CHECK(IsNear(WeightVariance(chain, 1e-3), WeightVariance(independent, 1e-3), 1e-8));
}

// Up by one delay, down by one or neither.
DelayModel Walk(Delay largest) {
  std::vector<Delay> delays;
  std::vector<std::vector<double>> transition;
  for (Delay delay = 0; delay <= largest; ++delay) {
    delays.push_back(delay);
    std::vector<double>& row = transition.emplace_back(static_cast<std::size_t>(largest + 1));
    const auto up = static_cast<std::size_t>(std::min(delay + 1, largest));
    const auto down = static_cast<std::size_t>(std::max<Delay>(delay - 1, 0));
    row[static_cast<std::size_t>(delay)] = 0.5;
    row[up] += 0.25;
    row[down] += 0.25;
  }
  return MarkovDelays(delays, transition);
}

TEST_CASE("a walk over 21 delays has the moments of its operator", "[.long]") {
  for (const char* rule : {"sgdm", "sc", "lwp-w", "lwp-v+sc", "lwp-w+sc"}) {
    for (const DelayCompensation compensation :
         {DelayCompensation::kMean, DelayCompensation::kOwn}) {
      const VaryingDelay point = Point(rule, compensation, Walk(20));
      for (const double rate : {1e-3, 5e-3}) {
        INFO(rule << " at " << rate);
        const double radius = OperatorRadius(point, rate);
        CHECK(IsNear(MeanSquareRadius(point, rate), radius, 1e-11));
        if (radius >= 1) continue;
        CHECK(IsNear(WeightVariance(point, rate), OperatorVariance(point, rate), 1e-8));
      }
    }
  }
}

TEST_CASE("chains: the core's covariances alone say what the whole state's operator says") {
  std::mt19937 random(1);
  const auto uniform = [&] { return static_cast<double>(random() >> 5) * 0x1p-27; };
  int stable = 0, unstable = 0;
  for (int k = 0; k < 60; ++k) {
    const std::size_t size = 2 + random() % 4;
    std::vector<Delay> delays;
    Delay delay = random() % 3;
    std::vector<std::vector<double>> transition(size, std::vector<double>(size));
    for (std::size_t i = 0; i < size; ++i) {
      delays.push_back(delay);
      delay += 1 + random() % 3;
      double sum = 0;
      for (std::size_t j = 0; j < size; ++j) {
        transition[i][j] = uniform() < 0.3 ? 0 : uniform();
        if (j == (i + 1) % size) transition[i][j] += 0.1;
        sum += transition[i][j];
      }
      for (double& probability : transition[i]) probability /= sum;
    }
    constexpr std::array kNames = {"sgdm",  "nesterov", "sc",      "lwp-v",
                                   "lwp-w", "lwp-v+sc", "lwp-w+sc"};
    const char* rule = kNames[random() % kNames.size()];
    const auto compensation = random() % 2 ? DelayCompensation::kOwn : DelayCompensation::kMean;
    const VaryingDelay point =
        Point(rule, compensation, MarkovDelays(delays, transition), 0.95 * uniform());
    const double rate = std::exp(-1 - 5 * uniform());
    INFO(k << ": " << rule << ", rate " << rate << ", momentum " << point.momentum);
    const double radius = OperatorRadius(point, rate);
    CHECK(IsNear(MeanSquareRadius(point, rate), radius, 1e-11));
    const double variance = WeightVariance(point, rate);
    ++(radius < 1 ? stable : unstable);
    CHECK(std::isnan(variance) == (radius >= 1));
    if (radius >= 1) continue;
    CHECK(IsNear(variance, OperatorVariance(point, rate), 1e-8));
  }
  CHECK(stable > 10);
  CHECK(unstable > 10);
}

TEST_CASE("a chain that alternates grows as the trace of its delays") {
  const DelayModel chain = MarkovDelays({1, 6}, {{0, 1}, {1, 0}});
  const DelayModel trace = TraceDelays({1, 6});
  for (const char* rule : {"sgdm", "lwp-v+sc"}) {
    const VaryingDelay a = Point(rule, DelayCompensation::kOwn, chain);
    const VaryingDelay b = Point(rule, DelayCompensation::kOwn, trace);
    CHECK(IsNear(MeanSquareRadius(a, 0.02), MeanSquareRadius(b, 0.02), kMethodsTolerance));
    CHECK(IsNear(WeightVariance(a, 0.02), WeightVariance(b, 0.02), 1e-8));
    CHECK(SimulateLogRate(b, 0.02).rate == std::log(MeanSquareRadius(b, 0.02)));
  }
}

TEST_CASE("a chain of one delay grows by its largest root, whatever the others are") {
  // Of two real roots the product and the smaller one's square are poles of the moments, too.
  const DelayModel chain = MarkovDelays({0}, {{1}});
  for (const double momentum : {0.0718, 0.0719, 0.0725}) {
    for (double rate = 0.51; rate < 0.55; rate += 0.0017) {
      for (const double x : {rate, 3 * rate}) {
        CAPTURE(momentum, x);
        const VaryingDelay point = Point("sgdm", DelayCompensation::kMean, chain, momentum);
        const double radius = ComputeSpectralRadius(point.rule, momentum, 0, x).radius;
        CHECK(IsNear(MeanSquareRadius(point, x), radius, 1e-6));
      }
    }
  }
}

TEST_CASE(
    "chains of one delay, and of two in turn, have the optimum of that delay and of the trace") {
  for (const double condition : {1.2, 2.9, 3.0, 20.0}) {
    CAPTURE(condition);
    const VaryingDelay chain = Point("sgdm", DelayCompensation::kMean, MarkovDelays({0}, {{1}}));
    const double best = FindOptimum({chain.rule, 0, condition, std::nullopt}).half_life_updates;
    CHECK(IsNear(FindOptimum(chain, condition, std::nullopt).half_life_updates, best, 1e-3));
  }
  for (const double condition : {1.2, 10.0}) {
    CAPTURE(condition);
    const auto half_life = [&](const DelayModel& delays) {
      return FindOptimum(Point("sgdm", DelayCompensation::kMean, delays), condition, std::nullopt)
          .half_life_updates;
    };
    CHECK(IsNear(half_life(MarkovDelays({0, 2}, {{0, 1}, {1, 0}})), half_life(TraceDelays({0, 2})),
                 1e-6));
  }
  // The moments of a chain whose every step could be the last have no digits.
  const VaryingDelay point =
      Point("sgdm", DelayCompensation::kMean, MarkovDelays({0, 2}, {{0, 1}, {1, 0}}));
  CHECK(FindOptimum(point, 1, std::nullopt).half_life_updates < 0.3);
}

TEST_CASE("the optimum of a trace is no worse than what other rates and momenta give") {
  const VaryingDelay trace =
      Point("sgdm", DelayCompensation::kMean, TraceDelays({1, 0, 2, 1, 0}), /*momentum=*/0);
  // One curvature ends within a period; ten times as large ones have a second minimum without momentum.
  CHECK(FindOptimum(trace, 1, std::nullopt).half_life_updates <=
        HalfLife(MeanSquareRadius(trace, 0.2929)));
  const VaryingOptimum best = FindOptimum(trace, 10, std::nullopt);
  for (const double momentum : {0.0, 0.1, 0.2, 0.4, 0.6, 0.8}) {
    for (double rate = 0.05; rate < 3; rate *= 1.1) {
      double worst = 0;
      for (const double part : {0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0}) {
        VaryingDelay point = trace;
        point.momentum = momentum;
        worst = std::max(worst, MeanSquareRadius(point, rate * std::pow(10, -part)));
      }
      CHECK(best.radius <= worst + 1e-9);
    }
  }
}

TEST_CASE("a search for a chain's radius may come to it to the last bit") {
  // The moments have no size there.
  const Eigen::VectorXd one = Eigen::VectorXd::Ones(1);
  const LinearMap same = [](const Eigen::VectorXd& x) { return x; };
  CHECK(FixedPoint(same, one, /*lags=*/0, kBasis, /*tolerance=*/1e-8).norm() > 1e14);
  // Without momentum the operator has so few eigenvalues that roundings often meet one.
  const VaryingDelay point = Point("sgdm", DelayCompensation::kMean,
                                   MarkovDelays({2, 2}, {{0, 1}, {1, 0}}), /*momentum=*/0);
  for (const double rate : {0.19, 0.275, 0.3}) {
    CAPTURE(rate);
    const double radius = ComputeSpectralRadius(point.rule, 0, 2, rate).radius;
    CHECK(IsNear(MeanSquareRadius(point, rate), radius, kMethodsTolerance));
  }
}

TEST_CASE("simulation gives the stationary variance") {
  const std::size_t updates = 2'000'000;
  const auto uniform = [](std::mt19937_64& random) { return random() % 9; };
  for (const char* rule : {"sgdm", "lwp-v+sc", "lwp-w+sc"}) {
    for (const DelayCompensation compensation :
         {DelayCompensation::kMean, DelayCompensation::kOwn}) {
      INFO(rule);
      const VaryingDelay point = Point(rule, compensation, UniformDelays(0, 8), 0.6);
      CHECK(IsNear(SimulatedVariance(point, 0.05, updates, uniform), WeightVariance(point, 0.05),
                   kSimulationTolerance));
    }
  }
  // Slow for a while, then fast for a while.
  std::size_t state = 0;
  const auto sticky = [&](std::mt19937_64& random) {
    if (random() % 10 == 0) state = 1 - state;
    return state == 0 ? std::size_t{1} : std::size_t{7};
  };
  const VaryingDelay chain =
      Point("sc", DelayCompensation::kOwn, MarkovDelays({1, 7}, {{0.9, 0.1}, {0.1, 0.9}}), 0.6);
  CHECK(IsNear(SimulatedVariance(chain, 0.05, updates, sticky), WeightVariance(chain, 0.05),
               kSimulationTolerance));
  std::size_t next = 0;
  const std::vector<Delay> trace = {0, 5, 2};
  const auto repeated = [&](std::mt19937_64&) {
    return static_cast<std::size_t>(trace[next++ % trace.size()]);
  };
  const VaryingDelay periodic = Point("lwp-w", DelayCompensation::kMean, TraceDelays(trace), 0.6);
  CHECK(IsNear(SimulatedVariance(periodic, 0.05, updates, repeated), WeightVariance(periodic, 0.05),
               kSimulationTolerance));
}

TEST_CASE("mean, mean square and log rate are three verdicts") {
  // x' = a x, a = 1.5 or -0.5 evenly.
  const DelaySystem system({1.5, -0.5});
  const Regimes regimes = RegimesOf(IndependentDelays({0, 1}, {0.5, 0.5}));
  CHECK(OperatorMeanRadius(system, regimes) == Approx(0.5));
  CHECK(OperatorRadius(system, regimes) == Approx(std::sqrt(1.25)));
  const LogRate log_rate = SimulateLogRate(system, regimes, 3, 400'000);
  const double expected = std::log(0.75) / 2;
  CHECK(log_rate.standard_error < 2e-3);
  CHECK(std::abs(log_rate.rate - expected) < 4 * log_rate.standard_error);
}

TEST_CASE("the critical rate is where the mean square stops being stable") {
  for (const DelayCompensation compensation : {DelayCompensation::kMean, DelayCompensation::kOwn}) {
    const VaryingDelay point = Point("lwp-w+sc", compensation, UniformDelays(0, 3));
    const double critical = CriticalRate(point);
    CHECK(MeanSquareRadius(point, critical * (1 - 1e-6)) < 1);
    CHECK(MeanSquareRadius(point, critical * (1 + 1e-6)) > 1);
  }
}

TEST_CASE("distributions are what they say") {
  const DelayModel geometric = GeometricDelays(0.3);
  // 0.7^39 is the first power below the rest that is cut.
  CHECK(geometric.largest() == 38);
  CHECK(geometric.shares[2] / geometric.shares[1] == Approx(0.7));
  CHECK(std::abs(geometric.mean() - 0.7 / 0.3) < 1e-4);
  CHECK(GeometricDelays(0.3, 4).largest() == 4);
  CHECK(GeometricDelays(1).largest() == 0);
  // All alike where they hardly differ, though 1 - P is 1.
  CHECK(GeometricDelays(1e-17, 4).mean() == Approx(2).epsilon(1e-15));
  const DelayModel listed = IndependentDelays({5, 1, 5}, {0.25, 0.5, 0.25});
  CHECK(listed.delays == std::vector<Delay>{1, 5});
  CHECK(listed.mean() == Approx(3));
}

TEST_CASE("what is out of range is refused by its name") {
  const auto refused = [](const std::string& refusal, const std::string& part) {
    INFO(refusal);
    CHECK(refusal.find(part) != std::string::npos);
  };
  refused(MessageOf([] { UniformDelays(3, 2); }), "delays: got 2, accepted: an integer from 3");
  refused(MessageOf([] { UniformDelays(0, 1001); }), "delays: got 1001");
  refused(MessageOf([] { GeometricDelays(0); }), "delays: got 0");
  refused(MessageOf([] { GeometricDelays(1e-3); }), "delays: got 0.001");
  refused(MessageOf([] { GeometricDelays(0.5, -1); }), "largest_delay: got -1");
  refused(MessageOf([] { IndependentDelays({1, 2}, {0.5, 0.4}); }), "sum to 1");
  refused(MessageOf([] { IndependentDelays({1, 2}, {1.5, -0.5}); }), "delays: got 1.5");
  refused(MessageOf([] { MarkovDelays({1, 2}, {{1, 0}, {0.5, 0.5}}); }), "every delay is reached");
  refused(MessageOf([] { MarkovDelays({1, 2}, {{0.5, 0.5}, {0, 1}}); }), "every delay is reached");
  refused(MessageOf([] { TraceDelays({}); }), "delays: got nothing");
  refused(MessageOf([] { MeanSquareRadius(Point("sgdm"), 1e-10); }), "rate: got 1e-10");
  refused(
      MessageOf([] { Validate(Point("sgdm", DelayCompensation::kMean, UniformDelays(0, 1), 1)); }),
      "momentum: got 1");
  refused(MessageOf([] { Validate(Point("sc", DelayCompensation::kOwn, UniformDelays(0, 129))); }),
          "compensated by its own");
  refused(
      MessageOf(
          [] { FindOptimum(Point("sc", DelayCompensation::kOwn, UniformDelays(0, 65)), 10, {}); }),
      "delays: got 65, accepted: delays up to 64 for an optimum with coefficients of their own");
  refused(
      MessageOf([] {
        FindOptimum(Point("sc", DelayCompensation::kMean, UniformDelays(0, 65)), 1e6, {});
      }),
      "delays: got 65, accepted: delays up to 64 for an optimum at a condition number of 1e+06");
  const VaryingDelay trace =
      Point("sc", DelayCompensation::kOwn, TraceDelays(std::vector<Delay>(10'000, 100)));
  refused(
      MessageOf([&] { CriticalRate(trace); }),
      "delays: got a trace of 10000 delays up to 100, accepted: for a critical rate traces of L "
      "delays up to M with (L + 100) (M + 2)^2 up to 1e+08");
  const VaryingDelay chain =
      Point("sc", DelayCompensation::kOwn, MarkovDelays({1, 60}, {{0.9, 0.1}, {0.1, 0.9}}));
  refused(MessageOf([&] { FindOptimum(chain, 10, {}); }),
          "delays: got a chain of 2 delays up to 60, accepted: for an optimum chains");
}

}  // namespace batchless::analysis
