#include "run_program.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "program.h"

namespace batchless::test {
namespace {

namespace fs = std::filesystem;

// Between fork and exec: nothing that allocates.
[[noreturn]] void Become(const char* program, char* const* arguments, const char* folder,
                         const char* out, const char* error, std::size_t file_bytes) {
  const int null = open("/dev/null", O_RDONLY);
  const int out_file = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int error_file = open(error, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (null < 0 || out_file < 0 || error_file < 0 || chdir(folder) != 0) _exit(126);
  dup2(null, STDIN_FILENO);
  dup2(out_file, STDOUT_FILENO);
  dup2(error_file, STDERR_FILENO);
  if (file_bytes > 0) {
    const rlimit limit = {file_bytes, file_bytes};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(126);
  }
  execv(program, arguments);
  _exit(127);
}

void FlushStreams() {
  std::cout.flush();
  std::cerr.flush();
  std::fflush(stdout);
  std::fflush(stderr);
}

// While it lives, what is written to a descriptor goes to memory.
class CapturedDescriptor {
 public:
  explicit CapturedDescriptor(int descriptor)
      : descriptor_(descriptor),
        saved_(fcntl(descriptor, F_DUPFD_CLOEXEC, 3)),
        memory_(memfd_create("batchless-test", MFD_CLOEXEC)) {
    if (saved_ < 0 || memory_ < 0 || dup2(memory_, descriptor_) < 0) {
      throw std::runtime_error("cannot capture the program's output");
    }
  }
  ~CapturedDescriptor() {
    dup2(saved_, descriptor_);
    close(saved_);
    close(memory_);
  }
  CapturedDescriptor(const CapturedDescriptor&) = delete;
  CapturedDescriptor& operator=(const CapturedDescriptor&) = delete;

  std::string Text() const {
    std::string text(static_cast<std::size_t>(lseek(memory_, 0, SEEK_END)), '\0');
    if (pread(memory_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
      throw std::runtime_error("cannot read the program's output");
    }
    return text;
  }

 private:
  int descriptor_;
  int saved_;
  int memory_;
};

// Puts back what a call of the program changes in its process: the working folder and what signals do.
class ProcessState {
 public:
  explicit ProcessState(const fs::path& folder) : folder_(fs::current_path()) {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], nullptr, &actions_[i]);
    }
    fs::current_path(folder);
  }
  ~ProcessState() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], &actions_[i], nullptr);
    }
    std::error_code ignored;
    fs::current_path(folder_, ignored);
  }
  ProcessState(const ProcessState&) = delete;
  ProcessState& operator=(const ProcessState&) = delete;

 private:
  static constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGXFSZ};

  fs::path folder_;
  std::array<struct sigaction, 4> actions_ = {};
};

}  // namespace

RunningProgram::RunningProgram(const Arguments& arguments, const fs::path& folder,
                               const std::string& out, std::size_t file_bytes,
                               const Arguments& launcher) {
  Arguments words = launcher;
  words.emplace_back(BATCHLESS_PROGRAM);
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const std::string out_path = out.empty() ? streams_ / "out" : out;
  const std::string error_path = streams_ / "error";
  process_ = fork();
  if (process_ < 0) throw std::runtime_error("cannot start a process");
  if (process_ == 0) {
    Become(pointers[0], pointers.data(), folder.c_str(), out_path.c_str(), error_path.c_str(),
           file_bytes);
  }
}

RunningProgram::~RunningProgram() {
  if (waited_) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

Outcome RunningProgram::Wait() {
  const bool hangs = !EndsWithin(kHung);
  if (hangs) kill(process_, SIGKILL);
  int status = 0;
  if (waitpid(process_, &status, 0) != process_) throw std::runtime_error("the process is lost");
  waited_ = true;
  Outcome outcome;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = ReadFile(streams_ / "out");
  outcome.error = ReadFile(streams_ / "error");
  if (hangs) outcome.error += "killed: it hung\n";
  return outcome;
}

bool RunningProgram::EndsWithin(std::chrono::seconds limit) const {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (true) {
    siginfo_t ended{};
    waitid(P_PID, static_cast<id_t>(process_), &ended, WEXITED | WNOHANG | WNOWAIT);
    if (ended.si_pid == process_) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    Sleep(5);
  }
}

Outcome Run(const Arguments& arguments) {
  const TemporaryFolder folder;
  return Run(arguments, folder.path());
}

Outcome Run(const Arguments& arguments, const fs::path& folder) {
  Arguments words = {"batchless"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  FlushStreams();
  Outcome outcome;
  const CapturedDescriptor out(STDOUT_FILENO);
  const CapturedDescriptor error(STDERR_FILENO);
  {
    const ProcessState state(folder);
    outcome.exit_code = RunProgram(static_cast<int>(words.size()), pointers.data());
    FlushStreams();
  }
  outcome.out = out.Text();
  outcome.error = error.Text();
  return outcome;
}

Outcome Launch(const Arguments& arguments) {
  const TemporaryFolder folder;
  return Launch(arguments, folder.path());
}

Outcome Launch(const Arguments& arguments, const fs::path& folder) {
  return RunningProgram(arguments, folder).Wait();
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (true) {
    const std::size_t end = text.find(separator, start);
    parts.push_back(text.substr(start, end - start));
    if (end == std::string::npos) return parts;
    start = end + 1;
  }
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines = Split(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

std::vector<std::vector<std::string>> CsvRows(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : Lines(text)) rows.push_back(Split(line, ','));
  return rows;
}

void Sleep(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

Arguments Words(const std::string& line) {
  std::istringstream stream(line);
  Arguments words;
  std::string word;
  while (stream >> word) words.push_back(word);
  return words;
}

std::vector<std::string> CommandNames() {
  std::vector<std::string> names;
  bool inside = false;
  for (const std::string& line : Lines(Run({"--help"}).out)) {
    if (inside && !line.starts_with("  ")) break;
    // Further lines of a description are indented more.
    if (inside && !line.starts_with("   ")) names.push_back(Words(line).front());
    if (line == "Commands:") inside = true;
  }
  return names;
}

std::vector<std::string> OptionNames(const std::string& command) {
  std::vector<std::string> names;
  for (const std::string& line : Lines(Run({command, "--help"}).out)) {
    if (line.starts_with("  --")) names.push_back(Words(line).front());
  }
  return names;
}

}  // namespace batchless::test
