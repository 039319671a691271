#include "batchless/training/forward_pass.h"

#include <string>
#include <utility>

#include "batchless/analysis/argument.h"
#include "engine/evaluator.h"
#include "named_tensors.h"

namespace batchless::training {

struct ForwardPass::Memory {
  SamplePass<float> pass;
  NetworkWeights<float> weights;
};

ForwardPass::ForwardPass(const hwmodel::Network& network, std::span<const NamedTensor> tensors)
    : network_(network),
      memory_(new Memory{{network_, MakeVectorBackend(), network_.stage_count() - 1}, {}}) {
  NetworkWeights<float>& weights = memory_->weights;
  std::vector<const StageLayout*> layouts;
  for (int s = 0; s + 1 < network_.stage_count(); ++s) layouts.push_back(&memory_->pass.layout(s));
  for (StageBlocks<float>& stage : PackStages<float>(network_, layouts, tensors)) {
    weights.weights.AddCopy(std::move(stage.parameters));
    weights.states.AddCopy(std::move(stage.state));
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
