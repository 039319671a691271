#include <cmath>
#include <vector>

#include "batchless/analysis/stability.h"
#include "commands/commands.h"
#include "delays_argument.h"
#include "parallel_rows.h"
#include "rule_arguments.h"
#include "table_output.h"

namespace batchless {
namespace {

class BoundaryCommand final : public Command {
 public:
  explicit BoundaryCommand(CLI::App& root)
      : Command(
            root, "boundary", "Critical rate: the end of the rates that are stable",
            "Every rate eta * lambda in (0, critical_rate) is stable. Where there is no limit the\n"
            "critical rate is inf, in JSON null with \"unlimited\": true.\n" +
                ListHelp() + DelaysHelp(),
            {"boundary --rule sgdm --delay 4 --momentum 0",
             "boundary --rule sgdm,sc --delay 0,1,2,4 --momentum log1m:-3:0:50 --out edge.csv",
             "boundary --rule sgdm,sc --delays geometric:0.3 --momentum 0.9 --json"}) {}

  void Run() override {
    if (delays_.given()) {
      RunVarying();
      return;
    }
    const std::vector<RulePoint> points = points_.All(1, "--delay, --momentum");
    TableOutput table(out_);
    std::vector<double> critical(points.size());
    ParallelRows(points.size(), threads_, [&](std::size_t i) {
      critical[i] = analysis::CriticalRate(points[i].rule, points[i].momentum, points[i].delay);
    });

    const auto row = [&](std::size_t i) {
      Json cells = Describe(points[i]);
      cells["critical_rate"] = critical[i];
      cells["unlimited"] = std::isinf(critical[i]);
      return cells;
    };
    if (table.ReportPoints(json(), "rule,delay,momentum,horizon,sc_delay,sc_a,sc_b,critical_rate",
                           points.size(), row)) {
      PrintText("{}: critical rate {}\n", PointText(points[0]), critical[0]);
    }
  }

 private:
  void RunVarying() {
    const std::vector<analysis::VaryingDelay> points =
        points_.Varying(RuleArguments::Form::kLists, delays_);
    TableOutput table(out_);
    std::vector<double> critical(points.size());
    ParallelRows(points.size(), threads_,
                 [&](std::size_t i) { critical[i] = analysis::CriticalRate(points[i]); });
    const auto row = [&](std::size_t i) {
      Json cells = Describe(points[i], delays_);
      cells["critical_rate"] = critical[i];
      cells["unlimited"] = std::isinf(critical[i]);
      return cells;
    };
    const std::string columns = fmt::format("{},critical_rate", kVaryingColumns);
    if (table.ReportPoints(json(), columns, points.size(), row)) {
      PrintText("{}: critical rate {}\n", PointText(points[0], delays_), critical[0]);
    }
  }

  RulePointArguments points_{app(), RuleArguments::Form::kLists};
  DelaysArguments delays_{app()};
  Argument out_{app(), "--out", "F.csv", "Write the rows to this file"};
  Argument threads_{app(), "--threads", "N", "Threads (default: 0, every processor)"};
};

}  // namespace

const CommandMaker kBoundaryCommand = MakeCommand<BoundaryCommand>;

}  // namespace batchless
