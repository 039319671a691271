#include "run_data.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "batchless/training/data_error.h"
#include "usage_error.h"

namespace batchless {
namespace {

using training::Dataset;
using training::Split;

std::shared_ptr<const Dataset> ReadSplit(const Configuration& c, Split split) {
  const std::string& name = c.data.name;
  if (name == "synthetic") {
    const auto seed = static_cast<std::uint64_t>(
        c.data.seed.value_or(static_cast<std::int64_t>(training::kSyntheticSeed)));
    return training::MakeSynthetic(seed, split);
  }
  if (name == "cifar10") return training::LoadCifar10(c.data.root, split);
  if (name == "mnist") return training::LoadMnist(c.data.root, split);
  return training::OpenImageFolder(c.data.root, split,
                                   static_cast<int>(c.data.image_size.value_or(kDefaultImageSize)));
}

// Where the set is not there at all, the key is wrong and not a file.
std::shared_ptr<const Dataset> LoadSplit(const Configuration& c, Split split) {
  try {
    return ReadSplit(c, split);
  } catch (const training::DataError& error) {
    std::error_code ignored;
    if (split != Split::kTrain || std::filesystem::exists(error.file(), ignored)) throw;
    const std::filesystem::path missing = error.file().lexically_relative(c.data.root);
    const std::filesystem::path root = std::filesystem::absolute(c.data.root, ignored);
    std::string hint;
    if (std::filesystem::exists(root.parent_path() / missing, ignored)) {
      hint = fmt::format("; did you mean {}?", root.parent_path().string());
    } else if (c.data.name != "imagefolder") {
      hint = fmt::format(" (batchless data fetch {} --out {})", c.data.name, c.data.root);
    }
    throw UsageError("data.root", c.data.root,
                     fmt::format("a folder with {} in it{}", missing.string(), hint));
  }
}

std::unique_ptr<training::SampleSource> MakeSource(const Configuration& c, Split split) {
  const bool is_train = split == Split::kTrain;
  const std::string key = is_train ? "data.limit_train" : "data.limit_validation";
  std::shared_ptr<const Dataset> dataset = LoadSplit(c, split);
  training::SampleSourceOptions options;
  options.limit = is_train ? c.data.limit_train : c.data.limit_validation;
  if (options.limit > dataset->size()) {
    throw UsageError(key, std::to_string(options.limit),
                     fmt::format("0 to {}, the samples of {}", dataset->size(), dataset->name()));
  }
  if (is_train) {
    options.seed = static_cast<std::uint64_t>(c.run.seed);
    options.order =
        c.data.order == "shuffled" ? training::Order::kShuffled : training::Order::kSequential;
    options.augment = c.data.augment;
  } else {
    options.order = training::Order::kSequential;
  }
  return std::make_unique<training::SampleSource>(std::move(dataset), options);
}

}  // namespace

RunData LoadRunData(const Configuration& configuration) {
  return {MakeSource(configuration, Split::kTrain), MakeSource(configuration, Split::kValidation)};
}

DataShape DataShapeOf(const Configuration& c) {
  if (c.data.image_size && c.data.name != "imagefolder") {
    throw UsageError("data.image_size", std::to_string(*c.data.image_size),
                     "nothing but with data.name = imagefolder");
  }
  if (c.data.seed && c.data.name != "synthetic") {
    throw UsageError("data.seed", std::to_string(*c.data.seed),
                     "nothing but with data.name = synthetic");
  }
  if (c.data.name == "mnist") return {{1, 28, 28}, 10};
  if (c.data.name != "imagefolder") return {{3, 32, 32}, 10};
  const std::shared_ptr<const Dataset> dataset = LoadSplit(c, Split::kTrain);
  const training::ImageShape& shape = dataset->shape();
  return {{shape.channels, shape.height, shape.width}, dataset->classes()};
}

}  // namespace batchless
