// From a trainer's options to the plan of its pipeline.
#pragma once

#include <memory>

#include "batchless/training/backend.h"
#include "batchless/training/trainer.h"
#include "engine/pipeline_plan.h"

namespace batchless::training {

// The kernels that convolve by `method`.
template <class Real>
std::shared_ptr<const Backend<Real>> MakeBackend(ConvolutionMethod method);

// Throws analysis::InvalidArgument for options out of range.
PipelinePlan MakePlan(const TrainerOptions& options);

}  // namespace batchless::training
