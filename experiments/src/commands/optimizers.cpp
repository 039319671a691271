#include "batchless/training/optimizer.h"
#include "commands/commands.h"

namespace batchless {
namespace {

using training::Hyperparameter;
using training::Optimizer;

class OptimizersCommand final : public Command {
 public:
  explicit OptimizersCommand(CLI::App& root)
      : Command(root, "optimizers",
                "List the optimizers of training: equations, state, hyperparameters",
                "Symbols: g gradient, w weights, eta learning rate, wd weight decay, m momentum, D "
                "the\n"
                "stage's delay. On each of them a rule (batchless rules) compensates and predicts.",
                {"optimizers", "optimizers --json"}) {}

  void Run() override {
    if (json()) {
      Json rows = Json::array();
      for (const Optimizer& optimizer : training::Optimizers()) {
        Json hyperparameters = Json::array();
        for (const Hyperparameter& h : optimizer.hyperparameters) {
          hyperparameters.push_back({{"name", h.name}, {"default", h.initial}, {"help", h.help}});
        }
        rows.push_back({{"name", optimizer.name},
                        {"title", optimizer.title},
                        {"equation", optimizer.equation},
                        {"state", optimizer.arrays},
                        {"hyperparameters", hyperparameters},
                        {"default_lr", optimizer.learning_rate},
                        {"reduces_to", optimizer.reduces_to},
                        {"source", optimizer.source}});
      }
      PrintJson({{"optimizers", rows}});
      return;
    }
    TextOutput output;
    for (const Optimizer& optimizer : training::Optimizers()) {
      output.Print("{} ({})\n", optimizer.name, optimizer.title);
      output.Print("  update      {}\n", optimizer.equation);
      output.Print("  state       {}\n", fmt::join(optimizer.arrays, ", "));
      for (const Hyperparameter& h : optimizer.hyperparameters) {
        output.Print("  {:<11} {} ({})\n", h.name, h.help, h.initial);
      }
      output.Print("  reduces to  {}\n", optimizer.reduces_to);
      output.Print("  source      {}\n", optimizer.source);
    }
    output.Close();
  }
};

}  // namespace

std::unique_ptr<Command> MakeOptimizersCommand(CLI::App& root) {
  return std::make_unique<OptimizersCommand>(root);
}

}  // namespace batchless
