// What a pipeline is made of: a trainer's options, and what it has made of them.
//
// Replicas of a pipeline run the same program, each on its share of every mini-batch. Micro-batch k of
// replica r is number (k / m R + r) m + k % m of the run, m of the M = R m micro-batches of an update.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "batchless/hwmodel/action.h"
#include "batchless/training/backend.h"
#include "batchless/training/process_group.h"
#include "batchless/training/stage.h"
#include "batchless/training/trainer.h"
#include "delay_draws.h"
#include "engine/pipeline_plan.h"
#include "optimizers/definition.h"

namespace batchless::training {

// Which version of its stage's weights a pass read.
struct VersionRead {
  hwmodel::ActionKind kind = hwmodel::ActionKind::kForward;
  int stage = 0;
  std::int64_t microbatch = 0;
  std::int64_t version = 0;
};

template <class Real>
struct PipelineOptions {
  TrainerOptions run;
  // The program's workers are shared out among its processes, equally many each; null: one process.
  ProcessGroup* group = nullptr;
  // The processes that have this one's stages in the replicas of the pipeline; null: one replica.
  ProcessGroup* peers = nullptr;
  std::shared_ptr<const Backend<Real>> backend;
  std::int64_t microbatches_per_update = 1;  // of one replica
  PipelinePlan plan;
  std::int64_t microbatches = 0;  // of the whole run and one replica; none beyond enters
  // Delays in place of the plan's lags; null: none are drawn.
  const DelayDraws* draws = nullptr;
  // Coefficients of stage s's update after `samples` samples of the run.
  std::function<StageCoefficients<Real>(int stage, std::int64_t samples)> coefficients;
  // Makes the network's stages; where it is not set, MakeStage of stage.h does.
  std::function<std::unique_ptr<Stage<Real>>(int stage)> make_stage = nullptr;
  // Called by workers at every pass, where it is set: for tests of the versions.
  std::function<void(const VersionRead&)> on_read = nullptr;

  const Optimizer& optimizer() const { return run.optimizer.optimizer; }
  int replicas() const { return peers == nullptr ? 1 : peers->size(); }
  int replica() const { return peers == nullptr ? 0 : peers->rank(); }
  // The number in the run of this replica's micro-batch k.
  std::int64_t InRun(std::int64_t k) const {
    const std::int64_t m = microbatches_per_update;
    return peers == nullptr ? k : (k / m * replicas() + replica()) * m + k % m;
  }
  // The position in the run of the first sample of micro-batch k's mini-batch.
  std::int64_t StartOfUpdate(std::int64_t k) const {
    return run.first_sample +
           k / microbatches_per_update * microbatches_per_update * replicas() * run.microbatch;
  }
};

}  // namespace batchless::training
