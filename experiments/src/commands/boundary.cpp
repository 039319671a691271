#include <cmath>
#include <vector>

#include "batchless/analysis/stability.h"
#include "commands/commands.h"
#include "parallel_rows.h"
#include "rule_arguments.h"
#include "table_output.h"

namespace batchless {
namespace {

struct Point {
  analysis::RuleSpec rule;
  analysis::Delay delay;
  double momentum;
};

class BoundaryCommand final : public Command {
 public:
  explicit BoundaryCommand(CLI::App& root)
      : Command(
            root, "boundary", "Critical rate: the end of the rates that are stable",
            "Every rate eta * lambda in (0, critical_rate) is stable. Where there is no limit the\n"
            "critical rate is inf, in JSON null with \"unlimited\": true.\n" +
                ListHelp(),
            {"boundary --rule sgdm --delay 4 --momentum 0",
             "boundary --rule sgdm,sc --delay 0,1,2,4 --momentum log1m:-3:0:50 --out edge.csv"}),
        rule_(app(), RuleArguments::Form::kLists),
        delay_(app(), "--delay", "LIST", "Delays of the gradient in updates, required"),
        momentum_(app(), "--momentum", "LIST", "Momenta from 0 to 1, required; none with linear"),
        out_(app(), "--out", "F.csv", "Write the rows to this file"),
        threads_(app(), "--threads", "N", "Threads (default: 0, every processor)") {}

  void Run() override {
    std::vector<Point> points;
    const std::vector<analysis::RuleSpec> rules = rule_.All();
    const std::vector<std::int64_t> delays = delay_.IntegerList(kDelayRange);
    const bool no_momentum = HaveNoMomentum(rules, momentum_);
    const std::vector<double> none = {std::nan("")};
    const std::vector<double> momenta = no_momentum ? none : momentum_.NumberList(kMomentumRange);
    CheckRows(static_cast<double>(rules.size()) * static_cast<double>(delays.size()) *
                  static_cast<double>(momenta.size()),
              "--delay, --momentum");
    for (const analysis::RuleSpec& rule : rules) {
      for (const std::int64_t delay : delays) {
        for (const double momentum : rule.is_linear() ? none : momenta)
          points.push_back({rule, delay, momentum});
      }
    }
    const auto threads = static_cast<int>(threads_.IntegerOr(0, kThreadRange));
    TableOutput table(out_);
    std::vector<double> critical(points.size());
    ParallelRows(points.size(), threads, [&](std::size_t i) {
      critical[i] = analysis::CriticalRate(points[i].rule, points[i].momentum, points[i].delay);
    });

    if (table.has_file() || (!json() && points.size() > 1)) {
      table.Write([&](TextOutput& output) { PrintCsv(output, points, critical); });
    }
    if (json()) {
      Json object = points.size() == 1 ? Row(points[0], critical[0]) : Json::object();
      object["rows"] = Json::array();
      for (std::size_t i = 0; i < points.size(); ++i) {
        object["rows"].push_back(Row(points[i], critical[i]));
      }
      PrintJson(object);
    } else if (points.size() == 1) {
      TextOutput output;
      output.Print("{}: critical rate {}\n",
                   PointText(points[0].rule, points[0].delay, points[0].momentum), critical[0]);
      output.Close();
    }
  }

 private:
  static Json Row(const Point& point, double critical_rate) {
    Json row = DescribeRule(point.rule, point.delay);
    row["momentum"] = point.momentum;
    row["critical_rate"] = critical_rate;
    row["unlimited"] = std::isinf(critical_rate);
    return row;
  }

  static void PrintCsv(TextOutput& output, const std::vector<Point>& points,
                       const std::vector<double>& critical) {
    output.Print("rule,delay,momentum,horizon,sc_delay,sc_a,sc_b,critical_rate\n");
    for (std::size_t i = 0; i < points.size(); ++i) {
      const EffectiveOptions effective = Effective(points[i].rule, points[i].delay);
      const analysis::RuleOptions& options = points[i].rule.options;
      output.Print("{},{},{},{},{},{},{},{}\n", points[i].rule.rule.name, points[i].delay,
                   points[i].momentum, effective.horizon, CsvText(effective.sc_delay),
                   CsvText(options.sc_a), CsvText(options.sc_b), critical[i]);
    }
  }

  RuleArguments rule_;
  Argument delay_;
  Argument momentum_;
  Argument out_;
  Argument threads_;
};

}  // namespace

std::unique_ptr<Command> MakeBoundaryCommand(CLI::App& root) {
  return std::make_unique<BoundaryCommand>(root);
}

}  // namespace batchless
