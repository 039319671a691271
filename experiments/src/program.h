#pragma once

namespace batchless {

// Exit codes of the program; an interruption gives 128 + the signal's number.
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;  // while running
inline constexpr int kExitUsage = 2;   // bad arguments or input

// The whole program: parses the command line, runs the command and reports on standard error.
int RunProgram(int argc, char** argv);

}  // namespace batchless
