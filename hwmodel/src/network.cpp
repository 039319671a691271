#include "batchless/hwmodel/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/network_builder.h"
#include "checks.h"

namespace batchless::hwmodel {
namespace {

using analysis::InvalidArgument;

constexpr FeatureShape kCifarInput{3, 32, 32};
constexpr FeatureShape kImageNetInput{3, 224, 224};
constexpr FeatureShape kMnistInput{1, 28, 28};
constexpr int kMaxWidth = 1 << 20;
constexpr int kMaxHiddenLayers = 1000;
constexpr int kMaxBlocks = 1000;
constexpr FeatureShape kTokens{1, 128, 1};
constexpr int kVocabulary = 256;

struct Window {
  int kernel = 3;
  int stride = 1;
  int padding = 1;
};

constexpr Window kHalving{.kernel = 2, .stride = 2, .padding = 0};

// Stages as the families of networks repeat them; every method that makes a value returns its number.
class Writer {
 public:
  Writer(const std::string& name, Normalization normalization, int groups, FeatureShape input,
         int classes)
      : builder_(name, input, classes),
        normalization_(normalization),
        groups_(groups),
        classes_(classes) {}

  const FeatureShape& shape(int value) const { return builder_.shape(value); }

  // With a last linear layer and the loss.
  Network Finish(const std::string& name, int input) {
    Add("loss", {.kind = LayerKind::kLoss}, {Linear(name, input, classes_)});
    return builder_.Finish();
  }

  int Convolution(const std::string& name, int input, int channels, Window window) {
    return Add(name, ConvolutionLayer(name, channels, window), {input});
  }

  // Normalisation, ReLU, convolution; `rectified` takes the ReLU's result as a value.
  int NormReluConvolution(const std::string& norm, const std::string& name, int input, int channels,
                          Window window, int* rectified = nullptr) {
    Stage stage{.name = name, .layers = NormLayers(norm), .inputs = {input}};
    stage.layers.push_back({.kind = LayerKind::kRelu});
    stage.layers.push_back(ConvolutionLayer(name, channels, window));
    return builder_.Add(std::move(stage), rectified);
  }

  // Normalisation (where `norm` names it) and ReLU.
  int NormRelu(const std::string& norm, const std::string& name, int input) {
    Stage stage{.name = name, .layers = NormLayers(norm), .inputs = {input}};
    stage.layers.push_back({.kind = LayerKind::kRelu});
    return builder_.Add(std::move(stage));
  }

  int Norm(const std::string& name, int input) {
    if (normalization_ == Normalization::kNone) return input;
    return builder_.Add({.name = name, .layers = NormLayers(name), .inputs = {input}});
  }

  // Every second pixel is taken from a second value that is larger.
  int Sum(const std::string& name, int first, int second) {
    const int stride = shape(second).height > shape(first).height ? 2 : 1;
    return Add(name, {.kind = LayerKind::kSum, .stride = stride}, {first, second});
  }

  int MaxPool(const std::string& name, int input, Window window) {
    return Add(name,
               {.kind = LayerKind::kMaxPool,
                .kernel = window.kernel,
                .stride = window.stride,
                .padding = window.padding},
               {input});
  }

  int AveragePool(int input) { return Add("pool", {.kind = LayerKind::kAveragePool}, {input}); }

  int Dropout(const std::string& name, int input, double probability) {
    return Add(name, {.kind = LayerKind::kDropout, .dropout_probability = probability}, {input});
  }

  int Linear(const std::string& name, int input, int features) {
    return Add(name, {.kind = LayerKind::kLinear, .name = name, .output = {.channels = features}},
               {input});
  }

 private:
  // A stage of one layer.
  int Add(const std::string& name, const Layer& layer, const std::vector<int>& inputs) {
    return builder_.Add({.name = name, .layers = {layer}, .inputs = inputs});
  }

  Layer ConvolutionLayer(const std::string& name, int channels, Window window) const {
    return {.kind = LayerKind::kConvolution,
            .name = name,
            .output = {.channels = channels},
            .kernel = window.kernel,
            .stride = window.stride,
            .padding = window.padding,
            .bias = normalization_ == Normalization::kNone};
  }

