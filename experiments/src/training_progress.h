// How far a run is, on standard error: a bar on a terminal, else a line for a row of the log, at most
// one a second; a run shorter than that is silent.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "progress_bar.h"
#include "run_log.h"

namespace batchless {

class TrainingProgress {
 public:
  TrainingProgress(std::int64_t samples, std::int64_t total_samples, std::int64_t epoch_size,
                   double entropy_bits);

  // `loss` of the last samples, a mean.
  void Update(std::int64_t samples, double loss);
  void Row(const MetricsRow& row);

 private:
  using Clock = std::chrono::steady_clock;

  double SamplesPerSecond(std::int64_t samples) const;

  std::int64_t first_sample_;
  std::int64_t total_samples_;
  std::int64_t epoch_size_;
  double entropy_bits_;  // 0: unknown
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_line_ = Clock::now();
  std::optional<double> validation_accuracy_;
  ProgressBar bar_;
};

}  // namespace batchless
