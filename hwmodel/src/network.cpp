#include "batchless/hwmodel/network.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <system_error>
#include <utility>

#include "batchless/analysis/argument.h"

namespace batchless::hwmodel {
namespace {

using analysis::InvalidArgument;

constexpr FeatureShape kCifarInput{3, 32, 32};
constexpr FeatureShape kImageNetInput{3, 224, 224};
constexpr FeatureShape kMnistInput{1, 28, 28};
constexpr int kMaxEdge = 4096;
constexpr int kMaxWidth = 1 << 20;
constexpr int kMaxHiddenLayers = 1000;

// Appends stages to a network; every method that makes a value returns its number.
class Builder {
 public:
  Builder(const NetworkOptions& options, Normalization normalization, int groups,
          FeatureShape input, int classes)
      : normalization_(normalization), groups_(groups) {
    network_.name = options.name;
    network_.input = input;
    network_.classes = classes;
    network_.values.push_back({.shape = input});
  }

  Network Finish(int logits) {
    const FeatureShape shape = network_.values[logits].shape;
    Begin("loss", {logits});
    Append({.kind = LayerKind::kLoss, .output = shape});
    stage_.outputs.clear();
    network_.stages.push_back(std::move(stage_));
    return std::move(network_);
  }

  const FeatureShape& shape(int value) const { return network_.values[value].shape; }

  struct Window {
    int kernel = 3;
    int stride = 1;
    int padding = 1;
  };

  // One stage: convolution.
  int Convolution(const std::string& name, int input, int channels, Window window) {
    Begin(name, {input});
    AppendConvolution(name, channels, window);
    return End();
  }

  // One stage: normalisation, ReLU, convolution; `rectified` takes the ReLU's result as a value.
  int NormReluConvolution(const std::string& norm, const std::string& name, int input, int channels,
                          Window window, int* rectified = nullptr) {
    Begin(name, {input});
    AppendNormalization(norm);
    AppendRelu();
    const FeatureShape rectified_shape = stage_.layers.back().output;
    AppendConvolution(name, channels, window);
    const int output = End(rectified == nullptr);
    if (rectified != nullptr) {
      *rectified = AddOutput(rectified_shape);
      network_.stages.push_back(std::move(stage_));
    }
    return output;
  }

  // One stage: normalisation (where the network has it and `norm` names it) and ReLU.
  int NormRelu(const std::string& norm, const std::string& name, int input) {
    Begin(name, {input});
    if (!norm.empty()) AppendNormalization(norm);
    AppendRelu();
    return End();
  }

  // One stage: normalisation, where the network has it.
  int Norm(const std::string& name, int input) {
    if (normalization_ == Normalization::kNone) return input;
    Begin(name, {input});
    AppendNormalization(name);
    return End();
  }

  int Sum(const std::string& name, int first, int second) {
    Begin(name, {first, second});
    Append({.kind = LayerKind::kSum, .output = shape(first)});
    return End();
  }

  int MaxPool(const std::string& name, int input, Window window) {
    const FeatureShape& in = shape(input);
    const FeatureShape out{in.channels, Extent(in.height, window), Extent(in.width, window)};
    if (out.height < 1 || out.width < 1) {
      throw InvalidArgument("network.input", InputText(), "an image large enough for every pool");
    }
    Begin(name, {input});
    Append({.kind = LayerKind::kMaxPool,
            .output = out,
            .kernel = window.kernel,
            .stride = window.stride,
            .padding = window.padding});
    return End();
  }

  int AveragePool(int input) {
    Begin("pool", {input});
    Append({.kind = LayerKind::kAveragePool, .output = {shape(input).channels, 1, 1}});
    return End();
  }

  int Dropout(const std::string& name, int input, double probability) {
    Begin(name, {input});
    Append(
        {.kind = LayerKind::kDropout, .output = shape(input), .dropout_probability = probability});
    return End();
  }

  int Linear(const std::string& name, int input, int features) {
    Begin(name, {input});
    Append({.kind = LayerKind::kLinear, .name = name, .output = {features, 1, 1}, .bias = true});
    return End();
  }

 private:
  static int Extent(int edge, Window window) {
    const int room = edge + 2 * window.padding - window.kernel;
    return room < 0 ? 0 : room / window.stride + 1;
  }

