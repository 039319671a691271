#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

namespace batchless {

// A line on standard error that shows how far the work is; nothing where that is no terminal.
// Calls may come from several threads.
class ProgressBar {
 public:
  ProgressBar(std::string unit, std::size_t total);
  // Removes the line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ProgressBar(ProgressBar&&) = delete;
  ProgressBar& operator=(ProgressBar&&) = delete;

  // `note` follows what is done.
  void Update(std::size_t done, std::string_view note = "");
  bool is_on_terminal() const { return terminal_; }

 private:
  std::string unit_;
  std::size_t total_;
  bool terminal_;
  bool shown_ = false;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace batchless
