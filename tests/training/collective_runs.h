// Runs on a small data set, by one process or several (thread_group.h), and all of them that has to be
// the same.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "batchless/training/dataset.h"
#include "batchless/training/trainer.h"
#include "catch.h"
#include "thread_group.h"

namespace batchless::training {

inline DatasetSource SmallSource() {
  static const std::shared_ptr<const Dataset> kData = MakeSynthetic(3, Split::kTrain, 64, 16);
  return {kData, {.seed = 2, .order = Order::kShuffled, .augment = true}};
}

// Catch2's assertions are for one thread at a time.
inline void CheckInProcess(bool expectation) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  CHECK(expectation);
}

struct Outcome {
  std::vector<std::int64_t> samples;
  std::vector<double> losses;
  std::string weights;
  double validation_loss = 0;
  double accuracy = 0;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Trains up to sample `to`.
inline void Go(Trainer& trainer, std::int64_t to, Outcome& outcome) {
  std::vector<SampleResult> results;
  trainer.Advance(SmallSource(), to, results);
  for (const SampleResult& result : results) {
    outcome.samples.push_back(result.sample);
    outcome.losses.push_back(result.loss);
  }
}

// Trains up to the run's end.
inline void Finish(Trainer& trainer, std::int64_t samples, Outcome& outcome) {
  constexpr std::int64_t kValidation = 19;
  Go(trainer, samples, outcome);
  outcome.weights = trainer.WeightsSha256();
  const Evaluation evaluation = trainer.Evaluate(SmallSource(), kValidation);
  outcome.validation_loss = evaluation.loss;
  outcome.accuracy = evaluation.accuracy;
}

// The outcome of a run of `options` in this process alone.
inline Outcome Alone(const TrainerOptions& options) {
  Outcome outcome;
  Finish(*MakeTrainer(options), options.samples, outcome);
  return outcome;
}

// work(trainer, rank) in each of the processes, of `options` and each a trainer.
inline void TrainAsProcesses(int processes, const TrainerOptions& options,
                             const std::function<void(Trainer& trainer, int rank)>& work) {
  RunAsProcesses(processes, [&](const std::shared_ptr<ProcessGroup>& group) {
    TrainerOptions own = options;
    own.processes = group;
    work(*MakeTrainer(own), group->rank());
  });
}

}  // namespace batchless::training
