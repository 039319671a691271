#include "progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace batchless {
namespace {

constexpr std::size_t kWidth = 40;
constexpr auto kInterval = std::chrono::milliseconds(100);

}  // namespace

ProgressBar::ProgressBar(std::string unit, std::size_t total)
    : unit_(std::move(unit)),
      total_(total),
      terminal_(isatty(STDERR_FILENO) != 0),
      last_(std::chrono::steady_clock::now()) {}

ProgressBar::~ProgressBar() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::Update(std::size_t done) {
  if (!terminal_ || total_ == 0) return;
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < kInterval) return;
  last_ = now;
  shown_ = true;
  const std::size_t filled = kWidth * done / total_;
  const std::string line =
      fmt::format("\r[{:<{}}] {} / {} {}", std::string(filled, '#'), kWidth, done, total_, unit_);
  std::fputs(line.c_str(), stderr);
}

}  // namespace batchless
