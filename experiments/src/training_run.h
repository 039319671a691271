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
#include <span>
#include <string>
#include <vector>

#include "batchless/hwmodel/machine.h"
#include "batchless/training/trainer.h"
#include "checkpoint.h"
#include "config.h"
#include "run_directory.h"
#include "run_log.h"
#include "run_options.h"
#include "text_output.h"
#include "together.h"
#include "training_progress.h"

namespace batchless {

// Now, "2026-01-31T23:59:59Z".
std::string UtcText();

struct TrainingRunOptions {
  Configuration configuration;
  std::optional<std::string> out;  // none: the run keeps no folder
  bool shows_progress = true;
  bool resume = false;
  std::string resumed_by = "--resume";  // the argument
  std::optional<std::string> init;      // .npz to start from
  // A run that goes on is looked at for its weights alone: its data may be others, and are only read where
  // they say how long it is.
  bool for_weights = false;
  std::string trace;  // file for one of the run's first samples; empty: none
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
  bool is_finished() const {
    return ended_ || (total_samples_ > 0 && state_.samples >= total_samples_);
  }
  const training::Trainer& trainer() const { return *trainer_; }
  // The events of the samples that were to be traced, all in the first phase. Collective.
  std::vector<training::TraceEvent> Trace() const {
    return phase_ == 0 ? trainer_->trace() : trace_;
  }

  // Goes on to the end and returns the summary. Throws Interrupted after Ctrl-C and a checkpoint, and
  // std::runtime_error where training diverges or a file cannot be written.
  Json Run();

  // The same step by step, about half a second each, for callers who look at every row: Open, then Step
  // until the run is over, then Close. Keep makes a checkpoint of what no checkpoint has yet.
  void Open();
  bool is_over() const { return is_finished() || !diverged_.is_null(); }
  std::optional<MetricsRow> Step();
  void Keep();
  Json Close();

  // Training on samples of the caller's own (training::Trainer::Learn), phases and all.
  std::vector<training::SampleResult> Learn(std::span<const float> image, int label);
  // Throws what Learn would of these, and trains on none of them.
  void CheckSamples(std::span<const float> images, std::span<const int> labels) const;
  // What Step leaves at the end of a run with a folder, its last row and checkpoint, where the end was learned.
  std::optional<MetricsRow> EndLearned();
  // A folder gets a checkpoint before, and none after it where a pipeline was drained that no run goes on
  // from.
  std::vector<training::SampleResult> Finish();

  // Between steps: for the validation set, where there is one, and files of the caller's own.
  training::Evaluation Evaluate();
  void SaveTo(const std::string& path) const;
  // Goes on from there, with Open as the next step; the folder changes then, not here. Throws UsageError
  // for a checkpoint of another configuration or other data, and where the folder's logs are not its own:
  // nothing has changed then. For a moment there are two trainers.
  void LoadFrom(const std::string& path);
  void ImportWeights(std::span<const training::NamedTensor> tensors);
  training::Evaluation Evaluate(const training::SampleSource& source, std::int64_t samples) {
    return trainer_->Evaluate(source, samples);
  }

  const Configuration& configuration() const { return configuration_; }
  std::int64_t samples() const { return state_.samples; }
  // 0 where nobody knows yet.
  std::int64_t total_samples() const { return total_samples_; }
  const training::TrainerOptions& trainer_options() const { return phases_[phase_]; }
  bool has_data() const { return data_.train != nullptr; }
  // Entropy of the data's source in bits a token; 0 where it is unknown.
  double EntropyBits() const { return has_data() ? data_.train->dataset().entropy_bits() : 0; }
  Json Summary() const;

 private:
  // The phase in which a run with that many samples goes on, and a trainer for it.
  std::size_t PhaseAt(std::int64_t samples) const;
  void EnterPhaseAt(std::int64_t samples);
  std::int64_t JoinedUpdates(std::size_t phase) const;
  // Counts those of all phases so far, each by its own mini-batches.
  std::int64_t Updates() const;
  std::int64_t ConfiguredSamples() const;
  [[noreturn]] void RefuseOtherRun() const;
  void Prepare(const TrainingRunOptions& options, std::optional<Checkpoint>& checkpoint);
  void ShareStages(std::int64_t samples_left);
  std::vector<double> MeasuredCosts(const Configuration& settings, std::int64_t samples_left,
                                    const hwmodel::Machine* machine) const;
  void RefuseDifference(const Configuration& before, const std::string& where) const;
  void RefuseOtherInputs(const RunState& before) const;
  void RefuseOtherLog(const RunState& before, const std::string& path) const;
  void Restore(Checkpoint& checkpoint);
  // The first process's number, in all of them.
  std::int64_t BroadcastFromFirst(std::int64_t number) const;
  void Advance(std::int64_t to);
  void Account(std::span<const training::SampleResult> results);
  std::optional<MetricsRow> MakeRow();
  std::optional<double> Epochs() const;
  void Save();
  bool IsDue(const std::optional<std::int64_t>& interval) const;
  std::int64_t NextEvent() const;
  // What made the run: everything but the configuration that its numbers may depend on. `finished` as UtcText
  // says it; empty while the run goes on.
  void WriteManifest(const std::string& finished) const;

  RunDirectory directory_;
  Configuration configuration_;  // resolved
  std::shared_ptr<training::ProcessGroup> processes_;
  bool leads_;
  bool keeps_;  // a folder
  bool shows_progress_;
  bool has_trained_ = false;
  bool begins_ = false;          // in a folder without a run
  std::unique_ptr<RunLog> log_;  // both while it trains, of the process that keeps a folder
  std::unique_ptr<TrainingProgress> progress_;
  RunData data_;
  std::vector<training::TrainerOptions> phases_;
  std::size_t phase_ = 0;
  std::unique_ptr<training::Trainer> trainer_;
  std::vector<training::TraceEvent> trace_;  // of the first phase, once it is over
  std::int64_t total_samples_ = 0;
  RunState state_;
  double last_rate_ = 0;             // of the trainer's last update
  std::int64_t saved_samples_ = 0;   // in the last checkpoint
  std::int64_t slice_ = 1;           // samples of the next step
  std::int64_t before_samples_ = 0;  // before the trainer's last advance
  std::int64_t resumed_from_ = 0;
  bool ended_ = false;    // by Finish
  bool learned_ = false;  // samples that no checkpoint of the folder has, one by one
  std::string loaded_;    // the checkpoint of LoadFrom that the folder does not follow yet
  // Samples before the logs' first row: where a checkpoint of a run without a folder was loaded.
  std::int64_t log_begins_at_ = 0;
  std::int64_t memory_before_bytes_ = 0;  // of the program and the data, before there was a trainer
  std::string started_;
  Json diverged_ = nullptr;
};

}  // namespace batchless
