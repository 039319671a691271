// From a configuration to what the library takes: data, network, trainer.
//
//   run     n = epochs * e samples, or `samples`, rounded up to whole mini-batches; e in an epoch
//   rate    lr and momentum, or those of reference_batch scaled to batch (hyperparameter_scaling.h)
//
// Everything throws UsageError or analysis::InvalidArgument, naming section.key, for values that do
// not go together, and training::DataError for data that cannot be read.
#pragma once

#include <cstdint>
#include <memory>

#include "batchless/hwmodel/network.h"
#include "batchless/training/sample_source.h"
#include "batchless/training/trainer.h"
#include "config.h"

namespace batchless {

struct RunData {
  std::unique_ptr<training::SampleSource> train;
  std::unique_ptr<training::SampleSource> validation;
};

RunData LoadRunData(const Configuration& configuration);

// What the network has to know of the data.
struct DataShape {
  hwmodel::FeatureShape image;
  int classes = 0;
};

// Reads no data but the names in a folder of images.
DataShape DataShapeOf(const Configuration& configuration);

hwmodel::Network NetworkOf(const Configuration& configuration, const DataShape& shape);

// A multiple of the batch.
std::int64_t RunSamples(const Configuration& configuration, std::int64_t epoch_size);

// Without a learning-rate schedule where `epoch_size` is 0: the initial weights do not need one.
training::TrainerOptions TrainerOptionsOf(
    const Configuration& configuration, const DataShape& shape, std::int64_t epoch_size,
    const std::shared_ptr<training::ProcessGroup>& processes = nullptr);

// Fills in every default that depends on other values, on the network or on the data.
void FillIn(Configuration& configuration, const DataShape& shape, std::int64_t epoch_size);

}  // namespace batchless
