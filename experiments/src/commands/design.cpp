#include "batchless/analysis/design.h"

#include <optional>
#include <string>
#include <vector>

#include "batchless/analysis/limit.h"
#include "batchless/analysis/stability.h"
#include "batchless/analysis/worst_case.h"
#include "commands/commands.h"
#include "rule_arguments.h"

namespace batchless {
namespace {

using analysis::Design;
using analysis::DesignOptions;

constexpr IntegerRange kOrderRange{analysis::kMinDesignOrder, analysis::kMaxDesignOrder};
constexpr IntegerRange kWorstCaseOrderRange{analysis::kMinDesignOrder,
                                            analysis::kMaxWorstCaseOrder};
constexpr NumberRange kNoiseRange{0, analysis::kMaxDesignNoise, analysis::kWhyMaxDesignNoise};
constexpr int kDefaultOrder = 3;

double LimitHalfLife(const DesignOptions& point) {
  return analysis::LimitOfLinearRules(point.delay, point.condition).half_life_updates;
}

class DesignCommand final : public Command {
 public:
  explicit DesignCommand(CLI::App& root)
      : Command(root, "design", "The fastest linear rule of an order, all coefficients free",
                R"(w(z) = -N(z)/D(z) g(z) for a learning rate and a largest curvature of 1, as
--rule linear takes it. Order 2 is two leads, real or complex, on a momentum; order P
from 3 on has P poles, one of them at 1, and P - 1 zeros. The half-life holds for every
curvature in [1/K, 1]; the rule is the best one found, not proven to be the best.
The loss is what white noise in the gradients adds to the objective, a mean over 33
curvatures from 1/K to 1 with even logarithms; batchless frontier takes 17 of them. A rule
near its margins has much of it at the largest one. Margins are those there.
Training takes the rows of --json as optimizer.file (batchless optimizers); with
--momentum their rules move under a constant gradient as SGDM with that momentum does.
With --over convex the half-life is certified for every smooth strongly convex
function, see batchless worst-case --help, and waiting is what D + 1 interleaved
copies of the triple momentum method take. Orders are 2 to 5 then; minutes for 5.
Lists give one row for each combination.
)" + ListHelp(),
                {"design --delay 4 --condition 1000 --order 3",
                 "design --delay 1,2 --condition 100 --order 2,3 --json",
                 "design --delay 1 --condition 100 --order 2 --over convex"}) {}

  void Run() override {
    const bool convex = IsConvex(over_);
    const std::vector<std::int64_t> delays = delay_.IntegerList({0, analysis::kMaxDesignDelay});
    const std::vector<double> conditions =
        condition_.NumberList({analysis::kMinDesignCondition, analysis::kMaxDesignCondition});
    const std::vector<std::int64_t> orders =
        order_.IntegerListOr(kDefaultOrder, convex ? kWorstCaseOrderRange : kOrderRange);
    if (convex) noise_.Refuse("nothing together with --over convex");
    const std::vector<double> noises = noise_.NumberListOr("0", kNoiseRange);
    std::vector<DesignOptions> points;
    for (const auto& [delay, condition, order, noise] : Combinations(
             "--delay, --condition, --order, --noise", delays, conditions, orders, noises)) {
      points.push_back({delay, condition, static_cast<int>(order), noise});
    }
    const std::optional<double> drift =
        momentum_.given() ? std::optional(1 / (1 - momentum_.Number({0, 1 - 1e-9}))) : std::nullopt;
    std::string columns =
        "delay,condition,order,noise,half_life_updates,half_life_error_updates,"
        "limit_half_life_updates,times_limit,stationary_loss,gain_margin,"
        "phase_margin_radians,delay_margin_updates,learning_rate,numerator,"
        "denominator";
    if (convex) columns += ",certified_rate,waiting_half_life_updates";
    ReportPoints(
        out_, ThreadsOf(threads_), columns, points,
        [&](const DesignOptions& point) {
          Found found = convex ? ForWorstCase(point) : Found{analysis::DesignRule(point)};
          if (drift) found.learning_rate = found.design.drift() / *drift;
          return found;
        },
        Describe, PrintPoint);
  }

 private:
  struct Found {
    Design design;
    // For every convex function. The half-life is then the certified one, which has no error.
    std::optional<double> certified_rate{};
    // 1, or where the drift is the one that --momentum asks for.
    std::optional<double> learning_rate{};

    std::vector<double> numerator() const {
      std::vector<double> scaled = design.numerator;
      for (double& coefficient : scaled) coefficient /= learning_rate.value_or(1);
      return scaled;
    }
  };

