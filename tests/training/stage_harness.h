// One stage run by itself, with tensors in plain (n, c, h, w) order and parameters in PyTorch's.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "batchless/training/backend.h"
#include "batchless/training/random.h"
#include "batchless/training/stage.h"
#include "catch.h"

namespace batchless::training {

using Numbers = std::vector<double>;

// Normal numbers that float holds, so that both sides of a comparison start from the same.
inline Numbers RandomNumbers(std::int64_t size, std::uint64_t seed) {
  CounterRandom random(seed, RandomStream::kSynthetic, 0);
  Numbers numbers(size);
  for (double& number : numbers) number = static_cast<float>(random.Normal());
  return numbers;
}

// Whole numbers from -3 to 3: sums of their products are exact in float.
inline Numbers SmallIntegers(std::int64_t size, std::uint64_t seed) {
  CounterRandom random(seed, RandomStream::kSynthetic, 1);
  Numbers numbers(size);
  for (double& number : numbers) number = static_cast<double>(random.Below(7)) - 3;
  return numbers;
}

inline Numbers RandomTokens(std::int64_t size, int vocabulary) {
  CounterRandom random(1, RandomStream::kSynthetic, 2);
  Numbers numbers(size);
  for (double& number : numbers) number = random.Below(static_cast<std::uint32_t>(vocabulary));
  return numbers;
}

// visit(position in plain (n, c, h, w) order, position in the layout) of every element of n samples.
template <class Visit>
void ForEachElement(const ValueLayout& layout, std::int64_t n, Visit visit) {
  const std::int64_t pixels = layout.shape.pixels();
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t c = 0; c < layout.shape.channels; ++c) {
      for (std::int64_t p = 0; p < pixels; ++p) {
        visit((i * layout.shape.channels + c) * pixels + p, layout.At(i, c, p));
      }
    }
  }
}

// Padding is zero, as the engine keeps it.
template <class Real>
std::vector<Real> ToLayout(const ValueLayout& layout, std::int64_t n, const Numbers& numbers) {
  std::vector<Real> result(n * layout.stored_size);
  ForEachElement(layout, n, [&](std::int64_t from, std::int64_t to) {
    result[to] = static_cast<Real>(numbers.at(from));
  });
  return result;
}

template <class Real>
Numbers FromLayout(const ValueLayout& layout, std::int64_t n, const std::vector<Real>& stored) {
  Numbers result(n * layout.shape.elements());
  ForEachElement(layout, n,
                 [&](std::int64_t to, std::int64_t from) { result[to] = stored.at(from); });
  return result;
}

struct StageGradients {
  std::vector<Numbers> inputs;      // none of the network's own
  std::vector<Numbers> parameters;  // by tensor
};

template <class Real>
class StageHarness {
 public:
  // Memory that kernels may not rely on starts as this, so that reading it shows.
  static constexpr Real kGarbage = 1e30F;

  StageHarness(const hwmodel::Network& network, int stage, int microbatch,
               const std::shared_ptr<const Backend<Real>>& backend)
      : network_(network),
        description_(network.stages.at(stage)),
        n_(microbatch),
        stage_(MakeStage<Real>(network, stage, microbatch, backend)),
        values_(PlanValues(network, backend->block())),
        parameters_(stage_->layout().parameter_size),
        state_(stage_->layout().state_size, Real(1)),
        saved_(stage_->layout().saved_size, kGarbage),
        workspace_(stage_->layout().workspace_size, kGarbage) {
    const int labels = n_ * hwmodel::LabelsOf(network);
    for (int i = 0; i < labels; ++i) labels_.push_back((3 * i + 1) % network.classes);
    losses_.resize(n_);
    correct_.resize(labels);
    microbatch_.labels = labels_.data();
    microbatch_.losses = losses_.data();
    microbatch_.correct = correct_.data();
    microbatch_.seed = 5;
    microbatch_.first_sample = 17;
  }

  const StageLayout& layout() const { return stage_->layout(); }
  const hwmodel::Stage& description() const { return description_; }
  Microbatch<Real>& microbatch() { return microbatch_; }
  const std::vector<Real>& losses() const { return losses_; }
  const std::vector<std::uint8_t>& correct() const { return correct_; }
  bool ReadsTokens() const {
    return description_.layers.front().kind == hwmodel::LayerKind::kEmbedding;
  }
  std::vector<Real>& state() { return state_; }

  std::int64_t InputSize(std::size_t i) const { return Size(description_.inputs.at(i)); }
  std::int64_t OutputSize(std::size_t i) const { return Size(description_.outputs.at(i)); }

  void SetParameter(std::size_t tensor, const Numbers& numbers) {
    const std::vector<Real> converted(numbers.begin(), numbers.end());
    Pack<Real>(layout().parameters.at(tensor), converted, parameters_.data());
  }

