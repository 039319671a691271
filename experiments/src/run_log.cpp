#include "run_log.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <numbers>
#include <string>
#include <system_error>
#include <utility>

namespace batchless {
namespace {

constexpr const char* kSamplesHeader = "sample,label,loss\n";

// What is no number has a sign by chance: "nan", whatever computed it.
double WithoutSignOfNan(double value) { return std::isnan(value) ? std::abs(value) : value; }

}  // namespace

std::optional<double> ExcessBits(const std::optional<double>& loss, double entropy_bits) {
  if (!loss) return std::nullopt;
  return *loss / std::numbers::ln2 - entropy_bits;
}

RunLog::RunLog(const RunDirectory& directory, bool log_samples, const RunState& state,
               double entropy_bits)
    : entropy_bits_(entropy_bits), metrics_(directory.metrics(), state.metrics_file) {
  if (metrics_.bytes() == 0) {
    const std::string excess = entropy_bits_ > 0 ? fmt::format(",{}", kExcessColumn) : "";
    metrics_.Append(fmt::format("{}{}\n", kMetricsColumns, excess));
  }
  if (!log_samples) return;
  samples_ = std::make_unique<AppendedFile>(directory.samples(), state.samples_file);
  if (samples_->bytes() == 0) samples_->Append(kSamplesHeader);
}

std::string RunLog::WhyNotOf(const RunDirectory& directory, const RunState& state) {
  for (const auto& [path, start] : {std::pair(directory.metrics(), state.metrics_file),
                                    std::pair(directory.samples(), state.samples_file)}) {
    if (start.bytes == 0) continue;
    const std::string name = std::filesystem::path(path).filename().string();
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return fmt::format("there is no {}", name);
    if (std::cmp_less(std::filesystem::file_size(path, error), start.bytes)) {
      return fmt::format("{} has fewer than its {} bytes", name, start.bytes);
    }
    if (!start.sha256.empty() && FileDigest(path, start.bytes) != start.sha256) {
      return fmt::format("{} begins with other rows than its", name);
    }
  }
  return "";
}

void RunLog::AddSamples(std::span<const training::SampleResult> results) {
  if (!samples_) return;
  std::string rows;
  for (const training::SampleResult& result : results) {
    rows += fmt::format("{},{},{}\n", result.sample, result.label, WithoutSignOfNan(result.loss));
  }
  samples_->Append(rows);
}

void RunLog::AddRow(const MetricsRow& row) {
  std::string text = fmt::format("{},{},{}", row.samples, row.epoch, row.learning_rate);
  const auto add = [&](const std::optional<double>& value) {
    text += value ? fmt::format(",{}", WithoutSignOfNan(*value)) : ",";
  };
  add(row.measured.train_loss);
  add(row.measured.train_accuracy);
  add(row.measured.validation_loss);
  add(row.measured.validation_accuracy);
  if (entropy_bits_ > 0) add(ExcessBits(row.measured.validation_loss, entropy_bits_));
  metrics_.Append(text + "\n");
}

void RunLog::Flush() {
  metrics_.Flush();
  if (samples_) samples_->Flush();
}

void RunLog::Sync(RunState& state) {
  metrics_.Sync();
  state.metrics_file = metrics_.content();
  if (!samples_) return;
  samples_->Sync();
  state.samples_file = samples_->content();
}

}  // namespace batchless
