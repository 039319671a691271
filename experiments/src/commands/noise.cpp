#include "batchless/analysis/noise.h"

#include <cmath>

#include "commands/commands.h"
#include "rule_arguments.h"
#include "values.h"

namespace batchless {
namespace {

constexpr IntegerRange kNoiseDelayRange{0, analysis::kMaxNoiseDelay};
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
                ListHelp(),
            {"noise --rule sgdm --delay 4 --momentum 0.9 --rate 0.005",
             "noise --rule lwp-w+sc --delay 4 --momentum 0.98 --rate 0.01 --json",
             "noise --rule sc --delay 4 --momentum 0.9 --rate 0.01 --average 100"}),
        rule_(app(), RuleArguments::Form::kSingle),
        delay_(app(), "--delay", "D", "Delay of the gradient in updates, required"),
        momentum_(app(), "--momentum", "M", "Momentum from 0 to 1, required; none with linear"),
        rate_(app(), "--rate", "X", "Normalised rate eta * lambda, required"),
        average_(app(), "--average", "K", "Length of the average in updates (default: 1, none)") {}

  void Run() override {
    const analysis::RuleSpec spec = rule_.Single();
    const analysis::Delay delay = delay_.Integer(kNoiseDelayRange);
    const double momentum = MomentumOf(spec, momentum_);
    const double rate = rate_.Number(kRateRange);
    const double average = average_.NumberOr(analysis::kMinAverage, kAverageRange);
    const double variance = analysis::WeightVariance(spec, momentum, delay, rate, average);
    const bool stable = !std::isnan(variance);
    if (json()) {
      Json object = DescribeRule(spec, delay);
      object["momentum"] = momentum;
      object["rate"] = rate;
      object["average"] = average;
      object["stable"] = stable;
      object["weight_variance"] = variance;
      object["weight_variance_by_curvature"] = variance * rate * rate;
      PrintJson(object);
      return;
    }
    TextOutput output;
    output.Print("{}, rate {}: {}\n", PointText(spec, delay, momentum), rate,
                 stable ? "stable" : "not stable, the variance grows without end");
    if (stable) {
      output.Print("  variance of the weight  {} eta^2 sigma^2\n", variance);
      output.Print("                          {} (sigma / lambda)^2\n", variance * rate * rate);
    }
    output.Close();
  }

 private:
  RuleArguments rule_;
  Argument delay_;
  Argument momentum_;
  Argument rate_;
  Argument average_;
};

}  // namespace

std::unique_ptr<Command> MakeNoiseCommand(CLI::App& root) {
  return std::make_unique<NoiseCommand>(root);
}

}  // namespace batchless
