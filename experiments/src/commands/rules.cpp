#include <vector>

#include "batchless/analysis/rule.h"
#include "commands/commands.h"

namespace batchless {
namespace {

using analysis::Rule;

class RulesCommand final : public Command {
 public:
  explicit RulesCommand(CLI::App& root)
      : Command(
            root, "rules", "List the update rules: equations, extra memory, special cases",
            "Symbols: v velocity, m momentum, g gradient, w weights, eta learning rate, D delay,\n"
            "T prediction horizon, d delay of the spike compensation, w_hat forward weights.",
            {"rules", "rules --json"}) {}

  void Run() override {
    if (json()) {
      Json rows = Json::array();
      for (const Rule& rule : analysis::AllRules()) {
        rows.push_back({{"name", rule.name},
                        {"title", rule.title},
                        {"equation", rule.equation},
                        {"extra_memory", rule.extra_memory},
                        {"reduces_to", rule.reduces_to},
                        {"source", rule.source}});
      }
      PrintJson({{"rules", rows}});
      return;
    }
    TextOutput output;
    for (const Rule& rule : analysis::AllRules()) {
      output.Print("{} ({})\n", rule.name, rule.title);
      output.Print("  update        {}\n", rule.equation);
      output.Print("  extra memory  {}\n", rule.extra_memory);
      output.Print("  reduces to    {}\n", rule.reduces_to);
      output.Print("  source        {}\n", rule.source);
    }
    output.Close();
  }
};

}  // namespace

std::unique_ptr<Command> MakeRulesCommand(CLI::App& root) {
  return std::make_unique<RulesCommand>(root);
}

}  // namespace batchless
