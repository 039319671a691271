#include "argument.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "batchless/analysis/argument.h"
#include "usage_error.h"

namespace batchless {
namespace {

// Names of the command's options, in the order of its help.
std::vector<std::string> OptionNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> CommandNames(const CLI::App& root) {
  std::vector<std::string> names;
  for (const CLI::App* command : root.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::string AcceptedNames(std::string_view word, const std::vector<std::string>& names) {
  return analysis::OneOf(word, std::vector<std::string_view>(names.begin(), names.end()));
}

// The name before the '=' of --name=value.
std::string_view NameOf(std::string_view word) { return word.substr(0, word.find('=')); }

// A value that is the name of an option: the value itself was left out.
const CLI::Option* OptionWithoutValue(const CLI::App& command) {
  const std::vector<std::string> names = OptionNames(command);
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& value : option->results()) {
      if (std::find(names.begin(), names.end(), value) != names.end()) return option;
    }
  }
  return nullptr;
}

}  // namespace

Argument::Argument(CLI::App& command, const std::string& name, const std::string& form,
                   const std::string& help)
    : name_(name.substr(0, name.find(','))), option_(command.add_option(name, text_, help)) {
  option_->option_text(form);
}

bool Argument::given() const { return option_->count() > 0; }

const std::string& Argument::Text(std::string_view accepted) const {
  if (!given()) throw UsageError(name_, "nothing", accepted);
  return text_;
}

double Argument::Number(const NumberRange& range) const {
  return ParseNumber(name_, Text(range.Text()), range);
}

std::int64_t Argument::Integer(const IntegerRange& range) const {
  return ParseInteger(name_, Text(range.Text()), range);
}

std::vector<double> Argument::NumberList(const NumberRange& range) const {
  return ParseNumberList(name_, Text(range.ListText()), range);
}

std::vector<std::int64_t> Argument::IntegerList(const IntegerRange& range, Repeats repeats) const {
  return ParseIntegerList(name_, Text(range.ListText()), range, repeats);
}

std::size_t Argument::Choice(std::span<const std::string_view> accepted) const {
  const std::string& text = Text(analysis::ListOf(accepted));
  const auto found = std::find(accepted.begin(), accepted.end(), text);
  if (found == accepted.end()) {
    throw UsageError(name_, text, analysis::OneOf(text, accepted));
  }
  return static_cast<std::size_t>(found - accepted.begin());
}

double Argument::NumberOr(double fallback, const NumberRange& range) const {
  return given() ? Number(range) : fallback;
}

std::int64_t Argument::IntegerOr(std::int64_t fallback, const IntegerRange& range) const {
  return given() ? Integer(range) : fallback;
}

std::vector<std::int64_t> Argument::IntegerListOr(std::int64_t fallback,
                                                  const IntegerRange& range) const {
  return given() ? IntegerList(range) : std::vector{fallback};
}

std::vector<double> Argument::NumberListOr(std::string_view fallback,
                                           const NumberRange& range) const {
  return given() ? NumberList(range) : ParseNumberList(name_, fallback, range);
}

void Argument::Refuse(std::string_view accepted) const {
  if (given()) throw UsageError(name_, text_, accepted);
}

Flag::Flag(CLI::App& command, const std::string& name, const std::string& help) {
  command.add_flag(name, given_, help);
}

RepeatedArgument::RepeatedArgument(CLI::App& command, const std::string& name,
                                   const std::string& form, const std::string& help) {
  CLI::Option* const option = command.add_option(name, texts_, help)->option_text(form);
  // What follows an option's value may be an argument without a name.
  if (name.starts_with('-')) option->allow_extra_args(false);
}

std::string DescribeParseError(const CLI::App& root, const CLI::ParseError& error, int argc,
                               const char* const* argv) {
  const std::vector<CLI::App*> parsed = root.get_subcommands();
  const CLI::App& command = parsed.empty() ? root : *parsed.front();
  const auto line = [](std::string_view name, std::string_view got, std::string_view accepted) {
    return std::string(UsageError(name, got, accepted).what());
  };

  if (const CLI::Option* option = OptionWithoutValue(command)) {
    return line(option->get_name(), "nothing", "a value");
  }
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_expected_max() == 1 && option->count() > 1) {
      return line(option->get_name(), fmt::format("{}", fmt::join(option->results(), " and ")),
                  "one value, given once");
    }
  }

  const std::vector<std::string> extras = root.remaining(true);
  if (!extras.empty()) {
    const std::string& word = extras.front();
    if (&command == &root && !word.starts_with("-")) {
      return line("command", word, AcceptedNames(word, CommandNames(root)));
    }
    const std::vector<std::string> names = OptionNames(command);
    if (&command != &root && std::find(names.begin(), names.end(), NameOf(word)) != names.end()) {
      return line(NameOf(word), "it before the command or behind --", "options after the command");
    }
    if (word.starts_with("-")) {
      return line(NameOf(word), "an unknown option",
                  AcceptedNames(NameOf(word), OptionNames(command)));
    }
    // What --set takes, without it.
    const bool is_key = std::find(names.begin(), names.end(), "--set") != names.end() &&
                        word.find('.') < word.find('=') && word.find('=') != std::string::npos;
    return line("arguments", word,
                is_key ? fmt::format("--set {}", word)
                       : fmt::format("options only: {}", fmt::join(names, ", ")));
  }

  // What is left: an option at the very end without its value, and a flag with one. CLI11's text
  // names the option; the words of the command line say which of the two.
  const std::string text = OneLine(error.what());
  for (int i = argc - 1; i > 0; --i) {
    const std::string_view word = argv[i];
    const std::string_view name = NameOf(word);
    if (!name.starts_with("--") || text.find(name.substr(2)) == std::string::npos) continue;
    if (name.size() == word.size() || name.size() + 1 == word.size()) {
      return line(name, "nothing", "a value");
    }
    return line(name, word.substr(name.size() + 1), "no value");
  }
  return line("arguments", text, "see --help");
}

}  // namespace batchless
