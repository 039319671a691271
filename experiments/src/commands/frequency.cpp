#include "batchless/analysis/frequency.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "commands/commands.h"
#include "rule_arguments.h"

namespace batchless {
namespace {

class FrequencyCommand final : public Command {
 public:
  explicit FrequencyCommand(CLI::App& root)
      : Command(root, "frequency", "Open loop of a rule over frequencies: Bode and Nyquist plots",
                "Each row has the frequency in radians per update, magnitude and phase (without\n"
                "jumps) of the open loop L(e^{i theta}), and its real and imaginary part.\n" +
                    ListHelp(),
                {"frequency --rule sgdm --delay 4 --momentum 0.9 --rate 0.005 "
                 "--frequencies log:0.001:3:100",
                 "frequency --rule lwp-w+sc --delay 4 --momentum 0.98 --rate 0.01 --frequencies "
                 "0.01,0.1,1 --json"}) {}

  void Run() override {
    const RulePoint point = point_.Single(kDelayRange);
    const double rate = rate_.Number(kRateRange);
    const std::vector<double> frequencies = frequencies_.NumberList({1e-12, std::numbers::pi});
    CheckRows({frequencies.size()}, "--frequencies");
    TableOutput table(out_);
    const auto points =
        analysis::FrequencyResponse(point.rule, point.momentum, point.delay, rate, frequencies);
    const auto row = [&](std::size_t i) -> Json {
      return {{"frequency_radians", points[i].frequency},
              {"magnitude", points[i].magnitude},
              {"phase_radians", points[i].phase_radians},
              {"real", points[i].magnitude * std::cos(points[i].phase_radians)},
              {"imag", points[i].magnitude * std::sin(points[i].phase_radians)}};
    };
    Json about = Describe(point);
    about["rate"] = rate;
    table.Report(json(), about, "frequency_radians,magnitude,phase_radians,real,imag",
                 points.size(), row);
  }

 private:
  RulePointArguments point_{app(), RuleArguments::Form::kSingle};
  Argument rate_{app(), "--rate", "X", "Normalised rate eta * lambda, required"};
  Argument frequencies_{app(), "--frequencies", "LIST", "Radians per update up to pi, required"};
  Argument out_{app(), "--out", "F.csv", "Write the rows to this file"};
};

}  // namespace

const CommandMaker kFrequencyCommand = MakeCommand<FrequencyCommand>;

}  // namespace batchless
