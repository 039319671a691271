#include "batchless/training/stage.h"

#include "batchless/analysis/argument.h"
#include "stages/stages.h"

namespace batchless::training {

using hwmodel::LayerKind;

std::vector<ValueLayout> PlanValues(const hwmodel::Network& network, int block) {
  std::vector<ValueLayout> values(network.values.size());
  for (std::size_t v = 0; v < values.size(); ++v) {
    const hwmodel::Value& value = network.values[v];
    ValueLayout& layout = values[v];
    layout.shape = value.shape;
    if (value.producer >= 0) {
      const hwmodel::Stage& producer = network.stages[value.producer];
      switch (producer.layers.back().kind) {
        case LayerKind::kConvolution:
        case LayerKind::kMaxPool:
          layout.block = block;
          break;
        case LayerKind::kNormalization:
        case LayerKind::kRelu:
        case LayerKind::kDropout:
        case LayerKind::kSum:
          layout.block = values[producer.inputs[0]].block;
          break;
        case LayerKind::kAveragePool:
        case LayerKind::kLinear:
        case LayerKind::kLoss:
          break;
      }
    }
    layout.stored_size = RoundUp(value.shape.channels, layout.block) * value.shape.pixels();
  }
  return values;
}

ParameterTensor& AppendChannelTensor(std::vector<ParameterTensor>& tensors, std::int64_t& size,
                                     const std::string& name, std::int64_t channels, int block,
                                     Initializer initializer) {
  ParameterTensor tensor;
  tensor.name = name;
  tensor.shape = {channels};
  tensor.sizes = {channels, 1, 1, 1};
  tensor.order.out_outer = 1;
  tensor.offset = size;
  tensor.stored_size = RoundUp(channels, block);
  tensor.initializer = initializer;
  size += Aligned(tensor.stored_size);
  return tensors.emplace_back(std::move(tensor));
}

NormalizationShape MakeNormalizationShape(const hwmodel::Layer& layer, int microbatch, int block) {
  return {.microbatch = microbatch,
          .channels = layer.input.channels,
          .pixels = layer.input.pixels(),
          .block = block,
          .kind = layer.normalization,
          .groups = layer.groups};
}

namespace {

// Whether the gradient by the stage's input can be added to what later readers of it have left.
bool AddsInputGradient(LayerKind kind) {
  switch (kind) {
    case LayerKind::kConvolution:
    case LayerKind::kRelu:
    case LayerKind::kNormalization:
      return true;
    case LayerKind::kSum:  // its inputs share the gradient of its output
    case LayerKind::kDropout:
    case LayerKind::kMaxPool:
    case LayerKind::kAveragePool:
    case LayerKind::kLinear:
    case LayerKind::kLoss:
      return false;
  }
  return false;
}

void CheckReaders(const hwmodel::Network& network, int number) {
  const hwmodel::Stage& stage = network.stages[number];
  if (AddsInputGradient(stage.layers.back().kind)) return;
  for (const int input : stage.inputs) {
    if (network.values[input].consumers.back() == number) continue;
    throw analysis::InvalidArgument("network", stage.name + " before other readers of its input",
                                    "a convolution, a normalisation or a ReLU there");
  }
}

}  // namespace

template <class Real>
std::unique_ptr<Stage<Real>> MakeStage(const hwmodel::Network& network, int stage, int microbatch,
                                       std::shared_ptr<const Backend<Real>> backend) {
  const StageParts<Real> parts{.network = network,
                               .stage = network.stages.at(stage),
                               .number = stage,
                               .microbatch = microbatch,
                               .backend = backend,
                               .values = PlanValues(network, backend->block())};
  CheckReaders(network, stage);
  switch (parts.stage.layers.back().kind) {
    case LayerKind::kConvolution:
      return MakeConvolutionStage(parts);
    case LayerKind::kRelu:
      return parts.stage.layers.size() > 1 ? MakeNormReluStage(parts) : MakeElementwiseStage(parts);
    case LayerKind::kNormalization:
      throw analysis::InvalidArgument("network", parts.stage.name,
                                      "normalisations with a ReLU behind them");
    case LayerKind::kSum:
    case LayerKind::kDropout:
      return MakeElementwiseStage(parts);
    case LayerKind::kMaxPool:
    case LayerKind::kAveragePool:
      return MakePoolStage(parts);
    case LayerKind::kLinear:
      return MakeLinearStage(parts);
    case LayerKind::kLoss:
      return MakeLossStage(parts);
  }
  return nullptr;
}

template std::unique_ptr<Stage<float>> MakeStage(const hwmodel::Network&, int, int,
                                                 std::shared_ptr<const Backend<float>>);
template std::unique_ptr<Stage<double>> MakeStage(const hwmodel::Network&, int, int,
                                                  std::shared_ptr<const Backend<double>>);

}  // namespace batchless::training
