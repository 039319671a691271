// Stages of sequences: against central differences, exact limits, and the vector kernels against the
// reference ones.
#include <algorithm>
#include <cmath>
#include <limits>

#include "batchless/hwmodel/network_builder.h"
#include "batchless/training/backend.h"
#include "catch.h"
#include "stage_harness.h"
#include "test_networks.h"

namespace batchless::training {
namespace {

using hwmodel::LayerKind;
using hwmodel::Network;

Network Gpt(int tokens, int width, int heads, int vocabulary,
            hwmodel::NetworkOptions options = {}) {
  options.name = "gpt";
  options.input = {1, tokens, 1};
  options.classes = vocabulary;
  options.layers = 1;
  options.width = width;
  options.heads = heads;
  return hwmodel::MakeNetwork(options);
}

const hwmodel::NetworkOptions kRmsNorms{.rms_norm = true, .squared_relu = true};
const hwmodel::NetworkOptions kTied{.tied_embeddings = true};
const hwmodel::NetworkOptions kNormsLast{.rms_norm = true, .norm_first = false};

TEST_CASE("A gpt's stages have the gradients of finite differences", "[token]") {
  for (const hwmodel::NetworkOptions& options :
       {hwmodel::NetworkOptions{}, kRmsNorms, kNormsLast, kTied}) {
    const Network network = Gpt(/*tokens=*/5, /*width=*/6, /*heads=*/2, /*vocabulary=*/7, options);
    for (int s = 0; s < network.stage_count(); ++s) {
      CheckDifferences(network, s, 1);
      CheckDifferences(network, s, 2);
    }
  }
}

TEST_CASE("rms_norm divides by the root of the mean square, and rows of any mean stay as they are",
          "[token]") {
  const std::shared_ptr<const Backend<double>> plain = MakeReferenceBackend<double>();
  const Numbers x = {3, 4, 0, -5, 5, 5};
  const Numbers gamma = {1, 2, -1};
  Numbers mean(2);
  Numbers inverse(2);
  Numbers y(6);
  const RowNormalization<double> norm{.rows = 2,
                                      .width = 3,
                                      .x = x.data(),
                                      .mean = mean.data(),
                                      .inverse_standard_deviation = inverse.data(),
                                      .is_centered = false};
  plain->RowStatistics(norm);
  plain->NormalizeRows(norm, gamma.data(), nullptr, y.data());
  const double first = std::sqrt(25.0 / 3 + 1e-5);
  const double second = std::sqrt(25.0 + 1e-5);
  const Numbers expected = {3 / first, 8 / first, 0, -5 / second, 10 / second, -5 / second};
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == Approx(expected[i]).margin(1e-15));
  CHECK(mean == Numbers{0, 0});
}

TEST_CASE("squared_relu is 0 below 0 and the square above", "[token]") {
  const std::shared_ptr<const Backend<double>> plain = MakeReferenceBackend<double>();
  const Numbers x = {-2, 0, 1.5};
  const Numbers dy = {1, 1, 2};
  Numbers y(3);
  Numbers dx = {1, 1, 1};
  plain->SquaredRelu(3, x.data(), y.data());
  CHECK(y == Numbers{0, 0, 2.25});
  plain->SquaredReluBackward(3, x.data(), dy.data(), /*add=*/true, dx.data());
  CHECK(dx == Numbers{1, 1, 7});
  const std::vector<float> lost(20, std::numeric_limits<float>::quiet_NaN());
  std::vector<float> result(20);
  MakeVectorBackend()->SquaredRelu(20, lost.data(), result.data());
  CHECK(std::all_of(result.begin(), result.end(), [](float z) { return std::isnan(z); }));
}

// Every kind alone in its stage, which keeps its input as a value.
Network LayersApart() {
  return NetworkOf(
      {1, 4, 1}, 6,
      {{.kind = LayerKind::kEmbedding, .name = "embedding", .output = {.channels = 4}},
       {.kind = LayerKind::kPosition, .name = "position"},
       {.kind = LayerKind::kLayerNormalization, .name = "norm"},
       {.kind = LayerKind::kRmsNormalization, .name = "rms"},
       {.kind = LayerKind::kTokenLinear, .name = "first", .output = {.channels = 12}},
       {.kind = LayerKind::kAttention, .heads = 2},
       {.kind = LayerKind::kGelu},
       {.kind = LayerKind::kSquaredRelu},
       {.kind = LayerKind::kTokenLinear, .name = "last", .output = {.channels = 6}, .bias = true},
       {.kind = LayerKind::kLoss}});
}

TEST_CASE("Layers on tokens alone have the gradients of finite differences", "[token]") {
  const Network network = LayersApart();
  for (int s = 0; s < network.stage_count(); ++s) CheckDifferences(network, s, 2);
}

TEST_CASE("What a stage's last layer reads, read by others too, has the gradients of both",
          "[token]") {
  hwmodel::NetworkBuilder builder("shared", {1, 4, 1}, 6);
  int x = builder.Add(
      {.name = "embedding",
       .layers = {{.kind = LayerKind::kEmbedding, .name = "wte", .output = {.channels = 6}}},
       .inputs = {0}});
  int normed = -1;
  x = builder.Add(
      {.name = "linear",
       .layers = {{.kind = LayerKind::kLayerNormalization, .name = "norm"},
                  {.kind = LayerKind::kTokenLinear, .name = "linear", .output = {.channels = 6}}},
       .inputs = {x}},
      &normed);
  x = builder.Add({.name = "sum", .layers = {{.kind = LayerKind::kSum}}, .inputs = {x, normed}});
  builder.Add({.name = "loss", .layers = {{.kind = LayerKind::kLoss}}, .inputs = {x}});
  CheckDifferences(builder.Finish(), 1, 2);
}

TEST_CASE("A stage saves as many numbers as its costs say", "[token]") {
  const Network gpt = Gpt(16, 32, 2, 48);
  const Network rms = Gpt(16, 32, 2, 48, kRmsNorms);
  const Network tied = Gpt(16, 32, 2, 48, kTied);
  const Network apart = LayersApart();
  for (const Network* network : {&gpt, &rms, &tied, &apart}) {
    for (int s = 0; s < network->stage_count(); ++s) {
      const auto stage = MakeStage<float>(*network, s, 1, MakeReferenceBackend<float>());
      const std::int64_t numbers = hwmodel::SavedBytes(network->stages[s], 4) / 4;
      INFO(network->name << " " << network->stages[s].name);
      CHECK(stage->layout().saved_size >= numbers);
      // Each tensor begins at a multiple of 16 numbers.
      CHECK(stage->layout().saved_size <= numbers + 15 * 7);
      CHECK(stage->layout().keeps_input == hwmodel::KeepsInput(network->stages[s]));
    }
  }
}

TEST_CASE("No token sees a later one", "[token]") {
  const Network network = Gpt(6, 8, 2, 9);
  RandomStage<double> c(network, 1, 1, MakeReferenceBackend<double>());
  const Numbers before = c.Forward()[0];
  // Plain order: channels, then tokens.
  c.inputs[0][2 * 6 + 3] += 1;
  const Numbers after = c.Forward()[0];
  for (int channel = 0; channel < 8; ++channel) {
    for (int t = 0; t < 6; ++t) {
      CHECK((before[channel * 6 + t] == after[channel * 6 + t]) == (t < 3));
    }
  }
}

TEST_CASE("Equal keys average the values up to each token", "[token]") {
  for (const int heads : {1, 3}) {
    const std::shared_ptr<const Backend<double>> backend = MakeReferenceBackend<double>();
    const AttentionShape shape{.sequences = 1, .tokens = 5, .heads = heads, .head_width = 2};
    Numbers x = RandomNumbers(shape.rows() * 3 * shape.width(), 4);
    for (std::int64_t t = 0; t < shape.tokens; ++t) {
      for (std::int64_t c = 0; c < shape.width(); ++c) x[(3 * t + 1) * shape.width() + c] = 0.5;
    }
    Numbers y(shape.rows() * shape.width());
    Numbers log_sums(shape.rows() * shape.heads);
    Numbers workspace(backend->AttentionWorkspace(shape));
    backend->Attention(shape, x.data(), y.data(), log_sums.data(), workspace.data());
    for (std::int64_t c = 0; c < shape.width(); ++c) {
      double sum = 0;
      for (std::int64_t t = 0; t < shape.tokens; ++t) {
        sum += x[(3 * t + 2) * shape.width() + c];
        CHECK(y[t * shape.width() + c] == Approx(sum / static_cast<double>(t + 1)).margin(1e-14));
      }
    }
  }
}

// Errors of single precision in sums of some hundred products of numbers of order one.
constexpr Closeness kSingle{.tolerance = 2e-4, .least_scale = 1};

void CheckVectorKernels(const Network& network, int microbatch) {
  for (int s = 0; s < network.stage_count(); ++s) {
    const StageResults expected =
        RunStage<double>(network, s, microbatch, MakeReferenceBackend<double>());
    INFO("stage " << network.stages[s].name << ", micro-batch " << microbatch);
    CheckClose(RunStage<float>(network, s, microbatch, MakeVectorBackend()), expected, kSingle);
  }
}

TEST_CASE("Vector kernels of sequences are near the reference ones", "[token]") {
  // Whole blocks; several strips of queries; sizes that fill no block.
  CheckVectorKernels(Gpt(32, 32, 2, 64), 1);
  CheckVectorKernels(Gpt(80, 32, 1, 32), 2);
  CheckVectorKernels(Gpt(37, 21, 3, 19), 1);
  CheckVectorKernels(Gpt(3, 5, 1, 4), 2);
  CheckVectorKernels(Gpt(37, 21, 3, 19, kRmsNorms), 1);
  CheckVectorKernels(Gpt(9, 32, 2, 19, kNormsLast), 2);
  CheckVectorKernels(Gpt(9, 21, 3, 19, kTied), 2);
  CheckVectorKernels(LayersApart(), 2);
}

TEST_CASE("Attention has its gradients where all scores are large, too", "[token]") {
  const AttentionShape shape{.sequences = 1, .tokens = 37, .heads = 1, .head_width = 16};
  // Products of whole numbers, exact in float: scores of 32768 and some more or less.
  Numbers x = SmallIntegers(shape.rows() * 3 * shape.width(), 4);
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    x[3 * t * shape.width()] = 256;
    x[(3 * t + 1) * shape.width()] = 512;
  }
  const Numbers dy = SmallIntegers(shape.rows() * shape.width(), 5);
  const auto gradient = [&]<class Real>(const std::shared_ptr<const Backend<Real>>& backend) {
    const std::vector<Real> input(x.begin(), x.end());
    const std::vector<Real> output_gradient(dy.begin(), dy.end());
    std::vector<Real> y(dy.size());
    std::vector<Real> log_sums(shape.rows() * shape.heads);
    std::vector<Real> dx(x.size());
    std::vector<Real> workspace(backend->AttentionWorkspace(shape));
    backend->Attention(shape, input.data(), y.data(), log_sums.data(), workspace.data());
    backend->AttentionBackward(shape, input.data(), log_sums.data(), output_gradient.data(),
                               dx.data(), workspace.data());
    return Numbers(dx.begin(), dx.end());
  };
  const Numbers expected = gradient(MakeReferenceBackend<double>());
  CheckClose(gradient(MakeVectorBackend()), expected, kSingle);
}

