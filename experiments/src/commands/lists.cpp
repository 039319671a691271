// Commands that list what the program has.
#include <string>
#include <utility>
#include <vector>

#include "batchless/analysis/rule.h"
#include "batchless/training/optimizer.h"
#include "commands/commands.h"
#include "version.h"

namespace batchless {
namespace {

// One row as text: a name with its title, and lines of their own.
struct Entry {
  std::string_view name;
  std::string_view title;
  std::vector<std::pair<std::string_view, std::string>> lines;
};

// `width`: of the first column of the lines.
void PrintEntries(const std::vector<Entry>& entries, int width) {
  for (const Entry& entry : entries) {
    PrintText("{} ({})\n", entry.name, entry.title);
    for (const auto& [label, text] : entry.lines) {
      if (text.empty()) continue;
      PrintText("  {:<{}} {}\n", label, width, text);
    }
  }
}

class RulesCommand final : public Command {
 public:
  explicit RulesCommand(CLI::App& root)
      : Command(
            root, "rules", "List the update rules: equations, extra memory, special cases",
            "Symbols: v velocity, m momentum, g gradient, w weights, eta learning rate, D delay,\n"
            "T prediction horizon, d delay of the spike compensation, w_hat forward weights.",
            {"rules", "rules --json"}) {}

  void Run() override {
    Json rows = Json::array();
    std::vector<Entry> entries;
    for (const analysis::Rule& rule : analysis::AllRules()) {
      rows.push_back({{"name", rule.name},
                      {"title", rule.title},
                      {"equation", rule.equation},
                      {"extra_memory", rule.extra_memory},
                      {"reduces_to", rule.reduces_to},
                      {"also", rule.also},
                      {"source", rule.source}});
      entries.push_back({rule.name,
                         rule.title,
                         {{"update", std::string(rule.equation)},
                          {"extra memory", std::string(rule.extra_memory)},
                          {"reduces to", std::string(rule.reduces_to)},
                          {"also", std::string(rule.also)},
                          {"source", std::string(rule.source)}}});
    }
    json() ? json().Put({{"rules", rows}}) : PrintEntries(entries, 13);
  }
};

// What an optimizer takes over from that of the phase before.
struct Legacy {
  std::string_view before;
  std::vector<std::string_view> matrices;
  std::vector<std::string_view> vectors;
};

std::vector<Legacy> LegaciesOf(const training::Optimizer& optimizer) {
  std::vector<Legacy> legacies;
  for (const training::Optimizer& before : training::Optimizers()) {
    Legacy legacy{before.name, training::ArraysThatGoOn(before, optimizer, 2),
                  training::ArraysThatGoOn(before, optimizer, 1)};
    if (legacy.matrices.empty() && legacy.vectors.empty()) continue;
    legacies.push_back(std::move(legacy));
  }
  return legacies;
}

class OptimizersCommand final : public Command {
 public:
  explicit OptimizersCommand(CLI::App& root)
      : Command(
            root, "optimizers",
            "List the optimizers of training: equations, state, hyperparameters",
            R"(Symbols: g gradient, w weights, eta learning rate, wd weight decay, m momentum, D the
stage's delay. On each of them a rule (batchless rules) compensates and predicts.
Where a phase of a run has another optimizer than the phase before, state goes on
from those named, with the count of updates in it; all else begins anew.)",
            {"optimizers", "optimizers --json"}) {}

  void Run() override {
    Json rows = Json::array();
    std::vector<Entry> entries;
    for (const training::Optimizer& optimizer : training::Optimizers()) {
      Entry& entry = entries.emplace_back(Entry{optimizer.name, optimizer.title, {}});
      entry.lines = {{"update", std::string(optimizer.equation)},
                     {"state", analysis::ListOf(optimizer.arrays)},
                     {"of tensors", analysis::ListOf(optimizer.tensor_arrays)}};
      Json hyperparameters = Json::array();
      for (const training::Hyperparameter& h : optimizer.hyperparameters) {
        hyperparameters.push_back({{"name", h.name}, {"default", h.initial}, {"help", h.help}});
        entry.lines.emplace_back(h.name, fmt::format("{} ({})", h.help, h.initial));
      }
      Json goes_on_from = Json::array();
      std::vector<std::string> names;
      for (const Legacy& legacy : LegaciesOf(optimizer)) {
        goes_on_from.push_back({{"optimizer", legacy.before},
                                {"matrices", legacy.matrices},
                                {"vectors", legacy.vectors}});
        names.push_back(fmt::format("{}{}", legacy.before,
                                    legacy.matrices.empty()  ? " (vectors)"
                                    : legacy.vectors.empty() ? " (matrices)"
                                                             : ""));
      }
      entry.lines.emplace_back("goes on from", fmt::format("{}", fmt::join(names, ", ")));
      entry.lines.emplace_back("reduces to", optimizer.reduces_to);
      entry.lines.emplace_back("also", optimizer.also);
      entry.lines.emplace_back("source", optimizer.source);
      rows.push_back({{"name", optimizer.name},
                      {"title", optimizer.title},
                      {"equation", optimizer.equation},
                      {"state", optimizer.arrays},
                      {"tensor_state", optimizer.tensor_arrays},
                      {"hyperparameters", hyperparameters},
                      {"default_lr", optimizer.learning_rate},
                      {"goes_on_from", goes_on_from},
                      {"reduces_to", optimizer.reduces_to},
                      {"also", optimizer.also},
                      {"source", optimizer.source}});
    }
    json() ? json().Put({{"optimizers", rows}}) : PrintEntries(entries, 12);
  }
};

class VersionCommand final : public Command {
 public:
  explicit VersionCommand(CLI::App& root)
      : Command(root, "version", "Print version, git commit, compiler and flags",
                "The same as batchless --version.", {"version", "version --json"}) {}

  void Run() override {
    const BuildInfo build = GetBuildInfo();
    json() ? json().Put({{"version", build.version},
                         {"commit", build.commit},
                         {"compiler", build.compiler},
                         {"flags", build.flags}})
           : PrintText("{}\n", VersionText());
  }
};

}  // namespace

const CommandMaker kRulesCommand = MakeCommand<RulesCommand>;
const CommandMaker kOptimizersCommand = MakeCommand<OptimizersCommand>;
const CommandMaker kVersionCommand = MakeCommand<VersionCommand>;

}  // namespace batchless
