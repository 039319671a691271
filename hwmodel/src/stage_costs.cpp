// Work and sizes of a network's stages.
#include <algorithm>

#include "batchless/hwmodel/memory_plan.h"
#include "batchless/hwmodel/network.h"

namespace batchless::hwmodel {

bool HasLayer(const Network& network, LayerKind kind) {
  return std::ranges::any_of(network.stages, [&](const Stage& stage) {
    return std::ranges::find(stage.layers, kind, &Layer::kind) != stage.layers.end();
  });
}

bool KeepsInput(const Stage& stage) {
  return stage.layers.size() > 1 || TraitsOf(stage.layers[0].kind).keeps == Kept::kInput;
}

bool KeepsOutput(const Stage& stage) {
  return stage.layers.size() == 1 && TraitsOf(stage.layers[0].kind).keeps == Kept::kOutput;
}

std::int64_t SavedBytes(const Stage& stage, int bytes_per_number) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < stage.layers.size(); ++i) {
    const Layer& layer = stage.layers[i];
    const LayerTraits& traits = TraitsOf(layer.kind);
    if (traits.saved_bytes != nullptr) bytes += traits.saved_bytes(layer, bytes_per_number);
    if (SavesInput(stage, i)) bytes += layer.input.elements() * bytes_per_number;
  }
  return bytes;
}

bool SavesInput(const Stage& stage, std::size_t layer) {
  return layer > 0 && TraitsOf(stage.layers[layer].kind).keeps == Kept::kInput &&
         !TraitsOf(stage.layers[layer - 1].kind).remade;
}

int LabelsOf(const Network& network) {
  return static_cast<int>(network.stages.back().layers.back().input.pixels());
}

std::vector<StageCost> ComputeCosts(const Network& network, int bytes_per_number) {
  std::vector<StageCost> costs(network.stages.size());
  std::vector<int> kept_by(network.values.size(), -1);
  const MemoryPlan plan(network, /*splits_backward=*/false);
  for (int s = 0; s < network.stage_count(); ++s) {
    const Stage& stage = network.stages[s];
    StageCost& cost = costs[s];
    std::int64_t sample_parameters = 0;
    bool read_in_part = false;
    bool has_gradient =
        std::ranges::any_of(stage.inputs, [&](int value) { return plan.gradient_of(value) >= 0; });
    for (const Layer& layer : stage.layers) {
      const LayerTraits& traits = TraitsOf(layer.kind);
      const std::int64_t multiply_adds = traits.multiply_adds(layer);
      const std::int64_t elementwise = traits.elementwise_flops(layer);
      const std::int64_t products = traits.product_flops(layer);
      cost.parameters += ParametersOf(layer);
      cost.forward_flops += 2 * multiply_adds + products + elementwise;
      cost.weight_gradient_flops += 2 * multiply_adds;
      if (has_gradient) {
        cost.input_gradient_flops += 2 * multiply_adds + 2 * products + elementwise;
      }
      // An embedding takes the gradient of what positions are added to as it is.
      has_gradient = has_gradient || layer.kind != LayerKind::kEmbedding;
      if (traits.sample_parameters != nullptr && !HandsOnRows(stage)) {
        read_in_part = true;
        sample_parameters += traits.sample_parameters(layer);
      } else {
        sample_parameters += ParametersOf(layer);
      }
      cost.largest_output = std::max(cost.largest_output, layer.output.elements());
      const std::int64_t output_bytes = layer.output.elements() * bytes_per_number;
      if (!stage.outputs.empty()) cost.layer_output_bytes += output_bytes;
      if (traits.works_in_place) cost.relu_output_bytes += output_bytes;
    }
    cost.update_flops = 6 * cost.parameters;
    cost.parameter_bytes = cost.parameters * bytes_per_number;
    if (read_in_part) cost.sample_parameter_bytes = sample_parameters * bytes_per_number;
    const auto bytes_of = [&](int value) {
      return network.values[value].shape.elements() * bytes_per_number;
    };
    const bool sums = TraitsOf(stage.layers.back().kind).passes_gradient;
    bool reads_gradient = !sums;
    for (const int value : stage.inputs) {
      cost.read_bytes += bytes_of(value);
      if (plan.gradient_of(value) < 0) continue;
      if (sums && plan.gradient_of(value) == plan.gradient_of(stage.outputs[0])) continue;
      reads_gradient = true;
      const bool adds = network.values[value].consumers.back() != s;
      cost.gradient_bytes += (adds ? 2 : 1) * bytes_of(value);
    }
    for (const int value : stage.outputs) {
      cost.written_bytes += bytes_of(value);
      if (reads_gradient) cost.gradient_bytes += bytes_of(value);
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
    if (KeepsInput(stage)) std::ranges::for_each(stage.inputs, keep);
    if (KeepsOutput(stage)) keep(stage.outputs[0]);
    for (const int value : plan.CrossingValues(s + 1)) {
      cost.boundary_bytes += bytes_of(value);
      const std::vector<int>& readers = network.values[value].consumers;
      const int next = *std::ranges::upper_bound(readers, s);
      if (next > s + 1) cost.passing.push_back({bytes_of(value), next});
    }
  }
  return costs;
}

}  // namespace batchless::hwmodel