  std::vector<Numbers> Forward(const std::vector<Numbers>& inputs) {
    ForwardArguments<Real> arguments;
    arguments.microbatch = &microbatch_;
    arguments.parameters = parameters_.data();
    inputs_.clear();
    outputs_.clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs_.push_back(ToLayout<Real>(values_[description_.inputs[i]], n_, inputs[i]));
    }
    for (const int value : description_.outputs) {
      outputs_.emplace_back(n_ * values_[value].stored_size, kGarbage);
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) arguments.inputs[i] = inputs_[i].data();
    for (std::size_t i = 0; i < outputs_.size(); ++i) arguments.outputs[i] = outputs_[i].data();
    arguments.saved = saved_.data();
    arguments.state = state_.data();
    arguments.workspace = workspace_.data();
    stage_->Forward(arguments);
    std::vector<Numbers> results;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      results.push_back(FromLayout(values_[description_.outputs[i]], n_, outputs_[i]));
    }
    return results;
  }

  // For the last forward. `added_to` is what the gradients already hold, where they are added to:
  // that number everywhere.
  StageGradients Backward(const std::vector<Numbers>& output_gradients,
                          const double* added_to = nullptr) {
    BackwardArguments<Real> arguments;
    arguments.microbatch = &microbatch_;
    arguments.parameters = parameters_.data();
    for (std::size_t i = 0; layout().keeps_input && i < inputs_.size(); ++i) {
      arguments.inputs[i] = inputs_[i].data();
    }
    if (layout().keeps_output) arguments.output = outputs_.at(0).data();
    arguments.saved = saved_.data();
    std::vector<std::vector<Real>> dy;
    for (std::size_t i = 0; i < output_gradients.size(); ++i) {
      dy.push_back(ToLayout<Real>(values_[description_.outputs[i]], n_, output_gradients[i]));
      arguments.output_gradients[i] = dy.back().data();
    }
    const auto start = static_cast<Real>(added_to != nullptr ? *added_to : double{kGarbage});
    std::vector<std::vector<Real>> dx;
    for (const int input : description_.inputs) {
      dx.emplace_back(n_ * values_[input].stored_size, start);
    }
    std::vector<Real> gradient(layout().parameter_size, start);
    for (std::size_t i = 0; i < dx.size(); ++i) {
      if (network_.values[description_.inputs[i]].producer < 0) continue;
      arguments.input_gradients[i] = dx[i].data();
      arguments.add_input_gradients[i] = added_to != nullptr;
    }
    arguments.gradient = gradient.data();
    arguments.add_gradient = added_to != nullptr;
    std::fill(workspace_.begin(), workspace_.end(), kGarbage);
    arguments.workspace = workspace_.data();
    stage_->Backward(arguments);
    StageGradients gradients;
    for (std::size_t i = 0; i < dx.size(); ++i) {
      if (arguments.input_gradients[i] == nullptr) continue;
      gradients.inputs.push_back(FromLayout(values_[description_.inputs[i]], n_, dx[i]));
    }
    for (const ParameterTensor& tensor : layout().parameters) {
      std::vector<Real> values(tensor.size());
      Unpack<Real>(tensor, gradient.data(), values);
      gradients.parameters.emplace_back(values.begin(), values.end());
    }
    return gradients;
  }

 private:
  std::int64_t Size(int value) const { return n_ * values_[value].shape.elements(); }

  const hwmodel::Network& network_;
  const hwmodel::Stage& description_;
  int n_;
  std::unique_ptr<Stage<Real>> stage_;
  std::vector<ValueLayout> values_;
  std::vector<Real> parameters_;
  std::vector<Real> state_;
  std::vector<Real> saved_;
  std::vector<Real> workspace_;
  std::vector<std::vector<Real>> inputs_;
  std::vector<std::vector<Real>> outputs_;
  Microbatch<Real> microbatch_;
  std::vector<std::int32_t> labels_;
  std::vector<Real> losses_;
  std::vector<std::uint8_t> correct_;
};

// A stage with random inputs, parameters and gradients of its outputs.
template <class Real>
struct RandomStage {
  StageHarness<Real> harness;
  std::vector<Numbers> inputs;
  std::vector<Numbers> parameters;
  std::vector<Numbers> projections;

  RandomStage(const hwmodel::Network& network, int stage, int microbatch,
              const std::shared_ptr<const Backend<Real>>& backend)
      : harness(network, stage, microbatch, backend) {
    for (std::size_t i = 0; i < harness.description().inputs.size(); ++i) {
      inputs.push_back(harness.ReadsTokens() ? RandomTokens(harness.InputSize(i), network.classes)
                                             : RandomNumbers(harness.InputSize(i), 10 + i));
    }
    for (std::size_t t = 0; t < harness.layout().parameters.size(); ++t) {
      parameters.push_back(RandomNumbers(harness.layout().parameters[t].size(), 20 + t));
    }
    for (std::size_t i = 0; i < harness.description().outputs.size(); ++i) {
      projections.push_back(RandomNumbers(harness.OutputSize(i), 30 + i));
    }
  }

  std::vector<Numbers> Forward() {
    for (std::size_t t = 0; t < parameters.size(); ++t) harness.SetParameter(t, parameters[t]);
    return harness.Forward(inputs);
  }

