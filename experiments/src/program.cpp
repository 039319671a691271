#include "program.h"

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "argument.h"
#include "batchless/analysis/cancellation.h"
#include "commands/commands.h"
#include "interruption.h"
#include "text_output.h"
#include "together.h"
#include "usage_error.h"
#include "version.h"

namespace batchless {
namespace {

#define BATCHLESS_ADDRESS(name) &k##name##Command,
constexpr auto kCommands =
    std::to_array<const CommandMaker*>({BATCHLESS_COMMANDS(BATCHLESS_ADDRESS)});
#undef BATCHLESS_ADDRESS

constexpr const char* kFooter =
    "Exit codes: 0 done, 1 failed while running, 2 bad arguments or input, 130 interrupted\n"
    "(143 by SIGTERM).\n"
    "\n"
    "Examples:\n"
    "  batchless COMMAND --help\n"
    "  batchless optimum --rule lwp-w+sc --delay 4 --condition 1000\n"
    "  batchless --version";

// A library that needs memory where nothing may be thrown, as the destructor of a Json does, ends the
// program: in one line, too.
[[noreturn]] void EndWithoutMemory() {
  try {
    if (const std::exception_ptr failure = std::current_exception()) {
      std::rethrow_exception(failure);
    }
  } catch (const std::bad_alloc&) {
    std::fputs("batchless: there is not enough memory\n", stderr);
    std::_Exit(kExitFailed);
  } catch (...) {  // whatever else is a defect
  }
  std::abort();
}

class Program {
 public:
  explicit Program(std::span<const CommandMaker* const> makers)
      : root_("Staleness analysis for pipelined backpropagation") {
    root_.name("batchless");
    root_.footer(kFooter);
    root_.add_flag("--version", version_, "Print version, git commit, compiler and flags");
    root_.add_flag("--json", json_, "Print one JSON object on standard output, nothing else");
    for (const CommandMaker* make : makers) commands_.push_back((*make)(root_));
    root_.require_subcommand(0, 1);
    root_.get_formatter()->label("SUBCOMMAND", "COMMAND");
  }

  const std::vector<std::unique_ptr<Command>>& commands() const { return commands_; }

  // Whether there is something to run; the help is printed here. Throws UsageError.
  bool Parse(int argc, const char* const* argv) {
    try {
      root_.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      PrintText("{}", root_.help());
      return false;
    } catch (const CLI::ParseError& error) {
      throw UsageError::FromLine(DescribeParseError(root_, error, argc, argv));
    }
    return true;
  }

  void Run(const CommandHost& host, bool wants_json) {
    Command& command = Chosen();
    command.SetHost(host, wants_json || json_);
    try {
      command.Run();
    } catch (const analysis::InvalidArgument& error) {
      throw command.Refused(error);
    }
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

// The one command that the words name, or all: to make them all takes longer than most of them run.
std::span<const CommandMaker* const> MakersFor(const std::vector<std::string>& words) {
  static const std::map<std::string, std::size_t> kPlaces = [] {
    std::map<std::string, std::size_t> places;
    const Program all(kCommands);
    for (const std::unique_ptr<Command>& command : all.commands()) {
      places.emplace(command->app().get_name(), places.size());
    }
    return places;
  }();
  const auto place = words.empty() ? kPlaces.end() : kPlaces.find(words.front());
  if (place == kPlaces.end()) return kCommands;
  return std::span(kCommands).subspan(place->second, 1);
}

}  // namespace

int RunProgram(int argc, char** argv) {
  InstallInterruptHandlers();
  std::set_terminate(EndWithoutMemory);
  try {
    Program program(kCommands);
    if (program.Parse(argc, argv)) program.Run({}, false);
    TextOutput::Standard().Close();
    return kExitDone;
  } catch (...) {
    TextOutput::Standard().Discard();
    const Failure failure = DescribeFailure(std::current_exception());
    // Processes that end together have said why.
    if (!failure.line.empty()) Say(failure.line);
    return failure.exit_code;
  }
}

void RunCommand(const std::vector<std::string>& words, const CommandHost& host) {
  std::vector<const char*> argv = {"batchless"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  Program program(MakersFor(words));
  const analysis::CancellationCheck cancellation([&] { CheckStopped(host.monitor); });
  if (program.Parse(static_cast<int>(argv.size()), argv.data())) program.Run(host, true);
}

Json DescribeCommands() {
  const Program program(kCommands);
  Json all = Json::array();
  for (const std::unique_ptr<Command>& command : program.commands()) {
    Json options = Json::array();
    for (const CLI::Option* option : command->app().get_options()) {
      const std::string name = option->get_name();
      if (name == "--json" || name == "--help") continue;
      options.push_back({{"name", name},
                         {"form", option->get_option_text()},
                         {"help", option->get_description()},
                         {"is_flag", option->get_expected_max() == 0},
                         {"is_repeated", option->get_expected_max() > 1}});
    }
    all.push_back({{"name", command->app().get_name()},
                   {"description", command->app().get_description()},
                   {"explanation", command->explanation()},
                   {"examples", command->examples()},
                   {"options", std::move(options)}});
  }
  return all;
}

}  // namespace batchless
