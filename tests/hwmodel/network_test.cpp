#include "batchless/hwmodel/network.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/memory_plan.h"
#include "batchless/hwmodel/network_builder.h"
#include "batchless/hwmodel/workload.h"
#include "catch.h"
#include "refusal.h"

namespace batchless::hwmodel {
namespace {

using analysis::InvalidArgument;

Network Make(const std::string& name, std::optional<Normalization> norm = {}) {
  return MakeNetwork({.name = name, .normalization = norm});
}

TEST_CASE("Networks have the stage counts of the paper's table", "[network]") {
  const std::map<std::string, int> expected{
      {"resnet20", 34}, {"resnet32", 52}, {"resnet44", 70}, {"resnet56", 88},    {"resnet110", 169},
      {"resnet50", 74}, {"vgg11", 29},    {"vgg13", 33},    {"vgg16", 39},       {"lenet5", 12},
      {"alexnet", 21},  {"mlp", 6},       {"linear", 2},    {"resnet20-v1", 59}, {"gpt", 28}};
  for (const std::string_view name : NetworkNames()) {
    INFO(name);
    CHECK(Make(std::string(name)).stage_count() == expected.at(std::string(name)));
  }
  CHECK(NetworkNames().size() == expected.size());
}

// Counted by hand: convolutions 9 * in * out (or 1x1), two numbers a normalised channel, 650 in the
// last layer.
TEST_CASE("Parameters and multiply-adds of ResNet-20 are those counted by hand", "[network]") {
  const auto total = [](const Network& network, auto field) {
    std::int64_t sum = 0;
    for (const StageCost& cost : ComputeCosts(network)) sum += cost.*field;
    return sum;
  };
  const std::int64_t convolutions = 9 * 3 * 16 + 6 * 9 * 16 * 16 + (9 + 1) * 16 * 32 +
                                    5 * 9 * 32 * 32 + (9 + 1) * 32 * 64 + 5 * 9 * 64 * 64;
  const std::int64_t norms = 2 * (7 * 16 + 6 * 32 + 6 * 64);
  const Network network = Make("resnet20");
  CHECK(total(network, &StageCost::parameters) == convolutions + norms + 650);

  const std::int64_t multiply_adds = 1024 * (9 * 3 * 16 + 6 * 9 * 16 * 16) +
                                     256 * ((9 + 1) * 16 * 32 + 5 * 9 * 32 * 32) +
                                     64 * ((9 + 1) * 32 * 64 + 5 * 9 * 64 * 64) + 640;
  CHECK(total(network, &StageCost::weight_gradient_flops) == 2 * multiply_adds);
  const std::vector<StageCost> costs = ComputeCosts(network);
  CHECK(costs.front().input_gradient_flops == 0);
  CHECK(costs.front().forward_flops == 2 * 1024 * 9 * 3 * 16);
  CHECK(costs.front().boundary_bytes == 4 * 16 * 1024);
}

TEST_CASE("Values are consistent with the stages that make and read them", "[network]") {
  for (const std::string_view name : NetworkNames()) {
    const Network network = Make(std::string(name));
    INFO(name);
    std::set<std::string> parameters;
    for (int s = 0; s < network.stage_count(); ++s) {
      const Stage& stage = network.stages[s];
      INFO(stage.name);
      for (const int input : stage.inputs) {
        const Value& value = network.values.at(input);
        CHECK(value.producer < s);
        CHECK(std::count(value.consumers.begin(), value.consumers.end(), s) == 1);
      }
      for (const int output : stage.outputs) CHECK(network.values.at(output).producer == s);
      CHECK(stage.layers.front().input == network.values.at(stage.inputs[0]).shape);
      for (std::size_t i = 1; i < stage.layers.size(); ++i) {
        CHECK(stage.layers[i].input == stage.layers[i - 1].output);
      }
      for (const Layer& layer : stage.layers) {
        if (!layer.name.empty()) CHECK(parameters.insert(layer.name).second);
      }
      CHECK(stage.outputs.empty() == (s + 1 == network.stage_count()));
    }
    CHECK(network.stages.back().layers.back().kind == LayerKind::kLoss);
    CHECK(network.values.at(network.stages.back().inputs[0]).shape.channels == network.classes);
  }
}

TEST_CASE("A skip connection is part of every boundary that it crosses", "[network]") {
  const Network network = Make("resnet20");
  // conv1 | norm1+conv1 | norm2+conv2 | sum: the block's input crosses the two in the middle.
  const MemoryPlan plan(network, /*splits_backward=*/false);
  CHECK(plan.CrossingValues(1).size() == 1);
  CHECK(plan.CrossingValues(2).size() == 2);
  CHECK(plan.CrossingValues(3).size() == 2);
  CHECK(plan.CrossingValues(4).size() == 1);
  CHECK(plan.CrossingValues(network.stage_count()).empty());
  CHECK(ComputeCosts(network)[1].boundary_bytes == 2 * 4 * 16 * 1024);
}

TEST_CASE("A ResNet as first published normalises after its convolutions", "[network]") {
  for (const auto norm : {Normalization::kNone, Normalization::kGroup, Normalization::kBatch}) {
    const Network network = MakeNetwork({.name = "resnet20-v1", .normalization = norm});
    const bool normalized = norm != Normalization::kNone;
    CHECK(network.stage_count() == 2 + 9 * (normalized ? 6 : 5) + 3);
    int shortcuts = 0;
    for (const Stage& stage : network.stages) {
      if (stage.layers.back().kind != LayerKind::kSum) continue;
      // Every second pixel, and zeros in the further channels.
      const FeatureShape& sum = stage.layers.back().output;
      const FeatureShape& shortcut = network.values.at(stage.inputs[1]).shape;
      CHECK(network.values.at(stage.inputs[0]).shape == sum);
      CHECK(sum.channels / shortcut.channels == shortcut.height / sum.height);
      if (!(shortcut == sum)) ++shortcuts;
    }
    CHECK(shortcuts == 2);
  }
}

TEST_CASE("A gpt has GPT-2's parameters, and a matrix of its own at the end", "[network]") {
  const NetworkOptions options{.name = "gpt",
                               .input = {1, 1024, 1},
                               .classes = 50257,
                               .layers = 12,
                               .width = 768,
                               .heads = 12};
  const Network network = MakeNetwork(options);
  CHECK(network.stage_count() == 4 * 12 + 4);
  CHECK(LabelsOf(network) == 1024);
  CHECK(MakeWorkload(network).parameters() == 124'439'808 + 50257 * 768);
  CHECK(network.stages[0].layers[0].vocabulary == 50257);
  CHECK(network.stages[1].layers[3].standard_deviation == Approx(0.02 / std::sqrt(24.0)));
}

TEST_CASE("A gpt's norms and activation are options", "[network]") {
  const NetworkOptions plain{.name = "gpt", .layers = 2, .width = 8, .heads = 2};
  const auto parameters = [](const NetworkOptions& options) {
    return MakeWorkload(MakeNetwork(options)).parameters();
  };
  NetworkOptions other = plain;
  other.rms_norm = true;
  CHECK(parameters(plain) - parameters(other) == 5 * 8);  // biases of five norms
  CHECK(MakeNetwork(other).stage_count() == 12);
  other.norm_first = false;
  CHECK(parameters(plain) - parameters(other) == 5 * 8 + 8);  // no last norm
  const Network last = MakeNetwork(other);
  CHECK(last.stage_count() == 6 * 2 + 3);
  // The second branch and its sum read the first norm's result.
  CHECK(last.stages[3].name == "h.0.ln_1");
  CHECK(last.stages[4].inputs == last.stages[3].outputs);
  CHECK(last.stages[5].inputs[1] == last.stages[3].outputs[0]);
  other.squared_relu = true;
  CHECK(MakeNetwork(other).stages[4].layers[1].kind == LayerKind::kSquaredRelu);
  CHECK_THROWS_WITH(MakeNetwork({.name = "mlp", .norm_first = false}),
                    "network.norm_first: got false, accepted: true but with the network gpt");
  CHECK_THROWS_WITH(MakeNetwork({.rms_norm = true}),
                    "network.token_norm: got rms, accepted: layer but with the network gpt");
}

TEST_CASE("Tied embeddings have GPT-2's own number of parameters, and rows in every boundary",
          "[network]") {
  NetworkOptions options{
      .name = "gpt", .input = {1, 1024, 1}, .classes = 50257, .layers = 12, .width = 768};
  const std::vector<StageCost> own = ComputeCosts(MakeNetwork(options));
  options.tied_embeddings = true;
  const Network network = MakeNetwork(options);
  const std::vector<StageCost> costs = ComputeCosts(network);
  const std::int64_t rows = std::int64_t{50257} * 768;
  REQUIRE(costs.size() == own.size());
  for (std::size_t s = 0; s < costs.size(); ++s) {
    const bool carries = s + 2 < costs.size();
    CHECK(costs[s].boundary_bytes - own[s].boundary_bytes == (carries ? 4 * rows : 0));
    CHECK(costs[s].training_flops() == own[s].training_flops());
  }
  CHECK(MakeWorkload(network).parameters() == 124'439'808);
  const std::size_t head = costs.size() - 2;
  CHECK(costs[head].parameters == 0);
  CHECK(costs[head].activation_bytes - own[head].activation_bytes == 4 * rows);
  // Gradients of the whole matrix, which a sample's own tokens alone do not touch.
  CHECK(own[0].sample_parameter_bytes == 4 * 2 * 1024 * 768);
  CHECK(costs[0].sample_parameter_bytes == 0);
  const Network untied = MakeNetwork({.name = "gpt"});
  CHECK(MemoryPlan(network, false).CrossingValues(21).size() ==
        MemoryPlan(untied, false).CrossingValues(21).size() + 1);
  CHECK_THROWS_WITH(
      MakeNetwork({.tied_embeddings = true}),
      "network.tie_word_embeddings: got true, accepted: false but with the network gpt");
}

TEST_CASE("A tied_linear takes tokens and an embedding's rows alone") {
  NetworkBuilder builder("net", {1, 4, 1}, 4);
  const Layer embedding{.kind = LayerKind::kEmbedding, .name = "wte", .output = {.channels = 4}};
  int rows = -1;
  const int x = builder.Add({.name = "embedding", .layers = {embedding}, .inputs = {0}}, &rows);
  const Stage tied{.name = "head", .layers = {{.kind = LayerKind::kTiedLinear}}, .inputs = {x, x}};
  CHECK_THROWS_WITH(
      builder.Add(tied),
      "head.inputs: got 4x4x1 and 4x4x1, accepted: tokens, and the rows of an embedding of "
      "their width");
  int second = -1;
  CHECK_THROWS_WITH(
      builder.Add({.name = "norm",
                   .layers = {{.kind = LayerKind::kLayerNormalization, .name = "norm"}},
                   .inputs = {x}},
                  &second),
      Catch::Matchers::StartsWith(
          "norm.outputs: got 2 of layer_norm, accepted: 1; a second one is"));
}

TEST_CASE("a gpt refuses heads that do not divide its width") {
  CHECK_THROWS_AS(MakeNetwork({.name = "gpt", .width = 128, .heads = 3}), InvalidArgument);
  CHECK_NOTHROW(MakeNetwork({.name = "gpt", .width = 128, .heads = 4}));
}

TEST_CASE("Costs of a gpt's stages are those counted by hand", "[network]") {
  // Two blocks, T = 8 tokens of width d = 6, H = 3 heads, V = 11.
  const Network network = MakeNetwork(
      {.name = "gpt", .input = {1, 8, 1}, .classes = 11, .layers = 2, .width = 6, .heads = 3});
  const std::vector<StageCost> costs = ComputeCosts(network);
  const StageCost& embedding = costs[0];
  CHECK(embedding.parameters == (11 + 8) * 6);
  CHECK(embedding.sample_parameter_bytes == 4 * 2 * 8 * 6);
  CHECK(embedding.activation_bytes == 4 * 8);  // the tokens
  const StageCost& attention = costs[1];
  CHECK(attention.parameters == 2 * 6 + 6 * 18 + 18 + 6 * 6 + 6);
  CHECK(attention.weight_gradient_flops == 2 * 8 * (6 * 18 + 6 * 6));
  const std::int64_t products = 2 * (2 * 8 * 8 * 6);  // queries by keys, weights by values
  const std::int64_t elementwise = 8 * 8 * 6 + 8 * 18 + 5 * 3 * 8 * 8 + 8 * 6;
  CHECK(attention.forward_flops == attention.weight_gradient_flops + products + elementwise);
  CHECK(attention.input_gradient_flops ==
        attention.weight_gradient_flops + 2 * products + elementwise);
  // Queries, keys and values, the heads' results, each softmax's denominator, statistics of each
  // token, scale and shift; its input is a value.
  const std::int64_t saved = 8 * 18 + 8 * 6 + 3 * 8 + 2 * 8 + 2 * 6;
  CHECK(attention.saved_bytes == 4 * saved);
  CHECK(attention.activation_bytes == 4 * (saved + 8 * 6));
  CHECK(attention.boundary_bytes == 4 * 2 * 8 * 6);  // x for the sum
  CHECK(costs[2].activation_bytes == 0);
  CHECK(costs[3].parameters == 2 * 6 + 6 * 24 + 24 + 24 * 6 + 6);
  CHECK(costs[3].saved_bytes == 4 * (8 * 24 + 2 * 8 + 2 * 6));
  CHECK(costs[network.stage_count() - 2].parameters == 6 * 11);
  CHECK(costs.back().saved_bytes == 4 * 8 * 11);
}

TEST_CASE("What a network cannot be is refused by name", "[network]") {
  const auto message = [](const NetworkOptions& options) {
    return test::MessageOf([&] { MakeNetwork(options); });
  };
  CHECK(message({.name = "resnet21"}).find("network.name: got") == 0);
  CHECK(message({.name = "resnet20", .groups = 5}).find("network.groups: got") == 0);
  CHECK(message({.name = "resnet20", .groups = -1}).find("network.groups: got") == 0);
  CHECK(message({.name = "lenet5", .groups = 3}) ==
        "network.groups: got 3, accepted: nothing but with group normalisation");
  CHECK(message({.name = "lenet5", .normalization = Normalization::kGroup})
            .find("network.norm: got") == 0);
  CHECK(message({.name = "vgg11", .input = {3, 8, 8}}).find("network.input: got") == 0);
  CHECK(message({.name = "vgg11", .input = {3, 0, 32}}).find("network.input: got") == 0);
  CHECK(message({.name = "resnet20", .classes = 1}).find("network.classes: got") == 0);
  CHECK(message({.name = "resnet20", .hidden = {5}}).find("network.hidden: got") == 0);
  CHECK(message({.name = "mlp", .hidden = {0}}).find("network.hidden: got") == 0);
}

TEST_CASE("A network is put together as the builder's header shows", "[network]") {
  NetworkBuilder builder("tiny", {3, 32, 32}, 10);
  const Layer conv{.kind = LayerKind::kConvolution,
                   .name = "conv1",
                   .output = {.channels = 16},
                   .kernel = 3,
                   .padding = 1};
  const Layer linear{.kind = LayerKind::kLinear, .name = "fc", .output = {.channels = 10}};
  int x = builder.Add({.name = "conv1", .layers = {conv}, .inputs = {0}});
  x = builder.Add({.name = "pool", .layers = {{.kind = LayerKind::kAveragePool}}, .inputs = {x}});
  x = builder.Add({.name = "fc", .layers = {linear}, .inputs = {x}});
  CHECK(builder.Add({.name = "loss", .layers = {{.kind = LayerKind::kLoss}}, .inputs = {x}}) == -1);
  const Network network = builder.Finish();
  CHECK(MakeWorkload(network).parameters() == 9 * 3 * 16 + 170);
  CHECK(network.values[1].shape == FeatureShape{16, 32, 32});
  CHECK(network.values[1].consumers == std::vector<int>{1});
}

TEST_CASE("Every field of a layer has the range that network files accept of it", "[network]") {
  int refused = 0;
  for (std::size_t kind = 0; kind < kLayerKindCount; ++kind) {
    for (const LayerField& field : TraitsOf(static_cast<LayerKind>(kind)).fields) {
      for (const double value : {field.low - 1, field.high + 1, std::nan("")}) {
        Layer layer{.kind = static_cast<LayerKind>(kind)};
        if (const auto* real = std::get_if<double Layer::*>(&field.member)) {
          layer.*(*real) = value;
        } else if (const auto* integer = std::get_if<int Layer::*>(&field.member)) {
          if (std::isnan(value)) continue;
          layer.*(*integer) = static_cast<int>(value);
        } else {
          continue;
        }
        // Those before it hold.
        for (const LayerField& other : TraitsOf(layer.kind).fields) {
          if (other.name == field.name) break;
          if (const auto* edge = std::get_if<int FeatureShape::*>(&other.member))
            layer.output.*(*edge) = 1;
          if (const auto* integer = std::get_if<int Layer::*>(&other.member)) {
            layer.*(*integer) = std::max(layer.*(*integer), static_cast<int>(other.low));
          }
        }
        NetworkBuilder builder("one", {3, 8, 6}, 4);
        INFO(TraitsOf(layer.kind).name << "." << field.name << " " << value);
        CHECK_THROWS_WITH(builder.Add({.name = "s", .layers = {layer}, .inputs = {0}}),
                          Catch::Matchers::StartsWith("s." + std::string(field.name) + ": got "));
        ++refused;
      }
    }
  }
  CHECK(refused > 20);
}

TEST_CASE("Costs of single layers are those counted by hand", "[network]") {
  const auto cost = [](int channels, const Layer& layer) {
    NetworkBuilder builder("one", {3, 8, 6}, 4);
    const Layer conv{
        .kind = LayerKind::kConvolution, .name = "conv", .output = {.channels = channels}};
    int x = builder.Add({.name = "conv", .layers = {conv}, .inputs = {0}});
    x = builder.Add({.name = "layer", .layers = {layer}, .inputs = {x}});
    const Layer linear{.kind = LayerKind::kLinear, .name = "fc", .output = {.channels = 4}};
    x = builder.Add({.name = "fc", .layers = {linear}, .inputs = {x}});
    builder.Add({.name = "loss", .layers = {{.kind = LayerKind::kLoss}}, .inputs = {x}});
    return ComputeCosts(builder.Finish())[1];
  };
  constexpr int kElements = 10 * 8 * 6;
  const StageCost response =
      cost(10, {.kind = LayerKind::kLocalResponseNormalization, .kernel = 5});
  CHECK(response.forward_flops == 9 * kElements);
  CHECK(response.input_gradient_flops == 9 * kElements);
  CHECK(response.parameters == 0);
  CHECK(response.activation_bytes == 4 * kElements);
  const StageCost norm = cost(10, {.kind = LayerKind::kBatchNormalization, .name = "norm"});
  CHECK(norm.forward_flops == 8 * kElements);
  CHECK(norm.parameters == 20);
  CHECK(norm.saved_bytes == 4 * 10 * 4);
  const StageCost pool =
      cost(10, {.kind = LayerKind::kMaxPool, .kernel = 3, .stride = 1, .padding = 1});
  CHECK(pool.forward_flops == 9 * kElements);
  CHECK(pool.activation_bytes == kElements);
  const StageCost relu = cost(10, {.kind = LayerKind::kRelu});
  CHECK(relu.relu_output_bytes == 4 * kElements);
  CHECK(relu.activation_bytes == 4 * kElements);
}

TEST_CASE("The network's input has no gradient, whichever stages read it", "[network]") {
  // Two branches from the input, the second behind a normalisation, which wants a gradient itself.
  NetworkBuilder builder("branches", {3, 8, 6}, 4);
  const auto conv = [](const char* name) {
    return Layer{.kind = LayerKind::kConvolution, .name = name, .output = {.channels = 5}};
  };
  const Layer norm{.kind = LayerKind::kBatchNormalization, .name = "norm"};
  const int a = builder.Add({.name = "a", .layers = {conv("a")}, .inputs = {0}});
  const int b = builder.Add({.name = "b", .layers = {conv("b")}, .inputs = {0}});
  const int c = builder.Add(
      {.name = "c", .layers = {norm, {.kind = LayerKind::kRelu}, conv("c")}, .inputs = {0}});
  const Layer sum{.kind = LayerKind::kSum};
  int x = builder.Add({.name = "ab", .layers = {sum}, .inputs = {a, b}});
  x = builder.Add({.name = "abc", .layers = {sum}, .inputs = {x, c}});
  const Layer linear{.kind = LayerKind::kLinear, .name = "fc", .output = {.channels = 4}};
  x = builder.Add({.name = "fc", .layers = {linear}, .inputs = {x}});
  builder.Add({.name = "loss", .layers = {{.kind = LayerKind::kLoss}}, .inputs = {x}});
  const std::vector<StageCost> costs = ComputeCosts(builder.Finish());
  constexpr std::int64_t kPixels = 8 * 6;
  for (const int s : {0, 1, 2}) {
    CAPTURE(s);
    CHECK(costs[s].weight_gradient_flops == 2 * 15 * kPixels);
    CHECK(costs[s].input_gradient_flops == (s < 2 ? 0 : (2 * 15 + 3) * kPixels));
    CHECK(costs[s].gradient_bytes == 4 * 5 * kPixels);  // its output's alone
  }
  CHECK(costs[5].input_gradient_flops == costs[5].forward_flops);
}

TEST_CASE("A layer whose products do not fit into 64 bits is refused", "[network]") {
  // Products of an attention grow with the square of its places.
  const auto attend = [](int edge) {
    NetworkBuilder builder("wide", {3, edge, edge}, 4);
    const Layer conv{
        .kind = LayerKind::kConvolution, .name = "conv", .output = {.channels = 120'000}};
    const int x = builder.Add({.name = "conv", .layers = {conv}, .inputs = {0}});
    builder.Add({.name = "attend",
                 .layers = {{.kind = LayerKind::kAttention, .heads = 40'000}},
                 .inputs = {x}});
  };
  CHECK_NOTHROW(attend(1024));
  CHECK_THROWS_WITH(
      attend(4096),
      "attend.layers: got 120000x4096x4096 to 40000x4096x4096, accepted: a smaller layer");
}

TEST_CASE("Convolutions have a bias in networks without normalisation alone", "[network]") {
  for (const auto norm : {Normalization::kNone, Normalization::kGroup, Normalization::kBatch}) {
    for (const Stage& stage : Make("vgg13", norm).stages) {
      for (const Layer& layer : stage.layers) {
        if (layer.kind != LayerKind::kConvolution) continue;
        CHECK(layer.bias == (norm == Normalization::kNone));
      }
    }
  }
}

}  // namespace
}  // namespace batchless::hwmodel
