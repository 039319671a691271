// Each kind of convolution of the networks at batch one, layer by layer and method by method, beside
// the core's peak: what `SuitsWinograd` is decided by. FLOPs are those of direct sums, two for each
// multiply-add; Winograd's kernels take 4/9 of the multiplications.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "backends/winograd_convolution.h"
#include "batchless/hwmodel/fma_peak.h"
#include "batchless/hwmodel/network.h"
#include "batchless/training/backend.h"

namespace batchless::training {
namespace {

enum class Pass : unsigned char { kForward, kInputGradient, kWeightGradient };

struct Case {
  hwmodel::Layer layer;
  ConvolutionMethod method;
  Pass pass;
};

std::vector<float> RandomVector(std::int64_t size) {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same numbers in each run
  std::normal_distribution<float> normal;
  std::vector<float> numbers(size);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

void Convolve(benchmark::State& state, const Case& c) {
  const auto backend = MakeVectorBackend(0, ConvolutionMethod::kOneDnn);
  const int block = backend->block();
  const ConvolutionShape shape{.layer = c.layer, .input_block = block, .output_block = block};
  const auto convolution = c.method == ConvolutionMethod::kWinograd
                               ? MakeWinogradConvolution(shape)
                               : backend->MakeConvolution(shape);
  const auto stored = [&](const hwmodel::FeatureShape& features) {
    return RoundUp(features.channels, block) * features.pixels();
  };
  std::vector<float> x = RandomVector(stored(c.layer.input));
  std::vector<float> y = RandomVector(stored(c.layer.output));
  std::vector<float> w = RandomVector(convolution->weight_tensor().stored_size);
  std::vector<float> workspace(convolution->workspace_size());
  double peak = hwmodel::MeasureFmaPeak();
  for ([[maybe_unused]] auto _ : state) {
    switch (c.pass) {
      case Pass::kForward:
        convolution->Forward(x.data(), w.data(), nullptr, y.data(), workspace.data());
        break;
      case Pass::kInputGradient:
        convolution->BackwardInput(y.data(), w.data(), x.data(), workspace.data());
        break;
      case Pass::kWeightGradient:
        convolution->BackwardWeights(x.data(), y.data(), w.data(), workspace.data());
        break;
    }
    benchmark::ClobberMemory();
  }
  peak = std::max(peak, hwmodel::MeasureFmaPeak());
  const auto flops = 2.0 * c.layer.kernel * c.layer.kernel * c.layer.input.channels *
                     static_cast<double>(c.layer.output.channels * c.layer.output.pixels()) *
                     static_cast<double>(state.iterations());
  using benchmark::Counter;
  state.counters["peak_gflops"] = peak / 1e9;
  state.counters["gflops"] = Counter(flops / 1e9, Counter::kIsRate);
  state.counters["of_peak_time"] = Counter(flops / peak, Counter::kIsRate | Counter::kInvert);
}

const bool kRegistered = [] {
  // Stride-1 layers by channels and edge; ResNet-20's first three, then VGG-16's.
  struct Size {
    int in;
    int out;
    int edge;
  };
  for (const Size size :
       {Size{16, 16, 32}, Size{32, 32, 16}, Size{64, 64, 8}, Size{64, 64, 32}, Size{64, 128, 16},
        Size{128, 128, 16}, Size{256, 256, 8}, Size{512, 512, 4}, Size{512, 512, 2}}) {
    hwmodel::Layer layer;
    layer.kind = hwmodel::LayerKind::kConvolution;
    layer.kernel = 3;
    layer.stride = 1;
    layer.padding = 1;
    layer.input = {size.in, size.edge, size.edge};
    layer.output = {size.out, size.edge, size.edge};
    const std::string name =
        std::to_string(size.in) + "-" + std::to_string(size.out) + "x" + std::to_string(size.edge);
    for (const auto& [pass, pass_name] :
         {std::pair{Pass::kForward, "forward"}, std::pair{Pass::kInputGradient, "input_gradient"},
          std::pair{Pass::kWeightGradient, "weight_gradient"}}) {
      for (const auto& [method, method_name] :
           {std::pair{ConvolutionMethod::kOneDnn, "OneDnn"},
            std::pair{ConvolutionMethod::kWinograd, "Winograd"}}) {
        benchmark::RegisterBenchmark(
            (method_name + ("/" + name) + "/" + pass_name).c_str(),
            [c = Case{layer, method, pass}](benchmark::State& state) { Convolve(state, c); })
            ->MinTime(0.05)
            ->Repetitions(3)
            ->DisplayAggregatesOnly(true)
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace batchless::training
