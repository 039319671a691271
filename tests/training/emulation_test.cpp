// Against the same training in NumPy, sample by sample: golden/make_pipelines.py says how it was made.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "batchless/hwmodel/network_builder.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/training/dataset.h"
#include "batchless/training/trainer.h"
#include "catch.h"

namespace batchless::training {
namespace {

using hwmodel::Layer;
using hwmodel::LayerKind;
using Json = nlohmann::json;

// Both sides round every number of a sample's passes once or a few times, in sums of other orders, and 48
// updates carry that on.
constexpr double kLossTolerance = 1e-10;
// Newton and Schulz's steps multiply small singular values, with their rounding, by up to 500.
constexpr double kMuonTolerance = 1e-8;
// NumPy in single precision comes within 1.5e-5 of what it gives in double, in all of these cases but
// basis-rotation's.
constexpr double kSingleTolerance = 1e-4;

class EmulatedImages final : public Dataset {
 public:
  EmulatedImages(const ImageShape& shape, const Json& golden, const Json& pixels)
      : Dataset({.name = "emulated",
                 .shape = shape,
                 .classes = golden["classes"],
                 .mean = std::vector<float>(shape.channels, 0.5F),
                 .standard_deviation = std::vector<float>(shape.channels, 0.5F),
                 .labels = golden["labels"],
                 .digest = ""}),
        pixels_(pixels.get<std::vector<std::vector<std::uint8_t>>>()) {}

 private:
  void DoRead(std::int64_t sample, std::span<std::uint8_t> pixels) const override {
    std::copy(pixels_[sample].begin(), pixels_[sample].end(), pixels.begin());
  }

  std::vector<std::vector<std::uint8_t>> pixels_;
};

// Windows of one text.
class EmulatedTokens final : public Dataset {
 public:
  explicit EmulatedTokens(const Json& golden)
      : Dataset({.name = "emulated",
                 .shape = {1, golden["context"], 1},
                 .classes = golden["symbols"],
                 .mean = {},
                 .standard_deviation = {},
                 .labels = std::vector<int>(golden["labels"].size()),
                 .digest = "",
                 .context = golden["context"]}),
        tokens_(golden["tokens"].get<std::vector<std::int32_t>>()) {}

 private:
  void DoReadTokens(std::int64_t sample, std::span<std::int32_t> tokens) const override {
    std::copy_n(tokens_.begin() + sample * context(), tokens.size(), tokens.begin());
  }

