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

// What each command takes, as its help says it: name, description, explanation, examples (without the
// program's name), and options, each with name ("--sc-delay"; "CONFIG" without a name of its own on the
// command line), form (what stands for its value, "LIST"; empty for a flag), help, is_flag and is_repeated.
Json DescribeCommands();

}  // namespace batchless