  std::string InputText() const {
    const FeatureShape& in = network_.input;
    return std::to_string(in.channels) + "x" + std::to_string(in.height) + "x" +
           std::to_string(in.width);
  }

  void Begin(const std::string& name, std::vector<int> inputs) {
    const int number = network_.stage_count();
    for (const int input : inputs) network_.values[input].consumers.push_back(number);
    stage_ = {.name = name, .layers = {}, .inputs = std::move(inputs), .outputs = {}};
  }

  void Append(Layer layer) {
    layer.input = stage_.layers.empty() ? shape(stage_.inputs[0]) : stage_.layers.back().output;
    stage_.layers.push_back(std::move(layer));
  }

  void AppendConvolution(const std::string& name, int channels, Window window) {
    const FeatureShape in =
        stage_.layers.empty() ? shape(stage_.inputs[0]) : stage_.layers.back().output;
    const FeatureShape out{channels, Extent(in.height, window), Extent(in.width, window)};
    if (out.height < 1 || out.width < 1) {
      throw InvalidArgument("network.input", InputText(),
                            "an image large enough for every convolution");
    }
    Append({.kind = LayerKind::kConvolution,
            .name = name,
            .output = out,
            .kernel = window.kernel,
            .stride = window.stride,
            .padding = window.padding,
            .bias = normalization_ == Normalization::kNone});
  }

  void AppendNormalization(const std::string& name) {
    if (normalization_ == Normalization::kNone) return;
    const FeatureShape in = shape(stage_.inputs[0]);
    if (normalization_ == Normalization::kGroup && in.channels % groups_ != 0) {
      throw InvalidArgument(
          "network.groups", std::to_string(groups_),
          "a divisor of the " + std::to_string(in.channels) + " channels of " + name);
    }
    Append({.kind = LayerKind::kNormalization,
            .name = name,
            .output = in,
            .normalization = normalization_,
            .groups = normalization_ == Normalization::kGroup ? groups_ : 1});
  }

  void AppendRelu() {
    const FeatureShape in =
        stage_.layers.empty() ? shape(stage_.inputs[0]) : stage_.layers.back().output;
    Append({.kind = LayerKind::kRelu, .output = in});
  }

  int AddOutput(const FeatureShape& out) {
    const int value = static_cast<int>(network_.values.size());
    network_.values.push_back({.shape = out, .producer = network_.stage_count()});
    stage_.outputs.push_back(value);
    return value;
  }

  int End(bool complete = true) {
    const int value = AddOutput(stage_.layers.back().output);
    if (complete) network_.stages.push_back(std::move(stage_));
    return value;
  }