  std::vector<std::int32_t> tokens_;
};

hwmodel::Network ConvolutionNetwork(int classes) {
  hwmodel::NetworkBuilder builder("convolutions", {2, 6, 5}, classes);
  const auto convolution = [](const std::string& name, int channels, int stride, bool bias) {
    return Layer{.kind = LayerKind::kConvolution,
                 .name = name,
                 .output = {.channels = channels},
                 .kernel = 3,
                 .stride = stride,
                 .padding = 1,
                 .bias = bias};
  };
  const auto norm = [](const std::string& name) {
    return Layer{.kind = LayerKind::kGroupNormalization, .name = name, .groups = 2};
  };
  const Layer relu{.kind = LayerKind::kRelu};
  const auto add = [&](const std::string& name, const std::vector<Layer>& layers,
                       const std::vector<int>& inputs) {
    return builder.Add({.name = name, .layers = layers, .inputs = inputs});
  };
  const int first = add("conv1", {convolution("conv1", 4, 1, true)}, {0});
  int x = add("block.conv1", {norm("block.norm1"), relu, convolution("block.conv1", 4, 1, false)},
              {first});
  x = add("block.conv2", {norm("block.norm2"), relu, convolution("block.conv2", 4, 1, false)}, {x});
  x = add("block", {{.kind = LayerKind::kSum}}, {x, first});
  x = add("conv2", {norm("norm2"), relu, convolution("conv2", 6, 2, false)}, {x});
  x = add("norm", {norm("norm"), relu}, {x});
  x = add("pool", {{.kind = LayerKind::kAveragePool}}, {x});
  x = add("fc", {{.kind = LayerKind::kLinear, .name = "fc", .output = {.channels = classes}}}, {x});
  add("loss", {{.kind = LayerKind::kLoss}}, {x});
  return builder.Finish();
}

hwmodel::Network NetworkOf(const std::string& name, const Json& golden) {
  const int classes = golden["classes"];
  if (name == "convolutions") return ConvolutionNetwork(classes);
  if (name.starts_with("gpt")) {
    return hwmodel::MakeNetwork({.name = "gpt",
                                 .input = {1, golden["context"], 1},
                                 .classes = golden["symbols"],
                                 .layers = 1,
                                 .width = 6,
                                 .heads = 2,
                                 .tied_embeddings = name == "gpt-tied"});
  }
  return hwmodel::MakeNetwork(
      {.name = "mlp", .input = {1, 3, 4}, .classes = classes, .hidden = {7, 6}});
}

hwmodel::Schedule ScheduleOf(const Json& expected, int stages) {
  const std::string kind = expected["schedule"];
  const bool stashes = expected.value("weight_stashing", false);
  if (kind == "sequential" || kind == "random-delay") return {};
  if (kind == "uniform-delay") {
    return {
        .weights = stashes ? hwmodel::WeightVersions::kStashed : hwmodel::WeightVersions::kNewest,
        .forward_lag = expected["lag"]};
  }
  const std::int64_t batch = expected["batch"];
  return hwmodel::MakeSchedule(kind, {.stages = stages,
                                      .microbatches = hwmodel::EnoughMicrobatches(stages, batch),
                                      .microbatches_per_update = batch,
                                      .weight_stashing = stashes,
                                      .vertical_sync = expected.value("vertical_sync", false)});
}

OptimizerSpec OptimizerOf(const Json& expected) {
  OptimizerSpec spec{FindOptimizer(expected["optimizer"].get<std::string>()), {}};
  const Json& values = expected["values"];
  if (!spec.optimizer.takes_quotients) {
    spec.values = values;
    return spec;
  }
  for (const auto& [delay, quotient] : values.items()) {
    spec.by_delay[std::stoi(delay)] =
        analysis::LinearSpec(quotient["numerator"], quotient["denominator"]);
  }
  return spec;
}

TrainerOptions OptionsOf(const Json& golden, const Json& expected) {
  TrainerOptions options;
  options.network = NetworkOf(expected["network"], golden);
  options.schedule = ScheduleOf(expected, options.network.stage_count());
  if (expected.contains("delays")) {
    options.random_delays = analysis::IndependentDelays(expected["delays"], expected["shares"]);
    if (expected["compensate"] == "own") options.compensation = analysis::DelayCompensation::kOwn;
    options.seed = expected["seed"];
  }
  options.batch = expected["batch"];
  options.samples = static_cast<std::int64_t>(golden["labels"].size());
  options.rule = {analysis::FindRule(expected["rule"].get<std::string>()), {}};
  options.optimizer = OptimizerOf(expected);
  options.learning_rate.base = golden["rate"];
  options.momentum = golden["momentum"];
  options.weight_decay = expected["weight_decay"];
  options.gradient_shrink = expected.value("gradient_shrink", 1.0);
  if (expected.contains("max_gradient_norm")) {
    options.max_gradient_norm = expected["max_gradient_norm"];
  }
  if (expected.contains("deepest_momentum")) {
    options.deepest_momentum = expected["deepest_momentum"];
  }
  return options;
}

TrainerOptions InDouble(TrainerOptions options) {
  options.precision = Precision::kDouble;
  options.convolution = ConvolutionMethod::kReference;
  return options;
}

std::shared_ptr<const Dataset> DataOf(const std::string& network, const Json& golden,
                                      const hwmodel::FeatureShape& input) {
  if (network.starts_with("gpt")) return std::make_shared<EmulatedTokens>(golden);
  return std::make_shared<EmulatedImages>(ImageShape{input.channels, input.height, input.width},
                                          golden, golden["pixels"][network]);
}

// The largest difference of a sample's losses, in units of the larger of one and the loss.
double LargestDifference(const TrainerOptions& options, const Json& golden, const Json& expected) {
  const std::string network = expected["network"];
  const std::unique_ptr<Trainer> trainer = MakeTrainer(options);
  std::vector<NamedTensor> tensors = trainer->ExportWeights();
  const Json& weights = golden["weights"][network];
  CHECK(tensors.size() == weights.size());
  for (NamedTensor& tensor : tensors)
    tensor.values = weights.at(tensor.name).get<std::vector<double>>();
  trainer->ImportWeights(tensors);
  const DatasetSource source(DataOf(network, golden, options.network.input),
                             {.order = Order::kSequential});
  std::vector<SampleResult> results;
  trainer->Advance(source, options.samples, results);
  const std::vector<double> losses = expected["losses"];
  REQUIRE(results.size() == losses.size());
  double worst = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    worst = std::max(worst, std::abs(results[i].loss - losses[i]) / std::max(1.0, losses[i]));
  }
  return worst;
}

TEST_CASE("Every rule, optimizer and schedule trains as its emulation in NumPy does, loss by loss",
          "[emulation]") {
  std::ifstream file("tests/training/golden/pipelines.json");
  REQUIRE(file);
  const Json golden = Json::parse(file);
  std::set<std::string_view> missing;
  for (const Optimizer& optimizer : Optimizers()) missing.insert(optimizer.name);
  for (const analysis::Rule& rule : analysis::AllRules()) missing.insert(rule.name);
  std::map<std::string, std::set<std::vector<double>>> runs;
  for (const Json& expected : golden["cases"]) {
    Json labelled = expected;
    labelled.erase("losses");
    INFO(labelled.dump());
    const std::string optimizer = expected["optimizer"];
    const std::string rule = expected["rule"];
    const double tolerance = optimizer == "muon" ? kMuonTolerance : kLossTolerance;
    for (const int workers : {1, 3}) {
      TrainerOptions options = InDouble(OptionsOf(golden, expected));
      options.workers = workers;
      CHECK(LargestDifference(options, golden, expected) <= tolerance);
    }
    // Eigenvectors of eigenvalues that are close turn by more than rounding.
    if (optimizer != "basis-rotation") {
      CHECK(LargestDifference(OptionsOf(golden, expected), golden, expected) <= kSingleTolerance);
    }
    missing.erase(optimizer);
    missing.erase(rule);
    runs[expected["network"]].insert(expected["losses"].get<std::vector<double>>());
  }
  // `free` has the coefficients of other rules, and `linear` is an optimizer here.
  missing.erase("free");
  CHECK(missing.empty());
  // Cases differ by more than rounding, but for those that are one by definition: gpipe is sequential.
  CHECK(runs["mlp"].size() > 30);
  CHECK(runs["convolutions"].size() > 30);
  CHECK(runs["gpt"].size() > 30);
  CHECK(runs["gpt-tied"].size() == 12);
}

}  // namespace
}  // namespace batchless::training
