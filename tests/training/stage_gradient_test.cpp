// Every kind of stage against central differences, in double by the reference kernels.
#include <array>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "batchless/hwmodel/network_builder.h"
#include "batchless/training/backend.h"
#include "batchless/training/trainer.h"
#include "catch.h"
#include "stage_harness.h"
#include "test_networks.h"
#include "test_schedules.h"

namespace batchless::training {
namespace {

using hwmodel::MakeNetwork;
using hwmodel::Network;
using hwmodel::Normalization;

// A stage of every shape of its kind once, of those with no more than `largest` pairs of channels: same layers,
// norm, strides and sizes of micro-batch.
void CheckStages(const Network& network, int microbatch, std::int64_t largest = 20000) {
  std::set<std::string> seen;
  for (int s = 0; s < network.stage_count(); ++s) {
    std::string kind;
    std::int64_t parameters = 0;
    for (const hwmodel::Layer& layer : network.stages[s].layers) {
      kind += std::to_string(static_cast<int>(layer.kind)) + "/" + std::to_string(layer.kernel) +
              "/" + std::to_string(layer.stride) + " ";
      if (layer.kind == hwmodel::LayerKind::kConvolution) {
        parameters = std::int64_t{layer.input.channels} * layer.output.channels;
      } else if (layer.kind == hwmodel::LayerKind::kLinear) {
        parameters = layer.input.elements() * layer.output.channels;
      }
    }
    kind += std::to_string(network.stages[s].outputs.size());
    if (parameters > largest || !seen.insert(kind).second) continue;
    CheckDifferences(network, s, microbatch, /*probes=*/12);
  }
}

TEST_CASE("ResNet's stages, also as first published, have the gradients of finite differences",
          "[stage]") {
  for (const auto& [name, edge] : {std::pair("resnet20", 8), std::pair("resnet20-v1", 9)}) {
    for (const Normalization norm :
         {Normalization::kGroup, Normalization::kBatch, Normalization::kNone}) {
      const Network network =
          MakeNetwork({.name = name, .normalization = norm, .input = {3, edge, edge}});
      if (norm != Normalization::kBatch) CheckStages(network, 1);
      CheckStages(network, 3);
    }
  }
}

TEST_CASE("VGG's, AlexNet's and LeNet's stages have the gradients of finite differences",
          "[stage]") {
  CheckStages(MakeNetwork({.name = "vgg11"}), 2, 5000);
  CheckStages(MakeNetwork({.name = "lenet5"}), 2);
  CheckStages(MakeNetwork({.name = "alexnet", .input = {3, 67, 67}}), 1, 5000);
  // A linear layer is the same whatever its width.
  CheckStages(MakeNetwork({.name = "mlp", .input = {1, 4, 4}, .hidden = {6, 5}}), 3);
}

// A convolution to `channels`, the layer behind it, and a loss.
Network NetworkWith(int channels, hwmodel::Layer layer) {
  using hwmodel::LayerKind;
  layer.name = "layer";
  return NetworkOf(
      {3, 5, 4}, 4,
      {{.kind = LayerKind::kConvolution, .name = "conv", .output = {.channels = channels}},
       layer,
       {.kind = LayerKind::kLinear, .name = "fc", .output = {.channels = 4}},
       {.kind = LayerKind::kLoss}});
}

TEST_CASE("Normalisations alone have the gradients of finite differences", "[stage]") {
  using hwmodel::LayerKind;
  const Network group = NetworkWith(6, {.kind = LayerKind::kGroupNormalization, .groups = 3});
  CheckStages(group, 1);
  CheckStages(group, 3);
  CheckStages(NetworkWith(6, {.kind = LayerKind::kBatchNormalization}), 3);
  for (const int size : {1, 2, 5, 9}) {
    const Network response = NetworkWith(6, {.kind = LayerKind::kLocalResponseNormalization,
                                             .kernel = size,
                                             .alpha = 0.7,
                                             .beta = 0.75,
                                             .k = 1.3});
    CheckStages(response, 1);
    CheckStages(response, 2);
  }
}

// By the equation, channel after channel; PyTorch's window of n = 4 around c is c-2 .. c+1.
TEST_CASE("Local response normalisation is that of its equation", "[stage]") {
  constexpr int kChannels = 7;
  for (const int size : {1, 4, 5}) {
    const hwmodel::Layer layer{.kind = hwmodel::LayerKind::kLocalResponseNormalization,
                               .kernel = size,
                               .alpha = 0.4,
                               .beta = 0.6,
                               .k = 2};
    const Network network = NetworkWith(kChannels, layer);
    StageHarness<double> reference(network, 1, 2, MakeReferenceBackend<double>());
    const Numbers x = RandomNumbers(reference.InputSize(0), 8);
    const Numbers y = reference.Forward({x}).at(0);
    const std::int64_t pixels = network.stages[1].layers[0].input.pixels();
    for (std::int64_t i = 0; i < std::ssize(x); ++i) {
      const std::int64_t c = i / pixels % kChannels;
      double sum = 0;
      for (std::int64_t j = c - size / 2; j <= c + (size - 1) / 2; ++j) {
        if (j < 0 || j >= kChannels) continue;
        const double a = x[i + (j - c) * pixels];
        sum += a * a;
      }
      CHECK(y[i] == Approx(x[i] / std::pow(2 + 0.4 / size * sum, 0.6)));
    }
  }
}

TEST_CASE("ResNet-50's stem and bottlenecks have the gradients of finite differences", "[stage]") {
  CheckStages(MakeNetwork({.name = "resnet50", .input = {3, 32, 32}, .classes = 12}), 1, 17000);
}

// Convolutions around sums, whose inputs' gradients lie in one place where none disturbs another.
class BranchedNetwork {
 public:
  int Convolve(int input, std::vector<hwmodel::Layer> before = {}, int* rectified = nullptr) {
    const std::string name = NextName();
    before.push_back({.kind = hwmodel::LayerKind::kConvolution,
                      .name = name,
                      .output = {.channels = 4},
                      .kernel = 3,
                      .padding = 1});
    return builder_.Add({.name = name, .layers = std::move(before), .inputs = {input}}, rectified);
  }
  int Sum(int first, int second) {
    return builder_.Add({.name = NextName(),
                         .layers = {{.kind = hwmodel::LayerKind::kSum}},
                         .inputs = {first, second}});
  }
  Network Finish(int last) {
    const hwmodel::Layer linear{
        .kind = hwmodel::LayerKind::kLinear, .name = "fc", .output = {.channels = 4}};
    last = builder_.Add({.name = "fc", .layers = {linear}, .inputs = {last}});
    builder_.Add(
        {.name = "loss", .layers = {{.kind = hwmodel::LayerKind::kLoss}}, .inputs = {last}});
    return builder_.Finish();
  }