  Network network_;
  Stage stage_;
  Normalization normalization_;
  int groups_;
};

constexpr Builder::Window kHalving{.kernel = 2, .stride = 2, .padding = 0};

constexpr std::array<int, 3> kCifarResNetWidths{16, 32, 64};

std::string BlockName(std::size_t group, int block) {
  return "group" + std::to_string(group + 1) + ".block" + std::to_string(block) + ".";
}

Network CifarResNet(Builder builder, int blocks_per_group, int classes) {
  int x = builder.Convolution("conv1", 0, kCifarResNetWidths[0], {});
  for (std::size_t group = 0; group < kCifarResNetWidths.size(); ++group) {
    for (int block = 0; block < blocks_per_group; ++block) {
      const std::string name = BlockName(group, block);
      const int width = kCifarResNetWidths[group];
      const bool changes = builder.shape(x).channels != width;
      const int stride = changes ? 2 : 1;
      int h = -1;
      const int y = builder.NormReluConvolution(name + "norm1", name + "conv1", x, width,
                                                {.stride = stride}, changes ? &h : nullptr);
      const int shortcut = changes
                               ? builder.Convolution(name + "shortcut", h, width,
                                                     {.kernel = 1, .stride = stride, .padding = 0})
                               : x;
      const int z = builder.NormReluConvolution(name + "norm2", name + "conv2", y, width, {});
      x = builder.Sum(name + "sum", z, shortcut);
    }
  }
  x = builder.NormRelu("norm", "norm", x);
  x = builder.AveragePool(x);
  return builder.Finish(builder.Linear("fc", x, classes));
}

Network PostActivationResNet(Builder builder, int blocks_per_group, int classes) {
  int x = builder.Convolution("conv1", 0, kCifarResNetWidths[0], {});
  x = builder.NormRelu("norm1", "norm1", x);
  for (std::size_t group = 0; group < kCifarResNetWidths.size(); ++group) {
    for (int block = 0; block < blocks_per_group; ++block) {
      const std::string name = BlockName(group, block);
      const int width = kCifarResNetWidths[group];
      const int stride = builder.shape(x).channels != width ? 2 : 1;
      int y = builder.Convolution(name + "conv1", x, width, {.stride = stride});
      y = builder.NormRelu(name + "norm1", name + "norm1", y);
      y = builder.Convolution(name + "conv2", y, width, {});
      y = builder.Norm(name + "norm2", y);
      x = builder.NormRelu("", name + "relu", builder.Sum(name + "sum", y, x));
    }
  }
  x = builder.AveragePool(x);
  return builder.Finish(builder.Linear("fc", x, classes));
}

Network ResNet50(Builder builder, int classes) {
  constexpr std::array<int, 4> kBlocks{3, 4, 6, 3};
  constexpr std::array<int, 4> kWidths{64, 128, 256, 512};
  constexpr int kExpansion = 4;
  constexpr Builder::Window kPointwise{.kernel = 1, .stride = 1, .padding = 0};
  int x = builder.Convolution("conv1", 0, 64, {.kernel = 7, .stride = 2, .padding = 3});
  x = builder.MaxPool("pool1", x, {.kernel = 3, .stride = 2, .padding = 1});
  for (std::size_t group = 0; group < kWidths.size(); ++group) {
    for (int block = 0; block < kBlocks[group]; ++block) {
      const std::string name = BlockName(group, block);
      const int width = kWidths[group];
      const int stride = block == 0 && group > 0 ? 2 : 1;
      const bool changes = block == 0;
      int h = -1;
      int y = builder.NormReluConvolution(name + "norm1", name + "conv1", x, width, kPointwise,
                                          changes ? &h : nullptr);
      const int shortcut = changes
                               ? builder.Convolution(name + "shortcut", h, kExpansion * width,
                                                     {.kernel = 1, .stride = stride, .padding = 0})
                               : x;
      y = builder.NormReluConvolution(name + "norm2", name + "conv2", y, width, {.stride = stride});
      const int z = builder.NormReluConvolution(name + "norm3", name + "conv3", y,
                                                kExpansion * width, kPointwise);
      x = builder.Sum(name + "sum", z, shortcut);
    }
  }
  x = builder.NormRelu("norm", "norm", x);
  x = builder.AveragePool(x);
  return builder.Finish(builder.Linear("fc", x, classes));
}

Network Vgg(Builder builder, const std::array<int, 5>& convolutions, std::span<const int> hidden,
            int classes) {
  constexpr std::array<int, 5> kWidths{64, 128, 256, 512, 512};
  constexpr int kClassifierWidth = 512;
  constexpr double kDropout = 0.5;
  int x = 0;
  int k = 0;
  for (std::size_t group = 0; group < kWidths.size(); ++group) {
    for (int i = 0; i < convolutions[group]; ++i, ++k) {
      const std::string name = "features." + std::to_string(k);
      x = builder.Convolution(name, x, kWidths[group], {});
      x = builder.NormRelu(name + ".norm", name + ".relu", x);
    }
    x = builder.MaxPool("pool" + std::to_string(group), x, kHalving);
  }
  for (std::size_t j = 0; j < 2; ++j) {
    const std::string name = "classifier." + std::to_string(j);
    x = builder.Dropout(name + ".dropout", x, kDropout);
    x = builder.Linear(name, x, hidden.empty() ? kClassifierWidth : hidden[j]);
    x = builder.NormRelu("", name + ".relu", x);
  }
  return builder.Finish(builder.Linear("classifier.2", x, classes));
}

Network LeNet5(Builder builder, int classes) {
  int x = builder.Convolution("features.0", 0, 6, {.kernel = 5, .stride = 1, .padding = 2});
  x = builder.NormRelu("", "features.0.relu", x);
  x = builder.MaxPool("pool0", x, kHalving);
  x = builder.Convolution("features.1", x, 16, {.kernel = 5, .stride = 1, .padding = 0});
  x = builder.NormRelu("", "features.1.relu", x);
  x = builder.MaxPool("pool1", x, kHalving);
  x = builder.Linear("classifier.0", x, 120);
  x = builder.NormRelu("", "classifier.0.relu", x);
  x = builder.Linear("classifier.1", x, 84);
  x = builder.NormRelu("", "classifier.1.relu", x);
  return builder.Finish(builder.Linear("classifier.2", x, classes));
}

// Five convolutions and three linear layers at AlexNet's widths, with 3x3 windows and one halving
// fewer, as an image of 32x32 needs it.
Network AlexNet(Builder builder, int classes) {
  constexpr std::array<int, 5> kWidths{64, 192, 384, 256, 256};
  constexpr int kClassifierWidth = 4096;
  constexpr double kDropout = 0.5;
  int x = 0;
  for (std::size_t k = 0; k < kWidths.size(); ++k) {
    const std::string name = "features." + std::to_string(k);
    x = builder.Convolution(name, x, kWidths[k], {.stride = k == 0 ? 2 : 1});
    x = builder.NormRelu("", name + ".relu", x);
    if (k == 0 || k == 1 || k == 4) x = builder.MaxPool("pool" + std::to_string(k), x, kHalving);
  }
  for (int j = 0; j < 2; ++j) {
    const std::string name = "classifier." + std::to_string(j);
    x = builder.Dropout(name + ".dropout", x, kDropout);
    x = builder.Linear(name, x, kClassifierWidth);
    x = builder.NormRelu("", name + ".relu", x);
  }
  return builder.Finish(builder.Linear("classifier.2", x, classes));
}

Network Mlp(Builder builder, std::span<const int> hidden, int classes) {
  int x = 0;
  for (std::size_t j = 0; j < hidden.size(); ++j) {
    const std::string name = "classifier." + std::to_string(j);
    x = builder.Linear(name, x, hidden[j]);
    x = builder.NormRelu("", name + ".relu", x);
  }
  return builder.Finish(builder.Linear("classifier." + std::to_string(hidden.size()), x, classes));
}

constexpr std::array<std::string_view, 13> kNames{
    "resnet20", "resnet32", "resnet44", "resnet56", "resnet110", "resnet50", "vgg11",
    "vgg13",    "vgg16",    "lenet5",   "alexnet",  "mlp",       "linear"};

bool StartsWith(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

// The n of a CIFAR ResNet's name, resnet(6n+2); 0 where it is none.
int BlocksPerGroup(std::string_view name) {
  constexpr int kMaxDepth = 2000;
  if (!StartsWith(name, "resnet")) return 0;
  const std::string_view digits = name.substr(6);
  int depth = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), depth);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  // Each depth has one name, without leading zeros or a sign.
  if (!whole || std::to_string(depth) != digits || depth == 50) return 0;
  return depth >= 8 && depth <= kMaxDepth && depth % 6 == 2 ? depth / 6 : 0;
}

FeatureShape DefaultInput(std::string_view name) {
  if (name == "resnet50") return kImageNetInput;
  return name == "lenet5" ? kMnistInput : kCifarInput;
}

const Layer& FirstLayer(const Stage& stage) { return stage.layers.front(); }

std::int64_t MultiplyAdds(const Layer& layer) {
  if (layer.kind == LayerKind::kConvolution) {
    return layer.output.elements() * layer.input.channels * layer.kernel * layer.kernel;
  }
  return layer.kind == LayerKind::kLinear ? layer.input.elements() * layer.output.channels : 0;
}

std::int64_t Parameters(const Layer& layer) {
  switch (layer.kind) {
    case LayerKind::kConvolution:
      return std::int64_t{layer.output.channels} *
             (std::int64_t{layer.input.channels} * layer.kernel * layer.kernel +
              (layer.bias ? 1 : 0));
    case LayerKind::kLinear:
      return layer.output.channels * (layer.input.elements() + (layer.bias ? 1 : 0));
    case LayerKind::kNormalization:
      return std::int64_t{2} * layer.input.channels;
    default:
      return 0;
  }
}

// Forward work that is not multiply-adds of weights; its gradient costs the same again.
std::int64_t ElementwiseFlops(const Layer& layer) {
  switch (layer.kind) {
    case LayerKind::kNormalization:
      return 8 * layer.input.elements();
    case LayerKind::kRelu:
    case LayerKind::kAveragePool:
    case LayerKind::kSum:
    case LayerKind::kDropout:
      return layer.input.elements();
    case LayerKind::kMaxPool:
      return layer.output.elements() * layer.kernel * layer.kernel;
    case LayerKind::kLoss:
      return 4 * layer.input.elements();
    case LayerKind::kConvolution:
    case LayerKind::kLinear:
      return layer.bias ? layer.output.elements() : 0;
  }
  return 0;
}

}  // namespace

