// From a configuration to its data.
//
// Everything throws UsageError, naming section.key, for values that do not go together, and
// training::DataError for data that cannot be read.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "batchless/hwmodel/network.h"
#include "batchless/training/sample_source.h"
#include "config.h"

namespace batchless {

inline constexpr std::int64_t kDefaultImageSize = 224;

// The data.name of a run on samples that its caller learns one by one.
inline constexpr std::string_view kOwnSamples = "own";

// The seed of the synthetic set or the Markov source.
std::int64_t DataSeedOf(const Configuration& configuration);

// What the network has to know of the data.
struct DataShape {
  hwmodel::FeatureShape image;  // or 1 x tokens x 1
  int classes = 0;
  int labels = 1;  // of a sample
  // The list of tokens, where it had to be read to say how many there can be.
  std::shared_ptr<const std::vector<std::int64_t>> tokens{};
};

// Reads no data but the names in a folder of images, and a list of tokens where nothing says how many
// there can be. For samples of the caller's own it is what the network's file says, or what the built-in
// networks are made for.
DataShape DataShapeOf(const Configuration& configuration);

struct RunData {
  std::unique_ptr<training::DatasetSource> train;
  std::unique_ptr<training::DatasetSource> validation;
};

// The shape is that of DataShapeOf. Each file is read once.
RunData LoadRunData(const Configuration& configuration, DataShape shape);

}  // namespace batchless