  std::vector<Layer> NormLayers(const std::string& name) const {
    if (name.empty() || normalization_ == Normalization::kNone) return {};
    const bool group = normalization_ == Normalization::kGroup;
    return {{.kind = group ? LayerKind::kGroupNormalization : LayerKind::kBatchNormalization,
             .name = name,
             .groups = group ? groups_ : 1}};
  }

  NetworkBuilder builder_;
  Normalization normalization_;
  int groups_;
  int classes_;
};

constexpr std::array<int, 3> kCifarResNetWidths{16, 32, 64};

std::string BlockName(std::size_t group, int block) {
  return fmt::format("group{}.block{}.", group + 1, block);
}

// Groups of pre-activation blocks behind a first value: two convolutions of 3x3 in a block, or a
// bottleneck of three whose last one is `expansion` times as wide.
Network PreActivationResNet(Writer& builder, int x, std::span<const int> widths,
                            std::span<const int> blocks, int expansion) {
  constexpr Window kPointwise{.kernel = 1, .stride = 1, .padding = 0};
  for (std::size_t group = 0; group < widths.size(); ++group) {
    for (int block = 0; block < blocks[group]; ++block) {
      const std::string name = BlockName(group, block);
      const int width = widths[group];
      const bool changes = builder.shape(x).channels != expansion * width;
      const int stride = changes && group > 0 ? 2 : 1;
      const Window window{.stride = stride};
      int h = -1;
      int y =
          builder.NormReluConvolution(name + "norm1", name + "conv1", x, width,
                                      expansion > 1 ? kPointwise : window, changes ? &h : nullptr);
      const int shortcut = changes
                               ? builder.Convolution(name + "shortcut", h, expansion * width,
                                                     {.kernel = 1, .stride = stride, .padding = 0})
                               : x;
      y = builder.NormReluConvolution(name + "norm2", name + "conv2", y, width,
                                      expansion > 1 ? window : Window{});
      if (expansion > 1) {
        y = builder.NormReluConvolution(name + "norm3", name + "conv3", y, expansion * width,
                                        kPointwise);
      }
      x = builder.Sum(name + "sum", y, shortcut);
    }
  }
  x = builder.NormRelu("norm", "norm", x);
  x = builder.AveragePool(x);
  return builder.Finish("fc", x);
}

Network CifarResNet(Writer& builder, int blocks_per_group) {
  const int x = builder.Convolution("conv1", 0, kCifarResNetWidths[0], {});
  const std::array blocks{blocks_per_group, blocks_per_group, blocks_per_group};
  return PreActivationResNet(builder, x, kCifarResNetWidths, blocks, 1);
}

Network ResNet50(Writer& builder) {
  constexpr std::array kBlocks{3, 4, 6, 3};
  constexpr std::array kWidths{64, 128, 256, 512};
  int x = builder.Convolution("conv1", 0, 64, {.kernel = 7, .stride = 2, .padding = 3});
  x = builder.MaxPool("pool1", x, {.kernel = 3, .stride = 2, .padding = 1});
  return PreActivationResNet(builder, x, kWidths, kBlocks, 4);
}

Network PostActivationResNet(Writer& builder, int blocks_per_group) {
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
  return builder.Finish("fc", x);
}

// Hidden linear layers, each with a ReLU and perhaps behind a dropout, and the last one.
Network Classifier(Writer& builder, int x, std::span<const int> hidden, double dropout) {
  for (std::size_t j = 0; j < hidden.size(); ++j) {
    const std::string name = fmt::format("classifier.{}", j);
    if (dropout > 0) x = builder.Dropout(name + ".dropout", x, dropout);
    x = builder.Linear(name, x, hidden[j]);
    x = builder.NormRelu("", name + ".relu", x);
  }
  return builder.Finish(fmt::format("classifier.{}", hidden.size()), x);
}

Network Vgg(Writer& builder, const std::array<int, 5>& convolutions, std::span<const int> hidden) {
  constexpr std::array<int, 5> kWidths{64, 128, 256, 512, 512};
  int x = 0;
  int k = 0;
  for (std::size_t group = 0; group < kWidths.size(); ++group) {
    for (int i = 0; i < convolutions[group]; ++i, ++k) {
      const std::string name = fmt::format("features.{}", k);
      x = builder.Convolution(name, x, kWidths[group], {});
      x = builder.NormRelu(name + ".norm", name + ".relu", x);
    }
    x = builder.MaxPool(fmt::format("pool{}", group), x, kHalving);
  }
  constexpr std::array kHidden{512, 512};
  return Classifier(builder, x, hidden.empty() ? kHidden : hidden, 0.5);
}

Network LeNet5(Writer& builder) {
  int x = builder.Convolution("features.0", 0, 6, {.kernel = 5, .stride = 1, .padding = 2});
  x = builder.NormRelu("", "features.0.relu", x);
  x = builder.MaxPool("pool0", x, kHalving);
  x = builder.Convolution("features.1", x, 16, {.kernel = 5, .stride = 1, .padding = 0});
  x = builder.NormRelu("", "features.1.relu", x);
  x = builder.MaxPool("pool1", x, kHalving);
  constexpr std::array kHidden{120, 84};
  return Classifier(builder, x, kHidden, 0);
}

// Five convolutions and three linear layers at AlexNet's widths, with 3x3 windows and one halving
// fewer, as an image of 32x32 needs it.
Network AlexNet(Writer& builder) {
  constexpr std::array<int, 5> kWidths{64, 192, 384, 256, 256};
  int x = 0;
  for (std::size_t k = 0; k < kWidths.size(); ++k) {
    const std::string name = fmt::format("features.{}", k);
    x = builder.Convolution(name, x, kWidths[k], {.stride = k == 0 ? 2 : 1});
    x = builder.NormRelu("", name + ".relu", x);
    if (k == 0 || k == 1 || k == 4) x = builder.MaxPool(fmt::format("pool{}", k), x, kHalving);
  }
  constexpr std::array kHidden{4096, 4096};
  return Classifier(builder, x, kHidden, 0.5);
}

// Stages of a decoder's blocks.
class DecoderWriter {
 public:
  // Options without a 0 for a default.
  explicit DecoderWriter(const NetworkOptions& options)
      : builder_("gpt", options.input, options.classes),
        options_(options),
        branch_end_(kDeviation / std::sqrt(2.0 * options.layers)) {}

