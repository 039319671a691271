// Work and sizes of a network's stages.
#include <algorithm>

#include "batchless/hwmodel/network.h"

namespace batchless::hwmodel {
namespace {

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
