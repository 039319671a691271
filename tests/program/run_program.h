// Runs the program: in the test's own process where what it says and writes is tested, as a process
// of its own where signals, limits, memory or a launcher are.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "temporary_folder.h"

namespace batchless::test {

using Arguments = std::vector<std::string>;

// Only a program that hangs takes that long to end.
inline constexpr auto kHung = std::chrono::minutes(5);

struct Outcome {
  int exit_code = -1;  // 128 + the signal's number where one ended it
  std::string out;
  std::string error;
};

// The built program as a process.
class RunningProgram {
 public:
  // Starts it in `folder`; standard output goes to `out` where that is not empty, and no file can
  // grow beyond `file_bytes` where that is not 0. The words of `launcher` come before the program.
  RunningProgram(const Arguments& arguments, const std::filesystem::path& folder,
                 const std::string& out = "", std::size_t file_bytes = 0,
                 const Arguments& launcher = {});
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;
  RunningProgram(RunningProgram&&) = delete;
  RunningProgram& operator=(RunningProgram&&) = delete;

  pid_t process() const { return process_; }
  // One that hangs is killed, and its standard error says so.
  Outcome Wait();
  // Whether it ends in that time; to be waited for either way.
  bool EndsWithin(std::chrono::seconds limit) const;

 private:
  TemporaryFolder streams_;
  pid_t process_;
  bool waited_ = false;
};

// Calls the program in this process, as its main() does, with its standard streams and `folder` as the
// working folder. The calling test must have no threads that print or use relative paths.
Outcome Run(const Arguments& arguments);
Outcome Run(const Arguments& arguments, const std::filesystem::path& folder);

// The same in a process of its own, the way a user does, without a shell in between.
Outcome Launch(const Arguments& arguments);
Outcome Launch(const Arguments& arguments, const std::filesystem::path& folder);

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& content);
bool Contains(const std::string& text, const std::string& part);
std::vector<std::string> Lines(const std::string& text);
std::vector<std::string> Split(const std::string& text, char separator);
std::vector<std::vector<std::string>> CsvRows(const std::string& text);  // without quotes

void Sleep(int milliseconds);

// The words of a command line without quotes.
Arguments Words(const std::string& line);

// Names of the program's commands, and of the options of one of them, as its help lists them.
std::vector<std::string> CommandNames();
std::vector<std::string> OptionNames(const std::string& command);

}  // namespace batchless::test
