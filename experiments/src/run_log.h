// The rows of metrics.csv and samples.csv.
//
//   metrics.csv   samples, epoch      training samples done
//                 learning_rate       of the last update
//                 train_loss          mean over the samples since the last row that has one
//                 train_accuracy      share of them whose largest output was their label's
//                 validation_loss, validation_accuracy
//                 validation_excess_bits, of tokens whose source's entropy is known: the loss in bits a
//                 token less that
//   samples.csv   sample, label, loss    one row a sample, in order
//
// A field that was not measured is empty, and what is no number is nan. Functions of configuration and
// seed alone: no times.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "batchless/training/trainer.h"
#include "checkpoint.h"
#include "durable_file.h"
#include "run_directory.h"

namespace batchless {

// Columns of metrics.csv, and the last one where the entropy is known.
inline constexpr std::string_view kMetricsColumns =
    "samples,epoch,learning_rate,train_loss,train_accuracy,validation_loss,validation_accuracy";
inline constexpr std::string_view kExcessColumn = "validation_excess_bits";

// What a loss in nats says more than the source's entropy, in bits; none where there is no loss.
std::optional<double> ExcessBits(const std::optional<double>& loss, double entropy_bits);

struct MetricsRow {
  std::int64_t samples = 0;
  double epoch = 0;
  double learning_rate = 0;
  Metrics measured;
};

class RunLog {
 public:
  // Cuts both files back to what belongs to the state: to their headers at the start of a run.
  // `entropy_bits`: of the data's source; 0: unknown.
  RunLog(const RunDirectory& directory, bool log_samples, const RunState& state,
         double entropy_bits);

  // Why the files cannot be cut back to what belongs to the state; empty where they can. Changes nothing.
  static std::string WhyNotOf(const RunDirectory& directory, const RunState& state);

  void AddSamples(std::span<const training::SampleResult> results);
  void AddRow(const MetricsRow& row);
  // Into the files, for whoever watches them.
  void Flush();
  // Brings everything to the disk and notes in the state what the files hold.
  void Sync(RunState& state);

 private:
  double entropy_bits_;
  AppendedFile metrics_;
  std::unique_ptr<AppendedFile> samples_;
};

}  // namespace batchless
