#include "batchless/analysis/noise.h"

#include <cmath>

#include "commands/commands.h"
#include "rule_arguments.h"
#include "values.h"

namespace batchless {
namespace {

constexpr NumberRange kAverageRange{analysis::kMinAverage, analysis::kMaxAverage};

class NoiseCommand final : public Command {
 public:
  explicit NoiseCommand(CLI::App& root)
      : Command(
            root, "noise", "Stationary variance of the weight when gradients carry noise",
            "Every gradient carries independent noise of variance sigma^2. The variance is in\n"
            "units of eta^2 sigma^2; multiplied by rate^2 it is in units of (sigma / lambda)^2.\n"
            "With --average it is that of the running mean wbar' = wbar + (w - wbar) / K. Where\n"
            "the rule is not stable there is none, in JSON null.\n" +
                ListHelp() + DelaysHelp(),
            {"noise --rule sgdm --delay 4 --momentum 0.9 --rate 0.005",
             "noise --rule lwp-w+sc --delay 4 --momentum 0.98 --rate 0.01 --json",
             "noise --rule sc --delay 4 --momentum 0.9 --rate 0.01 --average 100",
             "noise --rule sc --delays uniform:0:8 --compensate own --momentum 0.9 --rate 0.01"}) {}

  void Run() override {
    const RulePoint point = point_.Single({0, analysis::kMaxNoiseDelay}, &delays_);
    const double rate = rate_.Number(kRateRange);
    if (point.varying) average_.Refuse("nothing together with --delays");
    const double average = average_.NumberOr(analysis::kMinAverage, kAverageRange);
    const double variance = point.varying ? analysis::WeightVariance(point.AtVaryingDelays(), rate)
                                          : analysis::WeightVariance(point.rule, point.momentum,
                                                                     point.delay, rate, average);
    const bool stable = !std::isnan(variance);
    if (json()) {
      Json object = Describe(point);
      object["rate"] = rate;
      object["average"] = average;
      object["stable"] = stable;
      object["weight_variance"] = variance;
      object["weight_variance_by_curvature"] = variance * rate * rate;
      json().Put(object);
      return;
    }
    PrintText("{}, rate {}: {}\n", PointText(point), rate,
              stable ? "stable" : "not stable, the variance grows without end");
    if (stable) {
      PrintText("  variance of the weight  {} eta^2 sigma^2\n", variance);
      PrintText("                          {} (sigma / lambda)^2\n", variance * rate * rate);
    }
  }

 private:
  RulePointArguments point_{app(), RuleArguments::Form::kSingle};
  Argument rate_{app(), "--rate", "X", "Normalised rate eta * lambda, required"};
  DelaysArguments delays_{app()};
  Argument average_{app(), "--average", "K", "Length of the average in updates (default: 1, none)"};
};

}  // namespace

const CommandMaker kNoiseCommand = MakeCommand<NoiseCommand>;

}  // namespace batchless
