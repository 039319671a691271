// What a schedule comes to for a pipeline: the workers' programs, and each stage's delay, versions and
// horizons.
#pragma once

#include <cstdint>
#include <vector>

#include "batchless/hwmodel/schedule.h"
#include "engine/program.h"

namespace batchless::training {

// SpecTrain's horizons, in updates of the stage: from a pass to its micro-batch's last backward.
struct SpecTrainHorizons {
  double forward = 0;
  double backward = 0;
};

// Everything that follows from the schedule and its workers: derived once, taken whole.
struct PipelinePlan {
  Program program;
  std::vector<std::int64_t> delays;  // by stage, updates
  hwmodel::WeightVersions weights = hwmodel::WeightVersions::kNewest;
  // By stage: updates between the newest version and the oldest one that a pass reads.
  std::vector<std::int64_t> version_ages;
  std::vector<SpecTrainHorizons> spectrain;  // by stage
  // Forwards read the version that is this many updates older than the newest.
  std::int64_t forward_lag = 0;
  // Whether every call of Run fills the pipeline and drains it. With the versions of kDoubleBuffered,
  // which follow from the micro-batches' numbers, that changes no result.
  bool drains = false;
};

}  // namespace batchless::training
