#include "batchless/analysis/inconsistency.h"

#include <array>
#include <cmath>
#include <vector>

#include "commands/commands.h"
#include "rule_arguments.h"

namespace batchless {
namespace {

using analysis::BackwardWeights;

constexpr IntegerRange kInconsistentDelayRange{0, analysis::kMaxInconsistentDelay};
constexpr NumberRange kDiscrepancyRange{-analysis::kMaxDiscrepancy, analysis::kMaxDiscrepancy};
constexpr std::array<std::string_view, 2> kModels = {"discrepancy", "factorisation"};
// In the order of BackwardWeights.
constexpr std::array<std::string_view, 3> kBackward = {"current", "stashed", "corrected"};

class InconsistencyCommand final : public Command {
 public:
  explicit InconsistencyCommand(CLI::App& root)
      : Command(
            root, "inconsistency",
            "Critical rate where backwards read other weights than their forwards",
            "discrepancy    one weight, gradient (1 + Delta) w_hat - Delta w_bar, forward and\n"
            "               backward weights late by --delay and --backward-delay\n"
            "factorisation  two linear layers learn a matrix with singular values 1 and r, r in\n"
            "               place of Delta, at their minimum in a pipeline with delays D and D-2\n"
            "What a backward reads: the current weights, those stashed by its forward, or current\n"
            "ones corrected towards them by an average of their moves (PipeMare's T2, recalled:\n"
            "not checked against the publication).\n"
            "A critical rate of 0: not even 1e-7 is stable. Rates up to 100 are looked at; inf, "
            "in\n"
            "JSON null: all are.\n" +
                ListHelp(),
            {"inconsistency --model discrepancy --rule sgdm --delay 8 --momentum 0 "
             "--discrepancies 0,1,5",
             "inconsistency --model factorisation --rule sgdm,lwp-w+sc --delay 8 --momentum 0.9 "
             "--discrepancies lin:0:0.9:10 --backward stashed --json"}) {}

  void Run() override {
    const std::size_t model = model_.Choice(kModels);
    const std::vector<double> discrepancies = discrepancies_.NumberList(kDiscrepancyRange);
    const analysis::Delay delay = delay_.Integer(kInconsistentDelayRange);
    const analysis::Delay backward_delay = backward_delay_.IntegerOr(0, kInconsistentDelayRange);
    if (model == 1) backward_delay_.Refuse("nothing together with --model factorisation");
    const std::vector<analysis::RuleSpec> rules = rule_.All();
    const bool none = HaveNoMomentum(rules, momentum_);
    const double momentum = none ? std::nan("") : momentum_.Number(kMomentumRange);
    const std::size_t read = backward_.given() ? backward_.Choice(kBackward) : 0;
    const auto points = Combinations("--rule, --discrepancies", rules, discrepancies);
    const auto model_of = [&](double discrepancy) {
      return model == 0 ? analysis::DiscrepancyModel(discrepancy, delay, backward_delay)
                        : analysis::FactorisationModel(discrepancy, delay);
    };
    // Looks at the arguments before the work starts.
    for (const double discrepancy : discrepancies) static_cast<void>(model_of(discrepancy));
    TableOutput table(out_);
    const auto critical = Solved(ThreadsOf(threads_), points, [&](const auto& point) {
      const auto& [rule, discrepancy] = point;
      return analysis::InconsistentCriticalRate(model_of(discrepancy), rule,
                                                static_cast<BackwardWeights>(read), momentum);
    });
    Json about = {{"model", kModels[model]},
                  {"backward", kBackward[read]},
                  {"delay", delay},
                  {"backward_delay", backward_delay},
                  {"momentum", momentum}};
    if (points.size() == 1) about["critical_rate"] = critical[0];
    table.Report(json(), about,
                 "model,rule,backward,delay,backward_delay,momentum,discrepancy,critical_rate,"
                 "horizon,horizon_scale,sc_delay,sc_delay_scale,sc_a,sc_b",
                 points.size(), [&](std::size_t i) -> Json {
                   const auto& [rule, discrepancy] = points[i];
                   Json cells = {{"rule", rule.rule.name},
                                 {"discrepancy", discrepancy},
                                 {"critical_rate", critical[i]},
                                 {"unlimited", std::isinf(critical[i])}};
                   if (rule.is_linear()) cells["momentum"] = nullptr;
                   cells.update(DescribeGivenRule(rule));
                   return cells;
                 });
  }

 private:
  RuleArguments rule_{app(), RuleArguments::Form::kLists};
  Argument model_{app(), "--model", "NAME", "discrepancy or factorisation, required"};
  Argument discrepancies_{app(), "--discrepancies", "LIST", "Delta over lambda, or r, required"};
  Argument delay_{app(), "--delay", "D", "Delay of the forward's weights in updates, required"};
  Argument backward_delay_{app(), "--backward-delay", "D",
                           "Delay of the backward's weights (default: 0)"};
  Argument momentum_{app(), "--momentum", "M", "Momentum from 0 to 1, required; none with linear"};
  Argument backward_{app(), "--backward", "NAME", "current (default), stashed or corrected"};
  Argument out_{app(), "--out", "F.csv", "Write the rows to this file"};
  Argument threads_{app(), "--threads", "N", "Threads (default: 0, every processor)"};
};

}  // namespace

const CommandMaker kInconsistencyCommand = MakeCommand<InconsistencyCommand>;

}  // namespace batchless
