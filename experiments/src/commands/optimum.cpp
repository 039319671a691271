#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "batchless/analysis/limit.h"
#include "batchless/analysis/rates.h"
#include "batchless/analysis/worst_case.h"
#include "commands/commands.h"
#include "rule_arguments.h"

namespace batchless {
namespace {

using analysis::OptimumOptions;

constexpr NumberRange kVaryingConditionRange{1, analysis::kMaxVaryingCondition};

struct OptimumPoint {
  RulePoint at;
  double condition = 0;
  std::optional<double> momentum;  // held fixed

  OptimumOptions options() const { return {at.rule, at.delay, condition, momentum}; }
};

struct BestPoint {
  double momentum = 0, rate = 0, half_life_updates = 0;
  analysis::SpectralRadius on_quadratics{};
  double half_life_on_quadratics = 0;      // the best there is
  std::optional<double> certified_rate{};  // where it is the best over convex functions
};

BestPoint Find(const OptimumPoint& point, bool convex) {
  BestPoint best;
  if (point.at.varying) {
    const analysis::VaryingOptimum found =
        analysis::FindOptimum(point.at.AtVaryingDelays(), point.condition, point.momentum);
    best = {found.momentum, found.rate, found.half_life_updates};
    best.on_quadratics.radius = found.radius;
    return best;
  }
  const analysis::Optimum quadratic = analysis::FindOptimum(point.options());
  best = {quadratic.momentum, quadratic.rate, quadratic.half_life_updates, quadratic.worst,
          quadratic.half_life_updates};
  if (!convex) return best;
  const analysis::WorstCaseOptimum found =
      analysis::FindWorstCaseOptimum(point.options(), quadratic);
  return {found.momentum,
          found.rate,
          found.worst.half_life_updates,
          found.worst.quadratic,
          quadratic.half_life_updates,
          found.worst.rate};
}

double LimitHalfLife(const OptimumPoint& point) {
  return analysis::LimitOfLinearRules(point.at.delay, point.condition).half_life_updates;
}

class OptimumCommand final : public Command {
 public:
  explicit OptimumCommand(CLI::App& root)
      : Command(
            root, "optimum", "Best half-life over momentum and rate for a condition number",
            R"(The rate is eta * lambda_max; eigenvalues fill [lambda_max / K, lambda_max]. One
point is printed by itself; lists give one row for each combination, in the order
rule, options, delay, condition, momentum. An option is left out for those of the
rules that have no use for it. Where no rate is stable, with a momentum of 1 for
instance, half-life and spectral radius are empty cells, in JSON null. The limit is the
least half-life of any linear rule, see batchless limit --help.
With --over convex the half-life is the best one that is certified for every smooth strongly
convex function, see batchless worst-case --help, and the spectral radius is what quadratics
have there. The price is that half-life over the best one on quadratics; waiting is D + 1
interleaved copies of the triple momentum method.
)" + ListHelp() +
                DelaysHelp(),
            {"optimum --rule lwp-w+sc --delay 4 --condition 1000",
             "optimum --rule sgdm,sc,lwp-w+sc --delay 0,1,2,4,8 --condition 1000 --out half.csv",
             "optimum --rule sc --delay log:1:1000:8 --condition 1000 --sc-delay-scale 1,2 --json",
             "optimum --rule sc,lwp-w+sc --delay 1 --condition 100 --over convex",
             "optimum --rule sc,lwp-w+sc --delays uniform:0:8 --condition 100 --json"}) {}

  void Run() override {
    if (delays_.given()) over_.Refuse("nothing together with --delays");
    const std::vector<OptimumPoint> points = Points();
    const bool convex = IsConvex(over_);
    for (const OptimumPoint& point : points) {
      if (point.at.varying) {
        analysis::Validate(point.at.AtVaryingDelays());
      } else {
        convex ? analysis::ValidateWorstCase(point.options()) : analysis::Validate(point.options());
      }
    }
    std::string columns =
        delays_.given()
            ? fmt::format("{},condition,half_life_updates,rate,spectral_radius", kVaryingColumns)
            : "rule,delay,condition,horizon,sc_delay,sc_a,sc_b,half_life_updates,momentum,rate,"
              "spectral_radius,error_bound,limit_half_life_updates,times_limit";
    if (convex) columns += ",certified_rate,price,waiting_half_life_updates";
    ReportPoints(
        out_, ThreadsOf(threads_), columns, points,
        [&](const OptimumPoint& point) { return Find(point, convex); }, Describe, PrintPoint);
  }