 private:
  std::string NextName() { return "stage" + std::to_string(builder_.next_stage()); }

  hwmodel::NetworkBuilder builder_{"branched", {3, 5, 5}, 4};
};

std::vector<Network> BranchedNetworks() {
  const hwmodel::Layer relu{.kind = hwmodel::LayerKind::kRelu};
  const hwmodel::Layer norm{
      .kind = hwmodel::LayerKind::kGroupNormalization, .name = "norm", .groups = 2};
  std::vector<Network> networks;
  // A residual branch of one convolution.
  for (const std::vector<hwmodel::Layer>& before :
       {std::vector<hwmodel::Layer>{}, std::vector{relu}, std::vector{norm, relu}}) {
    BranchedNetwork network;
    const int x = network.Convolve(0);
    networks.push_back(network.Finish(network.Sum(network.Convolve(x, before), x)));
  }
  {
    // Two branches side by side.
    BranchedNetwork network;
    const int x = network.Convolve(0);
    const int f = network.Convolve(x);
    const int g = network.Convolve(x);
    networks.push_back(network.Finish(network.Sum(network.Sum(f, x), g)));
  }
  {
    // A branch that leaves another one.
    BranchedNetwork network;
    const int x = network.Convolve(0);
    const int f = network.Convolve(x);
    const int g = network.Convolve(f);
    networks.push_back(network.Finish(network.Sum(network.Sum(f, x), g)));
  }
  {
    // What a stage hands on beside its result.
    BranchedNetwork network;
    const int x = network.Convolve(0);
    int rectified = -1;
    const int f = network.Convolve(x, {relu}, &rectified);
    networks.push_back(network.Finish(network.Sum(f, network.Sum(rectified, x))));
  }
  return networks;
}

TrainerOptions PlainStep(const Network& network, Precision precision) {
  TrainerOptions options;
  options.network = network;
  options.batch = 1;
  options.learning_rate.base = 1;
  options.momentum = 0;
  options.precision = precision;
  return options;
}

// The loss of one sample, for whose gradient `weights` take a step at rate 1.
double LearnOnce(const TrainerOptions& options, std::vector<NamedTensor>& weights) {
  const std::unique_ptr<Trainer> trainer = MakeTrainer(options);
  trainer->ImportWeights(weights);
  const Numbers numbers = RandomNumbers(options.network.input.elements(), 3);
  const std::vector<float> image(numbers.begin(), numbers.end());
  const double loss = trainer->Learn(image, 1).at(0).loss;
  weights = trainer->ExportWeights();
  return loss;
}

TEST_CASE("The engine's gradients around sums are those of finite differences", "[stage]") {
  for (const Network& network : BranchedNetworks()) {
    const TrainerOptions twofold = PlainStep(network, Precision::kDouble);
    std::vector<NamedTensor> start = MakeTrainer(twofold)->ExportWeights();
    // No bias is 0 then, and no scale 1.
    for (std::size_t t = 0; t < start.size(); ++t) {
      const Numbers shift = RandomNumbers(std::ssize(start[t].values), 50 + t);
      for (std::size_t i = 0; i < shift.size(); ++i) start[t].values[i] += 0.1 * shift[i];
    }
    std::vector<NamedTensor> after = start;
    LearnOnce(twofold, after);
    std::vector<NamedTensor> by_vectors = start;
    LearnOnce(PlainStep(network, Precision::kSingle), by_vectors);
    for (std::size_t t = 0; t < start.size(); ++t) {
      INFO("network of " << network.stage_count() << " stages, " << start[t].name);
      const Numbers direction = RandomNumbers(std::ssize(start[t].values), 70 + t);
      double slope = 0;
      for (std::size_t i = 0; i < direction.size(); ++i) {
        const double gradient = start[t].values[i] - after[t].values[i];
        slope += gradient * direction[i];
        // The float kernels round a few sums of some tens of numbers.
        const double by_vector = start[t].values[i] - by_vectors[t].values[i];
        CHECK(std::abs(by_vector - gradient) <= 1e-4 * std::max(1.0, std::abs(gradient)));
      }
      std::array<double, 2> losses{};
      for (std::size_t side = 0; side < 2; ++side) {
        std::vector<NamedTensor> moved = start;
        for (std::size_t i = 0; i < direction.size(); ++i) {
          moved[t].values[i] += (side == 0 ? kDifferenceStep : -kDifferenceStep) * direction[i];
        }
        losses[side] = LearnOnce(twofold, moved);
      }
      const double difference = (losses[0] - losses[1]) / (2 * kDifferenceStep);
      CHECK(std::abs(slope - difference) <=
            kDifferenceTolerance * std::max(1.0, std::abs(difference)));
    }
  }
}

TEST_CASE("Networks of branches train to the same bits on any number of workers", "[stage]") {
  for (const Network& network : BranchedNetworks()) {
    TrainerOptions options = PlainStep(network, Precision::kSingle);
    options.schedule = PbOf(network);
    options.learning_rate.base = 1e-3;
    std::set<std::string> digests;
    for (const int workers : {1, 2, 4}) {
      options.workers = workers;
      const std::unique_ptr<Trainer> trainer = MakeTrainer(options);
      for (std::uint64_t i = 0; i < 16; ++i) {
        const Numbers numbers = RandomNumbers(network.input.elements(), 100 + i);
        trainer->Learn(std::vector<float>(numbers.begin(), numbers.end()), static_cast<int>(i % 4));
      }
      trainer->Finish();
      digests.insert(trainer->WeightsSha256());
    }
    CHECK(digests.size() == 1);
  }
}

TEST_CASE("Dropout keeps the mean, and its mask depends on seed, sample and stage alone",
          "[stage]") {
  const Network network = MakeNetwork({.name = "vgg11"});
  int stage = -1;
  for (int s = 0; s < network.stage_count() && stage < 0; ++s) {
    if (network.stages[s].layers[0].kind == hwmodel::LayerKind::kDropout) stage = s;
  }
  REQUIRE(stage > 0);
  constexpr int kSamples = 40;
  StageHarness<double> many(network, stage, kSamples, MakeReferenceBackend<double>());
  const Numbers ones(many.InputSize(0), 1.0);
  const Numbers all = many.Forward({ones}).at(0);
  const auto features = static_cast<std::int64_t>(all.size()) / kSamples;
  double sum = 0;
  for (const double value : all) {
    CHECK((value == 0 || value == 2));
    sum += value;
  }
  // Five standard deviations of the mean of that many fair coins.
  const auto count = static_cast<double>(all.size());
  CHECK(std::abs(sum / count - 1) < 5 / std::sqrt(count));

  StageHarness<double> one(network, stage, 1, MakeReferenceBackend<double>());
  const Numbers few(features, 1.0);
  for (int sample = 0; sample < kSamples; sample += 13) {
    one.microbatch().first_sample = many.microbatch().first_sample + sample;
    const Numbers alone = one.Forward({few}).at(0);
    CHECK(std::equal(alone.begin(), alone.end(), all.begin() + sample * features));
  }
  const Numbers before = one.Forward({few}).at(0);
  one.microbatch().seed += 1;
  CHECK(one.Forward({few}).at(0) != before);
  one.microbatch().training = false;
  CHECK(one.Forward({few}).at(0) == few);
}

TEST_CASE("Batch normalisation's running statistics are PyTorch's", "[stage]") {
  const Network network =
      MakeNetwork({.name = "resnet20", .normalization = Normalization::kBatch, .input = {3, 2, 2}});
  // The last norm and ReLU, a stage of its own.
  const int stage = network.stage_count() - 4;
  REQUIRE(network.stages[stage].name == "norm");
  constexpr int kSamples = 4;
  StageHarness<double> harness(network, stage, kSamples, MakeReferenceBackend<double>());
  const hwmodel::FeatureShape shape = network.values[network.stages[stage].inputs[0]].shape;
  const Numbers x = RandomNumbers(harness.InputSize(0), 3);
  const Numbers gamma(shape.channels, 2.0);
  const Numbers beta(shape.channels, 0.5);
  harness.SetParameter(0, gamma);
  harness.SetParameter(1, beta);
  const StageLayout& layout = harness.layout();
  REQUIRE(layout.state.size() == 2);
  CHECK(layout.state[0].name == "norm.running_mean");
  CHECK(layout.state[1].name == "norm.running_var");
  for (int c = 0; c < shape.channels; ++c) harness.state()[layout.state[0].offset + c] = 0;
  harness.Forward({x});
  for (int c = 0; c < shape.channels; ++c) {
    double sum = 0;
    double squares = 0;
    const std::int64_t pixels = shape.pixels();
    for (int i = 0; i < kSamples; ++i) {
      for (std::int64_t p = 0; p < pixels; ++p) {
        const double value = x[(i * shape.channels + c) * pixels + p];
        sum += value;
        squares += value * value;
      }
    }
    const auto count = static_cast<double>(kSamples * pixels);
    const double unbiased = (squares - sum * sum / count) / (count - 1);
    CHECK(harness.state()[layout.state[0].offset + c] == Approx(0.1 * sum / count));
    CHECK(harness.state()[layout.state[1].offset + c] == Approx(0.9 + 0.1 * unbiased));
  }
  // Evaluation normalises by them, and leaves them.
  harness.microbatch().training = false;
  const std::vector<double> running = harness.state();
  const Numbers y = harness.Forward({x}).at(0);
  CHECK(harness.state() == running);
  const double mean = running[layout.state[0].offset];
  const double variance = running[layout.state[1].offset];
  CHECK(y[0] == Approx(std::max(0.0, 2 * (x[0] - mean) / std::sqrt(variance + 1e-5) + 0.5)));
}

}  // namespace
}  // namespace batchless::training