  Network Write() {
    const bool is_tied = options_.tied_embeddings;
    int rows = -1;
    int x = builder_.Add({.name = "embedding",
                          .layers = {{.kind = LayerKind::kEmbedding,
                                      .name = "wte",
                                      .output = {.channels = options_.width}},
                                     {.kind = LayerKind::kPosition, .name = "wpe"}},
                          .inputs = {0}},
                         is_tied ? &rows : nullptr);
    for (int block = 0; block < options_.layers; ++block) {
      const std::string name = fmt::format("h.{}.", block);
      x = Branch(name + "attn", name + "ln_1", x,
                 {Linear(name + "attn.c_attn", 3 * options_.width),
                  {.kind = LayerKind::kAttention, .heads = options_.heads},
                  Linear(name + "attn.c_proj", options_.width, branch_end_)});
      x = Branch(name + "mlp", name + "ln_2", x,
                 {Linear(name + "mlp.c_fc", 4 * options_.width),
                  {.kind = options_.squared_relu ? LayerKind::kSquaredRelu : LayerKind::kGelu},
                  Linear(name + "mlp.c_proj", options_.width, branch_end_)});
    }
    if (options_.norm_first) x = NormStage("ln_f", x);
    Layer head{.kind = LayerKind::kTiedLinear};
    if (!is_tied) head = Linear("lm_head", options_.classes);
    head.bias = false;
    std::vector<int> inputs{x};
    if (is_tied) inputs.push_back(rows);
    x = builder_.Add({.name = "lm_head", .layers = {head}, .inputs = inputs});
    builder_.Add({.name = "loss", .layers = {{.kind = LayerKind::kLoss}}, .inputs = {x}});
    return builder_.Finish();
  }

 private:
  static constexpr double kDeviation = 0.02;

