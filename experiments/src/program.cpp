#include "program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

#include "argument.h"
#include "commands/commands.h"
#include "interruption.h"
#include "text_output.h"
#include "together.h"
#include "usage_error.h"
#include "version.h"

namespace batchless {
namespace {

// In the order in which the help lists them.
constexpr auto kCommands = std::to_array<const CommandMaker*>({
    &kRulesCommand,
    &kStabilityCommand,
    &kSweepCommand,
    &kOptimumCommand,
    &kLimitCommand,
    &kDesignCommand,
    &kBoundaryCommand,
    &kMarginCommand,
    &kNoiseCommand,
    &kFrontierCommand,
    &kFrequencyCommand,
    &kInconsistencyCommand,
    &kContinuousCommand,
    &kCriticalDelayCommand,
    &kRootsCommand,
    &kSimulateCommand,
    &kPipelineStabilityCommand,
    &kAdviseCommand,
    &kScheduleCommand,
    &kNetworkCommand,
    &kCostsCommand,
    &kThroughputCommand,
    &kPlanCommand,
    &kLayoutCommand,
    &kMemoryCommand,
    &kStragglersCommand,
    &kCalibrateCommand,
    &kTrainCommand,
    &kOptimizersCommand,
    &kDataCommand,
    &kVersionCommand,
});

constexpr const char* kFooter =
    "Exit codes: 0 done, 1 failed while running, 2 bad arguments or input, 130 interrupted\n"
    "(143 by SIGTERM).\n"
    "\n"
    "Examples:\n"
    "  batchless COMMAND --help\n"
    "  batchless optimum --rule lwp-w+sc --delay 4 --condition 1000\n"
    "  batchless --version";

int Fail(int exit_code, std::string_view line) {
  const std::string text = fmt::format("batchless: {}\n", OneLine(line));
  std::fputs(text.c_str(), stderr);
  return exit_code;
}

class Program {
 public:
  Program() : root_("Staleness analysis for pipelined backpropagation") {
    root_.name("batchless");
    root_.footer(kFooter);
    root_.add_flag("--version", version_, "Print version, git commit, compiler and flags");
    root_.add_flag("--json", json_, "Print one JSON object on standard output, nothing else");
    for (const CommandMaker* make : kCommands) commands_.push_back((*make)(root_));
    root_.require_subcommand(0, 1);
    root_.get_formatter()->label("SUBCOMMAND", "COMMAND");
  }

  int Run(int argc, char** argv) {
    try {
      root_.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      PrintText("{}", root_.help());
      return kExitDone;
    } catch (const CLI::ParseError& error) {
      return Fail(kExitUsage, DescribeParseError(root_, error, argc, argv));
    }
    Command& command = Chosen();
    if (json_) command.set_json();
    try {
      command.Run();
    } catch (const analysis::InvalidArgument& error) {
      throw command.Refused(error);
    }
    return kExitDone;
  }

 private:
  Command& Chosen() {
    // --version is the last command under another name.
    if (version_) return *commands_.back();
    for (const std::unique_ptr<Command>& command : commands_) {
      if (command->chosen()) return *command;
    }
    std::string names;
    for (const CLI::App* command : root_.get_subcommands({})) {
      names += (names.empty() ? "" : ", ") + command->get_name();
    }
    throw UsageError("command", "nothing", names + "; see batchless --help");
  }

  CLI::App root_;
  std::vector<std::unique_ptr<Command>> commands_;
  bool version_ = false;
  bool json_ = false;
};

}  // namespace

int RunProgram(int argc, char** argv) {
  InstallInterruptHandlers();
  try {
    return Program().Run(argc, argv);
  } catch (...) {
    const Failure failure = DescribeFailure(std::current_exception());
    // Processes that end together have said why.
    return failure.line.empty() ? failure.exit_code : Fail(failure.exit_code, failure.line);
  }
}

}  // namespace batchless
