#include "batchless/hwmodel/workload.h"

#include <algorithm>
#include <map>
#include <set>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/memory_plan.h"
#include "batchless/hwmodel/network_builder.h"
#include "catch.h"

namespace batchless::hwmodel {
namespace {

TEST_CASE("Parameter counts are those that others print", "[workload]") {
  // torchvision's VGG-16; the released GPT-2 models, GPT-3's 174.6e9 and BERT's encoder with pooler.
  CHECK(MakeWorkload("vgg16-imagenet").parameters() == 138'357'544);
  const std::map<std::string, std::int64_t> counts = {
      {"gpt2", 124'439'808},      {"gpt2-medium", 354'823'168}, {"gpt2-large", 774'030'080},
      {"gpt2-xl", 1'557'611'200}, {"bert-base", 109'482'240},   {"bert-large", 335'141'888},
      {"gpt3", 174'604'259'328},
  };
  for (const auto& [name, count] : counts) {
    CAPTURE(name);
    const std::int64_t words = name.starts_with("gpt") ? 50257 : 30522;
    const Workload workload = MakeWorkload(name);
    const std::int64_t width = workload.stages[0].boundary_bytes / 4 /
                               (name == "gpt3"            ? 2048
                                : name.starts_with("gpt") ? 1024
                                                          : 512);
    // The words' matrix is at both ends.
    CHECK(workload.parameters() - words * width == count);
  }
}

TEST_CASE("A transformer's FLOPs are those of the closed form", "[workload]") {
  // 96 B s l h^2 (1 + s / 6h + V / 16 l h) with recomputation: four forwards; here without, three
  // of every matrix: 72 B s l h^2 (1 + s / 6h + V / 12 l h) and the same for the scores.
  const Transformer t = {"t", 6, 64, 4, 32, 100};
  const Workload workload = MakeWorkload(t);
  const double h = t.width;
  const double s = t.tokens;
  const double l = t.blocks;
  const double blocks = 72 * s * l * h * h * (1 + s / (6 * h));
  CHECK(static_cast<double>(workload.training_flops()) ==
        Approx(blocks + 6 * s * h * t.vocabulary).epsilon(1e-14));
}

TEST_CASE("A block's activations are those of the closed form", "[workload]") {
  const Transformer t = {"t", 2, 64, 4, 32, 100};
  const Workload half = MakeWorkload(t, 2);
  const double sh = 32.0 * 64;
  const auto block =
      static_cast<double>(half.stages[1].activation_bytes + half.stages[2].activation_bytes);
  CHECK(block == sh * (34 + 5.0 * t.heads * t.tokens / t.width));
}

TEST_CASE("A network's workload is its costs", "[workload]") {
  for (const std::string_view name : NetworkNames()) {
    const Workload workload = MakeWorkload(name);
    const Network network = MakeNetwork({.name = std::string(name)});
    const std::vector<StageCost> costs = ComputeCosts(network);
    REQUIRE(workload.stages.size() == costs.size());
    std::int64_t parameters = 0;
    for (const StageCost& cost : costs) parameters += cost.parameters;
    CHECK(workload.parameters() == parameters);
    CHECK(workload.input_bytes == network.input.elements() * 4);
  }
  // Two numbers for each channel of a normalisation, and no biases.
  CHECK(MakeWorkload("vgg16").parameters() ==
        MakeWorkload("vgg16", 4, Normalization::kNone).parameters() + 4224);
  // 6n + 2 layers are 9n + 7 stages.
  CHECK(MakeWorkload("resnet224").stage_count() == 9 * 37 + 7);
  CHECK(MakeWorkload("resnet362").stage_count() == 9 * 60 + 7);
}

TEST_CASE("Stages move what they read and make themselves", "[workload]") {
  // A block of 64 channels and 8 x 8 pixels, its tensors all as large: 64 * 64 numbers.
  const Workload workload = MakeWorkload("resnet20");
  const std::int64_t y = 4 * 64 * 64;
  const std::int64_t statistics = 4 * 4 * 64;
  const auto at = [&](std::string_view name) {
    const auto found = std::find(workload.stage_names.begin(), workload.stage_names.end(), name);
    return workload.stages[static_cast<std::size_t>(found - workload.stage_names.begin())];
  };
  const StageCost first = at("group3.block1.conv1");
  CHECK(first.read_bytes == y);
  CHECK(first.written_bytes == y);
  CHECK(first.saved_bytes == statistics);
  CHECK(first.kept_bytes == y + statistics);
  CHECK(first.gradient_bytes == 3 * y);  // reads its output's, adds to that of the skip connection
  const StageCost second = at("group3.block1.conv2");
  // The skip connection crosses it, on the link alone.
  CHECK(second.read_bytes == y);
  CHECK(second.written_bytes == y);
  CHECK(second.boundary_bytes == 2 * y);
  CHECK(second.gradient_bytes == 2 * y);
  const StageCost sum = at("group3.block1.sum");
  CHECK(sum.read_bytes == 2 * y);
  CHECK(sum.written_bytes == y);
  CHECK(sum.gradient_bytes + sum.kept_bytes == 0);
  CHECK(workload.stages.front().gradient_bytes == workload.stages.front().written_bytes);
}

TEST_CASE("A sum moves the gradients that it copies", "[workload]") {
  // The shortcut of a ResNet as first published takes every second pixel: one of its own.
  const Network network = MakeNetwork({.name = "resnet20-v1"});
  const std::vector<StageCost> costs = ComputeCosts(network);
  int copies = 0;
  for (std::size_t s = 0; s < costs.size(); ++s) {
    const Stage& stage = network.stages[s];
    if (stage.layers.back().kind != LayerKind::kSum) continue;
    const bool strided = stage.layers.back().stride > 1;
    copies += strided ? 1 : 0;
    CAPTURE(stage.name);
    const std::int64_t shortcut = 4 * network.values[stage.inputs[1]].shape.elements();
    CHECK(costs[s].gradient_bytes == (strided ? costs[s].written_bytes + shortcut : 0));
  }
  CHECK(copies == 2);

  // Two values, each read by a convolution as well, in one sum: what both convolutions add would meet in
  // its place, so that one has a copy.
  NetworkBuilder builder("parallel", {3, 8, 6}, 4);
  const auto conv = [](const char* name) {
    return Layer{.kind = LayerKind::kConvolution, .name = name, .output = {.channels = 5}};
  };
  const Layer sum{.kind = LayerKind::kSum};
  const int x = builder.Add({.name = "x", .layers = {conv("x")}, .inputs = {0}});
  const int y = builder.Add({.name = "y", .layers = {conv("y")}, .inputs = {x}});
  const int z = builder.Add({.name = "z", .layers = {conv("z")}, .inputs = {y}});
  const int both = builder.Add({.name = "both", .layers = {sum}, .inputs = {x, y}});
  const int all = builder.Add({.name = "all", .layers = {sum}, .inputs = {z, both}});
  const Layer linear{.kind = LayerKind::kLinear, .name = "fc", .output = {.channels = 4}};
  const int scores = builder.Add({.name = "fc", .layers = {linear}, .inputs = {all}});
  builder.Add({.name = "loss", .layers = {{.kind = LayerKind::kLoss}}, .inputs = {scores}});
  const Network parallel = builder.Finish();
  const std::vector<StageCost> of_parallel = ComputeCosts(parallel);
  const MemoryPlan plan(parallel, /*splits_backward=*/false);
  constexpr std::int64_t kValue = 4 * 5 * 8 * 6;
  for (const int s : {3, 4}) {
    std::int64_t copied = 0;
    for (const int value : parallel.stages[s].inputs) {
      if (plan.gradient_of(value) == value) ++copied;
    }
    CAPTURE(s);
    CHECK(of_parallel[s].gradient_bytes == (copied > 0 ? (1 + copied) * kValue : 0));
  }
  CHECK(of_parallel[3].gradient_bytes + of_parallel[4].gradient_bytes > 0);
}

TEST_CASE("An embedding reads the rows of its words", "[workload]") {
  const Transformer t = {"t", 1, 8, 2, 16, 1000};
  const StageCost embedding = MakeWorkload(t).stages.front();
  CHECK(embedding.sample_parameter_bytes == 2 * 4 * 16 * 8);
  CHECK(embedding.parameter_bytes == 4 * (1000 + 16) * 8);
}

TEST_CASE("A worker keeps every value that its stages read again, once", "[workload]") {
  for (const std::string_view name : {"vgg16-imagenet", "lenet5", "resnet20", "resnet20-v1"}) {
    const Workload workload = MakeWorkload(name);
    const Network network = name == "vgg16-imagenet"
                                ? MakeNetwork({.name = "vgg16",
                                               .normalization = Normalization::kNone,
                                               .input = {3, 224, 224},
                                               .classes = 1000,
                                               .hidden = {4096, 4096}})
                                : MakeNetwork({.name = std::string(name)});
    std::int64_t whole = 0;
    std::int64_t apart = 0;
    for (int first = 0; first < network.stage_count(); ++first) {
      for (int end = first + 1; end <= network.stage_count(); ++end) {
        std::set<int> kept;
        std::int64_t bytes = 0;
        for (int s = first; s < end; ++s) {
          const Stage& stage = network.stages[s];
          bytes += SavedBytes(stage, 4);
          if (KeepsInput(stage)) kept.insert(stage.inputs[0]);
          if (KeepsOutput(stage)) kept.insert(stage.outputs[0]);
        }
        for (const int value : kept) bytes += 4 * network.values[value].shape.elements();
        CAPTURE(name, first, end);
        REQUIRE(workload.WorkerActivationBytes(first, end) == bytes);
        if (end == first + 1) apart += bytes;
        if (end - first == network.stage_count()) whole = bytes;
      }
    }
    // Without normalisation a ReLU and the convolution after it keep the same value.
    CHECK((apart > whole) == !name.ends_with("resnet20"));
  }
}

TEST_CASE("A worker's input is what its stages read of others, once", "[workload]") {
  const Network resnet = MakeNetwork({.name = "resnet20"});
  // The rows of tied embeddings cross every stage to the last but one.
  const Network gpt = MakeNetwork(
      {.name = "gpt", .input = {1, 8, 1}, .layers = 2, .width = 8, .tied_embeddings = true});
  for (const Network* network : {&resnet, &gpt}) {
    const Workload workload = MakeWorkload(*network, 4);
    for (int first = 0; first < network->stage_count(); ++first) {
      for (int end = first + 1; end <= network->stage_count(); ++end) {
        std::set<int> read;
        for (int s = first; s < end; ++s) {
          for (const int value : network->stages[s].inputs) {
            if (network->values[value].producer < first) read.insert(value);
          }
        }
        std::int64_t bytes = 0;
        for (const int value : read) bytes += 4 * network->values[value].shape.elements();
        CAPTURE(network->name, first, end);
        REQUIRE(workload.WorkerInputBytes(first, end) == bytes);
      }
    }
  }
}

TEST_CASE("What is unknown is refused with the nearest name", "[workload]") {
  CHECK_THROWS_AS(MakeWorkload("resnet21"), analysis::InvalidArgument);
  CHECK_THROWS_AS(MakeNetwork({.name = "resnet020"}), analysis::InvalidArgument);
  CHECK_THROWS_WITH(MakeWorkload("gpt2", 4, Normalization::kGroup),
                    Catch::Matchers::Contains("network.norm: got group"));
  CHECK_THROWS_WITH(MakeWorkload("lenet5", 4, Normalization::kBatch),
                    Catch::Matchers::Contains("network.norm: got batch"));
  CHECK_THROWS_WITH(MakeWorkload("gpt4"), Catch::Matchers::Contains("did you mean gpt"));
  CHECK_THROWS_AS(MakeWorkload(Transformer{"t", 1, 10, 3, 1, 1}), analysis::InvalidArgument);
  CHECK_THROWS_AS(MakeWorkload(Transformer{"t", 0, 9, 3, 1, 1}), analysis::InvalidArgument);
}

}  // namespace
}  // namespace batchless::hwmodel
