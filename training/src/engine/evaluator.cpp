#include "engine/evaluator.h"

#include <algorithm>

namespace batchless::training {

template <class Real>
Evaluator<Real>::Evaluator(const hwmodel::Network& network,
                           const std::shared_ptr<const Backend<Real>>& backend)
    : network_(&network), image_(network.input.elements()) {
  std::int64_t saved = 0;
  std::int64_t workspace = 0;
  for (int s = 0; s < network.stage_count(); ++s) {
    stages_.push_back(MakeStage<Real>(network, s, 1, backend));
    saved = std::max(saved, stages_.back()->layout().saved_size);
    workspace = std::max(workspace, stages_.back()->layout().workspace_size);
  }
  for (const ValueLayout& value : PlanValues(network, backend->block())) {
    values_.emplace_back(value.stored_size);
  }
  saved_ = AlignedBuffer<Real>(saved);
  workspace_ = AlignedBuffer<Real>(workspace);
}

template <class Real>
void Evaluator<Real>::Run(const NetworkWeights<Real>& weights, const SampleSource& source,
                          std::int64_t first, std::int64_t last, SampleResult* results) {
  for (std::int64_t position = first; position < last; ++position) {
    const std::int32_t label = source.At(position).label;
    source.Read(position, image_);
    std::copy(image_.begin(), image_.end(), values_[0].data());
    Real loss = 0;
    std::uint8_t correct = 0;
    Microbatch<Real> microbatch;
    microbatch.first_sample = position;
    microbatch.training = false;
    microbatch.labels = &label;
    microbatch.losses = &loss;
    microbatch.correct = &correct;
    for (int s = 0; s < network_->stage_count(); ++s) {
      const hwmodel::Stage& stage = network_->stages[s];
      ForwardArguments<Real> arguments;
      arguments.microbatch = &microbatch;
      arguments.parameters = weights.weights[s];
      for (std::size_t i = 0; i < stage.inputs.size(); ++i) {
        arguments.inputs[i] = values_[stage.inputs[i]].data();
      }
      for (std::size_t i = 0; i < stage.outputs.size(); ++i) {
        arguments.outputs[i] = values_[stage.outputs[i]].data();
      }
      arguments.saved = saved_.data();
      // Evaluation reads it alone.
      arguments.state = const_cast<Real*>(weights.states[s]);
      arguments.workspace = workspace_.data();
      stages_[s]->Forward(arguments);
    }
    results[position - first] = {
        .sample = position, .label = label, .loss = loss, .correct = correct != 0};
  }
}

template class Evaluator<float>;
template class Evaluator<double>;

}  // namespace batchless::training
