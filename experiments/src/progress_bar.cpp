#include "progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace batchless {
namespace {

constexpr std::size_t kMostBar = 40;
constexpr std::size_t kMostBarWithNotes = 16;
constexpr std::size_t kLeastBar = 6;  // a shorter one shows nothing
constexpr auto kInterval = std::chrono::milliseconds(100);

std::size_t Columns() {
  winsize size = {};
  const bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return is_known ? size.ws_col : 80;
}

}  // namespace

std::string ProgressLine(std::size_t done, std::size_t total, std::string_view unit,
                         std::span<const std::string> notes, std::size_t columns) {
  std::string line = fmt::format("{} / {} {}", done, total, unit);
  for (const std::string& note : notes) {
    if (line.size() + 2 + note.size() > columns) break;
    line += ", " + note;
  }
  // Beside the bar stand its brackets and a space.
  const std::size_t room = columns - std::min(columns, line.size() + 3);
  const std::size_t width = std::min(notes.empty() ? kMostBar : kMostBarWithNotes, room);
  if (width >= kLeastBar) {
    const std::string filled(width * std::min(done, total) / total, '#');
    line = fmt::format("[{:<{}}] {}", filled, width, line);
  }
  // A line that wraps could not be written over.
  line.resize(std::min(line.size(), columns));
  return line;
}

ProgressBar::ProgressBar(std::string unit, std::size_t total, WorkMonitor* monitor)
    : unit_(std::move(unit)),
      total_(total),
      monitor_(monitor),
      terminal_(monitor == nullptr && isatty(STDERR_FILENO) != 0),
      last_(std::chrono::steady_clock::now()) {
  if (monitor_ == nullptr) return;
  monitor_->done = 0;
  monitor_->total = total;
}

ProgressBar::~ProgressBar() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

bool ProgressBar::Update(std::size_t done, std::span<const std::string> notes) {
  if (monitor_ != nullptr) {
    monitor_->done = done;
    return !monitor_->stop;
  }
  if (terminal_ && total_ > 0) Draw(done, notes);
  return true;
}

void ProgressBar::Draw(std::size_t done, std::span<const std::string> notes) {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < kInterval) return;
  last_ = now;
  shown_ = true;
  const std::string line = ProgressLine(done, total_, unit_, notes, Columns() - 1);
  std::fputs(("\r" + line + "\033[K").c_str(), stderr);
}

}  // namespace batchless
