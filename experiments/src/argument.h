// One option of a command: declared to CLI11 as text, read as what the command needs.
//
// CLI11 finds the options and prints the help; the values are read here, so that every wrong one
// gives the same line: "--delay: got -1, accepted: an integer from 0 to 10000000".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "values.h"

// Declared, not included: CLI11's header takes longer to compile than any command.
namespace CLI {  // NOLINT(readability-identifier-naming): its own name
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace batchless {

class Argument {
 public:
  // `name` is "--delay", or "--network,NETWORK" where the value may stand without its name, too; `form` what
  // stands for the value in the help, "D".
  Argument(CLI::App& command, const std::string& name, const std::string& form,
           const std::string& help);
  // CLI11 holds the address of the text.
  Argument(const Argument&) = delete;
  Argument& operator=(const Argument&) = delete;
  ~Argument() = default;

  const std::string& name() const { return name_; }
  bool given() const;
  // The value as it was written. Throws UsageError where it was not given.
  const std::string& Text(std::string_view accepted) const;

  // Throw UsageError where the value is missing or not accepted.
  double Number(const NumberRange& range) const;
  std::int64_t Integer(const IntegerRange& range) const;
  std::vector<double> NumberList(const NumberRange& range) const;
  std::vector<std::int64_t> IntegerList(const IntegerRange& range,
                                        Repeats repeats = Repeats::kDrop) const;
  // Which of the accepted values it is.
  std::size_t Choice(std::span<const std::string_view> accepted) const;

  // The same where a default stands for a value that was not given.
  double NumberOr(double fallback, const NumberRange& range) const;
  std::int64_t IntegerOr(std::int64_t fallback, const IntegerRange& range) const;
  std::vector<std::int64_t> IntegerListOr(std::int64_t fallback, const IntegerRange& range) const;
  std::vector<double> NumberListOr(std::string_view fallback, const NumberRange& range) const;

  // Throws UsageError where the value was given: `accepted` says why there is no use for it.
  void Refuse(std::string_view accepted) const;

 private:
  std::string name_;
  std::string text_;
  CLI::Option* option_;
};

// An option without a value.
class Flag {
 public:
  Flag(CLI::App& command, const std::string& name, const std::string& help);
  // CLI11 holds the address of what was given.
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;
  ~Flag() = default;

  bool given() const { return given_; }

 private:
  bool given_ = false;
};

// An option that may be given several times, each time with one value; or, without dashes before its name,
// what stands without a name any number of times.
class RepeatedArgument {
 public:
  RepeatedArgument(CLI::App& command, const std::string& name, const std::string& form,
                   const std::string& help);
  // CLI11 holds the address of the texts.
  RepeatedArgument(const RepeatedArgument&) = delete;
  RepeatedArgument& operator=(const RepeatedArgument&) = delete;
  ~RepeatedArgument() = default;

  // In the order of the command line.
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::vector<std::string> texts_;
};

// A command line that CLI11 could not take apart, as the one line that names what is wrong with it.
// `root` has been parsed as far as CLI11 came.
std::string DescribeParseError(const CLI::App& root, const CLI::ParseError& error, int argc,
                               const char* const* argv);

}  // namespace batchless
