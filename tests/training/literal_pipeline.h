// A pipeline sample by sample, with old versions of the weights kept as they were and read as the
// schedule's summary says: slow, literal, and without anything of the engine but the stages' own
// arithmetic.
//
// Products and sums are rounded together where the fused update does so: compensation and prediction
// over 66 updates amplify a different rounding to 1e-4 of the loss within 200 samples.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <vector>

#include "batchless/analysis/rule.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "batchless/training/backend.h"
#include "batchless/training/sample_source.h"
#include "batchless/training/stage.h"

namespace batchless::training {

struct LiteralOptions {
  analysis::RuleSpec rule{analysis::FindRule("sgdm"), {}};
  // Which versions each sample reads.
  hwmodel::ScheduleSummary versions;
  bool backward_as_forward = false;  // stashed and double-buffered weights; else those of a version
  std::int64_t samples_per_update = 1;
  bool spectrain = false;
  double learning_rate = 0;
  double momentum = 0;
  double weight_decay = 0;
};

class LiteralPipeline {
 public:
  using Block = std::vector<float>;

  // `weights`: for each stage its block in the forward's order.
  LiteralPipeline(const hwmodel::Network& network, const std::vector<Block>& weights,
                  const LiteralOptions& options)
      : network_(network),
        options_(options),
        backend_(MakeVectorBackend()),
        values_(PlanValues(network, backend_->block())) {
    for (int s = 0; s < network.stage_count(); ++s) {
      stages_.push_back(MakeStage<float>(network, s, 1, backend_));
      const StageLayout& layout = stages_.back()->layout();
      histories_.push_back({{weights[s], Block(weights[s].size()), weights[s]}});
      saved_.emplace_back(layout.saved_size);
      gradients_.emplace_back(layout.parameter_size);
      workspace_.resize(std::max<std::size_t>(workspace_.size(), layout.workspace_size));
    }
  }

  // Trains on the run's sample number i and returns its loss.
  float Step(const SampleSource& source, std::int64_t i) {
    const int stages = network_.stage_count();
    std::vector<Block> values;
    for (const ValueLayout& value : values_) values.emplace_back(value.stored_size);
    source.Read(i, values[0]);
    const std::int32_t label = source.Label(i);
    float loss = 0;
    std::uint8_t correct = 0;
    Microbatch<float> microbatch;
    microbatch.first_sample = i;
    microbatch.labels = &label;
    microbatch.losses = &loss;
    microbatch.correct = &correct;
    microbatch.gradient_scale = 1 / static_cast<float>(options_.samples_per_update);

    std::vector<Block> used(stages);
    for (int s = 0; s < stages; ++s) {
      const std::int64_t horizon = 2 * (stages - 1) - s;
      used[s] = Predict(s, options_.versions.stages[s].microbatches[i].forward,
                        options_.spectrain ? horizon : -1);
      ForwardArguments<float> arguments;
      arguments.microbatch = &microbatch;
      arguments.parameters = used[s].data();
      const hwmodel::Stage& stage = network_.stages[s];
      for (std::size_t j = 0; j < stage.inputs.size(); ++j) {
        arguments.inputs[j] = values[stage.inputs[j]].data();
      }
      for (std::size_t j = 0; j < stage.outputs.size(); ++j) {
        arguments.outputs[j] = values[stage.outputs[j]].data();
      }
      arguments.saved = saved_[s].data();
      arguments.workspace = workspace_.data();
      stages_[s]->Forward(arguments);
    }

    const bool is_first = i % options_.samples_per_update == 0;
    const bool is_last = (i + 1) % options_.samples_per_update == 0;
    std::vector<Block> gradients;
    for (const ValueLayout& value : values_) gradients.emplace_back(value.stored_size);
    for (int s = stages - 1; s >= 0; --s) {
      const hwmodel::Stage& stage = network_.stages[s];
      const StageLayout& layout = stages_[s]->layout();
      if (layout.passes_gradient) {
        for (const int input : stage.inputs) {
          for (std::size_t j = 0; j < gradients[input].size(); ++j) {
            gradients[input][j] += gradients[stage.outputs[0]][j];
          }
        }
        if (is_last) Update(s, {});
        continue;
      }
      const std::int64_t version = options_.versions.stages[s].microbatches[i].backward;
      Block weights = At(s, version).weights;
      if (options_.backward_as_forward) weights = used[s];
      if (options_.spectrain) weights = Predict(s, version, s);
      BackwardArguments<float> arguments;
      arguments.microbatch = &microbatch;
      arguments.parameters = weights.data();
      if (layout.keeps_input) arguments.inputs[0] = values[stage.inputs[0]].data();
      if (layout.keeps_output) arguments.output = values[stage.outputs[0]].data();
      arguments.saved = saved_[s].data();
      for (std::size_t j = 0; j < stage.outputs.size(); ++j) {
        arguments.output_gradients[j] = gradients[stage.outputs[j]].data();
      }
      if (s > 0) {
        arguments.input_gradients[0] = gradients[stage.inputs[0]].data();
        arguments.add_input_gradients[0] = network_.values[stage.inputs[0]].consumers.back() != s;
      }
      arguments.gradient = gradients_[s].data();
      arguments.add_gradient = !is_first;
      arguments.workspace = workspace_.data();
      stages_[s]->Backward(arguments);
      if (is_last) Update(s, gradients_[s]);
    }
    return loss;
  }

