// Each kind of convolution of the networks at batch one, layer by layer and method by method, beside
// the core's peak: what `WinogradEdge` is decided by. FLOPs are those of direct sums, two for each
// multiply-add; Winograd's F(2x2) takes 4/9 of the multiplications, F(4x4) a quarter.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "backends/direct_kernels.h"
#include "backends/small_image_kernels.h"
#include "backends/winograd_kernels.h"
#include "batchless/hwmodel/core_speed.h"
#include "batchless/hwmodel/network.h"
#include "batchless/training/backend.h"
#include "effort.h"

namespace batchless::training {
namespace {

enum class Pass : unsigned char { kForward, kInputGradient, kWeightGradient };

enum class Kernels : unsigned char { kDirect, kSmallImage, kWinograd2, kWinograd4 };

struct Case {
  hwmodel::Layer layer;
  Kernels kernels;
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
  const ConvolutionShape shape{.layer = c.layer,
                               .input_block = c.layer.input.channels < 4 ? 1 : kBlock,
                               .output_block = kBlock};
  const auto convolution = [&] {
    switch (c.kernels) {
      case Kernels::kSmallImage:
        return MakeSmallImageConvolution(shape);
      case Kernels::kWinograd2:
        return MakeWinogradConvolution(shape, 2);
      case Kernels::kWinograd4:
        return MakeWinogradConvolution(shape, 4);
      case Kernels::kDirect:
        break;
    }
    return MakeDirectConvolution(shape);
  }();
  const auto stored = [&](const hwmodel::FeatureShape& features, int in_blocks_of) {
    return RoundUp(features.channels, in_blocks_of) * features.pixels();
  };
  std::vector<float> x = RandomVector(stored(c.layer.input, shape.input_block));
  std::vector<float> y = RandomVector(stored(c.layer.output, kBlock));
  std::vector<float> w = RandomVector(convolution->weight_tensor().stored_size);
  std::vector<float> workspace(convolution->workspace_size());
  double peak = hwmodel::MeasureFmaPeak();
  for ([[maybe_unused]] auto _ : state) {
    switch (c.pass) {
      case Pass::kForward:
        convolution->Forward(x.data(), w.data(), nullptr, y.data(), workspace.data(), nullptr);
        break;
      case Pass::kInputGradient:
        convolution->BackwardInput(y.data(), w.data(), x.data(), workspace.data(), nullptr);
        break;
      case Pass::kWeightGradient:
        convolution->BackwardWeights(x.data(), y.data(), w.data(), workspace.data(), nullptr,
                                     nullptr);
        break;
    }
    benchmark::ClobberMemory();
  }
  peak = std::max(peak, hwmodel::MeasureFmaPeak());
  const auto flops = 2.0 * c.layer.kernel * c.layer.kernel * c.layer.input.channels *
                     static_cast<double>(c.layer.output.channels * c.layer.output.pixels()) *
                     static_cast<double>(state.iterations());
  CountFlops(state, flops, peak);
}

void Register(const hwmodel::Layer& layer, const std::string& name) {
  for (const auto& [pass, pass_name] :
       {std::pair{Pass::kForward, "forward"}, std::pair{Pass::kInputGradient, "input_gradient"},
        std::pair{Pass::kWeightGradient, "weight_gradient"}}) {
    if (pass == Pass::kInputGradient && layer.input.channels < 4) continue;
    for (const auto& [kernels, kernels_name] :
         {std::pair{Kernels::kDirect, "Direct"}, std::pair{Kernels::kSmallImage, "SmallImage"},
          std::pair{Kernels::kWinograd2, "Winograd2"},
          std::pair{Kernels::kWinograd4, "Winograd4"}}) {
      const bool winograd = layer.kernel == 3 && layer.stride == 1 && layer.input.channels >= 8;
      if (kernels >= Kernels::kWinograd2 && !winograd) continue;
      const bool small = winograd && (layer.input.width == 2 || layer.input.width == 4);
      if (kernels == Kernels::kSmallImage && !small) continue;
      auto* registered = benchmark::RegisterBenchmark(
          (kernels_name + ("/" + name) + "/" + pass_name).c_str(),
          [c = Case{layer, kernels, pass}](benchmark::State& state) { Convolve(state, c); });
      ForSeconds(registered, 0.05, 3)->Unit(benchmark::kMicrosecond);
    }
  }
}

const bool kRegistered = [] {
  struct Size {
    int in;
    int out;
    int edge;
    int kernel = 3;
    int stride = 1;
  };
  // ResNet-20's first five, VGG-16's, then ResNet-50's of other kernels.
  for (const Size size :
       {Size{16, 16, 32},         Size{32, 32, 16},         Size{64, 64, 8},
        Size{3, 16, 32},          Size{16, 32, 32, 3, 2},   Size{32, 64, 16, 3, 2},
        Size{64, 64, 32},         Size{64, 128, 16},        Size{128, 128, 16},
        Size{256, 256, 8},        Size{512, 512, 4},        Size{512, 512, 2},
        Size{1, 6, 28, 5},        Size{6, 16, 14, 5},       Size{64, 192, 8, 5},
        Size{3, 64, 32},          Size{3, 64, 224, 7, 2},   Size{128, 128, 56, 3, 2},
        Size{512, 512, 14, 3, 2}, Size{256, 512, 56, 1, 2}, Size{64, 256, 56, 1, 1},
        Size{2048, 512, 7, 1, 1}}) {
    hwmodel::Layer layer;
    layer.kind = hwmodel::LayerKind::kConvolution;
    layer.kernel = size.kernel;
    layer.stride = size.stride;
    layer.padding = size.kernel / 2;
    layer.input = {size.in, size.edge, size.edge};
    const int edge = (size.edge + 2 * layer.padding - size.kernel) / size.stride + 1;
    layer.output = {size.out, edge, edge};
    std::string name = std::to_string(size.in);
    const auto append = [&](char mark, int number) { name += mark + std::to_string(number); };
    append('-', size.out);
    append('x', size.edge);
    if (size.kernel != 3) append('k', size.kernel);
    if (size.stride != 1) append('s', size.stride);
    Register(layer, name);
  }
  return true;
}();

}  // namespace
}  // namespace batchless::training
