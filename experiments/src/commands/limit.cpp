#include "batchless/analysis/limit.h"

#include <tuple>
#include <vector>

#include "commands/commands.h"
#include "rule_arguments.h"

namespace batchless {
namespace {

using analysis::Limit;

// Delay and condition number.
using LimitPoint = std::tuple<const analysis::Delay&, const double&>;

class LimitCommand final : public Command {
 public:
  explicit LimitCommand(CLI::App& root)
      : Command(
            root, "limit", "Least half-life that any linear rule can have under a delay",
            "The spectral radius of a linear rule, the same for every curvature in [1, K], is at\n"
            "least ((sqrt K - 1)/(sqrt K + 1))^(1/(D + 1)). D + 1 interleaved heavy balls attain\n"
            "it: w' = w_{i-D} + m (w_{i-D} - w_{i-2D-1}) - eta g, with the momentum and the rate\n"
            "eta * lambda_max that are printed. Lists give one row for each combination.\n" +
                ListHelp(),
            {"limit --delay 4 --condition 1000",
             "limit --delay 0,1,2,4,8 --condition log:10:1e6:6 --json"}) {}

  void Run() override {
    const std::vector<std::int64_t> delays = delay_.IntegerList(kDelayRange);
    const std::vector<double> conditions = condition_.NumberList(kConditionRange);
    ReportPoints(
        out_, 1, "delay,condition,half_life_updates,spectral_radius,momentum,rate",
        Combinations("--delay, --condition", delays, conditions),
        [](const LimitPoint& point) { return std::apply(analysis::LimitOfLinearRules, point); },
        [](const LimitPoint& point, const Limit& limit) -> Json {
          return {{"delay", std::get<0>(point)},
                  {"condition", std::get<1>(point)},
                  {"half_life_updates", limit.half_life_updates},
                  {"spectral_radius", limit.spectral_radius},
                  {"momentum", limit.momentum},
                  {"rate", limit.rate}};
        },
        [](const LimitPoint& point, const Limit& limit) {
          const auto& [delay, condition] = point;
          PrintText("delay {}, condition {}: no linear rule is faster\n", delay, condition);
          PrintText("  half-life        {} updates\n", limit.half_life_updates);
          PrintText("  spectral radius  {}\n", limit.spectral_radius);
          PrintText("  attained by {} interleaved heavy balls of momentum {}, rate {}\n", delay + 1,
                    limit.momentum, limit.rate);
        });
  }

 private:
  Argument delay_{app(), "--delay", "LIST", "Delays of the gradient in updates, required"};
  Argument condition_{app(), "--condition", "LIST", "Condition numbers, required"};
  Argument out_{app(), "--out", "F.csv", "Write the rows to this file"};
};

}  // namespace

const CommandMaker kLimitCommand = MakeCommand<LimitCommand>;

}  // namespace batchless
