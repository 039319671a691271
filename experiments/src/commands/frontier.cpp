#include "batchless/analysis/frontier.h"

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "commands/commands.h"
#include "rule_arguments.h"

namespace batchless {
namespace {

// One curve: a late rule, or the better of two rules without delay that wait.
struct FrontierCurve {
  std::string method;
  std::vector<analysis::RuleSpec> rules;
  analysis::FrontierOptions options;  // but for the rule
  analysis::Delay delay = 0;
  bool mini_batch = false;
};

struct BestOfRules {
  analysis::FrontierPoint point{.loss = std::numeric_limits<double>::quiet_NaN()};
  std::string_view rule;  // whose point it is
};

std::vector<BestOfRules> Solve(const FrontierCurve& curve) {
  analysis::FrontierOptions options = curve.options;
  std::vector<BestOfRules> best(options.half_lives.size());
  for (const analysis::RuleSpec& spec : curve.rules) {
    options.rule = spec;
    const std::vector<analysis::FrontierPoint> points =
        curve.mini_batch ? analysis::MiniBatchFrontier(options) : analysis::Frontier(options);
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double least = best[i].point.loss;
      if (std::isnan(least) || points[i].loss < least) best[i] = {points[i], spec.rule.name};
    }
  }
  return best;
}

class FrontierCommand final : public Command {
 public:
  explicit FrontierCommand(CLI::App& root)
      : Command(
            root, "frontier", "Least stationary loss at a given half-life, against waiting",
            "For each half-life in steps (samples that enter the pipeline) the least mean loss\n"
            "lambda / 2 var(w) over a spectrum of condition number K, 17 curvatures from 1/K to 1\n"
            "with even logarithms, in units of sigma^2 / lambda_max, over momentum and rate\n"
            "(linear: rate). Beside the rules:\n"
            "  wait        no delay, D + 1 gradients averaged every D + 1 steps\n"
            "  mini-batch  no delay, N gradients every N + D steps, the best N of 1, 4, ..., 1024\n"
            "  undelayed   no delay and no waiting, which no pipeline can have\n"
            "These run SGDM or Nesterov's momentum, the better one, which column rule names;\n"
            "column gradients_per_update is N.\n"
            "With --average the loss is that of a running mean of the weights whose half-life is "
            "the same.\n"
            "A loss that no rate reaches is left empty.\n" +
                ListHelp(),
            {"frontier --rule sgdm,lwp-w+sc --delay 4 --condition 1000 --half-lives log:60:2000:5",
             "frontier --rule lwp-v+sc --delay 4 --condition 1000 --half-lives 200 --average "
             "--json"}) {}

  void Run() override {
    analysis::FrontierOptions common;
    const std::vector<analysis::RuleSpec> rules = rule_.All();
    const std::vector<std::int64_t> delays = delay_.IntegerList({0, analysis::kMaxFrontierDelay});
    common.condition = condition_.Number(kConditionRange);
    common.half_lives = half_lives_.NumberList({1e-3, analysis::kMaxFrontierHalfLife});
    common.average = average_.given();
    CheckRows({rules.size() + 3, delays.size(), common.half_lives.size()}, "--delay, --half-lives");
    TableOutput table(out_);
    const std::vector<FrontierCurve> curves = Curves(rules, delays, common);
    const auto solved = Solved(ThreadsOf(threads_), curves, Solve);
    const std::size_t half_lives = common.half_lives.size();
    table.Report(json(), {{"condition", common.condition}, {"average", common.average}},
                 "method,delay,condition,average,half_life_updates,loss,momentum,rate,"
                 "horizon,sc_delay,sc_a,sc_b,rule,gradients_per_update",
                 curves.size() * half_lives, [&](std::size_t i) -> Json {
                   const FrontierCurve& curve = curves[i / half_lives];
                   const auto& [point, rule] = solved[i / half_lives][i % half_lives];
                   Json cells = {{"method", curve.method},
                                 {"delay", curve.delay},
                                 {"half_life_updates", point.half_life},
                                 {"loss", point.loss},
                                 {"momentum", point.momentum},
                                 {"rate", point.rate},
                                 {"gradients_per_update", point.gradients_per_update}};
                   if (curve.rules.size() == 1) {
                     cells.update(DescribeRule(curve.rules[0], curve.delay));
                   } else {
                     cells["rule"] = std::isnan(point.loss) ? Json() : Json(rule);
                   }
                   return cells;
                 });
  }

 private:
  static std::vector<FrontierCurve> Curves(const std::vector<analysis::RuleSpec>& rules,
                                           const std::vector<std::int64_t>& delays,
                                           const analysis::FrontierOptions& common) {
    std::vector<FrontierCurve> curves;
    for (const std::int64_t delay : delays) {
      for (const analysis::RuleSpec& rule : rules) {
        FrontierCurve curve{std::string(rule.rule.name), {rule}, common, delay};
        curve.options.delay = delay;
        curves.push_back(curve);
      }
      FrontierCurve base{"undelayed",
                         {{analysis::FindRule("sgdm"), {}}, {analysis::FindRule("nesterov"), {}}},
                         common,
                         delay};
      curves.push_back(base);
      base.method = "wait";
      base.options.steps_per_update = static_cast<double>(delay) + 1;
      base.options.gradients_per_update = base.options.steps_per_update;
      curves.push_back(base);
      base.method = "mini-batch";
      base.options.delay = delay;
      base.mini_batch = true;
      curves.push_back(base);
    }
    return curves;
  }

  RuleArguments rule_{app(), RuleArguments::Form::kLists};
  Argument delay_{app(), "--delay", "LIST", "Delays of the gradient in updates, required"};
  Argument condition_{app(), "--condition", "K", "Condition number, required"};
  Argument half_lives_{app(), "--half-lives", "LIST", "Half-lives in steps, required"};
  Argument out_{app(), "--out", "F.csv", "Write the rows to this file"};
  Argument threads_{app(), "--threads", "N", "Threads (default: 0, every processor)"};
  Flag average_{app(), "--average", "Average the iterates"};
};

}  // namespace

const CommandMaker kFrontierCommand = MakeCommand<FrontierCommand>;

}  // namespace batchless
