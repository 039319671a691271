#include "run_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "batchless/training/data_error.h"
#include "batchless/training/token_dataset.h"
#include "network_file.h"
#include "npz.h"
#include "usage_error.h"

namespace batchless {
namespace {

using training::Dataset;
using training::Split;

constexpr std::int64_t kDefaultContext = 128;

bool HasTokens(const Configuration& c) {
  return c.data.name == "text" || c.data.name == "markov" || c.data.name == "tokens";
}

[[noreturn]] void RefuseFile(const Configuration& c, std::string_view why) {
  throw UsageError(
      "data.file", c.data.file,
      fmt::format("{} ({})", c.data.name == "text" ? "a text" : "a .npy list of tokens", why));
}

std::vector<std::int64_t> ReadTokenList(const Configuration& c) {
  constexpr std::size_t kMostTokens = std::size_t{1} << 31;
  try {
    const training::NamedTensor array = ReadNpy(c.data.file, kMostTokens);
    if (array.shape.size() != 1) RefuseFile(c, "an array of one dimension is wanted");
    if (array.values.empty()) RefuseFile(c, "there is nothing in it");
    std::vector<std::int64_t> tokens;
    tokens.reserve(array.values.size());
    for (const double value : array.values) {
      // Beyond every vocabulary.
      const bool is_token = value >= 0 && value < (1 << 24) && value == std::floor(value);
      if (!is_token) RefuseFile(c, fmt::format("token {} is {}", tokens.size(), value));
      tokens.push_back(static_cast<std::int64_t>(value));
    }
    return tokens;
  } catch (const ArrayFileError& error) {
    RefuseFile(c, error.what());
  }
}

// Refuses the file for what `read` finds wrong with its tokens.
template <class Read>
auto OfTokens(const Configuration& c, Read read) {
  try {
    return read();
  } catch (const training::DataError& error) {
    const std::string record =
        error.record() ? fmt::format("token {}: ", *error.record()) : std::string();
    RefuseFile(c, record + error.reason());
  }
}

std::shared_ptr<const std::vector<std::int64_t>> ReadTokensOf(const Configuration& c) {
  RefuseIf(c.data.file.empty(), "data.file", "nothing",
           c.data.name == "text" ? "the path of a text" : "the path of a .npy file");
  return std::make_shared<const std::vector<std::int64_t>>(OfTokens(c, [&] {
    return c.data.name == "text" ? training::ReadTextTokens(c.data.file) : ReadTokenList(c);
  }));
}

DataShape TokenShapeOf(const Configuration& c) {
  std::int64_t context = c.network.context.value_or(kDefaultContext);
  std::optional<std::int64_t> vocabulary = c.network.vocabulary;
  if (!c.network.file.empty()) {
    const hwmodel::Network network = ReadNetworkFile("network.file", c.network.file);
    context = network.input.height;
    vocabulary = network.classes;
  }
  if (!vocabulary && c.data.name == "text") vocabulary = training::kTextVocabulary;
  if (!vocabulary && c.data.name == "markov") vocabulary = training::kMarkovVocabulary;
  std::shared_ptr<const std::vector<std::int64_t>> tokens;
  if (!vocabulary) {
    tokens = ReadTokensOf(c);
    vocabulary = std::max<std::int64_t>(2, 1 + *std::max_element(tokens->begin(), tokens->end()));
  }
  RefuseIf(c.data.name == "markov" && *vocabulary < training::kMarkovVocabulary,
           "network.vocabulary", vocabulary,
           fmt::format("at least the {} symbols of markov", training::kMarkovVocabulary));
  return {{1, static_cast<int>(context), 1},
          static_cast<int>(*vocabulary),
          static_cast<int>(context),
          std::move(tokens)};
}

std::shared_ptr<const Dataset> ReadTokenSplit(const Configuration& c, Split split,
                                              const DataShape& shape) {
  const int context = shape.image.height;
  if (c.data.name == "markov") {
    return training::MakeMarkov(static_cast<std::uint64_t>(DataSeedOf(c)), split, context);
  }
  return OfTokens(c, [&] {
    return training::MakeTokens(c.data.name, c.data.file, *shape.tokens, split, context,
                                shape.classes);
  });
}

std::shared_ptr<const Dataset> ReadSplit(const Configuration& c, Split split) {
  const std::string& name = c.data.name;
  if (name == "synthetic") {
    return training::MakeSynthetic(static_cast<std::uint64_t>(DataSeedOf(c)), split);
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

std::unique_ptr<training::DatasetSource> MakeSource(const Configuration& c, Split split,
                                                    const DataShape& shape) {
  const bool is_train = split == Split::kTrain;
  const std::string key = is_train ? "data.limit_train" : "data.limit_validation";
  std::shared_ptr<const Dataset> dataset =
      HasTokens(c) ? ReadTokenSplit(c, split, shape) : LoadSplit(c, split);
  training::DatasetSourceOptions options;
  options.limit = is_train ? c.data.limit_train : c.data.limit_validation;
  RefuseIf(options.limit > dataset->size(), key, options.limit,
           fmt::format("0 to {}, the samples of {}", dataset->size(), dataset->name()));
  if (is_train) {
    options.seed = static_cast<std::uint64_t>(c.run.seed);
    options.order =
        c.data.order == "shuffled" ? training::Order::kShuffled : training::Order::kSequential;
    options.augment = c.data.augment;
  } else {
    options.order = training::Order::kSequential;
  }
  return std::make_unique<training::DatasetSource>(std::move(dataset), options);
}

}  // namespace

std::int64_t DataSeedOf(const Configuration& c) {
  const auto initial = c.data.name == "markov" ? training::kMarkovSeed : training::kSyntheticSeed;
  return c.data.seed.value_or(static_cast<std::int64_t>(initial));
}

RunData LoadRunData(const Configuration& configuration, DataShape shape) {
  const bool is_list = HasTokens(configuration) && configuration.data.name != "markov";
  if (is_list && shape.tokens == nullptr) shape.tokens = ReadTokensOf(configuration);
  return {MakeSource(configuration, Split::kTrain, shape),
          MakeSource(configuration, Split::kValidation, shape)};
}

DataShape DataShapeOf(const Configuration& c) {
  RefuseIf(c.data.image_size && c.data.name != "imagefolder", "data.image_size", c.data.image_size,
           "nothing but with data.name = imagefolder");
  RefuseIf(c.data.seed && c.data.name != "synthetic" && c.data.name != "markov", "data.seed",
           c.data.seed, "nothing but with data.name = synthetic or markov");
  RefuseIf(!c.data.file.empty() && c.data.name != "text" && c.data.name != "tokens", "data.file",
           c.data.file, "nothing but with data.name = text or tokens");
  if (HasTokens(c)) return TokenShapeOf(c);
  for (const auto& [key, value] :
       {std::pair("context", c.network.context), {"vocabulary", c.network.vocabulary}}) {
    RefuseIf(value.has_value(), fmt::format("network.{}", key), value,
             "nothing but with data.name = text, markov or tokens");
  }
  if (c.data.name == kOwnSamples && !c.network.file.empty()) {
    const hwmodel::Network network = ReadNetworkFile("network.file", c.network.file);
    return {network.input, network.classes};
  }
  if (c.data.name == "mnist") return {{1, 28, 28}, 10};
  if (c.data.name != "imagefolder") return {{3, 32, 32}, 10};
  const std::shared_ptr<const Dataset> dataset = LoadSplit(c, Split::kTrain);
  const training::ImageShape& shape = dataset->shape();
  return {{shape.channels, shape.height, shape.width}, dataset->classes()};
}

}  // namespace batchless
