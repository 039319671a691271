#pragma once

#include <complex>
#include <memory>
#include <string>
#include <vector>

#include "argument.h"
#include "batchless/analysis/argument.h"
#include "batchless/analysis/rule.h"
#include "text_output.h"
#include "usage_error.h"

namespace batchless {

// One command of the program. A new one is a class in a file of its own under commands/, whose maker is
// declared in commands/commands.h and listed in program.cpp.
class Command {
 public:
  // `description` is one line for the list of commands; `explanation` goes below the options in the
  // command's own help, followed by the examples, which are written without "batchless".
  Command(CLI::App& root, const std::string& name, const std::string& description,
          const std::string& explanation, const std::vector<std::string>& examples);
  virtual ~Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  bool chosen() const;
  void set_json() { json_ = true; }

  // Throws UsageError or analysis::InvalidArgument for what cannot be worked with, before the long
  // part of the work starts; any other exception is a failure on the way.
  virtual void Run() = 0;

  // What a library refused in the run, by the name of the option that stands for its argument.
  virtual UsageError Refused(const analysis::InvalidArgument& error) const {
    return OptionError(error);
  }

 protected:
  CLI::App& app() { return *app_; }
  bool json() const { return json_; }

 private:
  CLI::App* app_;
  bool json_ = false;
};

// What makes a command for the program.
using CommandMaker = std::unique_ptr<Command> (*)(CLI::App& root);

template <class Kind>
std::unique_ptr<Command> MakeCommand(CLI::App& root) {
  return std::make_unique<Kind>(root);
}

// `rule`, `delay` and what the rule's options come to at that delay: the start of every result.
Json DescribeRule(const analysis::RuleSpec& spec, analysis::Delay delay);
// "sgdm, delay 4, momentum 0.9"; without a momentum for the rule that has none.
std::string PointText(const analysis::RuleSpec& spec, analysis::Delay delay, double momentum);

// Each as [real part, imaginary part].
Json RootsAsJson(const std::vector<std::complex<double>>& roots);

// The same of a point, the start with its momentum.
struct RulePoint;
Json Describe(const RulePoint& point);
std::string PointText(const RulePoint& point);

}  // namespace batchless
