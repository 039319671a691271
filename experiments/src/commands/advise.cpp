#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "batchless/analysis/rates.h"
#include "batchless/analysis/stability.h"
#include "commands/commands.h"
#include "rule_arguments.h"
#include "schedule_source.h"
#include "values.h"
#include "workload_argument.h"

namespace batchless {
namespace {

using analysis::Delay;

// What a rule promises on a schedule: its best momentum and rate under the largest delay, and with
// these the largest stable rate of every stage.
struct Advice {
  std::string rule;
  analysis::Optimum largest, mean;  // best under these delays
  double momentum = 0;
  std::vector<double> critical_rates;  // by stage
};

class AdviseCommand final : public Command {
 public:
  explicit AdviseCommand(CLI::App& root)
      : Command(
            root, "advise", "Which rule to train a network with, and the largest stable rates",
            R"(The delays of the network's stages are read off the schedule's actions. Of each rule:
the best momentum and rate for the condition number at the largest delay, and the
half-lives of the slowest curvature under the largest delay and under the whole one next
to the mean: blocks that do not meet are as slow as the first, coupled ones near the
second (see pipeline-stability). Rates are learning rates times the largest eigenvalue of the
Hessian; a stage's largest stable rate takes its own block's. The rule with the least
half-life at the largest delay is named. A convex quadratic knows no noise: see
frontier where gradients are noisy.
)" + ListHelp(),
            {"advise --network resnet20 --condition 1000",
             "advise --network vgg16 --condition 100 --schedule 1f1b --rule sgdm,lwp-v+sc "
             "--json"}) {}

  void Run() override {
    const int stages = WorkloadOf(network_, int{sizeof(float)}).stage_count();
    const double condition = condition_.Number(kConditionRange);
    const std::vector<Delay> delays = ForwardTimesOf(schedule_, stages).delays;
    std::vector<analysis::RuleSpec> rules;
    if (rule_.given()) {
      for (const std::string_view name : SplitList(rule_.Text(""))) {
        const analysis::Rule& rule = analysis::FindRow(analysis::Rules(), "rule", name);
        const auto same = [&](const analysis::RuleSpec& s) { return s.rule.name == rule.name; };
        if (std::none_of(rules.begin(), rules.end(), same)) rules.push_back({rule, {}});
      }
    } else {
      for (const analysis::Rule& rule : analysis::Rules()) {
        if (rule.compensation != analysis::Compensation::kFree) rules.push_back({rule, {}});
      }
    }
    const Delay largest = *std::max_element(delays.begin(), delays.end());
    const double mean = std::accumulate(delays.begin(), delays.end(), 0.0) / stages;

    TableOutput table(out_);
    std::optional<double> momentum;
    if (momentum_.given()) momentum = momentum_.Number(kMomentumRange);
    const auto advice = Solved(0, rules, [&](const analysis::RuleSpec& rule) {
      Advice a;
      a.rule = rule.rule.name;
      a.largest = analysis::FindOptimum({rule, largest, condition, momentum});
      a.mean = analysis::FindOptimum({rule, std::llround(mean), condition, momentum});
      a.momentum = a.largest.momentum;
      for (std::size_t s = 0; s < delays.size(); ++s) {
        const bool is_known = s > 0 && delays[s] == delays[s - 1];
        a.critical_rates.push_back(is_known ? a.critical_rates.back()
                                            : analysis::CriticalRate(rule, a.momentum, delays[s]));
      }
      return a;
    });
    const auto best = static_cast<std::size_t>(
        std::min_element(advice.begin(), advice.end(),
                         [](const Advice& x, const Advice& y) { return Key(x) < Key(y); }) -
        advice.begin());
    Report(table, delays, mean, advice, advice[best]);
  }

 private:
  // A rule without a stable rate comes last.
  static double Key(const Advice& advice) {
    const double half_life = advice.largest.half_life_updates;
    return std::isnan(half_life) ? std::numeric_limits<double>::infinity() : half_life;
  }

  static double Least(const Advice& advice) {
    return *std::min_element(advice.critical_rates.begin(), advice.critical_rates.end());
  }

  void Report(TableOutput& table, const std::vector<Delay>& delays, double mean,
              const std::vector<Advice>& advice, const Advice& best) const {
    const auto stage_row = [&](std::size_t i) -> Json {
      const Advice& of_rule = advice[i / delays.size()];
      const std::size_t stage = i % delays.size();
      return {{"rule", of_rule.rule},
              {"stage", stage},
              {"delay", delays[stage]},
              {"momentum", of_rule.momentum},
              {"largest_stable_rate", of_rule.critical_rates[stage]}};
    };
    const std::size_t rows = advice.size() * delays.size();
    if (table.has_file()) {
      table.Write("rule,stage,delay,momentum,largest_stable_rate", rows, stage_row);
    }
    const Delay largest = *std::max_element(delays.begin(), delays.end());
    if (json()) {
      const auto rule_row = [&](std::size_t i) -> Json {
        const Advice& a = advice[i];
        return {{"rule", a.rule},
                {"momentum", a.momentum},
                {"rate", a.largest.rate},
                {"half_life_updates", a.largest.half_life_updates},
                {"mean_delay_half_life_updates", a.mean.half_life_updates},
                {"largest_stable_rate", Least(a)}};
      };
      json().Put({{"rule", best.rule},
                  {"stages", delays.size()},
                  {"largest_delay", largest},
                  {"mean_delay", mean},
                  {"rules", Rows(advice.size(), rule_row)},
                  {"rows", Rows(rows, stage_row)}});
      return;
    }
    if (table.has_file()) return;
    PrintText("{} stages, delays up to {} updates, {:.6g} on average: {}\n", delays.size(), largest,
              mean, best.rule);
    PrintText("  {:<10} {:>10} {:>12} {:>12} {:>12} {:>14}\n", "rule", "momentum", "rate",
              "half-life", "at the mean", "largest stable");
    for (const Advice& a : advice) {
      PrintText("  {:<10} {:>10.6g} {:>12.4g} {:>12.6g} {:>12.6g} {:>14.4g}\n", a.rule, a.momentum,
                a.largest.rate, a.largest.half_life_updates, a.mean.half_life_updates, Least(a));
    }
  }

  Argument network_{app(), "--network", "N", WorkloadHelp()};
  Argument condition_{app(), "--condition", "K", "Condition number of the Hessian, required"};
  Argument schedule_{app(), "--schedule", "NAME",
                     "A kind of `schedule`, or a list in F.csv or F.txt (default: pb)"};
  Argument rule_{app(), "--rule", "LIST", "Rules of a momentum (default: all of them)"};
  Argument momentum_{app(), "--momentum", "M", "Momentum, in place of each rule's best"};
  Argument out_{app(), "--out", "F.csv", "Write the stages' largest stable rates to this file"};
};

}  // namespace

const CommandMaker kAdviseCommand = MakeCommand<AdviseCommand>;

}  // namespace batchless
