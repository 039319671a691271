// The file that a run goes on from.
//
//   line 1      batchless checkpoint 1
//   line 2      RunState as JSON on one line
//   state       what Trainer::Save wrote
//   last line   SHA-256 of everything before it, 64 hexadecimal digits
//
// So a file that was cut short or changed is known as such before anything is read from it.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "batchless/training/trainer.h"
#include "durable_file.h"

namespace batchless {

// Sums over the samples since the last row of metrics.csv with a training loss.
struct IntervalSums {
  std::int64_t samples = 0;
  double loss = 0;
  double correct = 0;  // shares of their labels that won
};

// None is one that was not measured.
struct Metrics {
  std::optional<double> train_loss;
  std::optional<double> train_accuracy;
  std::optional<double> validation_loss;
  std::optional<double> validation_accuracy;
};

// Where a run stands, beside the trainer.
struct RunState {
  std::string configuration;  // resolved, TOML
  std::string train_digest;   // of the data
  std::string validation_digest;
  std::string schedule_digest;   // of the files in schedule; empty without one
  std::string network_digest;    // of network.file; empty without one
  std::string quotients_digest;  // of optimizer.file; empty without one
  std::string initial_weights_sha256;
  // In what the phase's optimizer keeps, where another one or other betas had a part in it; earlier versions
  // counted none of them.
  std::int64_t joined_updates = 0;
  std::int64_t samples = 0;  // done
  FileStart metrics_file;    // what of metrics.csv belongs to them
  FileStart samples_file;    // of samples.csv
  IntervalSums interval;
  Metrics last;  // of each kind the last one that was measured
  double training_seconds = 0;
  double seconds = 0;  // with validation and checkpoints
};

// As JSON on one line, and back; throws std::runtime_error for another text.
std::string RunStateText(const RunState& run);
RunState ParseRunState(const std::string& text);

struct Checkpoint {
  std::string argument;  // that named it, for refusals
  std::string path;
  RunState run;
  // Open at the trainer's state: of the file that was checked, whatever replaces it meanwhile.
  std::ifstream trainer;
};

// Nothing of the size of the trainer's state is held in memory. Throws std::runtime_error.
void WriteCheckpoint(const std::string& path, const RunState& run,
                     const training::Trainer& trainer);

// None where there is no such file. Throws UsageError where it cannot be read or is damaged: its whole
// content is checked.
std::optional<Checkpoint> ReadCheckpoint(const std::string& argument, const std::string& path);

}  // namespace batchless
