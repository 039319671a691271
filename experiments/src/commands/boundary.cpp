#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "batchless/analysis/boundary_curve.h"
#include "batchless/analysis/stability.h"
#include "commands/commands.h"
#include "rule_arguments.h"

namespace batchless {
namespace {

class BoundaryCommand final : public Command {
 public:
  explicit BoundaryCommand(CLI::App& root)
      : Command(
            root, "boundary", "Critical rate: the end of the rates that are stable",
            R"(Every rate eta * lambda in (0, critical_rate) is stable. Where rates of up to 1e6 are, it
is inf, in JSON null with "unlimited": true.
--trace momentum follows the edge of one rule and delay between the least and the
largest --momentum, with the angle at which a root leaves the unit circle, radians an
update, and every corner as two points next to one another, certified point by point.
)" + ListHelp() +
                DelaysHelp(),
            {"boundary --rule sgdm --delay 4 --momentum 0",
             "boundary --rule sgdm,sc --delay 0,1,2,4 --momentum log1m:-3:0:50 --out edge.csv",
             "boundary --rule sc --delay 4 --trace momentum --momentum 0,0.9999",
             "boundary --rule sgdm,sc --delays geometric:0.3 --momentum 0.9 --json"}) {}

  void Run() override {
    if (trace_.given()) {
      RunTrace();
      return;
    }
    const char* const lists = delays_.given() ? "--rule, --momentum" : "--delay, --momentum";
    const std::vector<RulePoint> points = points_.All(1, lists, &delays_);
    const std::string columns = fmt::format(
        "{},critical_rate",
        delays_.given() ? kVaryingColumns : "rule,delay,momentum,horizon,sc_delay,sc_a,sc_b");
    ReportPoints(
        out_, ThreadsOf(threads_), columns, points,
        [](const RulePoint& p) {
          return p.varying ? analysis::CriticalRate(p.AtVaryingDelays())
                           : analysis::CriticalRate(p.rule, p.momentum, p.delay);
        },
        [](const RulePoint& p, double critical) {
          Json cells = Describe(p);
          cells["critical_rate"] = critical;
          cells["unlimited"] = std::isinf(critical);
          return cells;
        },
        [](const RulePoint& p, double critical) {
          PrintText("{}: critical rate {}\n", PointText(p), critical);
        });
  }

 private:
  void RunTrace() {
    constexpr std::array<std::string_view, 1> kTraced = {"momentum"};
    trace_.Choice(kTraced);
    threads_.Refuse("nothing together with --trace");
    if (delays_.given())
      throw UsageError("--delays", delays_.text(), "nothing together with --trace");
    const std::vector<RulePoint> points = points_.All(1, "--delay, --momentum");
    const auto by_momentum = [](const RulePoint& a, const RulePoint& b) {
      return a.momentum < b.momentum;
    };
    const RulePoint& least = *std::min_element(points.begin(), points.end(), by_momentum);
    const RulePoint& largest = *std::max_element(points.begin(), points.end(), by_momentum);
    const auto curves = std::count_if(points.begin(), points.end(), [&](const RulePoint& point) {
      return !by_momentum(least, point);
    });
    RefuseIf(curves != 1, trace_.name(), fmt::format("momentum for {} rules or delays", curves),
             "one rule at one delay");
    TableOutput table(out_);
    const std::vector<analysis::BoundaryPoint> edge = analysis::TraceBoundary(
        least.rule, least.delay,
        {.least_momentum = least.momentum, .largest_momentum = largest.momentum});
    table.Report(json(), {{"rule", least.rule.rule.name}, {"delay", least.delay}},
                 "momentum,critical_rate,frequency", edge.size(), [&](std::size_t i) {
                   const analysis::BoundaryPoint& point = edge[i];
                   return Json{{"momentum", point.momentum},
                               {"critical_rate", point.critical_rate},
                               {"frequency", FiniteOrNull(point.frequency)},
                               {"corner", point.is_corner}};
                 });
  }

  RulePointArguments points_{app(), RuleArguments::Form::kLists};
  DelaysArguments delays_{app()};
  Argument trace_{app(), "--trace", "momentum",
                  "Follow the edge in place of a row for each momentum"};
  Argument out_{app(), "--out", "F.csv", "Write the rows to this file"};
  Argument threads_{app(), "--threads", "N", "Threads (default: 0, every processor)"};
};

}  // namespace

const CommandMaker kBoundaryCommand = MakeCommand<BoundaryCommand>;

}  // namespace batchless
