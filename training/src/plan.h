// What a trainer's options come to: the workers' programs, and each stage's delay and horizons.
#pragma once

#include <cstdint>
#include <vector>

#include "batchless/training/trainer.h"
#include "engine/program.h"

namespace batchless::training {

// SpecTrain's horizons, in updates of the stage: from a pass to its micro-batch's last backward.
struct SpecTrainHorizons {
  double forward = 0;
  double backward = 0;
};

struct Plan {
  Program program;
  std::vector<std::int64_t> delays;  // by stage, updates
  hwmodel::WeightVersions weights = hwmodel::WeightVersions::kNewest;
  // By stage: updates between the newest version and the oldest one that a pass reads.
  std::vector<std::int64_t> version_ages;
  std::vector<SpecTrainHorizons> spectrain;  // by stage
  // Whether the pipeline is drained at will: versions follow from the micro-batches' numbers.
  bool drains = false;
};

// Throws analysis::InvalidArgument, named as in a configuration file, for options out of range.
void Validate(const TrainerOptions& options);

// For valid options.
Plan MakePlan(const TrainerOptions& options);

}  // namespace batchless::training
