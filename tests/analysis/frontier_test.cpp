#include "batchless/analysis/frontier.h"

#include <cmath>
#include <numbers>
#include <random>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/rates.h"
#include "catch.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

// What the header promises of the search.
constexpr double kSearchTolerance = 0.05;
// The half-life is met at the probes; between them rho may peak a little.
constexpr double kHalfLifeTolerance = 0.002;

FrontierOptions OptionsAt(const char* rule, Delay delay, std::vector<double> half_lives) {
  return {
      .rule = Spec(rule), .delay = delay, .condition = 100, .half_lives = std::move(half_lives)};
}

TEST_CASE("No point of momentum and rate lies below the frontier") {
  struct Case {
    const char* rule;
    Delay delay;
  };
  const Case one = GENERATE(Case{"sgdm", 0}, Case{"sgdm", 2}, Case{"lwp-w+sc", 2});
  const bool average = GENERATE(false, true);
  CAPTURE(one.rule, one.delay, average);
  const double shortest =
      FindOptimum({Spec(one.rule), one.delay, 100, std::nullopt}).half_life_updates;
  FrontierOptions options =
      OptionsAt(one.rule, one.delay, {0.9 * shortest, 1.2 * shortest, 3 * shortest, 20 * shortest});
  options.average = average;
  const auto points = Frontier(options);
  CHECK(std::isnan(points[0].loss));
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> uniform;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const FrontierPoint& point = points[i];
    CAPTURE(point.half_life);
    // It is what it says it is.
    const double length = average ? 1 / -std::expm1(-std::numbers::ln2 / point.half_life) : 1;
    const double worst =
        WorstSpectralRadius(options.rule, point.momentum, one.delay, point.rate, 100)
            .half_life_updates();
    CHECK(worst <= point.half_life * (1 + kHalfLifeTolerance));
    CHECK(point.loss ==
          StationaryLoss(options.rule, point.momentum, one.delay, point.rate, 100, length));
    // Random points near it and anywhere.
    int as_fast = 0;
    for (int k = 0; k < 300; ++k) {
      const double width = k % 2 == 0 ? 0.3 : 3;
      const double momentum =
          1 - std::min(1.0, (1 - point.momentum) * std::exp(width * (2 * uniform(random) - 1)));
      const double rate = point.rate * std::exp(width * (2 * uniform(random) - 1));
      const double half_life =
          WorstSpectralRadius(options.rule, momentum, one.delay, rate, 100).half_life_updates();
      if (!(half_life <= point.half_life)) continue;
      ++as_fast;
      CHECK(StationaryLoss(options.rule, momentum, one.delay, rate, 100, length) >=
            point.loss * (1 - kSearchTolerance));
    }
    CHECK(as_fast >= 5);
  }
}

TEST_CASE(
    "A rule by its coefficients has the losses of its momentum's smallest rate that is fast "
    "enough") {
  const double m = 0.8;
  FrontierOptions options = OptionsAt("sc", 2, {});
  const double shortest = FindOptimum({options.rule, 2, 100, m}).half_life_updates;
  options.rule = AsLinear("sc", m, 2);
  options.half_lives = {0.9 * shortest, 1.2 * shortest, 5 * shortest};
  options.average = GENERATE(false, true);
  const auto points = Frontier(options);
  CHECK(std::isnan(points[0].loss));
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double h = points[i].half_life;
    CAPTURE(h);
    CHECK(std::isnan(points[i].momentum));
    const auto half_life = [&](double rate) {
      return WorstSpectralRadius(Spec("sc"), m, 2, rate, 100).half_life_updates();
    };
    CHECK(half_life(points[i].rate) <= h * (1 + kHalfLifeTolerance));
    CHECK(half_life(points[i].rate / 1.01) > h);
    const double length = options.average ? 1 / -std::expm1(-std::numbers::ln2 / h) : 1;
    const double expected = StationaryLoss(Spec("sc"), m, 2, points[i].rate, 100, length);
    CHECK(std::abs(points[i].loss / expected - 1) < 1e-9);
  }
}

TEST_CASE("The best momentum may lie right above the fastest point's, 0") {
  FrontierOptions options = OptionsAt("sgdm", 0, {0.6, 0.8, 1});
  options.condition = 1;
  const auto points = Frontier(options);
  // By a grid of momenta and rates.
  const double losses[] = {0.16985, 0.12352, 0.092593};
  for (std::size_t i = 0; i < points.size(); ++i) {
    CHECK(points[i].loss < losses[i] * (1 + kSearchTolerance));
  }
}

TEST_CASE("At long half-lives every method has the loss K ln 2 / (8 h)") {
  const double half_life = GENERATE(2e4, 1e7, kMaxFrontierHalfLife);
  const double expected = 100 * std::numbers::ln2 / 8 / half_life;
  // The search's tolerance, and corrections of the order of the shortest half-life over h.
  constexpr double kTolerance = 0.015;
  for (const char* rule : {"sgdm", "lwp-v+sc"}) {
    const auto points = Frontier(OptionsAt(rule, 2, {half_life}));
    CHECK(std::abs(points[0].loss / expected - 1) < kTolerance);
  }
  FrontierOptions waiting = OptionsAt("sgdm", 0, {half_life});
  waiting.steps_per_update = 3;
  waiting.gradients_per_update = 3;
  CHECK(std::abs(Frontier(waiting)[0].loss / expected - 1) < kTolerance);
}

TEST_CASE("The longest half-life has an average") {
  FrontierOptions options = OptionsAt("sgdm", 0, {kMaxFrontierHalfLife});
  options.average = true;
  const double expected = 100 * std::numbers::ln2 / 8 / kMaxFrontierHalfLife;
  CHECK(Frontier(options)[0].loss < expected);
}

TEST_CASE("Waiting and mini-batches are the undelayed frontier in other units") {
  const auto undelayed = Frontier(OptionsAt("sgdm", 0, {20, 50}));
  FrontierOptions waiting = OptionsAt("sgdm", 0, {100, 250});
  waiting.steps_per_update = 5;
  waiting.gradients_per_update = 5;
  const auto waited = Frontier(waiting);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(std::abs(waited[i].loss * 5 / undelayed[i].loss - 1) < 1e-12);
  }
  // A mini-batch of one is at least D + 1 steps long; of 4 at D = 4 it is 8.
  FrontierOptions four = OptionsAt("sgdm", 0, {250});
  four.steps_per_update = 8;
  four.gradients_per_update = 4;
  const FrontierPoint best = MiniBatchFrontier(OptionsAt("sgdm", 4, {250}))[0];
  CHECK(best.loss <= Frontier(four)[0].loss);
  // Workers that all wait for one another lose no step to a drain.
  CHECK(best.loss > waited[1].loss);
  four.gradients_per_update = best.gradients_per_update;
  four.steps_per_update = best.gradients_per_update + 4;
  CHECK(Frontier(four)[0].loss == best.loss);
}

TEST_CASE("A frontier says what it does not take") {
  std::string why = WhyInvalid(OptionsAt("sgdm", kMaxFrontierDelay + 1, {10}));
  CHECK(why.starts_with("delay: got 401"));
  why = WhyInvalid(OptionsAt("sgdm", 1, {0}));
  CHECK(why.starts_with("half_lives: got 0"));
  CHECK_THROWS_AS(Frontier(OptionsAt("sgdm", 1, {-1})), InvalidArgument);
}

}  // namespace
}  // namespace batchless::analysis
