// From a configuration to its data.
//
// Everything throws UsageError, naming section.key, for values that do not go together, and
// training::DataError for data that cannot be read.
#pragma once

#include <cstdint>
#include <memory>

#include "batchless/hwmodel/network.h"
#include "batchless/training/sample_source.h"
#include "config.h"

namespace batchless {

inline constexpr std::int64_t kDefaultImageSize = 224;

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

}  // namespace batchless
