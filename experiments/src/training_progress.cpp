#include "training_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace batchless {
namespace {

constexpr auto kLineInterval = std::chrono::seconds(1);

// "1:02:03", "2:03"
std::string DurationText(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::min(seconds, 1e9));
  const std::int64_t hours = whole / 3600;
  const std::int64_t minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

}  // namespace

TrainingProgress::TrainingProgress(std::int64_t samples, std::int64_t total_samples,
                                   std::int64_t epoch_size, double entropy_bits)
    : first_sample_(samples),
      total_samples_(total_samples),
      epoch_size_(epoch_size),
      entropy_bits_(entropy_bits),
      bar_("samples", static_cast<std::size_t>(total_samples)) {
  if (samples == 0 || samples >= total_samples) return;
  std::fputs(fmt::format("goes on from sample {} of {}\n", samples, total_samples).c_str(), stderr);
}

double TrainingProgress::SamplesPerSecond(std::int64_t samples) const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  return static_cast<double>(samples - first_sample_) / std::max(seconds, 1e-3);
}

void TrainingProgress::Update(std::int64_t samples, double loss) {
  if (!bar_.is_on_terminal()) return;
  const double speed = SamplesPerSecond(samples);
  std::vector<std::string> notes;
  if (speed > 0) {
    notes.push_back(fmt::format(
        "{} left", DurationText(static_cast<double>(total_samples_ - samples) / speed)));
  }
  notes.push_back(fmt::format("{:.0f}/s", speed));
  notes.push_back(fmt::format("loss {:.4f}", loss));
  if (validation_accuracy_)
    notes.push_back(fmt::format("valid {:.1f} %", 100 * *validation_accuracy_));
  notes.push_back(
      fmt::format("epoch {:.2f}", static_cast<double>(samples) / static_cast<double>(epoch_size_)));
  bar_.Update(static_cast<std::size_t>(samples), notes);
}

void TrainingProgress::Row(const MetricsRow& row) {
  const auto& [train_loss, train_accuracy, validation_loss, validation_accuracy] = row.measured;
  if (validation_accuracy) validation_accuracy_ = validation_accuracy;
  const auto now = Clock::now();
  if (bar_.is_on_terminal() || now - last_line_ < kLineInterval) return;
  last_line_ = now;
  std::string line =
      fmt::format("{} / {} samples, epoch {:.2f}", row.samples, total_samples_, row.epoch);
  if (train_loss) {
    line += fmt::format(", loss {:.4f}, accuracy {:.1f} %", *train_loss, 100 * *train_accuracy);
  }
  if (validation_loss) {
    line += fmt::format(", validation loss {:.4f}, accuracy {:.1f} %", *validation_loss,
                        100 * *validation_accuracy);
    if (entropy_bits_ > 0) {
      line += fmt::format(", {:.4f} bits a token above the source's {:.4g}",
                          *ExcessBits(validation_loss, entropy_bits_), entropy_bits_);
    }
  }
  line += fmt::format(", {:.0f} samples/s\n", SamplesPerSecond(row.samples));
  std::fputs(line.c_str(), stderr);
}

}  // namespace batchless