  const Block& weights(int stage) const { return histories_[stage].back().weights; }

 private:
  struct Version {
    Block weights;
    Block velocity;
    Block previous;  // weights of the version before
  };

  // The versions from the oldest that may still be read to the newest; updates_ numbers the last.
  const Version& At(int stage, std::int64_t version) const {
    const std::deque<Version>& history = histories_[stage];
    const std::int64_t newest = updates_of_.empty() ? 0 : updates_of_[stage];
    return history.at(history.size() - 1 - (newest - version));
  }

  // Equations of the rules, or by velocity over `horizon` where that is not negative.
  Block Predict(int stage, std::int64_t version, std::int64_t horizon) const {
    const Version& from = At(stage, version);
    const analysis::Coefficients<double> c = CoefficientsOf(stage);
    Block predicted = from.weights;
    const bool by_velocity =
        horizon >= 0 || options_.rule.rule.prediction == analysis::Prediction::kVelocity;
    const double updates = horizon >= 0 ? static_cast<double>(horizon) : c.horizon;
    const auto velocity_step = static_cast<float>(-options_.learning_rate * updates);
    for (std::size_t j = 0; j < predicted.size(); ++j) {
      if (by_velocity) {
        predicted[j] = std::fma(velocity_step, from.velocity[j], predicted[j]);
      } else if (options_.rule.rule.prediction == analysis::Prediction::kWeight) {
        predicted[j] =
            std::fma(static_cast<float>(updates), from.weights[j] - from.previous[j], predicted[j]);
      }
    }
    return predicted;
  }

  std::int64_t Delay(int stage) const {
    return options_.versions.stages[stage].forward_delay_updates;
  }

  analysis::Coefficients<double> CoefficientsOf(int stage) const {
    return analysis::ComputeCoefficients<double>(options_.rule, options_.momentum, Delay(stage));
  }

  void Update(int stage, const Block& gradient) {
    const analysis::Coefficients<double> c = CoefficientsOf(stage);
    const auto velocity_step = static_cast<float>(-options_.learning_rate * c.a);
    const auto gradient_step = static_cast<float>(-options_.learning_rate * c.b);
    const auto momentum = static_cast<float>(options_.momentum);
    const auto decay = static_cast<float>(options_.weight_decay);
    std::deque<Version>& history = histories_[stage];
    Version next = history.back();
    next.previous = next.weights;
    for (std::size_t j = 0; j < gradient.size(); ++j) {
      const float g = std::fma(decay, next.weights[j], gradient[j]);
      next.velocity[j] = std::fma(momentum, next.velocity[j], g);
      next.weights[j] =
          std::fma(velocity_step, next.velocity[j], std::fma(gradient_step, g, next.weights[j]));
    }
    history.push_back(std::move(next));
    if (static_cast<std::int64_t>(history.size()) > Delay(stage) + 1) history.pop_front();
    updates_of_.resize(network_.stage_count());
    ++updates_of_[stage];
  }

  const hwmodel::Network& network_;
  LiteralOptions options_;
  std::shared_ptr<const Backend<float>> backend_;
  std::vector<ValueLayout> values_;
  std::vector<std::unique_ptr<Stage<float>>> stages_;
  std::vector<std::deque<Version>> histories_;
  std::vector<std::int64_t> updates_of_;
  std::vector<Block> saved_;
  std::vector<Block> gradients_;
  std::vector<float> workspace_;
};

}  // namespace batchless::training
