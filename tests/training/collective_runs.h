// Runs by one process or several (thread_group.h), and all of them that has to be the same.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "batchless/training/trainer.h"
#include "catch.h"
#include "runs.h"
#include "thread_group.h"

namespace batchless::training {

// Catch2's assertions are for one thread at a time.
inline void CheckInProcess(bool expectation) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  CHECK(expectation);
}

// Trains up to the run's end and evaluates.
inline Outcome Finish(Trainer& trainer, std::int64_t samples) {
  constexpr std::int64_t kValidation = 19;
  Outcome outcome = Train(trainer, samples);
  const Evaluation evaluation = trainer.Evaluate(SmallSource(), kValidation);
  outcome.validation_loss = evaluation.loss;
  outcome.accuracy = evaluation.accuracy;
  return outcome;
}

// The outcome of a run of `options` in this process alone.
inline Outcome Alone(const TrainerOptions& options) {
  return Finish(*MakeTrainer(options), options.samples);
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

struct HandedOver {
  std::string state;              // in the middle
  std::vector<Outcome> outcomes;  // of the processes that end the run
};

// Trains up to sample `middle` by processes of options `before`; those of `after`, which have trained up to
// sample `forgotten` meanwhile, go on from there to the end.
inline HandedOver HandOver(int processes_before, const TrainerOptions& before, std::int64_t middle,
                           int processes_after, const TrainerOptions& after,
                           std::int64_t forgotten) {
  HandedOver handed{"", std::vector<Outcome>(processes_after)};
  TrainAsProcesses(processes_before, before, [&](Trainer& trainer, int rank) {
    const Outcome outcome = Train(trainer, middle);
    std::ostringstream state;
    trainer.Save(state);
    if (rank != 0) CheckInProcess(state.str().empty());
    if (rank != 0) return;
    handed.state = state.str();
    for (Outcome& other : handed.outcomes) other = outcome;
  });
  TrainAsProcesses(processes_after, after, [&](Trainer& trainer, int rank) {
    // What it did before is forgotten, messages under way included.
    Train(trainer, forgotten);
    std::istringstream state(rank == 0 ? handed.state : "");
    trainer.Load(state);
    CheckInProcess(trainer.samples_done() == middle);
    handed.outcomes[rank] += Finish(trainer, after.samples);
  });
  return handed;
}

}  // namespace batchless::training
