#include "run_program.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

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

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "batchless-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::string> TemporaryFolder::Files() const {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

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
  int status = 0;
  if (waitpid(process_, &status, 0) != process_) throw std::runtime_error("the process is lost");
  waited_ = true;
  Outcome outcome;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = ReadFile(streams_ / "out");
  outcome.error = ReadFile(streams_ / "error");
  return outcome;
}

Outcome Run(const Arguments& arguments) {
  const TemporaryFolder folder;
  return Run(arguments, folder.path());
}

Outcome Run(const Arguments& arguments, const fs::path& folder) {
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

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines = Split(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  return lines;
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
