#include "batchless/analysis/roots.h"

#include <complex>
#include <vector>

#include "commands/commands.h"
#include "parallel_rows.h"
#include "rule_arguments.h"
#include "table_output.h"

namespace batchless {
namespace {

constexpr IntegerRange kRootsDelayRange{0, analysis::kMaxRootsDelay};

using Roots = std::vector<std::complex<double>>;

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
             "--out loci.csv"}),
        rule_(app(), RuleArguments::Form::kSingle),
        delay_(app(), "--delay", "D", "Delay of the gradient in updates, required"),
        momentum_(app(), "--momentum", "M", "Momentum from 0 to 1, required; none with linear"),
        rates_(app(), "--rates", "LIST", "Normalised rates eta * lambda, required"),
        out_(app(), "--out", "F.csv", "Write the roots to this file"),
        threads_(app(), "--threads", "N", "Threads (default: 0, every processor)") {}

  void Run() override {
    const analysis::RuleSpec spec = rule_.Single();
    const analysis::Delay delay = delay_.Integer(kRootsDelayRange);
    const double momentum = MomentumOf(spec, momentum_);
    const std::vector<double> rates = rates_.NumberList(kRateRange);
    CheckRows(static_cast<double>(rates.size()) * static_cast<double>(delay + 2), "--rates");
    const auto threads = static_cast<int>(threads_.IntegerOr(0, kThreadRange));
    TableOutput table(out_);
    std::vector<Roots> roots(rates.size());
    ParallelRows(rates.size(), threads, [&](std::size_t i) {
      roots[i] = analysis::AllRoots(spec, momentum, delay, rates[i]);
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
      Json object = DescribeRule(spec, delay);
      object["momentum"] = momentum;
      object["rows"] = Json::array();
      for (std::size_t i = 0; i < rates.size(); ++i) {
        Json list = Json::array();
        for (const std::complex<double>& root : roots[i]) {
          list.push_back({root.real(), root.imag()});
        }
        object["rows"].push_back({{"rate", rates[i]}, {"roots", list}});
      }
      PrintJson(object);
    }
  }

 private:
  RuleArguments rule_;
  Argument delay_;
  Argument momentum_;
  Argument rates_;
  Argument out_;
  Argument threads_;
};

}  // namespace

std::unique_ptr<Command> MakeRootsCommand(CLI::App& root) {
  return std::make_unique<RootsCommand>(root);
}

}  // namespace batchless
