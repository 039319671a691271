#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "batchless/analysis/limit.h"
#include "batchless/analysis/rates.h"
#include "batchless/analysis/worst_case.h"
#include "commands/commands.h"
#include "delays_argument.h"
#include "parallel_rows.h"
#include "rule_arguments.h"
#include "table_output.h"

namespace batchless {
namespace {

using analysis::OptimumOptions;

struct BestPoint {
  double momentum = 0, rate = 0, half_life_updates = 0;
  analysis::SpectralRadius on_quadratics;
  double half_life_on_quadratics = 0;    // the best there is
  std::optional<double> certified_rate;  // where it is the best over convex functions
};

BestPoint Find(const OptimumOptions& point, bool convex) {
  const analysis::Optimum quadratic = analysis::FindOptimum(point);
  if (!convex) {
    return {quadratic.momentum,          quadratic.rate,
            quadratic.half_life_updates, quadratic.worst,
            quadratic.half_life_updates, std::nullopt};
  }
  const analysis::WorstCaseOptimum found = analysis::FindWorstCaseOptimum(point, quadratic);
  return {found.momentum,
          found.rate,
          found.worst.half_life_updates,
          found.worst.quadratic,
          quadratic.half_life_updates,
          found.worst.rate};
}

constexpr NumberRange kVaryingConditionRange{1, analysis::kMaxVaryingCondition};

double LimitHalfLife(const OptimumOptions& point) {
  return analysis::LimitOfLinearRules(point.delay, point.condition).half_life_updates;
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
    if (delays_.given()) {
      RunVarying();
      return;
    }
    const std::vector<OptimumOptions> points = Points();
    const bool convex = IsConvex(over_);
    for (const OptimumOptions& point : points) {
      convex ? analysis::ValidateWorstCase(point) : analysis::Validate(point);
    }
    TableOutput table(out_);
    std::vector<BestPoint> optima(points.size());
    ParallelRows(points.size(), threads_,
                 [&](std::size_t i) { optima[i] = Find(points[i], convex); });

    const auto row = [&](std::size_t i) { return Describe(points[i], optima[i]); };
    std::string columns =
        "rule,delay,condition,horizon,sc_delay,sc_a,sc_b,half_life_updates,momentum,rate,"
        "spectral_radius,error_bound,limit_half_life_updates,times_limit";
    if (convex) columns += ",certified_rate,price,waiting_half_life_updates";
    if (table.ReportPoints(json(), columns, points.size(), row)) {
      PrintPoint(points[0], optima[0]);
    }
  }

 private:
  std::vector<std::optional<double>> Momenta(const std::vector<analysis::RuleSpec>& rules) const {
    std::vector<std::optional<double>> momenta = {std::nullopt};
    if (!HaveNoMomentum(rules, momentum_) && momentum_.given()) {
      const std::vector<double> values = momentum_.NumberList(kMomentumRange);
      momenta.assign(values.begin(), values.end());
    }
    return momenta;
  }

  std::vector<OptimumOptions> Points() const {
    const std::vector<analysis::RuleSpec> rules = rule_.All();
    const std::vector<std::int64_t> delays = delay_.IntegerList(kDelayRange);
    const std::vector<double> conditions = condition_.NumberList(kConditionRange);
    const std::vector<std::optional<double>> momenta = Momenta(rules);
    CheckRows({rules.size(), delays.size(), conditions.size(), momenta.size()},
              "--delay, --condition, --momentum");
    std::vector<OptimumOptions> points;
    for (const analysis::RuleSpec& rule : rules) {
      for (const std::int64_t delay : delays) {
        for (const double condition : conditions) {
          if (rule.is_linear()) {
            points.push_back({rule, delay, condition, std::nullopt});
            continue;
          }
          for (const std::optional<double>& momentum : momenta) {
            points.push_back({rule, delay, condition, momentum});
          }
        }
      }
    }
    return points;
  }

  struct VaryingPoint {
    analysis::VaryingDelay point;
    double condition;
    std::optional<double> momentum;
  };

