#include "batchless/hwmodel/layer.h"

#include <fmt/format.h>

namespace batchless::hwmodel {
namespace {

constexpr double kMostChannels = 1 << 20;
constexpr double kMostEdge = 4096;

constexpr LayerField kKernel{"kernel", &Layer::kernel, 1, kMostEdge, true};
constexpr LayerField kStride{"stride", &Layer::stride, 1, kMostEdge};
constexpr LayerField kPadding{"padding", &Layer::padding, 0, kMostEdge};

constexpr std::array kConvolutionFields{
    LayerField{"channels", &FeatureShape::channels, 1, kMostChannels, true}, kKernel, kStride,
    kPadding, LayerField{"bias", &Layer::bias}};
constexpr std::array kGroupFields{LayerField{"groups", &Layer::groups, 1, kMostChannels, true}};
constexpr std::array kResponseFields{LayerField{"size", &Layer::kernel, 1, kMostEdge, true},
                                     LayerField{"alpha", &Layer::alpha, 0, 1e6},
                                     LayerField{"beta", &Layer::beta, 0, 1e6},
                                     LayerField{"k", &Layer::k, 1e-6, 1e6}};
constexpr std::array kPoolFields{kKernel, kStride, kPadding};
constexpr std::array kSumFields{kStride};
constexpr std::array kDropoutFields{
    LayerField{"probability", &Layer::dropout_probability, 0, 0.999, true}};
constexpr LayerField kFeatures{"features", &FeatureShape::channels, 1, kMostChannels, true};
constexpr LayerField kDeviation{"standard_deviation", &Layer::standard_deviation, 0, 1e6};
constexpr std::array kLinearFields{kFeatures};
constexpr std::array kEmbeddingFields{kFeatures, kDeviation};
constexpr std::array kPositionFields{kDeviation};
constexpr std::array kTokenLinearFields{kFeatures, LayerField{"bias", &Layer::bias}, kDeviation};
constexpr std::array kAttentionFields{LayerField{"heads", &Layer::heads, 1, kMostChannels, true}};

constexpr std::array kAfterNormalization{LayerKind::kGroupNormalization,
                                         LayerKind::kBatchNormalization};
constexpr std::array kAfterRelu{LayerKind::kRelu};
constexpr std::array kAfterEmbedding{LayerKind::kEmbedding};
constexpr std::array kAfterTokenLinear{LayerKind::kTokenLinear};
constexpr std::array kBeforeTokenLinear{LayerKind::kLayerNormalization,
                                        LayerKind::kRmsNormalization, LayerKind::kAttention,
                                        LayerKind::kGelu, LayerKind::kSquaredRelu};

int Extent(const Layer& layer, int edge) {
  const int room = edge + 2 * layer.padding - layer.kernel;
  return room < 0 ? 0 : room / layer.stride + 1;
}

FeatureShape Windows(const Layer& l, int channels) {
  return {channels, Extent(l, l.input.height), Extent(l, l.input.width)};
}
FeatureShape WithChannels(const FeatureShape& shape, int channels) {
  return {channels, shape.height, shape.width};
}
FeatureShape OnePixel(int channels) { return {channels, 1, 1}; }
FeatureShape OutputChannels(const Layer& l) { return WithChannels(l.input, l.output.channels); }

std::int64_t WindowSize(const Layer& l) { return std::int64_t{l.kernel} * l.kernel; }
std::int64_t InputElements(const Layer& l) { return l.input.elements(); }
std::int64_t ChannelPairs(const Layer& l) { return std::int64_t{2} * l.input.channels; }
std::int64_t NormalizationFlops(const Layer& l) { return 8 * l.input.elements(); }
std::int64_t ChannelConstantsBytes(const Layer& l, int bytes) {
  return std::int64_t{4} * l.input.channels * bytes;
}

constexpr std::array<LayerTraits, kLayerKindCount> kTable{{
    {.kind = LayerKind::kConvolution,
     .name = "convolution",
     .fields = kConvolutionFields,
     .follows = kAfterRelu,
     .output = [](const Layer& l) { return Windows(l, l.output.channels); },
     .parameters =
         [](const Layer& l) {
           return l.output.channels * (l.input.channels * WindowSize(l) + (l.bias ? 1 : 0));
         },
     .multiply_adds =
         [](const Layer& l) { return l.output.elements() * l.input.channels * WindowSize(l); },
     .elementwise_flops = [](const Layer& l) { return l.bias ? l.output.elements() : 0; },
     .keeps = Kept::kInput,
     .order = ValueOrder::kBlocked,
     .adds_input_gradient = true},
    {.kind = LayerKind::kLinear,
     .name = "linear",
     .fields = kLinearFields,
     .output = [](const Layer& l) { return OnePixel(l.output.channels); },
     .parameters = [](const Layer& l) { return l.output.channels * (l.input.elements() + 1); },
     .multiply_adds = [](const Layer& l) { return l.input.elements() * l.output.channels; },
     .elementwise_flops = [](const Layer& l) { return l.output.elements(); },
     .keeps = Kept::kInput,
     .order = ValueOrder::kPlain},
    {.kind = LayerKind::kGroupNormalization,
     .name = "group_norm",
     .fields = kGroupFields,
     .parameters = ChannelPairs,
     .elementwise_flops = NormalizationFlops,
     .saved_bytes = ChannelConstantsBytes,
     .keeps = Kept::kInput,
     .remade = true,
     .normalization = Normalization::kGroup,
     .adds_input_gradient = true},
    {.kind = LayerKind::kBatchNormalization,
     .name = "batch_norm",
     .parameters = ChannelPairs,
     .elementwise_flops = NormalizationFlops,
     .saved_bytes = ChannelConstantsBytes,
     .keeps = Kept::kInput,
     .remade = true,
     .normalization = Normalization::kBatch,
     .adds_input_gradient = true},
    {.kind = LayerKind::kLocalResponseNormalization,
     .name = "local_response_norm",
     .fields = kResponseFields,
     .elementwise_flops = [](const Layer& l) { return (4 + l.kernel) * l.input.elements(); },
     .keeps = Kept::kInput,
     .adds_input_gradient = true},
    {.kind = LayerKind::kRelu,
     .name = "relu",
     .follows = kAfterNormalization,
     .elementwise_flops = InputElements,
     .keeps = Kept::kOutput,
     .remade = true,
     .adds_input_gradient = true,
     .works_in_place = true},
    {.kind = LayerKind::kMaxPool,
     .name = "max_pool",
     .fields = kPoolFields,
     .output = [](const Layer& l) { return Windows(l, l.input.channels); },
     .elementwise_flops = [](const Layer& l) { return l.output.elements() * WindowSize(l); },
     .saved_bytes = [](const Layer& l, int) { return l.output.elements(); },
     .order = ValueOrder::kBlocked},
    {.kind = LayerKind::kAveragePool,
     .name = "average_pool",
     .output = [](const Layer& l) { return OnePixel(l.input.channels); },
     .elementwise_flops = InputElements,
     .order = ValueOrder::kPlain},
    {.kind = LayerKind::kDropout,
     .name = "dropout",
     .fields = kDropoutFields,
     .elementwise_flops = InputElements},
    {.kind = LayerKind::kSum,
     .name = "sum",
     .fields = kSumFields,
     .inputs = 2,
     .elementwise_flops = InputElements,
     .passes_gradient = true},
    {.kind = LayerKind::kEmbedding,
     .name = "embedding",
     .fields = kEmbeddingFields,
     .output = OutputChannels,
     .parameters = [](const Layer& l) { return std::int64_t{l.vocabulary} * l.output.channels; },
     .sample_parameters = [](const Layer& l) { return l.output.elements(); },
     .keeps = Kept::kInput,
     .order = ValueOrder::kRows},
    {.kind = LayerKind::kPosition,
     .name = "position",
     .fields = kPositionFields,
     .follows = kAfterEmbedding,
     .parameters = InputElements,
     .elementwise_flops = InputElements,
     .order = ValueOrder::kRows,
     .adds_input_gradient = true},
    {.kind = LayerKind::kLayerNormalization,
     .name = "layer_norm",
     .parameters = ChannelPairs,
     .elementwise_flops = NormalizationFlops,
     .saved_bytes = [](const Layer& l,
                       int bytes) { return 2 * (l.input.pixels() + l.input.channels) * bytes; },
     .keeps = Kept::kInput,
     .remade = true,
     .order = ValueOrder::kRows,
     .adds_input_gradient = true},
    {.kind = LayerKind::kRmsNormalization,
     .name = "rms_norm",
     .parameters = [](const Layer& l) { return std::int64_t{l.input.channels}; },
     .elementwise_flops = [](const Layer& l) { return 6 * l.input.elements(); },
     .saved_bytes = [](const Layer& l,
                       int bytes) { return (2 * l.input.pixels() + l.input.channels) * bytes; },
     .keeps = Kept::kInput,
     .remade = true,
     .order = ValueOrder::kRows,
     .adds_input_gradient = true},
    {.kind = LayerKind::kTokenLinear,
     .name = "token_linear",
     .fields = kTokenLinearFields,
     .follows = kBeforeTokenLinear,
     .output = OutputChannels,
     .parameters =
         [](const Layer& l) {
           return std::int64_t{l.output.channels} * (l.input.channels + (l.bias ? 1 : 0));
         },
     .multiply_adds = [](const Layer& l) { return l.output.elements() * l.input.channels; },
     .elementwise_flops = [](const Layer& l) { return l.bias ? l.output.elements() : 0; },
     .keeps = Kept::kInput,
     .order = ValueOrder::kRows,
     .adds_input_gradient = true},
    {.kind = LayerKind::kTiedLinear,
     .name = "tied_linear",
     .inputs = 2,
     .output = [](const Layer& l) { return WithChannels(l.input, l.vocabulary); },
     .product_flops = [](const Layer& l) { return 2 * l.output.elements() * l.input.channels; },
     .keeps = Kept::kInput,
     .order = ValueOrder::kRows},
    {.kind = LayerKind::kAttention,
     .name = "attention",
     .fields = kAttentionFields,
     .follows = kAfterTokenLinear,
     .output = [](const Layer& l) { return WithChannels(l.input, l.input.channels / 3); },
     .elementwise_flops =
         [](const Layer& l) { return 5 * l.heads * l.input.pixels() * l.input.pixels(); },
     .product_flops = [](const Layer& l) { return 4 * l.output.elements() * l.input.pixels(); },
     .saved_bytes = [](const Layer& l, int bytes) { return l.heads * l.input.pixels() * bytes; },
     .keeps = Kept::kInput,
     .order = ValueOrder::kRows,
     .adds_input_gradient = true},
    {.kind = LayerKind::kGelu,
     .name = "gelu",
     .follows = kAfterTokenLinear,
     .elementwise_flops = [](const Layer& l) { return 8 * l.input.elements(); },
     .keeps = Kept::kInput,
     .remade = true,
     .order = ValueOrder::kRows,
     .adds_input_gradient = true},
    {.kind = LayerKind::kSquaredRelu,
     .name = "squared_relu",
     .follows = kAfterTokenLinear,
     .elementwise_flops = [](const Layer& l) { return 2 * l.input.elements(); },
     .keeps = Kept::kInput,
     .remade = true,
     .order = ValueOrder::kRows,
     .adds_input_gradient = true},
    {.kind = LayerKind::kLoss,
     .name = "loss",
     .elementwise_flops = [](const Layer& l) { return 4 * l.input.elements(); },
     .saved_bytes = [](const Layer& l, int bytes) { return l.input.elements() * bytes; },
     .order = ValueOrder::kPlain},
}};

constexpr bool IsInOrder() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<std::size_t>(kTable[i].kind) != i || kTable[i].name.empty()) return false;
  }
  return true;
}
static_assert(IsInOrder(), "every kind of layer has its row, in the order of LayerKind");

}  // namespace

std::string ToText(const FeatureShape& shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

std::span<const LayerTraits> LayerKinds() { return kTable; }

std::int64_t ParametersOf(const Layer& layer) {
  const LayerTraits& traits = TraitsOf(layer.kind);
  return traits.parameters == nullptr ? 0 : traits.parameters(layer);
}

}  // namespace batchless::hwmodel
