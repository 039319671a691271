#include "batchless/training/forward_pass.h"

#include <algorithm>
#include <set>
#include <string>

#include "aligned_buffer.h"
#include "batchless/analysis/argument.h"
#include "batchless/training/stage.h"

namespace batchless::training {

struct ForwardPass::Memory {
  std::vector<std::unique_ptr<Stage<float>>> stages;
  std::vector<AlignedBuffer<float>> parameters;  // by stage
  std::vector<AlignedBuffer<float>> states;
  std::vector<AlignedBuffer<float>> values;
  AlignedBuffer<float> saved;
  AlignedBuffer<float> workspace;
};

namespace {

AlignedBuffer<float> PackAll(const std::vector<ParameterTensor>& expected, std::int64_t size,
                             std::span<const NamedTensor> tensors) {
  AlignedBuffer<float> block(size);
  for (const ParameterTensor& tensor : expected) {
    const auto given = std::find_if(tensors.begin(), tensors.end(), [&](const NamedTensor& other) {
      return other.name == tensor.name;
    });
    if (given == tensors.end()) {
      throw analysis::InvalidArgument(tensor.name, "nothing", "a tensor of the network");
    }
    if (given->shape != tensor.shape) {
      throw analysis::InvalidArgument(tensor.name, "a tensor of another shape",
                                      "the shape that the network has");
    }
    const std::vector<float> values(given->values.begin(), given->values.end());
    Pack<float>(tensor, values, block.data());
  }
  return block;
}

}  // namespace

ForwardPass::ForwardPass(const hwmodel::Network& network, std::span<const NamedTensor> tensors)
    : network_(network), memory_(std::make_unique<Memory>()) {
  const std::shared_ptr<const Backend<float>> backend = MakeVectorBackend();
  std::int64_t saved = 0;
  std::int64_t workspace = 0;
  std::set<std::string> names;
  for (int s = 0; s + 1 < network_.stage_count(); ++s) {
    memory_->stages.push_back(MakeStage<float>(network_, s, 1, backend));
    const StageLayout& layout = memory_->stages.back()->layout();
    memory_->parameters.push_back(PackAll(layout.parameters, layout.parameter_size, tensors));
    memory_->states.push_back(PackAll(layout.state, layout.state_size, tensors));
    for (const auto* expected : {&layout.parameters, &layout.state}) {
      for (const ParameterTensor& tensor : *expected) names.insert(tensor.name);
    }
    saved = std::max(saved, layout.saved_size);
    workspace = std::max(workspace, layout.workspace_size);
  }
  for (const NamedTensor& tensor : tensors) {
    if (names.contains(tensor.name) || IsPyTorchBuffer(tensor.name, names)) continue;
    throw analysis::InvalidArgument(tensor.name, "a tensor", "those of the network alone");
  }
  for (const ValueLayout& value : PlanValues(network_, backend->block())) {
    memory_->values.emplace_back(value.stored_size);
  }
  memory_->saved = AlignedBuffer<float>(saved);
  memory_->workspace = AlignedBuffer<float>(workspace);
}

ForwardPass::~ForwardPass() = default;

std::span<const float> ForwardPass::Scores(std::span<const float> input) {
  if (std::ssize(input) != network_.input.elements()) {
    throw analysis::InvalidArgument("input", std::to_string(input.size()) + " numbers",
                                    std::to_string(network_.input.elements()) + " numbers");
  }
  std::copy(input.begin(), input.end(), memory_->values[0].data());
  Microbatch<float> microbatch;
  microbatch.training = false;
  for (std::size_t s = 0; s < memory_->stages.size(); ++s) {
    const hwmodel::Stage& stage = network_.stages[s];
    ForwardArguments<float> arguments;
    arguments.microbatch = &microbatch;
    arguments.parameters = memory_->parameters[s].data();
    for (std::size_t i = 0; i < stage.inputs.size(); ++i) {
      arguments.inputs[i] = memory_->values[stage.inputs[i]].data();
    }
    for (std::size_t i = 0; i < stage.outputs.size(); ++i) {
      arguments.outputs[i] = memory_->values[stage.outputs[i]].data();
    }
    arguments.saved = memory_->saved.data();
    arguments.state = memory_->states[s].data();
    arguments.workspace = memory_->workspace.data();
    memory_->stages[s]->Forward(arguments);
  }
  const AlignedBuffer<float>& scores = memory_->values[network_.stages.back().inputs[0]];
  return {scores.data(), static_cast<std::size_t>(hwmodel::LabelsOf(network_)) *
                             static_cast<std::size_t>(network_.classes)};
}

}  // namespace batchless::training
