#include "command.h"

#include <CLI/CLI.hpp>

#include "parallel_rows.h"
#include "rule_arguments.h"

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

void Command::ParallelRows(std::size_t rows, int threads,
                           const std::function<void(std::size_t)>& row) const {
  batchless::ParallelRows(rows, threads, row, monitor());
}

void Command::ParallelRows(std::size_t rows, const Argument& threads,
                           const std::function<void(std::size_t)>& row) const {
  ParallelRows(rows, static_cast<int>(threads.IntegerOr(0, kThreadRange)), row);
}

bool Command::chosen() const { return app_->parsed(); }

Json DescribeRule(const analysis::RuleSpec& spec, analysis::Delay delay) {
  const EffectiveOptions effective = Effective(spec, delay);
  Json object;
  object["rule"] = spec.rule.name;
  object["delay"] = delay;
  object["horizon"] = effective.horizon;
  object["sc_delay"] = OrNull(effective.sc_delay);
  if (spec.options.sc_a) object["sc_a"] = *spec.options.sc_a;
  if (spec.options.sc_b) object["sc_b"] = *spec.options.sc_b;
  if (spec.is_linear()) {
    object["numerator"] = spec.options.numerator;
    object["denominator"] = spec.options.denominator;
  }
  return object;
}

Json DescribeGivenRule(const analysis::RuleSpec& spec) {
  const analysis::RuleOptions& options = spec.options;
  Json object;
  object["rule"] = spec.rule.name;
  object["horizon"] = OrNull(options.horizon);
  object["horizon_scale"] = options.horizon_scale;
  object["sc_delay"] = OrNull(options.sc_delay);
  object["sc_delay_scale"] = options.sc_delay_scale;
  object["sc_a"] = OrNull(options.sc_a);
  object["sc_b"] = OrNull(options.sc_b);
  if (spec.is_linear()) {
    object["numerator"] = options.numerator;
    object["denominator"] = options.denominator;
  }
  return object;
}

Json RootsAsJson(const std::vector<std::complex<double>>& roots) {
  Json list = Json::array();
  for (const std::complex<double>& root : roots) list.push_back({root.real(), root.imag()});
  return list;
}

Json Describe(const RulePoint& point) {
  Json object = DescribeRule(point.rule, point.delay);
  object["momentum"] = point.momentum;
  return object;
}

std::string PointText(const RulePoint& point) {
  const std::string text = fmt::format("{}, delay {}", point.rule.rule.name, point.delay);
  return point.rule.is_linear() ? text : fmt::format("{}, momentum {}", text, point.momentum);
}

}  // namespace batchless
