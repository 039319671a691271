#include "batchless/analysis/frontier.h"

#include <cmath>
#include <string>
#include <vector>

#include "commands/commands.h"
#include "parallel_rows.h"
#include "rule_arguments.h"
#include "table_output.h"
#include "usage_error.h"

namespace batchless {
namespace {

constexpr IntegerRange kFrontierDelayRange{0, analysis::kMaxFrontierDelay};
constexpr NumberRange kConditionRange{1, 1e12};
constexpr NumberRange kHalfLifeRange{1e-3, analysis::kMaxFrontierHalfLife};

// One curve: a late rule, or the better of two rules without delay that wait.
struct Curve {
  std::string method;
  analysis::FrontierOptions options;
  analysis::Delay delay = 0;
  bool mini_batch = false;
  bool waits = false;
};

std::vector<analysis::FrontierPoint> Solve(const Curve& curve) {
  const auto solve = [&](const analysis::FrontierOptions& options) {
    return curve.mini_batch ? analysis::MiniBatchFrontier(options) : analysis::Frontier(options);
  };
  std::vector<analysis::FrontierPoint> best = solve(curve.options);
  if (!curve.waits) return best;
  analysis::FrontierOptions other = curve.options;
  other.rule = analysis::RuleSpec{analysis::FindRule("nesterov"), {}};
  const std::vector<analysis::FrontierPoint> points = solve(other);
  for (std::size_t i = 0; i < best.size(); ++i) {
    if (std::isnan(best[i].loss) || points[i].loss < best[i].loss) best[i] = points[i];
  }
  return best;
}

class FrontierCommand final : public Command {
 public:
  explicit FrontierCommand(CLI::App& root)
      : Command(
            root, "frontier", "Least stationary loss at a given half-life, against waiting",
            "For each half-life in steps (samples that enter the pipeline) the least mean loss\n"
            "lambda / 2 var(w) over a spectrum of condition number K, in units of\n"
            "sigma^2 / lambda_max, over momentum and rate. Beside the rules:\n"
            "  wait        no delay, D + 1 gradients averaged every D + 1 steps\n"
            "  mini-batch  no delay, N gradients every N + D steps, the best N of 1, 4, ..., 1024\n"
            "  undelayed   no delay and no waiting, which no pipeline can have\n"
            "These run the better of SGDM and Nesterov's momentum. With --average the loss is that "
            "of a running mean of the weights\n"
            "whose half-life is the same. A loss that no rate reaches is left empty.\n" +
                ListHelp(),
            {"frontier --rule sgdm,lwp-w+sc --delay 4 --condition 1000 --half-lives log:60:2000:5",
             "frontier --rule lwp-v+sc --delay 4 --condition 1000 --half-lives 200 --average "
             "--json"}),
        rule_(app(), RuleArguments::Form::kLists),
        delay_(app(), "--delay", "LIST", "Delays of the gradient in updates, required"),
        condition_(app(), "--condition", "K", "Condition number, required"),
        half_lives_(app(), "--half-lives", "LIST", "Half-lives in steps, required"),
        out_(app(), "--out", "F.csv", "Write the rows to this file"),
        threads_(app(), "--threads", "N", "Threads (default: 0, every processor)"),
        average_(app(), "--average", "Average the iterates") {}

  void Run() override {
    analysis::FrontierOptions common;
    const std::vector<analysis::RuleSpec> rules = rule_.All();
    for (const analysis::RuleSpec& rule : rules) analysis::RefuseLinear(rule);
    const std::vector<std::int64_t> delays = delay_.IntegerList(kFrontierDelayRange);
    common.condition = condition_.Number(kConditionRange);
    common.half_lives = half_lives_.NumberList(kHalfLifeRange);
    common.average = average_.given();
    const auto threads = static_cast<int>(threads_.IntegerOr(0, kThreadRange));
    CheckRows(static_cast<double>(rules.size() + 3) * static_cast<double>(delays.size()) *
                  static_cast<double>(common.half_lives.size()),
              "--delay, --half-lives");
    TableOutput table(out_);
    const std::vector<Curve> curves = Curves(rules, delays, common);
    std::vector<std::vector<analysis::FrontierPoint>> points(curves.size());
    ParallelRows(curves.size(), threads, [&](std::size_t i) { points[i] = Solve(curves[i]); });
    if (table.has_file() || !json()) {
      table.Write([&](TextOutput& output) { PrintCsv(output, curves, points); });
    }
    if (json()) Report(curves, points);
  }

 private:
  static std::vector<Curve> Curves(const std::vector<analysis::RuleSpec>& rules,
                                   const std::vector<std::int64_t>& delays,
                                   const analysis::FrontierOptions& common) {
    std::vector<Curve> curves;
    for (const std::int64_t delay : delays) {
      for (const analysis::RuleSpec& rule : rules) {
        Curve curve{std::string(rule.rule.name), common, delay, false, false};
        curve.options.rule = rule;
        curve.options.delay = delay;
        curves.push_back(curve);
      }
      Curve base{"undelayed", common, delay, false, true};
      base.options.rule = analysis::RuleSpec{analysis::FindRule("sgdm"), {}};
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

  static void PrintCsv(TextOutput& output, const std::vector<Curve>& curves,
                       const std::vector<std::vector<analysis::FrontierPoint>>& points) {
    const auto field = [](double value) {
      return std::isnan(value) ? std::string() : fmt::format("{}", value);
    };
    output.Print("method,delay,condition,average,half_life_updates,loss,momentum,rate\n");
    for (std::size_t i = 0; i < curves.size(); ++i) {
      for (const analysis::FrontierPoint& point : points[i]) {
        output.Print("{},{},{},{},{},{},{},{}\n", curves[i].method, curves[i].delay,
                     curves[i].options.condition, curves[i].options.average ? 1 : 0,
                     point.half_life, field(point.loss), field(point.momentum), field(point.rate));
      }
    }
  }

  static void Report(const std::vector<Curve>& curves,
                     const std::vector<std::vector<analysis::FrontierPoint>>& points) {
    Json object;
    object["condition"] = curves[0].options.condition;
    object["average"] = curves[0].options.average;
    object["rows"] = Json::array();
    for (std::size_t i = 0; i < curves.size(); ++i) {
      for (const analysis::FrontierPoint& point : points[i]) {
        Json row;
        row["method"] = curves[i].method;
        row["delay"] = curves[i].delay;
        row["half_life_updates"] = point.half_life;
        row["loss"] = point.loss;
        row["momentum"] = point.momentum;
        row["rate"] = point.rate;
        object["rows"].push_back(row);
      }
    }
    PrintJson(object);
  }

  RuleArguments rule_;
  Argument delay_;
  Argument condition_;
  Argument half_lives_;
  Argument out_;
  Argument threads_;
  Flag average_;
};

}  // namespace

std::unique_ptr<Command> MakeFrontierCommand(CLI::App& root) {
  return std::make_unique<FrontierCommand>(root);
}

}  // namespace batchless
