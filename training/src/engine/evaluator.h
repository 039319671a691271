// Loss and accuracy with the newest weights: forward passes alone, sample by sample, shared among
// threads and processes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "aligned_buffer.h"
#include "batchless/training/process_group.h"
#include "batchless/training/trainer.h"
#include "engine/pipeline.h"

namespace batchless::training {

// Forwards of one sample at a time through the first stages of a network.
template <class Real>
class SamplePass {
 public:
  // The network outlives it.
  SamplePass(const hwmodel::Network& network, const std::shared_ptr<const Backend<Real>>& backend,
             int stages)
      : network_(&network) {
    std::int64_t saved = 0;
    std::int64_t workspace = 0;
    for (int s = 0; s < stages; ++s) {
      stages_.push_back(MakeStage<Real>(network, s, 1, backend));
      saved = std::max(saved, layout(s).saved_size);
      workspace = std::max(workspace, layout(s).workspace_size);
    }
    for (const ValueLayout& value : PlanValues(network, backend->block())) {
      values_.emplace_back(value.stored_size);
    }
    saved_ = AlignedBuffer<Real>(saved);
    workspace_ = AlignedBuffer<Real>(workspace);
  }

  const StageLayout& layout(int stage) const { return stages_[stage]->layout(); }

  void Run(std::span<const float> input, const Microbatch<Real>& microbatch,
           const NetworkWeights<Real>& weights) {
    std::copy(input.begin(), input.end(), values_[0].data());
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const hwmodel::Stage& stage = network_->stages[s];
      ForwardArguments<Real> arguments;
      arguments.microbatch = &microbatch;
      arguments.parameters = weights.weights.data[s];
      for (std::size_t i = 0; i < stage.inputs.size(); ++i) {
        arguments.inputs[i] = values_[stage.inputs[i]].data();
      }
      for (std::size_t i = 0; i < stage.outputs.size(); ++i) {
        arguments.outputs[i] = values_[stage.outputs[i]].data();
      }
      arguments.saved = saved_.data();
      // Only training writes it.
      arguments.state = const_cast<Real*>(weights.states.data[s]);
      arguments.workspace = workspace_.data();
      stages_[s]->Forward(arguments);
    }
  }

  // As the last Run has left it.
  const AlignedBuffer<Real>& value(int v) const { return values_[v]; }

 private:
  const hwmodel::Network* network_;
  std::vector<std::unique_ptr<Stage<Real>>> stages_;
  std::vector<AlignedBuffer<Real>> values_;
  AlignedBuffer<Real> saved_;
  AlignedBuffer<Real> workspace_;
};

template <class Real>
class Evaluator {
 public:
  // `group` null: this process alone.
  Evaluator(const hwmodel::Network& network, std::shared_ptr<const Backend<Real>> backend,
            int threads, ProcessGroup* group);

  // Means over positions 0 .. samples-1. Collective.
  Evaluation Run(const NetworkWeights<Real>& weights, const SampleSource& source,
                 std::int64_t samples);

 private:
  const hwmodel::Network* network_;
  std::shared_ptr<const Backend<Real>> backend_;
  int threads_;
  ProcessGroup* group_;
  std::vector<SamplePass<Real>> passes_;  // by thread, from the first Run on
};

}  // namespace batchless::training
