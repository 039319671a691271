// From a trainer's options to the plan of its pipeline.
#pragma once

#include "batchless/training/trainer.h"
#include "engine/pipeline_plan.h"

namespace batchless::training {

// Throws analysis::InvalidArgument, named as in a configuration file, for options out of range.
void Validate(const TrainerOptions& options);

// For valid options.
PipelinePlan MakePlan(const TrainerOptions& options);

}  // namespace batchless::training
