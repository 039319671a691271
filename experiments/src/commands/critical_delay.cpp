#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "batchless/analysis/continuous.h"
#include "commands/commands.h"
#include "parallel_rows.h"
#include "rule_arguments.h"
#include "table_output.h"
#include "usage_error.h"

namespace batchless {
namespace {

constexpr NumberRange kDampingRange{analysis::kMinDamping, analysis::kMaxDamping};
constexpr IntegerRange kDiscreteDelayRange{1, 100'000};

// One point: a damping (none: first order) and, for the discrete rule, a delay in updates.
struct Point {
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
            "Units of time as in `continuous`. With --delays also the discrete rules': D h at the\n"
            "step h where a delay of D updates stops being stable, which tends to the limit as\n"
            "1 / D, and how far it is from it. A discrete rule without such a step has none, in "
            "JSON null.\n" +
                ListHelp(),
            {"critical-delay --rule sgdm --damping 0.5",
             "critical-delay --rule sgdm --delays 1,10,100,1000 --json",
             "critical-delay --rule sgdm,sc,lwp-w+sc --damping log:0.1:10:40 --out edge.csv"}),
        rule_(app(), RuleArguments::Form::kLists),
        damping_(app(), "--damping", "LIST", "(1 - m) / sqrt(eta); without it no momentum"),
        delays_(app(), "--delays", "LIST", "Delays in updates of the discrete rules"),
        out_(app(), "--out", "F.csv", "Write the rows to this file"),
        threads_(app(), "--threads", "N", "Threads (default: 0, every processor)") {}

  void Run() override {
    std::vector<std::optional<analysis::Delay>> delays = {std::nullopt};
    if (delays_.given()) {
      for (const std::int64_t delay : delays_.IntegerList(kDiscreteDelayRange)) {
        delays.emplace_back(delay);
      }
    }
    std::vector<double> dampings = {1};
    if (damping_.given()) dampings = damping_.NumberList(kDampingRange);
    const std::vector<analysis::RuleSpec> rules = rule_.All();
    for (const analysis::RuleSpec& rule : rules) analysis::RefuseLinear(rule);
    CheckRows(static_cast<double>(rules.size()) * static_cast<double>(dampings.size()) *
                  static_cast<double>(delays.size()),
              "--damping, --delays");
    std::vector<Point> points;
    for (const analysis::RuleSpec& rule : rules) {
      for (const double damping : dampings) {
        Point point;
        point.options.rule = rule;
        point.options.damping = damping;
        point.options.first_order = !damping_.given();
        std::string why;
        if (!point.options.IsValid(&why)) throw UsageError::FromLine(why);
        for (const auto& delay : delays) {
          point.delay = delay;
          points.push_back(point);
        }
      }
    }
    const auto threads = static_cast<int>(threads_.IntegerOr(0, kThreadRange));
    TableOutput table(out_);
    ParallelRows(points.size(), threads, [&](std::size_t i) {
      Point& point = points[i];
      point.limit = analysis::CriticalDelayTime(point.options);
      point.critical = point.delay
                           ? analysis::DiscreteCriticalDelayTime(point.options, *point.delay)
                           : point.limit;
    });
    if (table.has_file() || !json()) {
      table.Write([&](TextOutput& output) { PrintCsv(output, points); });
    }
    if (json()) Report(points);
  }

 private:
  // The limit has no delay in updates; in CSV that is 0.
  static void PrintCsv(TextOutput& output, const std::vector<Point>& points) {
    output.Print("rule,damping,delay,critical_delay_time,relative_distance\n");
    const auto field = [](double value) {
      return std::isnan(value) ? std::string() : fmt::format("{}", value);
    };
    for (const Point& point : points) {
      const analysis::ContinuousOptions& options = point.options;
      output.Print("{},{},{},{},{}\n", options.rule.rule.name,
                   options.first_order ? std::string() : field(options.damping),
                   point.delay.value_or(0), field(point.critical),
                   field(point.relative_distance()));
    }
  }

  static void Report(const std::vector<Point>& points) {
    Json object;
    if (points.size() == 1) object["critical_delay_time"] = points[0].critical;
    object["rows"] = Json::array();
    for (const Point& point : points) {
      Json row;
      row["rule"] = point.options.rule.rule.name;
      row["damping"] = point.options.first_order ? Json() : Json(point.options.damping);
      row["delay"] = point.delay ? Json(*point.delay) : Json();
      row["critical_delay_time"] = point.critical;
      row["relative_distance"] = point.relative_distance();
      object["rows"].push_back(row);
    }
    PrintJson(object);
  }

  RuleArguments rule_;
  Argument damping_;
  Argument delays_;
  Argument out_;
  Argument threads_;
};

}  // namespace

std::unique_ptr<Command> MakeCriticalDelayCommand(CLI::App& root) {
  return std::make_unique<CriticalDelayCommand>(root);
}

}  // namespace batchless
