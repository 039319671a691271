#include <tuple>
#include <vector>

#include "batchless/analysis/stability.h"
#include "commands/commands.h"
#include "rule_arguments.h"

namespace batchless {
namespace {

class MarginCommand final : public Command {
 public:
  explicit MarginCommand(CLI::App& root)
      : Command(
            root, "margin", "Gain, phase and delay margins of a rule",
            "gain margin    factor by which the rate may grow before it is unstable\n"
            "phase margin   least phase lag that makes it unstable\n"
            "delay margin   extra delay that makes it unstable, coefficients held\n"
            "A margin without limit is null in JSON; rates of up to 1e6 and delays of up to 1e7\n"
            "are looked at. At a point that is not stable there is but the gain margin, below 1,\n"
            "and perhaps a shorter delay that is stable; what there is not is null in JSON, empty\n"
            "in CSV.\n" +
                ListHelp(),
            {"margin --rule sgdm --delay 4 --momentum 0.9 --rate 0.01",
             "margin --rule lwp-w+sc --delay 4 --momentum 0.9 --rate 0.01 --json",
             "margin --rule sgdm,sc --delay 4 --momentum 0.9 --rate log:1e-4:0.1:30 --out m.csv"}) {
  }

  void Run() override {
    const std::vector<double> rates = rate_.NumberList(kRateRange);
    constexpr const char* kLists = "--delay, --momentum, --rate";
    const std::vector<RulePoint> rules = points_.All(rates.size(), kLists);
    const std::vector<Point> points = Combinations(kLists, rules, rates);
    TableOutput table(out_);
    const auto margins = Solved(ThreadsOf(threads_), points, [](const Point& point) {
      const auto& [at, rate] = point;
      return analysis::ComputeMargins(at.rule, at.momentum, at.delay, rate);
    });
    const auto row = [&](std::size_t i) { return Describe(points[i], margins[i]); };
    constexpr std::string_view kColumns =
        "rule,delay,momentum,rate,gain_margin,phase_margin_radians,delay_margin_updates,"
        "stable,largest_stable_delay,gain_crossover_radians,horizon,sc_delay,sc_a,sc_b";
    if (points.size() == 1) {
      if (table.has_file()) table.Write(kColumns, 1, row);
      json() ? json().Put(row(0)) : ReportText(points[0], margins[0]);
    } else {
      table.Report(json(), Json::object(), kColumns, points.size(), row);
    }
  }

 private:
  // A rule at a delay and a momentum, and the rate.
  using Point = std::tuple<const RulePoint&, const double&>;

  static Json Describe(const Point& point, const analysis::Margins& margins) {
    const auto& [at, rate] = point;
    Json object = batchless::Describe(at);
    object["rate"] = rate;
    object["stable"] = margins.stable;
    object["gain_margin"] = margins.gain_margin;
    const auto if_stable = [&](double value) { return margins.stable ? Json(value) : Json(); };
    object["phase_margin_radians"] = if_stable(margins.phase_margin_radians);
    object["delay_margin_updates"] = if_stable(margins.delay_margin_updates);
    const analysis::Delay largest = margins.largest_stable_delay;
    object["largest_stable_delay"] = largest < 0 ? Json() : Json(largest);
    object["gain_crossover_radians"] = if_stable(margins.gain_crossover_radians);
    return object;
  }

  static void ReportText(const Point& point, const analysis::Margins& margins) {
    const auto& [at, rate] = point;
    PrintText("{}, rate {}: {}\n", PointText(at), rate, margins.stable ? "stable" : "not stable");
    PrintText("  gain margin           {}\n", margins.gain_margin);
    const auto print = [](std::string_view name, bool is_there, auto value, std::string_view unit) {
      PrintText("  {:<21} {}\n", name, is_there ? fmt::format("{} {}", value, unit) : "none");
    };
    print("phase margin", margins.stable, margins.phase_margin_radians, "radians");
    print("delay margin", margins.stable, margins.delay_margin_updates, "updates");
    print("largest stable delay", margins.largest_stable_delay >= 0, margins.largest_stable_delay,
          "updates");
    if (margins.stable) {
      PrintText("  gain crossover        {} radians per update\n", margins.gain_crossover_radians);
    }
  }

  RulePointArguments points_{app(), RuleArguments::Form::kLists};
  Argument rate_{app(), "--rate", "LIST", "Normalised rates eta * lambda, required"};
  Argument out_{app(), "--out", "F.csv", "Write the rows to this file"};
  Argument threads_{app(), "--threads", "N", "Threads (default: 0, every processor)"};
};

}  // namespace

const CommandMaker kMarginCommand = MakeCommand<MarginCommand>;

}  // namespace batchless
