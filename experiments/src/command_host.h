// What a command's result and progress are handed to. The program's own host prints the result; a caller
// in another language takes it as values.
#pragma once

#include <atomic>
#include <csignal>
#include <cstddef>
#include <functional>

#include "interruption.h"
#include "text_output.h"

namespace batchless {
namespace training {
struct NamedTensor;
}  // namespace training

// How far a command is, for another thread to read, and how that thread stops it.
struct WorkMonitor {
  std::atomic<std::size_t> done{0};
  std::atomic<std::size_t> total{0};  // 0 before the work has parts to count
  std::atomic<bool> stop{false};
};

struct CommandHost {
  std::function<void(const Json&)> take_result;  // empty: the result is printed
  // Takes a table of numbers; empty: they are written to files alone.
  std::function<void(training::NamedTensor)> take_array;
  WorkMonitor* monitor = nullptr;  // null: nobody asks
};

// Throws Interrupted where the monitor's owner wants the work to end.
inline void CheckStopped(const WorkMonitor* monitor) {
  if (monitor != nullptr && monitor->stop) throw Interrupted(SIGINT, "interrupted");
}

// Whether a command's result is one JSON object, and where that goes.
struct JsonOutput {
  bool is_wanted = false;
  CommandHost host{};

  explicit operator bool() const { return is_wanted; }
  void Put(const Json& object) const {
    CheckStopped(host.monitor);
    host.take_result ? host.take_result(object) : PrintText("{}\n", JsonText(object));
  }
};

}  // namespace batchless
