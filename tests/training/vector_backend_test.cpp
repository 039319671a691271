// The vector backend's stages against the reference's in double.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "batchless/analysis/argument.h"
#include "batchless/training/backend.h"
#include "batchless/training/forward_pass.h"
#include "catch.h"
#include "engine/stage_parameters.h"
#include "stage_harness.h"
#include "test_networks.h"

namespace batchless::training {
namespace {

using hwmodel::MakeNetwork;
using hwmodel::Network;
using hwmodel::Normalization;

// Sums of at most 4608 products in float, in an order of the kernel's choice: a few times
// 2^-24 sqrt(4608) of the largest term.
constexpr Closeness kSingle{.tolerance = 2e-5, .least_scale = 1e-3};

void CompareStage(const Network& network, int s, int microbatch) {
  const StageResults expected =
      RunStage<double>(network, s, microbatch, MakeReferenceBackend<double>());
  for (const ConvolutionMethod method :
       {ConvolutionMethod::kDirect, ConvolutionMethod::kWinograd}) {
    INFO(network.name << ", stage " << s << " " << network.stages[s].name << ", micro-batch "
                      << microbatch << ", "
                      << (method == ConvolutionMethod::kWinograd ? "Winograd" : "direct"));
    CheckClose(RunStage<float>(network, s, microbatch, MakeVectorBackend(method)), expected,
               kSingle);
  }
}

void CompareStages(const Network& network, int microbatch) {
  // Layers without their names, and how many values they make.
  std::vector<std::pair<std::vector<hwmodel::Layer>, std::size_t>> seen;
  for (int s = 0; s < network.stage_count(); ++s) {
    const hwmodel::Stage& stage = network.stages[s];
    std::pair kind(stage.layers, stage.outputs.size());
    for (hwmodel::Layer& layer : kind.first) layer.name.clear();
    if (std::find(seen.begin(), seen.end(), kind) != seen.end()) continue;
    seen.push_back(kind);
    CompareStage(network, s, microbatch);
  }
}

TEST_CASE("ResNet's stages agree with the reference", "[vector]") {
  for (const Normalization norm :
       {Normalization::kGroup, Normalization::kBatch, Normalization::kNone}) {
    const Network network =
        MakeNetwork({.name = "resnet20", .normalization = norm, .input = {3, 10, 10}});
    if (norm != Normalization::kBatch) CompareStages(network, 1);
    CompareStages(network, 2);
  }
}

TEST_CASE("VGG's, LeNet's and the MLP's stages agree with the reference", "[vector]") {
  CompareStages(MakeNetwork({.name = "vgg11"}), 1);
  CompareStages(MakeNetwork({.name = "lenet5"}), 2);
  CompareStages(MakeNetwork({.name = "mlp", .input = {3, 5, 7}, .hidden = {19, 33}}), 3);
}

TEST_CASE("ResNet-20's stages as first published agree with the reference", "[vector]") {
  for (const Normalization norm : {Normalization::kGroup, Normalization::kBatch}) {
    CompareStages(MakeNetwork({.name = "resnet20-v1", .normalization = norm, .input = {3, 9, 9}}),
                  2);
  }
}

// Channels that do not fill a block, and layers whose input is in plain order. A dropout's mask follows
// the order of the values, which is not that of the reference.
TEST_CASE("Layers in any order that a file can have agree with the reference, or are refused",
          "[vector]") {
  using hwmodel::Layer;
  using hwmodel::LayerKind;
  const Layer convolution{.kind = LayerKind::kConvolution,
                          .name = "conv",
                          .output = {.channels = 11},
                          .kernel = 3,
                          .padding = 1,
                          .bias = true};
  const Layer linear{.kind = LayerKind::kLinear, .name = "linear", .output = {.channels = 13}};
  const std::vector<Layer> layers = {
      convolution,
      linear,
      {.kind = LayerKind::kGroupNormalization, .name = "norm", .groups = 1},
      {.kind = LayerKind::kBatchNormalization, .name = "norm"},
      {.kind = LayerKind::kLocalResponseNormalization, .kernel = 5, .alpha = 0.5},
      {.kind = LayerKind::kRelu},
      {.kind = LayerKind::kMaxPool, .kernel = 3, .stride = 1, .padding = 1},
      {.kind = LayerKind::kAveragePool}};
  const Layer last{.kind = LayerKind::kLinear, .name = "fc", .output = {.channels = 4}};
  const Layer loss{.kind = LayerKind::kLoss};
  int refused = 0;
  for (const Layer& first : layers) {
    for (const Layer& second : layers) {
      const Network network = NetworkOf({3, 6, 5}, 4, {first, second, last, loss});
      for (const int s : {0, 1}) {
        INFO(hwmodel::TraitsOf(first.kind).name << ", " << hwmodel::TraitsOf(second.kind).name);
        try {
          MakeStage<float>(network, s, 2, MakeVectorBackend());
        } catch (const analysis::InvalidArgument& error) {
          CHECK(std::string(error.what()).find("behind the network's input or a linear layer") !=
                std::string::npos);
          ++refused;
          continue;
        }
        CompareStage(network, s, 2);
      }
    }
  }
  CHECK(refused > 0);
}

// Widths with and without columns that fill no block, more outputs than stay in a cache, and numbers of
// samples around those that are taken together.
TEST_CASE("A linear layer gives each sample of a micro-batch the bits that it gives it alone",
          "[vector]") {
  const auto backend = MakeVectorBackend();
  for (const std::int64_t in : {5, 64, 331, 1200}) {
    for (const std::int64_t n : {1, 2, 5, 11}) {
      const std::int64_t out = 131;
      const auto numbers = [](std::int64_t size, int seed) {
        const Numbers random = RandomNumbers(size, seed);
        return std::vector<float>(random.begin(), random.end());
      };
      const std::vector<float> x = numbers(n * in, 1);
      const std::vector<float> w = numbers(out * in, 2);
      const std::vector<float> b = numbers(out, 3);
      const std::vector<float> dy = numbers(n * out, 4);
      for (const bool add : {false, true}) {
        INFO("in " << in << ", n " << n << ", add " << add);
        std::vector<float> y(n * out);
        std::vector<float> dx(n * in);
        std::vector<float> dw = w;
        std::vector<float> db = b;
        backend->Linear(n, in, out, x.data(), w.data(), b.data(), y.data());
        backend->LinearBackwardInput(n, in, out, dy.data(), w.data(), dx.data());
        backend->LinearBackwardWeights(n, in, out, x.data(), dy.data(), add, dw.data(), db.data());
        std::vector<float> y_alone(n * out);
        std::vector<float> dx_alone(n * in);
        std::vector<float> dw_alone = w;
        std::vector<float> db_alone = b;
        for (std::int64_t s = 0; s < n; ++s) {
          const float* from = x.data() + s * in;
          const float* gradient = dy.data() + s * out;
          backend->Linear(1, in, out, from, w.data(), b.data(), y_alone.data() + s * out);
          backend->LinearBackwardInput(1, in, out, gradient, w.data(), dx_alone.data() + s * in);
          backend->LinearBackwardWeights(1, in, out, from, gradient, add || s > 0, dw_alone.data(),
                                         db_alone.data());
        }
        CHECK(y == y_alone);
        CHECK(dx == dx_alone);
        CHECK(dw == dw_alone);
        CHECK(db == db_alone);
      }
    }
  }
}

TEST_CASE("A max-pool's window has at most as many pixels as its saved byte tells apart",
          "[vector]") {
  using hwmodel::LayerKind;
  const auto pool = [](int kernel) {
    return NetworkOf({3, 18, 18}, 4,
                     {{.kind = LayerKind::kConvolution, .name = "conv", .output = {.channels = 11}},
                      {.kind = LayerKind::kMaxPool, .kernel = kernel, .padding = 2},
                      {.kind = LayerKind::kLinear, .name = "fc", .output = {.channels = 4}},
                      {.kind = LayerKind::kLoss}});
  };
  CompareStage(pool(16), 1, 2);
  CHECK_THROWS_WITH(MakeStage<float>(pool(17), 1, 2, MakeVectorBackend()),
                    Catch::Matchers::Contains("windows of at most 16 by 16"));
}

// What an evaluation saves of a stage lies where that of the stage before did: here winners of 255, four of
// which are no number.
TEST_CASE("A batch normalisation's evaluation reads nothing that another stage saved", "[vector]") {
  using hwmodel::Layer;
  using hwmodel::LayerKind;
  constexpr int kEdge = 20;
  const std::vector<Layer> layers = {
      {.kind = LayerKind::kConvolution, .name = "first", .output = {.channels = 10}},
      {.kind = LayerKind::kMaxPool, .kernel = 16},
      {.kind = LayerKind::kBatchNormalization, .name = "norm"},
      {.kind = LayerKind::kConvolution, .name = "last", .output = {.channels = 2}},
      {.kind = LayerKind::kAveragePool},
      {.kind = LayerKind::kLoss}};
  const Numbers ones(10, 1.0);
  const std::vector<NamedTensor> tensors = {
      {"first.weight", {10, 1, 1, 1}, ones}, {"norm.weight", {10}, ones},
      {"norm.bias", {10}, Numbers(10)},      {"norm.running_mean", {10}, Numbers(10)},
      {"norm.running_var", {10}, ones},      {"last.weight", {2, 10, 1, 1}, Numbers(20, 1.0)}};
  // Every window's largest pixel is its last one.
  std::vector<float> image(std::size_t{kEdge} * kEdge);
  std::iota(image.begin(), image.end(), 0.0F);
  const float mean = 17 * kEdge + 17;
  ForwardPass pass(NetworkOf({1, kEdge, kEdge}, 2, layers), tensors);
  for (const float score : pass.Scores(image)) CHECK(score == Approx(10 * mean).epsilon(1e-4));
}

TEST_CASE("What is no number goes through a ReLU, alone or behind a normalisation", "[vector]") {
  // The last ones fill no block.
  std::vector<float> x(37);
  for (int i = 0; i < std::ssize(x); ++i) {
    x[i] = i % 3 == 0 ? std::numeric_limits<float>::quiet_NaN()
                      : static_cast<float>(i % 3 == 1 ? i : -i);
  }
  const auto check = [&](const std::vector<float>& h) {
    for (std::size_t i = 0; i < h.size(); ++i) {
      if (std::isnan(x[i])) {
        CHECK(std::isnan(h[i]));
      } else {
        CHECK(h[i] == std::max(0.0F, x[i]));
      }
    }
  };
  for (const auto& backend : {MakeReferenceBackend<float>(), MakeVectorBackend()}) {
    INFO("block " << backend->block());
    std::vector<float> alone(x.size());
    backend->NormalizedRelu({.channels = static_cast<int>(x.size())}, x.data(), {}, alone.data());
    check(alone);
    std::vector<float> behind(32);
    std::vector<float> scale(behind.size(), 1);
    std::vector<float> shift(behind.size(), 0);
    backend->NormalizedRelu({.channels = 32, .block = backend->block()}, x.data(),
                            {.scale = scale.data(), .shift = shift.data()}, behind.data());
    check(behind);
  }
}

TEST_CASE("A stage that cannot add to a gradient reads its input last", "[vector]") {
  const hwmodel::Network network = hwmodel::MakeNetwork({.name = "lenet5"});
  const auto backend = MakeVectorBackend();
  int refused = 0;
  for (int s = 0; s + 1 < network.stage_count(); ++s) {
    hwmodel::Network shared = network;
    shared.values[shared.stages[s].inputs[0]].consumers.push_back(s + 1);
    const hwmodel::LayerKind kind = network.stages[s].layers.back().kind;
    const bool adds = kind == hwmodel::LayerKind::kConvolution || kind == hwmodel::LayerKind::kRelu;
    CHECK(MakeStage<float>(network, s, 1, backend) != nullptr);
    if (adds) {
      CHECK(MakeStage<float>(shared, s, 1, backend) != nullptr);
    } else {
      CHECK_THROWS_AS(MakeStage<float>(shared, s, 1, backend), analysis::InvalidArgument);
      ++refused;
    }
  }
  CHECK(refused > 0);
}

TEST_CASE("The fused update follows its equations", "[vector]") {
  constexpr float kMomentum = 0.75F;
  constexpr float kDecay = 0.125F;
  constexpr float kShare = 0.5F;
  // The last few are no whole block.
  for (const std::int64_t size : {6 * kBlock * kBlock, 6 * kBlock * kBlock + 5}) {
    const Numbers start_w = RandomNumbers(size, 1);
    const Numbers start_v = RandomNumbers(size, 2);
    const Numbers g = RandomNumbers(size, 3);
    const auto run = [&](int lanes, auto zero) {
      using Real = decltype(zero);
      std::vector<Real> w(start_w.begin(), start_w.end());
      std::vector<Real> v(start_v.begin(), start_v.end());
      std::vector<Real> gradient(g.begin(), g.end());
      std::vector<Real> forward(size);
      std::vector<Real> backward(size);
      UpdateArguments<Real> c;
      c.coefficients.own = {kMomentum, kDecay, kShare};
      c.coefficients.state_step = -0.25F;
      c.coefficients.gradient_step = -0.5F;
      c.coefficients.forward_horizon.velocity = -1.5F;
      c.coefficients.backward_horizon.weight = 2.0F;
      c.size = size;
      c.gradient = gradient.data();
      c.weights = w.data();
      c.states[0] = v.data();
      c.forward = forward.data();
      c.backward = backward.data();
      KernelsOf<Real>(SgdmDefinition(), lanes).update(c);
      std::vector<Numbers> result;
      for (const auto& array : {w, v, forward, backward}) {
        result.emplace_back(array.begin(), array.end());
      }
      return result;
    };
    const std::vector<Numbers> actual = run(kBlock, 0.0F);
    const std::vector<Numbers> reference = run(1, 0.0);
    CheckClose(actual, reference, kSingle);
    // Literally, for a few elements.
    for (const std::int64_t i : {std::int64_t{0}, std::int64_t{1}, size / 2 + 3, size - 1}) {
      const double gradient = g[i] + kDecay * start_w[i];
      const double v = kMomentum * start_v[i] + kShare * gradient;
      const double w = start_w[i] - 0.25 * v - 0.5 * gradient;
      CHECK(reference[0][i] == Approx(w));
      CHECK(reference[1][i] == Approx(v));
      CHECK(reference[2][i] == Approx(w - 1.5 * v));
      CHECK(reference[3][i] == Approx(w + 2 * (w - start_w[i])));
    }
  }
}

// Everything of a stage's parameters after two updates, by pieces of `piece` elements of the first
// tensor where it is above 0.
std::vector<float> UpdatedTwice(const StageLayout& layout, std::int64_t piece, float gradient) {
  const VersionCounts versions{.forward = 3, .predicted_backward = true};
  const Optimizer& sgdm = FindOptimizer("sgdm");
  StageParameters<float> parameters(layout, versions, sgdm, kBlock);
  parameters.Allocate();
  const Numbers start = RandomNumbers(layout.parameter_size, 1);
  parameters.Reset(std::vector<float>(start.begin(), start.end()), {});
  StageCoefficients<float> c;
  c.matrices.own = {0.75F, 0, 1};
  c.matrices.state_step = -0.25F;
  c.matrices.gradient_step = -0.5F;
  c.matrices.forward_horizon.velocity = -1.5F;
  c.matrices.backward_horizon.weight = 2.0F;
  c.vectors = c.matrices;
  for (int update = 0; update < 2; ++update) {
    const Numbers numbers = RandomNumbers(layout.parameter_size, 2 + update);
    std::vector<float> g(numbers.begin(), numbers.end());
    g[0] += gradient;
    const ParameterTensor& tensor = layout.parameters[0];
    for (std::int64_t i = 0; piece > 0 && i < tensor.stored_size; i += piece) {
      parameters.UpdatePiece(0, i, std::min(piece, tensor.stored_size - i),
                             g.data() + tensor.offset + i, c, 0);
    }
    parameters.Update(g.data(), c, 0, nullptr, piece > 0 ? 0 : -1);
  }
  std::vector<float> all;
  const std::vector<std::int64_t>& sizes = parameters.array_sizes();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    all.insert(all.end(), parameters.array(i), parameters.array(i) + sizes[i]);
  }
  return all;
}

TEST_CASE("An update in pieces is the update", "[vector]") {
  // Caches keep the first tensor; the second's predictions are written past them.
  for (const std::int64_t size : {4099, 300'001}) {
    StageLayout layout;
    for (const std::int64_t elements : {size, std::int64_t{10}}) {
      ParameterTensor tensor;
      tensor.offset = layout.parameter_size;
      tensor.stored_size = elements;
      layout.parameter_size += RoundUp(elements, 16);
      layout.parameters.push_back(tensor);
    }
    const std::vector<float> whole = UpdatedTwice(layout, 0, 0);
    // Pieces that begin at vectors, and pieces that begin anywhere.
    // Without the numbers, which are too many to print.
    CHECK((UpdatedTwice(layout, 1024, 0) == whole));
    CHECK((UpdatedTwice(layout, 1001, 0) == whole));
    CHECK((UpdatedTwice(layout, 1024, 1) != whole));
  }
}

}  // namespace
}  // namespace batchless::training