 private:
  std::vector<OptimumPoint> Points() const {
    const std::vector<analysis::RuleSpec> rules = rule_.All();
    const RowDelays delays = ReadDelays(delay_, &delays_);
    const std::vector<double> conditions =
        condition_.NumberList(delays.varying ? kVaryingConditionRange : kConditionRange);
    const std::vector<std::optional<double>> none = {std::nullopt};
    std::vector<std::optional<double>> momenta = none;
    if (!HaveNoMomentum(rules, momentum_) && momentum_.given()) {
      const std::vector<double> values = momentum_.NumberList(kMomentumRange);
      momenta.assign(values.begin(), values.end());
    }
    const char* const lists =
        delays.varying ? "--rule, --condition, --momentum" : "--delay, --condition, --momentum";
    CheckRows({rules.size(), delays.each.size(), conditions.size(), momenta.size()}, lists);
    std::vector<OptimumPoint> points;
    for (const auto& [rule, delay, condition] :
         Combinations(lists, rules, delays.each, conditions)) {
      const bool linear = rule.is_linear();
      for (const std::optional<double>& momentum : linear ? none : momenta) {
        const double m = linear ? std::numeric_limits<double>::quiet_NaN() : momentum.value_or(0);
        points.push_back({{rule, delay, m, delays.varying}, condition, momentum});
      }
    }
    return points;
  }

  static double Price(const BestPoint& best) {
    return best.half_life_updates / best.half_life_on_quadratics;
  }
  static double Waiting(const OptimumPoint& point) {
    return analysis::TripleMomentumHalfLife(point.at.delay, point.condition);
  }

  static Json Describe(const OptimumPoint& point, const BestPoint& best) {
    const bool varying = point.at.varying != nullptr;
    Json row =
        varying ? batchless::Describe(point.at) : DescribeRule(point.at.rule, point.at.delay);
    row["condition"] = point.condition;
    row["half_life_updates"] = best.half_life_updates;
    row["momentum"] = best.momentum;
    row["rate"] = best.rate;
    row["spectral_radius"] = best.on_quadratics.radius;
    if (varying) return row;
    row["error_bound"] = best.on_quadratics.error_bound;
    row["limit_half_life_updates"] = LimitHalfLife(point);
    row["times_limit"] = best.half_life_updates / LimitHalfLife(point);
    if (best.certified_rate) {
      row["certified_rate"] = *best.certified_rate;
      row["price"] = Price(best);
      row["waiting_half_life_updates"] = Waiting(point);
    }
    return row;
  }

  static void PrintPoint(const OptimumPoint& point, const BestPoint& best) {
    const bool varying = point.at.varying != nullptr;
    PrintText("{}, condition {}{}\n", RuleText(point.at), point.condition,
              best.certified_rate ? ", every convex function" : "");
    if (std::isnan(best.half_life_updates)) {
      if (point.momentum) PrintText("  momentum         {}\n", *point.momentum);
      PrintText("  no rate is {}{}\n", best.certified_rate ? "certified" : "stable",
                point.momentum ? " at this momentum" : "");
      return;
    }
    PrintText("  half-life        {} updates\n", best.half_life_updates);
    // Without a spread of curvatures rule and limit are both at rest after an update.
    if (point.condition > 1 && !varying) {
      PrintText("  times the limit  {:.4g}, which is {} updates\n",
                best.half_life_updates / LimitHalfLife(point), LimitHalfLife(point));
    }
    if (best.certified_rate && point.condition > 1) {
      PrintText("  price            {:.4g} times the best half-life on quadratics\n", Price(best));
      PrintText("  waiting          {} updates\n", Waiting(point));
    }
    if (!point.at.rule.is_linear()) PrintText("  momentum         {}\n", best.momentum);
    PrintText("  rate             {}\n", best.rate);
    const std::string bound = fmt::format(" +- {:.2g}", best.on_quadratics.error_bound);
    PrintText("  spectral radius  {}{}{}\n", best.on_quadratics.radius, varying ? "" : bound,
              best.certified_rate ? " on quadratics" : "");
  }

  RuleArguments rule_{app(), RuleArguments::Form::kLists};
  Argument delay_{app(), "--delay", "LIST", "Delays of the gradient in updates, required"};
  Argument condition_{app(), "--condition", "LIST", "Condition numbers, required"};
  Argument momentum_{app(), "--momentum", "LIST", "Momenta held fixed (default: the best one)"};
  Argument over_{app(), "--over", "FUNCTIONS", kOverHelp};
  DelaysArguments delays_{app()};
  Argument out_{app(), "--out", "F.csv", "Write the rows to this file"};
  Argument threads_{app(), "--threads", "N", "Threads (default: 0, every processor)"};
};

}  // namespace

const CommandMaker kOptimumCommand = MakeCommand<OptimumCommand>;

}  // namespace batchless
