// Another program, run to its end.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace batchless {

struct ChildOutcome {
  int exit_code = 0;  // 127 where there is no such program, 128 + the signal's number after one
  std::string error;  // what it wrote to standard error
};

// Runs words[0] of the path with the other words, without a shell, with nothing on standard input
// and its standard output thrown away. Calls `on_wait` a few times a second. The child ends when this
// program does. Throws std::runtime_error where no process can be started.
ChildOutcome RunChild(const std::vector<std::string>& words, const std::function<void()>& on_wait);

}  // namespace batchless
