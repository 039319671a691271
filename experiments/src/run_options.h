// From a configuration to what the library takes: network and trainer, by phase.
//
//   run     n = epochs * e samples, or `samples`, rounded up to whole mini-batches; e in an epoch
//   phase   from the end of the one before to its share of n, rounded up to its own mini-batches
//   rate    lr and momentum, or those of reference_batch scaled to batch (hyperparameter_scaling.h)
//
// Everything throws UsageError or analysis::InvalidArgument, naming section.key, for values that do
// not go together, and training::DataError for data that cannot be read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "batchless/hwmodel/network.h"
#include "batchless/training/trainer.h"
#include "config.h"
#include "run_data.h"

namespace batchless {

hwmodel::Network NetworkOf(const Configuration& configuration, const DataShape& shape);

// By phase; SetLengths says how long they are.
std::vector<training::TrainerOptions> TrainerOptionsOf(
    const Configuration& configuration, const DataShape& shape,
    const std::shared_ptr<training::ProcessGroup>& processes = nullptr);

// Lengths and learning rates of the phases.
void SetLengths(const Configuration& configuration, std::int64_t epoch_size,
                std::vector<training::TrainerOptions>& phases);

// Fills in every default that depends on other values, on the network or on the data.
void FillIn(Configuration& configuration, std::span<const training::TrainerOptions> phases,
            std::int64_t epoch_size);

}  // namespace batchless
