#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "command_host.h"

namespace batchless {

// "[####    ] DONE / TOTAL UNIT, NOTE, NOTE" in at most that many columns: the bar gives way first,
// then the last notes, each as a whole. `total` is at least 1.
std::string ProgressLine(std::size_t done, std::size_t total, std::string_view unit,
                         std::span<const std::string> notes, std::size_t columns);

// A line on standard error that shows how far the work is; nothing where that is no terminal.
// Calls may come from several threads.
class ProgressBar {
 public:
  // A `monitor` sees the progress too.
  ProgressBar(std::string unit, std::size_t total, WorkMonitor* monitor = nullptr);
  // Removes the line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `notes` follow what is done, the most important first.
  // False where the monitor's owner wants the work to end.
  bool Update(std::size_t done, std::span<const std::string> notes = {});
  bool is_on_terminal() const { return terminal_; }

 private:
  void Draw(std::size_t done, std::span<const std::string> notes);

  std::string unit_;
  std::size_t total_;
  WorkMonitor* monitor_;
  bool terminal_;
  bool shown_ = false;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace batchless