TEST_CASE("Products of small whole numbers are exact, however they lie", "[token]") {
  const std::shared_ptr<const Backend<float>> plain = MakeReferenceBackend<float>();
  const std::shared_ptr<const Backend<float>> vectors = MakeVectorBackend();
  for (const std::int64_t rows : {1, 13, 14, 29}) {
    for (const std::int64_t columns : {1, 16, 37, 64}) {
      for (const std::int64_t steps : {1, 16, 19, 40}) {
        for (const bool across : {false, true}) {
          const Numbers a = SmallIntegers(rows * steps, 1);
          const Numbers b = SmallIntegers(steps * columns, 2);
          const Numbers bias = SmallIntegers(columns, 3);
          const std::vector<float> a_float(a.begin(), a.end());
          const std::vector<float> b_float(b.begin(), b.end());
          const std::vector<float> bias_float(bias.begin(), bias.end());
          std::vector<float> c(rows * columns, 2);
          std::vector<float> expected = c;
          Product<float> product{.rows = rows,
                                 .columns = columns,
                                 .steps = steps,
                                 .a = a_float.data(),
                                 .a_row = across ? 1 : steps,
                                 .a_step = across ? rows : 1,
                                 .b = b_float.data(),
                                 .b_step = across ? 1 : columns,
                                 .b_column = across ? steps : 1,
                                 .bias = across ? bias_float.data() : nullptr,
                                 .c = c.data(),
                                 .c_row = columns,
                                 .add = !across};
          std::vector<float> workspace(vectors->ProductWorkspace(rows, columns, steps));
          vectors->Multiply(product, workspace.data());
          product.c = expected.data();
          plain->Multiply(product, nullptr);
          CAPTURE(rows, columns, steps, across);
          CHECK(c == expected);
        }
      }
    }
  }
}

}  // namespace
}  // namespace batchless::training
