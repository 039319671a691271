#include <cmath>
#include <vector>

#include "batchless/analysis/stability.h"
#include "commands/commands.h"
#include "parallel_rows.h"
#include "rule_arguments.h"
#include "table_output.h"

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
            "A margin without limit is null in JSON. At a point that is not stable there is\n"
            "but the gain margin, below 1, and perhaps a shorter delay that is stable; what\n"
            "there is not is null in JSON, empty in CSV.\n" +
                ListHelp(),
            {"margin --rule sgdm --delay 4 --momentum 0.9 --rate 0.01",
             "margin --rule lwp-w+sc --delay 4 --momentum 0.9 --rate 0.01 --json",
             "margin --rule sgdm,sc --delay 4 --momentum 0.9 --rate log:1e-4:0.1:30 --out m.csv"}),
        rule_(app(), RuleArguments::Form::kLists),
        delay_(app(), "--delay", "LIST", "Delays of the gradient in updates, required"),
        momentum_(app(), "--momentum", "LIST", "Momenta from 0 to 1, required; none with linear"),
        rate_(app(), "--rate", "LIST", "Normalised rates eta * lambda, required"),
        out_(app(), "--out", "F.csv", "Write the rows to this file"),
        threads_(app(), "--threads", "N", "Threads (default: 0, every processor)") {}

  void Run() override {
    std::vector<Point> points;
    const std::vector<analysis::RuleSpec> rules = rule_.All();
    const std::vector<std::int64_t> delays = delay_.IntegerList(kDelayRange);
    const bool no_momentum = HaveNoMomentum(rules, momentum_);
    const std::vector<double> none = {std::nan("")};
    const std::vector<double> momenta = no_momentum ? none : momentum_.NumberList(kMomentumRange);
    const std::vector<double> rates = rate_.NumberList(kRateRange);
    CheckRows(static_cast<double>(rules.size()) * static_cast<double>(delays.size()) *
                  static_cast<double>(momenta.size()) * static_cast<double>(rates.size()),
              "--delay, --momentum, --rate");
    for (const analysis::RuleSpec& rule : rules) {
      for (const std::int64_t delay : delays) {
        for (const double momentum : rule.is_linear() ? none : momenta) {
          for (const double rate : rates) points.push_back({rule, delay, momentum, rate, {}});
        }
      }
    }
    TableOutput table(out_);
    const auto threads = static_cast<int>(threads_.IntegerOr(0, kThreadRange));
    ParallelRows(points.size(), threads, [&](std::size_t i) {
      Point& point = points[i];
      point.margins = analysis::ComputeMargins(point.rule, point.momentum, point.delay, point.rate);
    });
    if (table.has_file() || (!json() && points.size() > 1)) {
      table.Write([&](TextOutput& output) { PrintCsv(output, points); });
    }
    if (json()) {
      Json object = points.size() == 1 ? Row(points[0]) : Json::object();
      if (points.size() > 1) {
        object["rows"] = Json::array();
        for (const Point& point : points) object["rows"].push_back(Row(point));
      }
      PrintJson(object);
    } else if (points.size() == 1) {
      PrintText(points[0]);
    }
  }

 private:
  struct Point {
    analysis::RuleSpec rule;
    analysis::Delay delay;
    double momentum;
    double rate;
    analysis::Margins margins;
  };

  static Json Row(const Point& point) {
    const analysis::Margins& margins = point.margins;
    Json object = DescribeRule(point.rule, point.delay);
    object["momentum"] = point.momentum;
    object["rate"] = point.rate;
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

  // Margins of what is not stable are empty.
  static void PrintCsv(TextOutput& output, const std::vector<Point>& points) {
    output.Print(
        "rule,delay,momentum,rate,gain_margin,phase_margin_radians,delay_margin_updates\n");
    for (const Point& point : points) {
      output.Print("{},{},{},{},{}", point.rule.rule.name, point.delay, point.momentum, point.rate,
                   point.margins.gain_margin);
      if (point.margins.stable) {
        output.Print(",{},{}\n", point.margins.phase_margin_radians,
                     point.margins.delay_margin_updates);
      } else {
        output.Print(",,\n");
      }
    }
  }

  static void PrintText(const Point& point) {
    const analysis::Margins& margins = point.margins;
    TextOutput output;
    output.Print("{}, rate {}: {}\n", PointText(point.rule, point.delay, point.momentum),
                 point.rate, margins.stable ? "stable" : "not stable");
    output.Print("  gain margin           {}\n", margins.gain_margin);
    if (!margins.stable) {
      output.Print("  phase margin          none\n");
      output.Print("  delay margin          none\n");
    } else {
      output.Print("  phase margin          {} radians\n", margins.phase_margin_radians);
      output.Print("  delay margin          {} updates\n", margins.delay_margin_updates);
    }
    if (margins.largest_stable_delay < 0) {
      output.Print("  largest stable delay  none\n");
    } else {
      output.Print("  largest stable delay  {} updates\n", margins.largest_stable_delay);
    }
    if (margins.stable) {
      output.Print("  gain crossover        {} radians per update\n",
                   margins.gain_crossover_radians);
    }
    output.Close();
  }

  RuleArguments rule_;
  Argument delay_;
  Argument momentum_;
  Argument rate_;
  Argument out_;
  Argument threads_;
};

}  // namespace

std::unique_ptr<Command> MakeMarginCommand(CLI::App& root) {
  return std::make_unique<MarginCommand>(root);
}

}  // namespace batchless