  static Found ForWorstCase(const DesignOptions& point) {
    const analysis::WorstCaseDesign found =
        analysis::DesignForWorstCase(point.delay, point.condition, point.order);
    Design design;
    design.numerator = found.numerator;
    design.denominator = found.denominator;
    design.worst = found.worst.quadratic;
    design.half_life_updates = found.worst.half_life_updates;
    design.stationary_loss = analysis::MeanStationaryLoss(design.numerator, design.denominator,
                                                          point.delay, point.condition);
    return {design, found.worst.rate};
  }

  static double Waiting(const DesignOptions& point) {
    return analysis::TripleMomentumHalfLife(point.delay, point.condition);
  }

  // At the largest curvature, where gains and lags are.
  static analysis::Margins MarginsOf(const DesignOptions& point, const Design& design) {
    return analysis::ComputeMargins(analysis::LinearSpec(design.numerator, design.denominator), 0,
                                    point.delay, 1);
  }

  static Json Describe(const DesignOptions& point, const Found& found) {
    const Design& design = found.design;
    const analysis::Margins margins = MarginsOf(point, design);
    Json row = {{"delay", point.delay},
                {"condition", point.condition},
                {"order", point.order},
                {"noise", point.noise},
                {"half_life_updates", design.half_life_updates},
                {"half_life_error_updates", design.half_life_error_updates},
                {"spectral_radius", design.worst.radius},
                {"error_bound", design.worst.error_bound},
                {"limit_half_life_updates", LimitHalfLife(point)},
                {"times_limit", design.half_life_updates / LimitHalfLife(point)},
                {"stationary_loss", design.stationary_loss},
                {"gain_margin", margins.gain_margin},
                {"phase_margin_radians", margins.phase_margin_radians},
                {"delay_margin_updates", margins.delay_margin_updates},
                {"learning_rate", found.learning_rate.value_or(1)},
                {"numerator", found.numerator()},
                {"denominator", design.denominator}};
    if (found.certified_rate) {
      row["certified_rate"] = *found.certified_rate;
      row["waiting_half_life_updates"] = Waiting(point);
    }
    return row;
  }

  static void PrintPoint(const DesignOptions& point, const Found& found) {
    const Design& design = found.design;
    PrintText("delay {}, condition {}, order {}\n", point.delay, point.condition, point.order);
    if (found.certified_rate) {
      PrintText("  half-life        {} updates for every convex function\n",
                design.half_life_updates);
      PrintText("  waiting          {} updates\n", Waiting(point));
    } else {
      PrintText("  half-life        {} +- {:.2g} updates\n", design.half_life_updates,
                design.half_life_error_updates);
    }
    PrintText("  times the limit  {:.4g}, which is {} updates\n",
              design.half_life_updates / LimitHalfLife(point), LimitHalfLife(point));
    PrintText("  stationary loss  {:.4g} times the variance of the gradients' noise\n",
              design.stationary_loss);
    const analysis::Margins margins = MarginsOf(point, design);
    PrintText("  margins          {:.4g} in gain, {:.4g} radians, {:.4g} updates of delay\n",
              margins.gain_margin, margins.phase_margin_radians, margins.delay_margin_updates);
    if (found.learning_rate) {
      PrintText("  learning rate    {} over the largest curvature\n", *found.learning_rate);
    }
    PrintText("  --numerator      {}\n", fmt::join(found.numerator(), ","));
    PrintText("  --denominator    {}\n", fmt::join(design.denominator, ","));
  }

  Argument delay_{app(), "--delay", "LIST", "Delays of the gradient in updates, required"};
  Argument condition_{app(), "--condition", "LIST", "Condition numbers, required"};
  Argument order_{app(), "--order", "LIST", "Orders of the rule (default: 3)"};
  Argument noise_{app(), "--noise", "LIST",
                  "Weight S of the noise, up to 0.9: least half-life times loss^S; from 1 on\n"
                  "ever slower rules cost ever less (default: 0)"};
  Argument momentum_{
      app(), "--momentum", "M",
      "Scale numerators to the drift of SGDM with it; the half-life is at learning_rate"};
  Argument over_{app(), "--over", "FUNCTIONS", kOverHelp};
  Argument out_{app(), "--out", "F.csv", "Write the rows to this file"};
  Argument threads_{app(), "--threads", "N", "Threads (default: 0, every processor)"};
};

}  // namespace

const CommandMaker kDesignCommand = MakeCommand<DesignCommand>;

}  // namespace batchless