  Layer Norm(const std::string& name) const {
    return {
        .kind = options_.rms_norm ? LayerKind::kRmsNormalization : LayerKind::kLayerNormalization,
        .name = name};
  }

  int NormStage(const std::string& name, int x) {
    return builder_.Add({.name = name, .layers = {Norm(name)}, .inputs = {x}});
  }

  static Layer Linear(const std::string& name, int features, double deviation = kDeviation) {
    return {.kind = LayerKind::kTokenLinear,
            .name = name,
            .output = {.channels = features},
            .bias = true,
            .standard_deviation = deviation};
  }

  // A branch of two stages: what it computes, and its sum with x; its norm is part of the first one or a
  // third.
  int Branch(const std::string& name, const std::string& norm, int x, std::vector<Layer> layers) {
    if (options_.norm_first) layers.insert(layers.begin(), Norm(norm));
    const int y = builder_.Add({.name = name, .layers = std::move(layers), .inputs = {x}});
    const int sum = builder_.Add(
        {.name = name + ".sum", .layers = {{.kind = LayerKind::kSum}}, .inputs = {y, x}});
    return options_.norm_first ? sum : NormStage(norm, sum);
  }

  NetworkBuilder builder_;
  const NetworkOptions& options_;
  double branch_end_;
};

Network Gpt(NetworkOptions options) {
  if (options.layers == 0) options.layers = 6;
  if (options.width == 0) options.width = 128;
  if (options.heads == 0) options.heads = std::max(1, options.width / 32);
  if (options.classes == 0) options.classes = kVocabulary;
  if (options.input.channels == 0) options.input = kTokens;
  RefuseIf(options.layers < 1 || options.layers > kMaxBlocks, "network.layers", options.layers,
           fmt::format("1 to {}", kMaxBlocks));
  RefuseIf(options.width < 1 || options.width > kMaxWidth / 4, "network.width", options.width,
           fmt::format("1 to {}", kMaxWidth / 4));
  RefuseIf(options.heads < 1 || options.width % options.heads != 0, "network.heads", options.heads,
           fmt::format("a divisor of the width {}", options.width));
  RefuseIf(options.input.channels != 1 || options.input.width != 1, "network.input",
           ToText(options.input), "sequences of tokens, 1xTOKENSx1, with gpt");
  return DecoderWriter(options).Write();
}

constexpr std::array<std::string_view, 15> kNetworkNames{
    "resnet20", "resnet32", "resnet44", "resnet56", "resnet110", "resnet50",    "vgg11", "vgg13",
    "vgg16",    "lenet5",   "alexnet",  "mlp",      "linear",    "resnet20-v1", "gpt"};

constexpr std::string_view kPostActivation = "-v1";

bool IsPostActivation(std::string_view name) { return name.ends_with(kPostActivation); }

// The n of a CIFAR ResNet's name, resnet(6n+2) or resnet(6n+2)-v1; 0 where it is none.
int BlocksPerGroup(std::string_view name) {
  constexpr int kMaxDepth = 2000;
  if (!name.starts_with("resnet")) return 0;
  std::string_view digits = name.substr(6);
  if (IsPostActivation(digits)) digits.remove_suffix(kPostActivation.size());
  int depth = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), depth);
  // Each depth has one name, a number without leading zeros or a sign.
  if (std::to_string(depth) != digits || depth == 50) return 0;
  return depth >= 8 && depth <= kMaxDepth && depth % 6 == 2 ? depth / 6 : 0;
}

FeatureShape DefaultInput(std::string_view name) {
  if (name == "resnet50") return kImageNetInput;
  return name == "lenet5" ? kMnistInput : kCifarInput;
}