  std::vector<VaryingPoint> VaryingPoints() const {
    const std::vector<analysis::RuleSpec> rules = rule_.All();
    const std::vector<double> conditions = condition_.NumberList(kVaryingConditionRange);
    const std::vector<std::optional<double>> momenta = Momenta(rules);
    CheckRows({rules.size(), conditions.size(), momenta.size()}, "--rule, --condition, --momentum");
    std::vector<VaryingPoint> points;
    for (analysis::VaryingDelay& point : batchless::VaryingPoints(rules, delay_, delays_)) {
      for (const double condition : conditions) {
        for (const std::optional<double>& momentum : momenta) {
          const bool linear = point.rule.is_linear();
          point.momentum = linear ? std::numeric_limits<double>::quiet_NaN() : momentum.value_or(0);
          analysis::Validate(point);
          points.push_back({point, condition, linear ? std::nullopt : momentum});
          if (linear) break;
        }
      }
    }
    return points;
  }

  void RunVarying() {
    over_.Refuse("nothing together with --delays");
    const std::vector<VaryingPoint> points = VaryingPoints();
    TableOutput table(out_);
    std::vector<analysis::VaryingOptimum> optima(points.size());
    ParallelRows(points.size(), threads_, [&](std::size_t i) {
      optima[i] = analysis::FindOptimum(points[i].point, points[i].condition, points[i].momentum);
    });
    const auto row = [&](std::size_t i) {
      Json cells = batchless::Describe(points[i].point, delays_);
      cells["momentum"] = optima[i].momentum;
      cells["condition"] = points[i].condition;
      cells["half_life_updates"] = optima[i].half_life_updates;
      cells["rate"] = optima[i].rate;
      cells["spectral_radius"] = optima[i].radius;
      return cells;
    };
    const std::string columns =
        fmt::format("{},condition,half_life_updates,rate,spectral_radius", kVaryingColumns);
    if (!table.ReportPoints(json(), columns, points.size(), row)) return;
    PrintText("{}, condition {}\n", RuleText(points[0].point, delays_), points[0].condition);
    if (std::isnan(optima[0].half_life_updates)) {
      const std::optional<double> momentum = points[0].momentum;
      if (momentum) PrintText("  momentum         {}\n", *momentum);
      PrintText("  no rate is stable{}\n", momentum ? " at this momentum" : "");
      return;
    }
    PrintText("  half-life        {} updates\n", optima[0].half_life_updates);
    if (!points[0].point.rule.is_linear()) {
      PrintText("  momentum         {}\n", optima[0].momentum);
    }
    PrintText("  rate             {}\n", optima[0].rate);
    PrintText("  spectral radius  {}\n", optima[0].radius);
  }

  static double Price(const BestPoint& best) {
    return best.half_life_updates / best.half_life_on_quadratics;
  }
  static double Waiting(const OptimumOptions& point) {
    return analysis::TripleMomentumHalfLife(point.delay, point.condition);
  }

  static Json Describe(const OptimumOptions& point, const BestPoint& best) {
    Json row = DescribeRule(point.rule, point.delay);
    row["condition"] = point.condition;
    row["half_life_updates"] = best.half_life_updates;
    row["momentum"] = best.momentum;
    row["rate"] = best.rate;
    row["spectral_radius"] = best.on_quadratics.radius;
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

  static void PrintPoint(const OptimumOptions& point, const BestPoint& best) {
    PrintText("{}, delay {}, condition {}{}\n", point.rule.rule.name, point.delay, point.condition,
              best.certified_rate ? ", every convex function" : "");
    if (std::isnan(best.half_life_updates)) {
      if (point.momentum) PrintText("  momentum         {}\n", *point.momentum);
      PrintText("  no rate is {}{}\n", best.certified_rate ? "certified" : "stable",
                point.momentum ? " at this momentum" : "");
      return;
    }
    PrintText("  half-life        {} updates\n", best.half_life_updates);
    // Without a spread of curvatures rule and limit are both at rest after an update.
    if (point.condition > 1) {
      PrintText("  times the limit  {:.4g}, which is {} updates\n",
                best.half_life_updates / LimitHalfLife(point), LimitHalfLife(point));
    }
    if (best.certified_rate && point.condition > 1) {
      PrintText("  price            {:.4g} times the best half-life on quadratics\n", Price(best));
      PrintText("  waiting          {} updates\n", Waiting(point));
    }
    if (!point.rule.is_linear()) {
      PrintText("  momentum         {}\n", best.momentum);
    }
    PrintText("  rate             {}\n", best.rate);
    PrintText("  spectral radius  {} +- {:.2g}{}\n", best.on_quadratics.radius,
              best.on_quadratics.error_bound, best.certified_rate ? " on quadratics" : "");
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
