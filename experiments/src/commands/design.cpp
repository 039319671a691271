#include "batchless/analysis/design.h"

#include <vector>

#include "batchless/analysis/limit.h"
#include "commands/commands.h"
#include "parallel_rows.h"
#include "rule_arguments.h"
#include "table_output.h"
#include "usage_error.h"

namespace batchless {
namespace {

using analysis::Design;
using analysis::DesignOptions;

constexpr IntegerRange kDesignDelayRange{0, analysis::kMaxDesignDelay};
constexpr NumberRange kDesignConditionRange{analysis::kMinDesignCondition,
                                            analysis::kMaxDesignCondition};
constexpr IntegerRange kOrderRange{analysis::kMinDesignOrder, analysis::kMaxDesignOrder};
constexpr NumberRange kNoiseRange{0, analysis::kMaxDesignNoise};
constexpr int kDefaultOrder = 3;

double LimitHalfLife(const DesignOptions& point) {
  return analysis::LimitOfLinearRules(point.delay, point.condition).half_life_updates;
}

class DesignCommand final : public Command {
 public:
  explicit DesignCommand(CLI::App& root)
      : Command(
            root, "design", "The fastest linear rule of an order, all coefficients free",
            "w(z) = -N(z)/D(z) g(z) for a learning rate and a largest curvature of 1, as\n"
            "--rule linear takes it. Order 2 is two leads, real or complex, on a momentum; order "
            "P\n"
            "from 3 on has P poles, one of them at 1, and P - 1 zeros. The half-life holds for "
            "every\n"
            "curvature in [1/K, 1]; the rule is the best one found, not proven to be the best.\n"
            "The loss is what white noise in the gradients adds to the objective, a mean over\n"
            "curvatures with even logarithms.\n"
            "Lists give one row for each combination.\n" +
                ListHelp(),
            {"design --delay 4 --condition 1000 --order 3",
             "design --delay 1,2 --condition 100 --order 2,3 --json"}),
        delay_(app(), "--delay", "LIST", "Delays of the gradient in updates, required"),
        condition_(app(), "--condition", "LIST", "Condition numbers, required"),
        order_(app(), "--order", "LIST", "Orders of the rule (default: 3)"),
        noise_(app(), "--noise", "LIST",
               "Weight S of the noise: least half-life times loss^S (default: 0)"),
        out_(app(), "--out", "F.csv", "Write the rows to this file"),
        threads_(app(), "--threads", "N", "Threads (default: 0, every processor)") {}

  void Run() override {
    const std::vector<std::int64_t> delays = delay_.IntegerList(kDesignDelayRange);
    const std::vector<double> conditions = condition_.NumberList(kDesignConditionRange);
    const std::vector<std::int64_t> orders =
        order_.given() ? order_.IntegerList(kOrderRange) : std::vector<std::int64_t>{kDefaultOrder};
    const std::vector<double> noises = noise_.NumberListOr("0", kNoiseRange);
    CheckRows(static_cast<double>(delays.size()) * static_cast<double>(conditions.size()) *
                  static_cast<double>(orders.size()) * static_cast<double>(noises.size()),
              "--delay, --condition, --order, --noise");
    std::vector<DesignOptions> points;
    for (const std::int64_t delay : delays) {
      for (const double condition : conditions) {
        for (const std::int64_t order : orders) {
          for (const double noise : noises) {
            points.push_back({delay, condition, static_cast<int>(order), noise});
          }
        }
      }
    }
    const auto threads = static_cast<int>(threads_.IntegerOr(0, kThreadRange));
    TableOutput table(out_);
    std::vector<Design> designs(points.size());
    ParallelRows(points.size(), threads,
                 [&](std::size_t i) { designs[i] = analysis::DesignRule(points[i]); });
    if (table.has_file() || (!json() && points.size() > 1)) {
      table.Write([&](TextOutput& output) {
        output.Print(
            "delay,condition,order,noise,half_life_updates,half_life_error_updates,"
            "limit_half_life_updates,times_limit,stationary_loss,numerator,denominator\n");
        for (std::size_t i = 0; i < points.size(); ++i) {
          const double limit = LimitHalfLife(points[i]);
          output.Print("{},{},{},{},{},{},{},{},{},{},{}\n", points[i].delay, points[i].condition,
                       points[i].order, points[i].noise, designs[i].half_life_updates,
                       designs[i].half_life_error_updates, limit,
                       designs[i].half_life_updates / limit, designs[i].stationary_loss,
                       fmt::join(designs[i].numerator, " "),
                       fmt::join(designs[i].denominator, " "));
        }
      });
    }
    if (json()) {
      Json object = points.size() == 1 ? Row(points[0], designs[0]) : Json::object();
      object["rows"] = Json::array();
      for (std::size_t i = 0; i < points.size(); ++i) {
        object["rows"].push_back(Row(points[i], designs[i]));
      }
      PrintJson(object);
    } else if (points.size() == 1) {
      PrintPoint(points[0], designs[0]);
    }
  }

 private:
  static Json Row(const DesignOptions& point, const Design& design) {
    Json row;
    row["delay"] = point.delay;
    row["condition"] = point.condition;
    row["order"] = point.order;
    row["noise"] = point.noise;
    row["half_life_updates"] = design.half_life_updates;
    row["half_life_error_updates"] = design.half_life_error_updates;
    row["spectral_radius"] = design.worst.radius;
    row["error_bound"] = design.worst.error_bound;
    row["limit_half_life_updates"] = LimitHalfLife(point);
    row["times_limit"] = design.half_life_updates / LimitHalfLife(point);
    row["stationary_loss"] = design.stationary_loss;
    row["numerator"] = design.numerator;
    row["denominator"] = design.denominator;
    return row;
  }

  static void PrintPoint(const DesignOptions& point, const Design& design) {
    TextOutput output;
    output.Print("delay {}, condition {}, order {}\n", point.delay, point.condition, point.order);
    output.Print("  half-life        {} +- {:.2g} updates\n", design.half_life_updates,
                 design.half_life_error_updates);
    output.Print("  times the limit  {:.4g}, which is {} updates\n",
                 design.half_life_updates / LimitHalfLife(point), LimitHalfLife(point));
    output.Print("  stationary loss  {:.4g} times the variance of the gradients' noise\n",
                 design.stationary_loss);
    output.Print("  --numerator      {}\n", fmt::join(design.numerator, ","));
    output.Print("  --denominator    {}\n", fmt::join(design.denominator, ","));
    output.Close();
  }

  Argument delay_;
  Argument condition_;
  Argument order_;
  Argument noise_;
  Argument out_;
  Argument threads_;
};

}  // namespace

std::unique_ptr<Command> MakeDesignCommand(CLI::App& root) {
  return std::make_unique<DesignCommand>(root);
}

}  // namespace batchless
