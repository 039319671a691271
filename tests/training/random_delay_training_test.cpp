#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "batchless/analysis/random_delay.h"
#include "batchless/training/trainer.h"
#include "catch.h"
#include "delay_draws.h"
#include "pipeline_runs.h"

namespace batchless::training {
namespace {

using analysis::DelayCompensation;
using analysis::DelayModel;
using analysis::GeometricDelays;
using analysis::UniformDelays;
using hwmodel::WeightVersions;

constexpr std::int64_t kSamples = 48;
constexpr DelayCompensation kCompensations[] = {DelayCompensation::kMean, DelayCompensation::kOwn};
// Standard deviations of a frequency that a correct one passes but once in two millions.
constexpr double kFrequencyDeviations = 5;

TrainerOptions RandomDelays(const DelayModel& delays, const char* rule,
                            DelayCompensation compensation) {
  TrainerOptions options = Options("lenet5", kSamples);
  options.schedule = {};
  options.random_delays = delays;
  options.compensation = compensation;
  options.rule.rule = analysis::FindRule(rule);
  options.learning_rate.base = 1e-3;
  options.momentum = 0.9;
  return options;
}

Outcome Run(const TrainerOptions& options) { return Train(options, kSamples); }

TEST_CASE("Random delays that are all alike are the uniform delay bit for bit", "[random delay]") {
  for (const std::int64_t delay : {0, 3}) {
    for (const char* rule : {"sgdm", "sc", "lwp-v+sc", "lwp-w+sc", "msnag"}) {
      INFO(rule << ", delay " << delay);
      TrainerOptions uniform = RandomDelays({}, rule, DelayCompensation::kMean);
      uniform.random_delays.reset();
      uniform.schedule = {.weights = WeightVersions::kStashed, .forward_lag = delay};
      const Outcome expected = Run(uniform);
      for (const DelayCompensation compensation : kCompensations) {
        CHECK(Run(RandomDelays(UniformDelays(delay, delay), rule, compensation)) == expected);
      }
    }
  }
}

TEST_CASE("Random delays train to the same bits with any workers, and from what was saved",
          "[random delay]") {
  for (const DelayCompensation compensation : kCompensations) {
    TrainerOptions options = RandomDelays(UniformDelays(0, 4), "lwp-v+sc", compensation);
    options.batch = 2;
    const Outcome expected = Run(options);
    for (const int workers : {2, 3}) {
      options.workers = workers;
      CHECK(Run(options) == expected);
    }
    CHECK(TrainInHalves(options, kSamples / 2, kSamples, /*workers=*/1) == expected);
    // Other draws are another run.
    options.random_delays = UniformDelays(0, 5);
    CHECK(Run(options).weights != expected.weights);
  }
  CHECK(Run(RandomDelays(UniformDelays(0, 4), "sc", DelayCompensation::kOwn)).weights !=
        Run(RandomDelays(UniformDelays(0, 4), "sc", DelayCompensation::kMean)).weights);
}

TEST_CASE("What random delays keep in memory is predicted", "[random delay]") {
  const TrainerOptions options =
      RandomDelays(UniformDelays(0, 8), "lwp-w+sc", DelayCompensation::kOwn);
  const auto kept = static_cast<double>(MakeTrainer(options)->memory_bytes());
  CHECK(std::abs(static_cast<double>(PredictMemory(options).total()) - kept) < 0.1 * kept);
}

TEST_CASE("Delays are drawn as often as their distribution says", "[random delay]") {
  constexpr std::int64_t kDraws = 20'000;
  constexpr double kMomentum = 0.9;
  for (const DelayModel& model : {UniformDelays(2, 9), GeometricDelays(0.4),
                                  analysis::IndependentDelays({0, 7, 3}, {0.7, 0.1, 0.2})}) {
    const DelayDraws draws(model, 3);
    const DelayDraws other(model, 4);
    std::map<analysis::Delay, double> counts;
    std::int64_t same = 0;
    for (std::int64_t i = 0; i < kDraws; ++i) {
      const analysis::Delay delay = draws.At(128 * i);
      ++counts[delay];
      same += delay == other.At(128 * i) ? 1 : 0;
    }
    CHECK(same < kDraws * 3 / 4);
    const analysis::DelayCoefficients own = analysis::CoefficientsOf(
        {{analysis::FindRule("sc"), {}}, kMomentum, model, DelayCompensation::kOwn});
    CHECK_FALSE(own.same_update);
    double drawn = 0;
    double drawn_b = 0;
    double mean_b = 0;
    for (std::size_t i = 0; i < model.delays.size(); ++i) {
      const double p = model.shares[i];
      const double count = counts[model.delays[i]];
      INFO("delay " << model.delays[i]);
      CHECK(std::abs(count - p * kDraws) <= kFrequencyDeviations * std::sqrt(kDraws * p * (1 - p)));
      drawn += count;
      drawn_b += count / kDraws * own.each[i].b;
      mean_b +=
          p * (1 - std::pow(kMomentum, static_cast<double>(model.delays[i]))) / (1 - kMomentum);
    }
    CHECK(drawn == kDraws);  // and none of another delay
    // b is from 0 to 1 / (1 - m), so its variance is below a quarter of that squared.
    CHECK(std::abs(drawn_b - mean_b) <=
          kFrequencyDeviations * 0.5 / (1 - kMomentum) / std::sqrt(kDraws));
  }
}

TEST_CASE("What random delays do not go with is refused by name", "[random delay]") {
  const auto why = [](auto change) {
    TrainerOptions options = RandomDelays(UniformDelays(0, 4), "sc", DelayCompensation::kOwn);
    change(options);
    const std::string line = WhyNot(options);
    return line.substr(0, line.find(','));
  };
  CHECK(why([](TrainerOptions& /*o*/) {}).empty());
  CHECK(why([](TrainerOptions& o) {
          o.random_delays = analysis::TraceDelays({1, 2});
        }) == "delays: got a trace");
  CHECK(why([](TrainerOptions& o) { o.random_delays = DelayModel{}; }) == "delays: got 0 shares");
  CHECK(why([](TrainerOptions& o) { o.schedule.forward_lag = 2; }) ==
        "schedule: got delays of its own");
  CHECK(why([](TrainerOptions& o) { o.schedule = PbOf(o.network); }) ==
        "schedule: got delays of its own");
  CHECK(why([](TrainerOptions& o) { o.rule.rule = analysis::FindRule("spectrain"); }) ==
        "rule: got spectrain");
  CHECK(why([](TrainerOptions& o) { o.optimizer.optimizer = FindOptimizer("adam"); }) ==
        "compensate: got own");
  CHECK(why([](TrainerOptions& o) {
          o.optimizer.optimizer = FindOptimizer("adam");
          o.rule.rule = analysis::FindRule("lwp-v");
        }).empty());
  CHECK(why([](TrainerOptions& o) {
          o.rule.rule = analysis::FindRule("sgdm");
          o.optimizer.optimizer = FindOptimizer("linear");
          o.optimizer.by_delay[0] = analysis::LinearSpec({1}, {1, -1});
        }) == "optimizer: got linear");
  CHECK(why([](TrainerOptions& o) {
          o.rule.rule = analysis::FindRule("sgdm");
          o.optimizer.optimizer = FindOptimizer("pipemare");
        }) == "schedule: got random delays");
}

}  // namespace
}  // namespace batchless::training