  // The losses' sum where the stage is a loss, else a random linear function of the outputs.
  double Objective() {
    const std::vector<Numbers> outputs = Forward();
    double sum = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      sum = std::inner_product(outputs[i].begin(), outputs[i].end(), projections[i].begin(), sum);
    }
    if (!outputs.empty()) return sum;
    return std::accumulate(harness.losses().begin(), harness.losses().end(), sum);
  }
};

// Central differences with this step err by about step^2 and by rounding / step: 1e-9 of numbers of
// order one. A ReLU or a maximum that switches within the step shows as an error of order one; the
// step is small enough that none does.
inline constexpr double kDifferenceStep = 1e-6;
inline constexpr double kDifferenceTolerance = 2e-7;

// A stage's gradients against differences, along `probes` random coordinates of each array or, where that is 0,
// along all.
inline void CheckDifferences(const hwmodel::Network& network, int stage, int microbatch,
                             std::size_t probes = 0) {
  INFO(network.name << ", stage " << stage << " " << network.stages[stage].name << ", micro-batch "
                    << microbatch);
  RandomStage<double> s(network, stage, microbatch, MakeReferenceBackend<double>());
  s.Objective();
  const StageGradients gradients = s.harness.Backward(s.projections);
  const auto probe = [&](Numbers& variable, const Numbers& gradient) {
    REQUIRE(variable.size() == gradient.size());
    CounterRandom random(1, RandomStream::kSynthetic, 2);
    for (std::size_t p = 0; p < (probes > 0 ? probes : variable.size()); ++p) {
      const std::size_t i =
          probes > 0 ? random.Below(static_cast<std::uint32_t>(variable.size())) : p;
      const double center = variable[i];
      variable[i] = center + kDifferenceStep;
      const double above = s.Objective();
      variable[i] = center - kDifferenceStep;
      const double below = s.Objective();
      variable[i] = center;
      const double difference = (above - below) / (2 * kDifferenceStep);
      INFO("element " << i << " of " << variable.size());
      REQUIRE(std::abs(gradient[i] - difference) <=
              kDifferenceTolerance * std::max({1.0, std::abs(difference), std::abs(above)}));
    }
  };
  for (std::size_t i = 0; i < gradients.inputs.size(); ++i) {
    probe(s.inputs[i], gradients.inputs[i]);
  }
  for (std::size_t t = 0; t < s.parameters.size(); ++t) {
    INFO(s.harness.layout().parameters[t].name);
    probe(s.parameters[t], gradients.parameters[t]);
  }
}

// How far numbers may lie from others, in units of the largest of those.
struct Closeness {
  double tolerance;
  double least_scale;  // of numbers that are all small
};

inline void CheckClose(const Numbers& actual, const Numbers& expected, const Closeness& closeness) {
  REQUIRE(actual.size() == expected.size());
  double largest = closeness.least_scale;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  double worst = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double error = std::abs(actual[i] - expected[i]);
    worst = std::max(worst, std::isnan(error) ? largest : error);
  }
  CHECK(worst <= closeness.tolerance * largest);
}

inline void CheckClose(const std::vector<Numbers>& actual, const std::vector<Numbers>& expected,
                       const Closeness& closeness) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    INFO("array " << i);
    CheckClose(actual[i], expected[i], closeness);
  }
}

// What a stage makes of random numbers.
struct StageResults {
  std::vector<Numbers> outputs;
  Numbers losses;
  std::vector<std::uint8_t> correct;
  std::vector<StageGradients> gradients;  // overwriting, then adding to what is there
};

template <class Real>
StageResults RunStage(const hwmodel::Network& network, int s, int microbatch,
                      const std::shared_ptr<const Backend<Real>>& backend) {
  RandomStage<Real> stage(network, s, microbatch, backend);
  StageResults results;
  results.outputs = stage.Forward();
  if (results.outputs.empty()) {
    results.losses.assign(stage.harness.losses().begin(), stage.harness.losses().end());
    results.correct = stage.harness.correct();
  }
  if (stage.harness.layout().passes_gradient) return results;
  results.gradients.push_back(stage.harness.Backward(stage.projections));
  const double held = 0.5;
  if (hwmodel::TraitsOf(network.stages[s].layers.back().kind).adds_input_gradient) {
    results.gradients.push_back(stage.harness.Backward(stage.projections, &held));
  }
  return results;
}

inline void CheckClose(const StageResults& actual, const StageResults& expected,
                       const Closeness& closeness) {
  CheckClose(actual.outputs, expected.outputs, closeness);
  REQUIRE(actual.losses.size() == expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    CHECK(actual.losses[i] == Approx(expected.losses[i]).epsilon(1e-5));
  }
  CHECK(actual.correct == expected.correct);
  REQUIRE(actual.gradients.size() == expected.gradients.size());
  for (std::size_t g = 0; g < expected.gradients.size(); ++g) {
    CheckClose(actual.gradients[g].inputs, expected.gradients[g].inputs, closeness);
    CheckClose(actual.gradients[g].parameters, expected.gradients[g].parameters, closeness);
  }
}

}  // namespace batchless::training
