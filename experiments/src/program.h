#pragma once

#include <string>
#include <vector>

#include "command_host.h"

namespace batchless {

// Exit codes of the program; an interruption gives 128 + the signal's number.
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;  // while running
inline constexpr int kExitUsage = 2;   // bad arguments or input

// The whole program: parses the command line, runs the command and reports on standard error.
int RunProgram(int argc, char** argv);

// One command for a caller other than the command line: `words` are what would stand behind the program's
// name. The result is the one of --json. Throws UsageError for arguments that cannot be worked with,
// Interrupted where the host's monitor stopped the work, and whatever else fails.
void RunCommand(const std::vector<std::string>& words, const CommandHost& host);

// What a command takes, as its help says it.
struct OptionDescription {
  enum class Kind { kValue, kRepeated, kFlag };

  std::string name;  // "--sc-delay"; "CONFIG" without a name of its own on the command line
  std::string form;  // what stands for its value, "LIST"; empty for a flag
  std::string help;
  Kind kind = Kind::kValue;
};

struct CommandDescription {
  std::string name;
  std::string description;
  std::string explanation;
  std::vector<std::string> examples;  // without the program's name
  std::vector<OptionDescription> options;
};

std::vector<CommandDescription> DescribeCommands();

}  // namespace batchless
