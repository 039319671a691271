#include "child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>

namespace batchless {
namespace {

constexpr int kPollMilliseconds = 100;

// Between fork and exec: nothing that allocates.
[[noreturn]] void Become(char* const* words, int error_end) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) _exit(126);
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  dup2(error_end, STDERR_FILENO);
  execvp(words[0], words);
  _exit(errno == ENOENT ? 127 : 126);
}

}  // namespace

ChildOutcome RunChild(const std::vector<std::string>& words, const std::function<void()>& on_wait) {
  const auto fail = [&] {
    throw std::runtime_error(fmt::format("cannot run {}: {}", words[0], std::strerror(errno)));
  };
  std::vector<std::string> copies = words;
  std::vector<char*> pointers;
  pointers.reserve(copies.size() + 1);
  for (std::string& word : copies) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  std::array<int, 2> pipe_ends;
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) fail();
  const pid_t process = fork();
  if (process == 0) Become(pointers.data(), pipe_ends[1]);
  close(pipe_ends[1]);
  if (process < 0) {
    close(pipe_ends[0]);
    fail();
  }

  ChildOutcome outcome;
  std::array<char, 4096> buffer;
  for (;;) {
    pollfd waiting = {pipe_ends[0], POLLIN, 0};
    if (poll(&waiting, 1, kPollMilliseconds) > 0) {
      const ssize_t size = read(pipe_ends[0], buffer.data(), buffer.size());
      if (size <= 0) break;
      outcome.error.append(buffer.data(), static_cast<std::size_t>(size));
    }
    on_wait();
  }
  close(pipe_ends[0]);
  int status = 0;
  if (waitpid(process, &status, 0) != process) fail();
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace batchless
