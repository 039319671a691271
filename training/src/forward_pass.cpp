#include "batchless/training/forward_pass.h"

#include <algorithm>
#include <set>
#include <string>

#include "aligned_buffer.h"
#include "batchless/analysis/argument.h"
#include "engine/evaluator.h"

namespace batchless::training {

struct ForwardPass::Memory {
  SamplePass<float> pass;
  NetworkWeights<float> weights;
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
    : network_(network),
      memory_(new Memory{{network_, MakeVectorBackend(), network_.stage_count() - 1}, {}}) {
  NetworkWeights<float>& weights = memory_->weights;
  std::set<std::string> names;
  for (int s = 0; s + 1 < network_.stage_count(); ++s) {
    const StageLayout& layout = memory_->pass.layout(s);
    const auto pack = [&](const std::vector<ParameterTensor>& expected, std::int64_t size) {
      for (const ParameterTensor& tensor : expected) names.insert(tensor.name);
      return weights.copies.emplace_back(PackAll(expected, size, tensors)).data();
    };
    weights.weights.push_back(pack(layout.parameters, layout.parameter_size));
    weights.states.push_back(pack(layout.state, layout.state_size));
  }
  for (const NamedTensor& tensor : tensors) {
    if (names.contains(tensor.name) || IsPyTorchBuffer(tensor.name, names)) continue;
    throw analysis::InvalidArgument(tensor.name, "a tensor", "those of the network alone");
  }
}

ForwardPass::~ForwardPass() = default;

std::span<const float> ForwardPass::Scores(std::span<const float> input) {
  if (std::ssize(input) != network_.input.elements()) {
    throw analysis::InvalidArgument("input", std::to_string(input.size()) + " numbers",
                                    std::to_string(network_.input.elements()) + " numbers");
  }
  Microbatch<float> microbatch;
  microbatch.training = false;
  memory_->pass.Run(input, microbatch, memory_->weights);
  const AlignedBuffer<float>& scores = memory_->pass.value(network_.stages.back().inputs[0]);
  return {scores.data(), static_cast<std::size_t>(hwmodel::LabelsOf(network_)) *
                             static_cast<std::size_t>(network_.classes)};
}

}  // namespace batchless::training
