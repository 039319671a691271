#include "progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace batchless {
namespace {

constexpr std::size_t kWidth = 40;
constexpr std::size_t kWidthWithNote = 16;
constexpr auto kInterval = std::chrono::milliseconds(100);

std::size_t Columns() {
  winsize size = {};
  const bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return is_known ? size.ws_col : 80;
}

}  // namespace

ProgressBar::ProgressBar(std::string unit, std::size_t total)
    : unit_(std::move(unit)),
      total_(total),
      terminal_(isatty(STDERR_FILENO) != 0),
      last_(std::chrono::steady_clock::now()) {}

ProgressBar::~ProgressBar() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::Update(std::size_t done, std::string_view note) {
  if (!terminal_ || total_ == 0) return;
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < kInterval) return;
  last_ = now;
  shown_ = true;
  const std::size_t width = note.empty() ? kWidth : kWidthWithNote;
  const std::size_t filled = width * done / total_;
  std::string line = fmt::format("[{:<{}}] {} / {} {}{}", std::string(filled, '#'), width, done,
                                 total_, unit_, note);
  // A line that wraps could not be written over.
  line.resize(std::min(line.size(), Columns() - 1));
  std::fputs(("\r" + line + "\033[K").c_str(), stderr);
}

}  // namespace batchless
