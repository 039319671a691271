// One training run, from its folder's state to its summary.
//
//   slice      mini-batches that the trainer is given at a time, about half a second of work, so
//              that interruptions and the progress bar are served; it changes no bit
//   event      a row of the log, a validation, a checkpoint: at the first whole mini-batch (of a
//              schedule that updates several times a cycle: cycle) at or after each multiple of its
//              interval, and at the end
//
// A checkpoint at position p comes after everything else at p. Whatever was written behind it is cut
// off on resumption and written again, so an interrupted run and an undisturbed one leave the same
// weights, metrics.csv and samples.csv.
//
// Processes that train together all do the same here; the first one alone has a folder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "batchless/training/trainer.h"
#include "checkpoint.h"
#include "config.h"
#include "run_directory.h"
#include "run_log.h"
#include "run_options.h"
#include "text_output.h"
#include "training_progress.h"

namespace batchless {

struct TrainingRunOptions {
  Configuration configuration;
  std::string out;
  bool resume = false;
  std::optional<std::string> init;  // .npz to start from
  std::string trace;                // file for one of the run's first samples; empty: none
  // That train together with this one; null: it is alone.
  std::shared_ptr<training::ProcessGroup> processes;
};

class TrainingRun {
 public:
  // Reads data and checkpoint and compares them with the configuration; writes nothing. Throws
  // UsageError, analysis::InvalidArgument or training::DataError; AgreedFailure where there are
  // several processes.
  explicit TrainingRun(const TrainingRunOptions& options);

  // Whether nothing is left to do.
  bool is_finished() const { return state_.samples >= total_samples_; }
  const training::Trainer& trainer() const { return *trainer_; }

  // Goes on to the end and returns the summary. Throws Interrupted after Ctrl-C and a checkpoint, and
  // std::runtime_error where training diverges or a file cannot be written.
  Json Run();

 private:
  const training::TrainerOptions& trainer_options() const { return phases_[phase_]; }
  // A trainer for the phase in which a run with that many samples goes on.
  void EnterPhaseAt(std::int64_t samples);
  void Prepare(const TrainingRunOptions& options, std::optional<Checkpoint>& checkpoint);
  void ShareStages(std::int64_t samples_left);
  std::vector<double> MeasuredCosts(std::int64_t samples_left) const;
  void Restore(Checkpoint& checkpoint);
  void Train();
  // The first process's number, in all of them.
  std::int64_t BroadcastFromFirst(std::int64_t number) const;
  template <class Error>
  [[noreturn]] void EndTogether(const Error& error) const;
  void Advance(std::int64_t to);
  void WriteRow();
  void Save();
  bool IsDue(const std::optional<std::int64_t>& interval) const;
  std::int64_t NextEvent() const;
  void WriteManifest(const std::string& finished) const;
  Json Summary() const;

  RunDirectory directory_;
  Configuration configuration_;  // resolved
  std::shared_ptr<training::ProcessGroup> processes_;
  bool leads_;
  std::unique_ptr<RunLog> log_;  // both while it trains, of the first process
  std::unique_ptr<TrainingProgress> progress_;
  RunData data_;
  std::vector<training::TrainerOptions> phases_;
  std::size_t phase_ = 0;
  std::unique_ptr<training::Trainer> trainer_;
  std::int64_t total_samples_ = 0;
  std::int64_t validation_samples_ = 0;
  RunState state_;
  double last_rate_ = 0;             // of the trainer's last update
  std::int64_t before_samples_ = 0;  // before the trainer's last advance
  std::int64_t resumed_from_ = 0;
  std::int64_t memory_before_bytes_ = 0;  // of the program and the data, before there was a trainer
  std::string started_;
  Json diverged_ = nullptr;
};

}  // namespace batchless