std::span<const std::string_view> NetworkNames() { return kNames; }

bool IsNetworkName(std::string_view name) {
  return BlocksPerGroup(name) > 0 || std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

Network MakeNetwork(const NetworkOptions& options) {
  const std::string& name = options.name;
  const int blocks_per_group = BlocksPerGroup(name);
  if (!IsNetworkName(name)) {
    std::string accepted;
    for (const std::string_view known : kNames) {
      accepted += (accepted.empty() ? "" : ", ") + std::string(known);
    }
    throw InvalidArgument("network.name", name, accepted);
  }
  const bool normalized = StartsWith(name, "resnet") || StartsWith(name, "vgg");
  const Normalization normalization =
      options.normalization.value_or(normalized ? Normalization::kGroup : Normalization::kNone);
  if (!normalized && normalization != Normalization::kNone) {
    throw InvalidArgument("network.norm", Name(normalization), "none for " + name);
  }
  if (options.groups != 0 && normalization != Normalization::kGroup) {
    throw InvalidArgument("network.groups", std::to_string(options.groups),
                          "nothing but with group normalisation");
  }
  if (options.groups < 0) {
    throw InvalidArgument("network.groups", std::to_string(options.groups), "a positive number");
  }
  const bool wide = StartsWith(name, "vgg") || name == "resnet50";
  const int groups = options.groups > 0 ? options.groups : (wide ? 32 : 8);
  const FeatureShape input = options.input.channels != 0 ? options.input : DefaultInput(name);
  if (input.channels < 1 || input.height < 1 || input.width < 1 || input.channels > kMaxEdge ||
      input.height > kMaxEdge || input.width > kMaxEdge) {
    throw InvalidArgument("network.input",
                          std::to_string(input.channels) + "x" + std::to_string(input.height) +
                              "x" + std::to_string(input.width),
                          "three numbers from 1 to " + std::to_string(kMaxEdge));
  }
  const int default_classes = name == "resnet50" ? 1000 : 10;
  const int classes = options.classes != 0 ? options.classes : default_classes;
  if (classes < 2 || classes > kMaxWidth) {
    throw InvalidArgument("network.classes", std::to_string(classes),
                          "2 to " + std::to_string(kMaxWidth));
  }
  const bool is_vgg = StartsWith(name, "vgg");
  if (!options.hidden.empty() && name != "mlp" && !(is_vgg && options.hidden.size() == 2)) {
    throw InvalidArgument(
        "network.hidden", std::to_string(options.hidden.front()),
        is_vgg ? "two widths" : "nothing but with the network mlp, or two widths with a VGG");
  }
  for (const int width : options.hidden) {
    if (width < 1 || width > kMaxWidth || options.hidden.size() > kMaxHiddenLayers) {
      throw InvalidArgument("network.hidden", std::to_string(width),
                            "at most " + std::to_string(kMaxHiddenLayers) + " widths from 1 to " +
                                std::to_string(kMaxWidth));
    }
  }
  if (options.post_activation && blocks_per_group == 0) {
    throw InvalidArgument("network.post_activation", "true", "false for " + name);
  }

  Builder builder(options, normalization, groups, input, classes);
  if (name == "resnet50") return ResNet50(std::move(builder), classes);
  if (options.post_activation) {
    return PostActivationResNet(std::move(builder), blocks_per_group, classes);
  }
  if (blocks_per_group > 0) return CifarResNet(std::move(builder), blocks_per_group, classes);
  if (name == "vgg11") return Vgg(std::move(builder), {1, 1, 2, 2, 2}, options.hidden, classes);
  if (name == "vgg13") return Vgg(std::move(builder), {2, 2, 2, 2, 2}, options.hidden, classes);
  if (name == "vgg16") return Vgg(std::move(builder), {2, 2, 3, 3, 3}, options.hidden, classes);
  if (name == "lenet5") return LeNet5(std::move(builder), classes);
  if (name == "alexnet") return AlexNet(std::move(builder), classes);
  if (name == "linear") return Mlp(std::move(builder), {}, classes);
  const std::vector<int> hidden =
      options.hidden.empty() ? std::vector<int>{256, 256} : options.hidden;
  return Mlp(std::move(builder), hidden, classes);
}

std::vector<int> BoundaryValues(const Network& network, int stage) {
  std::vector<int> values;
  for (int v = 0; v < static_cast<int>(network.values.size()); ++v) {
    const Value& value = network.values[v];
    if (value.producer <= stage && !value.consumers.empty() && value.consumers.back() > stage) {
      values.push_back(v);
    }
  }
  return values;
}

bool KeepsInput(const Stage& stage) {
  const LayerKind first = FirstLayer(stage).kind;
  return first == LayerKind::kConvolution || first == LayerKind::kNormalization ||
         first == LayerKind::kLinear || (first == LayerKind::kRelu && stage.layers.size() > 1);
}

bool KeepsOutput(const Stage& stage) {
  return FirstLayer(stage).kind == LayerKind::kRelu && stage.layers.size() == 1;
}

std::int64_t SavedBytes(const Stage& stage, int bytes_per_number) {
  const Layer& first = FirstLayer(stage);
  switch (first.kind) {
    case LayerKind::kNormalization:
      return std::int64_t{4} * first.input.channels * bytes_per_number;
    case LayerKind::kMaxPool:
      return first.output.elements();
    case LayerKind::kLoss:
      return first.input.elements() * bytes_per_number;
    default:
      return 0;
  }
}

std::vector<StageCost> ComputeCosts(const Network& network, int bytes_per_number) {
  std::vector<StageCost> costs(network.stages.size());
  std::vector<int> kept_by(network.values.size(), -1);
  for (int s = 0; s < network.stage_count(); ++s) {
    const Stage& stage = network.stages[s];
    StageCost& cost = costs[s];
    for (const Layer& layer : stage.layers) {
      const std::int64_t multiply_adds = MultiplyAdds(layer);
      const std::int64_t elementwise = ElementwiseFlops(layer);
      cost.parameters += Parameters(layer);
      cost.forward_flops += 2 * multiply_adds + elementwise;
      cost.weight_gradient_flops += 2 * multiply_adds;
      if (s > 0) cost.input_gradient_flops += 2 * multiply_adds + elementwise;
      cost.largest_output = std::max(cost.largest_output, layer.output.elements());
      const std::int64_t output_bytes = layer.output.elements() * bytes_per_number;
      if (layer.kind != LayerKind::kLoss) cost.layer_output_bytes += output_bytes;
      if (layer.kind == LayerKind::kRelu) cost.relu_output_bytes += output_bytes;
    }
    cost.update_flops = 6 * cost.parameters;
    cost.parameter_bytes = cost.parameters * bytes_per_number;
    const auto bytes_of = [&](int value) {
      return network.values[value].shape.elements() * bytes_per_number;
    };
    const bool sums = stage.layers.back().kind == LayerKind::kSum;
    for (const int value : stage.inputs) {
      cost.read_bytes += bytes_of(value);
      if (s == 0 || sums) continue;
      const bool adds = network.values[value].consumers.back() != s;
      cost.gradient_bytes += (adds ? 2 : 1) * bytes_of(value);
    }
    for (const int value : stage.outputs) {
      cost.written_bytes += bytes_of(value);
      if (!sums) cost.gradient_bytes += bytes_of(value);
    }
    cost.saved_bytes = SavedBytes(stage, bytes_per_number);
    cost.activation_bytes = cost.kept_bytes = cost.saved_bytes;
    const auto keep = [&](int value) {
      cost.kept_bytes += bytes_of(value);
      if (kept_by[value] < 0) {
        cost.activation_bytes += bytes_of(value);
      } else {
        cost.kept_again_bytes = bytes_of(value);
        cost.kept_before_by = kept_by[value];
      }
      kept_by[value] = s;
    };
    if (KeepsInput(stage)) keep(stage.inputs[0]);
    if (KeepsOutput(stage)) keep(stage.outputs[0]);
    for (const int value : BoundaryValues(network, s)) {
      cost.boundary_bytes += bytes_of(value);
    }
  }
  return costs;
}

}  // namespace batchless::hwmodel
