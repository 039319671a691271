#include "batchless/analysis/worst_case.h"

#include <cmath>
#include <vector>

#include "commands/commands.h"
#include "rule_arguments.h"

namespace batchless {
namespace {

using analysis::WorstCase;
using analysis::WorstCasePoint;

class WorstCaseCommand final : public Command {
 public:
  explicit WorstCaseCommand(CLI::App& root)
      : Command(
            root, "worst-case", "Certified rate for every smooth strongly convex function",
            R"(For every mu-strongly convex and L-smooth function of any dimension the distance from
its minimum falls as rate^i, X = eta * L, K = L / mu. The certificate is a multiplier
of 8 taps on either side, -8 to -1 and 1 to 8, proven at all frequencies; JSON and CSV
call X learning_rate. Where nothing is certified, some function may not converge, or
these multipliers do not show that all do: rate and half-life are nan, in JSON null.
Quadratics alone give the spectral radius beside it. Lists give one row for each
combination.
)" + ListHelp(),
            {"worst-case --rule nesterov --delay 0 --momentum 0.8182 --rate 1 --condition 100",
             "worst-case --rule lwp-w+sc --delay 1 --momentum 0.886 --rate 0.327 --condition 100 "
             "--json",
             "worst-case --rule sgdm,sc --delay 0,1 --momentum 0.9 --rate log:1e-3:1:20 "
             "--condition 100 --out w.csv"}) {}

  void Run() override {
    const std::vector<double> rates = rate_.NumberList(kRateRange);
    const std::vector<double> conditions = condition_.NumberList(kConditionRange);
    constexpr const char* kLists = "--delay, --momentum, --rate, --condition";
    const std::vector<RulePoint> at = points_.All(rates.size() * conditions.size(), kLists);
    std::vector<WorstCasePoint> points;
    for (const auto& [p, rate, condition] : Combinations(kLists, at, rates, conditions)) {
      points.push_back({p.rule, p.momentum, p.delay, rate, condition});
      analysis::Validate(points.back());
    }
    ReportPoints(out_, ThreadsOf(threads_),
                 "rule,delay,horizon,sc_delay,sc_a,sc_b,momentum,learning_rate,condition,rate,"
                 "half_life_updates,quadratic_spectral_radius,multiplier_taps",
                 points, analysis::CertifyWorstCase, Describe, PrintPoint);
  }

 private:
  static RulePoint At(const WorstCasePoint& point) {
    return {point.rule, point.delay, point.momentum};
  }

  static Json Describe(const WorstCasePoint& point, const WorstCase& worst) {
    Json row = batchless::Describe(At(point));
    row["learning_rate"] = point.rate;
    row["condition"] = point.condition;
    row["rate"] = worst.rate;
    row["half_life_updates"] = worst.half_life_updates;
    row["quadratic_spectral_radius"] = worst.quadratic.radius;
    row["multiplier_taps"] = std::isnan(worst.rate) ? Json() : Json(worst.taps);
    return row;
  }

  static void PrintPoint(const WorstCasePoint& point, const WorstCase& worst) {
    PrintText("{}, rate {}, condition {}: {}\n", PointText(At(point)), point.rate, point.condition,
              std::isnan(worst.rate) ? "nothing is certified" : "certified");
    if (!std::isnan(worst.rate)) {
      PrintText("  rate             {}\n", worst.rate);
      PrintText("  half-life        {} updates\n", worst.half_life_updates);
    }
    PrintText("  on quadratics    {} +- {:.2g}\n", worst.quadratic.radius,
              worst.quadratic.error_bound);
    if (worst.quadratic.stable()) {
      PrintText("                   {} updates\n", worst.quadratic.half_life_updates());
    }
  }

  RulePointArguments points_{app(), RuleArguments::Form::kLists};
  Argument rate_{app(), "--rate", "LIST", "Normalised rates eta * L, required"};
  Argument condition_{app(), "--condition", "LIST", "Condition numbers L / mu, required"};
  Argument out_{app(), "--out", "F.csv", "Write the rows to this file"};
  Argument threads_{app(), "--threads", "N", "Threads (default: 0, every processor)"};
};

}  // namespace

const CommandMaker kWorstCaseCommand = MakeCommand<WorstCaseCommand>;

}  // namespace batchless
