#include "run_log.h"

#include <fmt/format.h>

#include <iterator>
#include <string>

namespace batchless {
namespace {

constexpr const char* kMetricsHeader =
    "samples,epoch,learning_rate,train_loss,train_accuracy,validation_loss,validation_accuracy\n";
constexpr const char* kSamplesHeader = "sample,label,loss\n";

}  // namespace

RunLog::RunLog(const RunDirectory& directory, bool log_samples, const RunState& state)
    : metrics_(directory.metrics(), state.metrics_bytes) {
  if (metrics_.bytes() == 0) metrics_.Append(kMetricsHeader);
  if (!log_samples) return;
  samples_ = std::make_unique<AppendedFile>(directory.samples(), state.samples_bytes);
  if (samples_->bytes() == 0) samples_->Append(kSamplesHeader);
}

void RunLog::AddSamples(std::span<const training::SampleResult> results) {
  if (!samples_) return;
  fmt::memory_buffer rows;
  for (const training::SampleResult& result : results) {
    fmt::format_to(std::back_inserter(rows), "{},{},{}\n", result.sample, result.label,
                   result.loss);
  }
  samples_->Append({rows.data(), rows.size()});
}

void RunLog::AddRow(const MetricsRow& row) {
  std::string text = fmt::format("{},{},{},", row.samples, row.epoch, row.learning_rate);
  if (row.interval) {
    const auto n = static_cast<double>(row.interval->samples);
    text += fmt::format("{},{}", row.interval->loss / n,
                        static_cast<double>(row.interval->correct) / n);
  } else {
    text += ',';
  }
  text += ',';
  if (row.validation) {
    text += fmt::format("{},{}", row.validation->loss, row.validation->accuracy);
  } else {
    text += ',';
  }
  metrics_.Append(text + "\n");
  metrics_.Flush();  // for whoever watches the file
}

void RunLog::Sync(RunState& state) {
  metrics_.Sync();
  state.metrics_bytes = metrics_.bytes();
  if (!samples_) return;
  samples_->Sync();
  state.samples_bytes = samples_->bytes();
}

}  // namespace batchless
