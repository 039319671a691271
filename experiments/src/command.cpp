#include "command.h"

#include <CLI/CLI.hpp>

namespace batchless {
namespace {

std::string Footer(const std::string& explanation, const std::vector<std::string>& examples) {
  std::string text = explanation;
  if (!text.empty()) text += "\n\n";
  text += "Examples:";
  for (const std::string& example : examples) text += "\n  batchless " + example;
  return text;
}

}  // namespace

Command::Command(CLI::App& root, const std::string& name, const std::string& description,
                 const std::string& explanation, const std::vector<std::string>& examples)
    : app_(root.add_subcommand(name, description)), explanation_(explanation), examples_(examples) {
  app_->group("Commands");
  app_->footer(Footer(explanation, examples));
  app_->add_flag("--json", json_.is_wanted,
                 "Print one JSON object on standard output, nothing else");
}

bool Command::chosen() const { return app_->parsed(); }

Json RootsAsJson(const std::vector<std::complex<double>>& roots) {
  Json list = Json::array();
  for (const std::complex<double>& root : roots) list.push_back({root.real(), root.imag()});
  return list;
}

}  // namespace batchless
