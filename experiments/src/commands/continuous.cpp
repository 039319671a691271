#include "batchless/analysis/continuous.h"

#include <complex>
#include <numbers>

#include "commands/commands.h"
#include "rule_arguments.h"
#include "values.h"

namespace batchless {
namespace {

class ContinuousCommand final : public Command {
 public:
  explicit ContinuousCommand(CLI::App& root)
      : Command(
            root, "continuous", "Limit of small rates: a rule as a delay differential equation",
            R"(On a curvature of 1. With --damping c an update takes the time h = sqrt(eta), with
momentum 1 - c h and delay tau / h; without it the rule is sgdm without momentum and
an update takes eta. Any curvature: time over sqrt(lambda) and c sqrt(lambda), without
momentum time over lambda. The rightmost root s says how errors decay, as e^{s t}.
With --out the trajectory from a weight that was constant before time 0.
)",
            {"continuous --rule sgdm --delay-time 1.2",
             "continuous --rule lwp-w+sc --damping 1 --delay-time 0.4 --json",
             "continuous --rule sc --damping 0.5 --delay-time 0.8 --duration 30 --out c.csv"}) {}

  void Run() override {
    analysis::ContinuousOptions options;
    options.rule = rule_.Single();
    options.first_order = !damping_.given();
    options.damping = damping_.NumberOr(1, {analysis::kMinDamping, analysis::kMaxDamping});
    options.delay_time = delay_time_.Number({0, analysis::kMaxDelayTime});
    options.duration = duration_.NumberOr(options.duration, {1e-6, analysis::kMaxDuration});
    options.steps_per_delay = static_cast<int>(
        steps_.IntegerOr(options.steps_per_delay, {1, analysis::kMaxStepsPerDelay}));
    options.initial_weight = initial_weight_.NumberOr(1, {-1e100, 1e100});
    if (out_.given()) analysis::ValidateTrajectory(options);
    TableOutput table(out_);
    const std::complex<double> root = analysis::RightmostRoot(options);
    const double critical = analysis::CriticalDelayTime(options);
    const bool stable = root.real() < 0;
    if (table.has_file()) {
      const auto points = analysis::SolveContinuous(options);
      table.Write("time,weight,velocity", points.size(), [&](std::size_t i) -> Json {
        return {{"time", points[i].time},
                {"weight", FiniteOrNull(points[i].weight)},
                {"velocity", FiniteOrNull(points[i].velocity)}};
      });
    }
    if (json()) {
      json().Put({{"rule", options.rule.rule.name},
                  {"damping", options.first_order ? Json() : Json(options.damping)},
                  {"delay_time", options.delay_time},
                  {"stable", stable},
                  {"rightmost_root_real", root.real()},
                  {"rightmost_root_imag", root.imag()},
                  {"half_life_time", stable ? Json(-std::numbers::ln2 / root.real()) : Json()},
                  {"critical_delay_time", critical}});
      return;
    }
    PrintText("{}, delay {}: {}\n", options.rule.rule.name, options.delay_time,
              stable ? "stable" : "not stable");
    PrintText("  rightmost root  {} +- {} i\n", root.real(), root.imag());
    PrintText("  critical delay  {}\n", critical);
  }

 private:
  RuleArguments rule_{app(), RuleArguments::Form::kSingle, RuleArguments::Rules::kOfMomentum};
  Argument damping_{app(), "--damping", "C",
                    "(1 - m) / sqrt(eta); without it there is no momentum"};
  Argument delay_time_{app(), "--delay-time", "TAU", "Delay in units of time, required"};
  Argument duration_{app(), "--duration", "T", "Length of the trajectory (default: 50)"};
  Argument steps_{app(), "--steps-per-delay", "N",
                  "Steps of the solution in a delay (default: 32)"};
  Argument initial_weight_{app(), "--initial-weight", "W", "Weight to start from (default: 1)"};
  Argument out_{app(), "--out", "F.csv", "Write the trajectory to this file"};
};

}  // namespace

const CommandMaker kContinuousCommand = MakeCommand<ContinuousCommand>;

}  // namespace batchless
