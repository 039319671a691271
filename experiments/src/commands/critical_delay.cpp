#include <cmath>
#include <optional>
#include <vector>

#include "batchless/analysis/continuous.h"
#include "commands/commands.h"
#include "rule_arguments.h"

namespace batchless {
namespace {

constexpr NumberRange kPlantDampingRange{analysis::kMinDamping, analysis::kMaxDamping};

// One point: a damping (none: first order) and, for the discrete rule, a delay in updates.
struct CriticalDelayPoint {
  analysis::ContinuousOptions options;
  std::optional<analysis::Delay> delay;
  double critical = 0;
  double limit = 0;

  double relative_distance() const { return std::abs(critical / limit - 1); }
};

class CriticalDelayCommand final : public Command {
 public:
  explicit CriticalDelayCommand(CLI::App& root)
      : Command(
            root, "critical-delay", "Longest stable delay in the limit of small rates, and near it",
            R"(Units of time as in `continuous`. With --delays also the discrete rules': D h at the
step h where a delay of D updates stops being stable, which tends to the limit as
1 / D, and how far it is from it. A discrete rule without such a step has none, in JSON null.
The limit itself has no delay in updates, in CSV 0, in JSON null.
)" + ListHelp(),
            {"critical-delay --rule sgdm --damping 0.5",
             "critical-delay --rule sgdm --delays 1,10,100,1000 --json",
             "critical-delay --rule sgdm,sc,lwp-w+sc --damping log:0.1:10:40 --out edge.csv"}) {}

  void Run() override {
    std::vector<std::optional<analysis::Delay>> delays = {std::nullopt};
    if (delays_.given()) {
      for (const std::int64_t delay : delays_.IntegerList({1, 100'000})) {
        delays.emplace_back(delay);
      }
    }
    const std::vector<double> dampings = damping_.NumberListOr("1", kPlantDampingRange);
    const std::vector<analysis::RuleSpec> rules = rule_.All();
    std::vector<CriticalDelayPoint> points;
    for (const auto& [rule, damping, delay] :
         Combinations("--damping, --delays", rules, dampings, delays)) {
      CriticalDelayPoint& point = points.emplace_back();
      point.options.rule = rule;
      point.options.damping = damping;
      point.options.first_order = !damping_.given();
      point.delay = delay;
      analysis::Validate(point.options);
    }
    TableOutput table(out_);
    const auto find = [&](std::size_t i) {
      CriticalDelayPoint& point = points[i];
      point.limit = analysis::CriticalDelayTime(point.options);
      point.critical = point.delay
                           ? analysis::DiscreteCriticalDelayTime(point.options, *point.delay)
                           : point.limit;
    };
    ParallelRows(points.size(), ThreadsOf(threads_), find, monitor());
    const auto row = [&](std::size_t i) -> Json {
      const CriticalDelayPoint& point = points[i];
      return {{"rule", point.options.rule.rule.name},
              {"damping", point.options.first_order ? Json() : Json(point.options.damping)},
              {"delay", OrNull(point.delay)},
              {"critical_delay_time", point.critical},
              {"relative_distance", point.relative_distance()},
              {"horizon_scale", point.options.rule.options.horizon_scale},
              {"sc_delay_scale", point.options.rule.options.sc_delay_scale}};
    };
    Json about = Json::object();
    if (points.size() == 1) about["critical_delay_time"] = points[0].critical;
    table.Report(json(), about,
                 "rule,damping,delay,critical_delay_time,relative_distance,horizon_scale,"
                 "sc_delay_scale",
                 points.size(), row, [&](std::size_t i) {
                   Json cells = row(i);
                   // The limit has no delay in updates; in CSV that is 0.
                   cells["delay"] = points[i].delay.value_or(0);
                   return cells;
                 });
  }

 private:
  RuleArguments rule_{app(), RuleArguments::Form::kLists, RuleArguments::Rules::kOfMomentum};
  Argument damping_{app(), "--damping", "LIST", "(1 - m) / sqrt(eta); without it no momentum"};
  Argument delays_{app(), "--delays", "LIST", "Delays in updates of the discrete rules"};
  Argument out_{app(), "--out", "F.csv", "Write the rows to this file"};
  Argument threads_{app(), "--threads", "N", "Threads (default: 0, every processor)"};
};

}  // namespace

const CommandMaker kCriticalDelayCommand = MakeCommand<CriticalDelayCommand>;

}  // namespace batchless
