#include "batchless/analysis/roots.h"

#include <complex>
#include <vector>

#include "commands/commands.h"
#include "rule_arguments.h"

namespace batchless {
namespace {

class RootsCommand final : public Command {
 public:
  explicit RootsCommand(CLI::App& root)
      : Command(
            root, "roots", "Root loci: all roots of the characteristic polynomial over rates",
            "One row for each root, by falling modulus within a rate. Zeros that divide out of\n"
            "the polynomial are not listed.\n" +
                ListHelp(),
            {"roots --rule sgdm --delay 4 --momentum 0.9 --rates 0.01",
             "roots --rule lwp-w+sc --delay 4 --momentum 0.9 --rates log:1e-4:1:200 "
             "--out loci.csv"}) {}

  void Run() override {
    const RulePoint point = point_.Single({0, analysis::kMaxRootsDelay});
    const std::vector<double> rates = rates_.NumberList(kRateRange);
    CheckRows({rates.size(), static_cast<std::size_t>(point.delay) + 2}, "--rates");
    TableOutput table(out_);
    const auto roots = Solved(ThreadsOf(threads_), rates, [&](double rate) {
      return analysis::AllRoots(point.rule, point.momentum, point.delay, rate);
    });

    if (table.has_file() || !json()) {
      table.Write([&](TextOutput& output) {
        output.Print("rate,real,imag,modulus\n");
        for (std::size_t i = 0; i < rates.size(); ++i) {
          for (const std::complex<double>& root : roots[i]) {
            output.Print("{},{},{},{}\n", rates[i], root.real(), root.imag(), std::abs(root));
          }
        }
      });
    }
    if (json()) {
      Json object = Describe(point);
      object["rows"] = Rows(rates.size(), [&](std::size_t i) -> Json {
        return {{"rate", rates[i]}, {"roots", RootsAsJson(roots[i])}};
      });
      json().Put(object);
    }
  }

 private:
  RulePointArguments point_{app(), RuleArguments::Form::kSingle};
  Argument rates_{app(), "--rates", "LIST", "Normalised rates eta * lambda, required"};
  Argument out_{app(), "--out", "F.csv", "Write the roots to this file"};
  Argument threads_{app(), "--threads", "N", "Threads (default: 0, every processor)"};
};

}  // namespace

const CommandMaker kRootsCommand = MakeCommand<RootsCommand>;

}  // namespace batchless
