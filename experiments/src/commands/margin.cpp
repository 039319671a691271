#include "batchless/analysis/stability.h"
#include "commands/commands.h"
#include "rule_arguments.h"

namespace batchless {
namespace {

class MarginCommand final : public Command {
 public:
  explicit MarginCommand(CLI::App& root)
      : Command(root, "margin", "Gain, phase and delay margins of a rule at one point",
                "gain margin    factor by which the rate may grow before it is unstable\n"
                "phase margin   least phase lag that makes it unstable\n"
                "delay margin   extra delay that makes it unstable, coefficients held\n"
                "A margin without limit is null in JSON. At a point that is not stable there is\n"
                "but the gain margin, below 1, and perhaps a shorter delay that is stable; what\n"
                "there is not is null in JSON.",
                {"margin --rule sgdm --delay 4 --momentum 0.9 --rate 0.01",
                 "margin --rule lwp-w+sc --delay 4 --momentum 0.9 --rate 0.01 --json"}),
        rule_(app(), RuleArguments::Form::kSingle),
        delay_(app(), "--delay", "D", "Delay of the gradient in updates, required"),
        momentum_(app(), "--momentum", "M", "Momentum from 0 to 1, required"),
        rate_(app(), "--rate", "X", "Normalised rate eta * lambda, required") {}

  void Run() override {
    const analysis::RuleSpec spec = rule_.Single();
    const analysis::Delay delay = delay_.Integer(kDelayRange);
    const double momentum = momentum_.Number(kMomentumRange);
    const double rate = rate_.Number(kRateRange);
    const analysis::Margins margins = analysis::ComputeMargins(spec, momentum, delay, rate);
    if (json()) {
      Json object = DescribeRule(spec, delay);
      object["momentum"] = momentum;
      object["rate"] = rate;
      object["stable"] = margins.stable;
      object["gain_margin"] = margins.gain_margin;
      const auto if_stable = [&](double value) { return margins.stable ? Json(value) : Json(); };
      object["phase_margin_radians"] = if_stable(margins.phase_margin_radians);
      object["delay_margin_updates"] = if_stable(margins.delay_margin_updates);
      const analysis::Delay largest = margins.largest_stable_delay;
      object["largest_stable_delay"] = largest < 0 ? Json() : Json(largest);
      object["gain_crossover_radians"] = if_stable(margins.gain_crossover_radians);
      PrintJson(object);
      return;
    }
    TextOutput output;
    output.Print("{}, delay {}, momentum {}, rate {}: {}\n", spec.rule.name, delay, momentum, rate,
                 margins.stable ? "stable" : "not stable");
    output.Print("  gain margin           {}\n", margins.gain_margin);
    if (!margins.stable) {
      output.Print("  phase margin          none\n");
      output.Print("  delay margin          none\n");
    } else {
      output.Print("  phase margin          {} radians\n", margins.phase_margin_radians);
      output.Print("  delay margin          {} updates\n", margins.delay_margin_updates);
    }
    if (margins.largest_stable_delay < 0) {
      output.Print("  largest stable delay  none\n");
    } else {
      output.Print("  largest stable delay  {} updates\n", margins.largest_stable_delay);
    }
    if (margins.stable) {
      output.Print("  gain crossover        {} radians per update\n",
                   margins.gain_crossover_radians);
    }
    output.Close();
  }

 private:
  RuleArguments rule_;
  Argument delay_;
  Argument momentum_;
  Argument rate_;
};

}  // namespace

std::unique_ptr<Command> MakeMarginCommand(CLI::App& root) {
  return std::make_unique<MarginCommand>(root);
}

}  // namespace batchless