Network Make(Writer builder, const NetworkOptions& options) {
  const std::string& name = options.name;
  if (name == "resnet50") return ResNet50(builder);
  if (const int blocks = BlocksPerGroup(name); blocks > 0) {
    return IsPostActivation(name) ? PostActivationResNet(builder, blocks)
                                  : CifarResNet(builder, blocks);
  }
  if (name == "vgg11") return Vgg(builder, {1, 1, 2, 2, 2}, options.hidden);
  if (name == "vgg13") return Vgg(builder, {2, 2, 2, 2, 2}, options.hidden);
  if (name == "vgg16") return Vgg(builder, {2, 2, 3, 3, 3}, options.hidden);
  if (name == "lenet5") return LeNet5(builder);
  if (name == "alexnet") return AlexNet(builder);
  if (name == "linear") return Classifier(builder, 0, {}, 0);
  constexpr std::array kHidden{256, 256};
  return Classifier(builder, 0, options.hidden.empty() ? kHidden : std::span(options.hidden), 0);
}

}  // namespace

std::span<const std::string_view> NetworkNames() { return kNetworkNames; }

bool IsNetworkName(std::string_view name) {
  return BlocksPerGroup(name) > 0 ||
         std::find(kNetworkNames.begin(), kNetworkNames.end(), name) != kNetworkNames.end();
}

Network MakeNetwork(const NetworkOptions& options) {
  const std::string& name = options.name;
  RefuseIf(!IsNetworkName(name), "network.name", name, analysis::ListOf(kNetworkNames));
  const bool normalized = name.starts_with("resnet") || name.starts_with("vgg");
  const Normalization normalization =
      options.normalization.value_or(normalized ? Normalization::kGroup : Normalization::kNone);
  RefuseIf(!normalized && normalization != Normalization::kNone, "network.norm",
           Name(normalization), "none for " + name);
  RefuseIf(options.groups != 0 && normalization != Normalization::kGroup, "network.groups",
           options.groups, "nothing but with group normalisation");
  RefuseIf(options.groups < 0, "network.groups", options.groups, "a positive number");
  const bool wide = name.starts_with("vgg") || name == "resnet50";
  const int groups = options.groups > 0 ? options.groups : (wide ? 32 : 8);
  const FeatureShape input = options.input.channels != 0 ? options.input : DefaultInput(name);
  const int default_classes = name == "resnet50" ? 1000 : 10;
  const int classes = options.classes != 0 ? options.classes : default_classes;
  const bool is_vgg = name.starts_with("vgg");
  if (!options.hidden.empty() && name != "mlp" && !(is_vgg && options.hidden.size() == 2)) {
    throw InvalidArgument(
        "network.hidden", std::to_string(options.hidden.front()),
        is_vgg ? "two widths" : "nothing but with the network mlp, or two widths with a VGG");
  }
  for (const int width : options.hidden) {
    RefuseIf(width < 1 || width > kMaxWidth || options.hidden.size() > kMaxHiddenLayers,
             "network.hidden", width,
             fmt::format("at most {} widths from 1 to {}", kMaxHiddenLayers, kMaxWidth));
  }
  const bool is_gpt = name == "gpt";
  for (const auto& [key, value] : {std::pair("network.layers", options.layers),
                                   {"network.width", options.width},
                                   {"network.heads", options.heads}}) {
    RefuseIf(!is_gpt && value != 0, key, value, "nothing but with the network gpt");
  }
  RefuseIf(!is_gpt && options.rms_norm, "network.token_norm", "rms",
           "layer but with the network gpt");
  RefuseIf(!is_gpt && !options.norm_first, "network.norm_first", "false",
           "true but with the network gpt");
  RefuseIf(!is_gpt && options.squared_relu, "network.activation", "squared_relu",
           "gelu but with the network gpt");
  RefuseIf(!is_gpt && options.tied_embeddings, "network.tie_word_embeddings", "true",
           "false but with the network gpt");
  try {
    if (is_gpt) return Gpt(options);
    return Make(Writer(name, normalization, groups, input, classes), options);
  } catch (const InvalidArgument& error) {
    // The options that the builder's refusals follow from.
    const std::string& refused = error.name();
    if (refused.starts_with("network.")) throw;
    RefuseIf(refused.ends_with(".kernel"), "network.input", ToText(input),
             "an image large enough for every convolution and pool");
    const std::string option = refused.ends_with(".groups") ? "groups" : refused;
    throw InvalidArgument("network." + option, error.value(), error.accepted());
  }
}

}  // namespace batchless::hwmodel
