#include "stage_timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "batchless/training/backend.h"
#include "batchless/training/random.h"
#include "batchless/training/stage.h"
#include "batchless/training/update.h"

namespace batchless {
namespace {

using training::CounterRandom;
using training::RandomStream;

// Numbers where the kernels want them.
class Buffer {
 public:
  explicit Buffer(std::int64_t size) {
    constexpr std::size_t kAlignment = 64;
    const std::size_t bytes =
        (static_cast<std::size_t>(size) * sizeof(float) / kAlignment + 1) * kAlignment;
    data_.reset(static_cast<float*>(std::aligned_alloc(kAlignment, bytes)));
    if (data_ == nullptr) throw std::bad_alloc();
    std::fill_n(data_.get(), bytes / sizeof(float), 0.0F);
  }

  float* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float* pointer) const { std::free(pointer); }
  };
  std::unique_ptr<float, Free> data_;
};

class Timer {
 public:
  Timer(const hwmodel::Network& network, int microbatch)
      : network_(network), backend_(training::MakeVectorBackend()) {
    const std::vector<training::ValueLayout> layouts =
        training::PlanValues(network, backend_->block());
    for (const training::ValueLayout& layout : layouts) {
      values_.emplace_back(microbatch * layout.stored_size);
      gradients_.emplace_back(microbatch * layout.stored_size);
    }
    CounterRandom random(1, RandomStream::kSynthetic, 0);
    const std::int64_t input = microbatch * layouts.front().stored_size;
    for (std::int64_t i = 0; i < input; ++i) values_.front().data()[i] = Uniform(random);
    std::int64_t workspace = 0;
    for (int s = 0; s < network.stage_count(); ++s) {
      stages_.push_back(training::MakeStage<float>(network, s, microbatch, backend_));
      const training::StageLayout& layout = stages_.back()->layout();
      workspace = std::max(workspace, layout.workspace_size);
      saved_.emplace_back(layout.saved_size);
      states_.emplace_back(layout.state_size);
      parameters_.emplace_back(layout.parameter_size);
      velocities_.emplace_back(layout.parameter_size);
      parameter_gradients_.emplace_back(layout.parameter_size);
      Initialize(layout, parameters_.back().data(), random);
    }
    workspace_ = std::make_unique<Buffer>(workspace);
    labels_.assign(static_cast<std::size_t>(microbatch), 0);
    losses_.resize(labels_.size());
    correct_.resize(labels_.size());
    samples_.labels = labels_.data();
    samples_.losses = losses_.data();
    samples_.correct = correct_.data();
  }

  double Forward(int s) {
    const hwmodel::Stage& stage = network_.stages[static_cast<std::size_t>(s)];
    training::ForwardArguments<float> arguments;
    arguments.microbatch = &samples_;
    arguments.parameters = At(parameters_, s);
    for (std::size_t i = 0; i < stage.inputs.size(); ++i) {
      arguments.inputs[i] = At(values_, stage.inputs[i]);
    }
    for (std::size_t i = 0; i < stage.outputs.size(); ++i) {
      arguments.outputs[i] = At(values_, stage.outputs[i]);
    }
    arguments.saved = At(saved_, s);
    arguments.state = At(states_, s);
    arguments.workspace = workspace_->data();
    return Seconds([&] { stages_[static_cast<std::size_t>(s)]->Forward(arguments); });
  }

  double Backward(int s) {
    const hwmodel::Stage& stage = network_.stages[static_cast<std::size_t>(s)];
    const training::StageLayout& layout = stages_[static_cast<std::size_t>(s)]->layout();
    if (layout.passes_gradient) return 0;
    training::BackwardArguments<float> arguments;
    arguments.microbatch = &samples_;
    arguments.parameters = At(parameters_, s);
    if (layout.keeps_input) arguments.input = At(values_, stage.inputs[0]);
    if (layout.keeps_output) arguments.output = At(values_, stage.outputs[0]);
    arguments.saved = At(saved_, s);
    for (std::size_t i = 0; i < stage.outputs.size(); ++i) {
      arguments.output_gradients[i] = At(gradients_, stage.outputs[i]);
    }
    const hwmodel::Value& input = network_.values[static_cast<std::size_t>(stage.inputs[0])];
    if (input.producer >= 0) {
      arguments.input_gradient = At(gradients_, stage.inputs[0]);
      arguments.add_input_gradient = input.consumers.back() != s;
    }
    arguments.gradient = At(parameter_gradients_, s);
    arguments.workspace = workspace_->data();
    return Seconds([&] { stages_[static_cast<std::size_t>(s)]->Backward(arguments); });
  }

  double Update(int s) {
    const std::int64_t size = stages_[static_cast<std::size_t>(s)]->layout().parameter_size;
    if (size == 0) return 0;
    training::UpdateCoefficients<float> c;
    // A rate so small that the weights stay what they are.
    c.momentum = 0.9F;
    c.weight_decay = 1e-4F;
    c.velocity_step = -1e-12F;
    c.gradient = At(parameter_gradients_, s);
    c.weights = At(parameters_, s);
    c.velocity = At(velocities_, s);
    return Seconds([&] { backend_->Update(size, c); });
  }

 private:
  static float Uniform(CounterRandom& random) {
    constexpr std::uint32_t kHalf = 1000;
    return static_cast<float>(random.Below(2 * kHalf)) / kHalf - 1;
  }

  static float* At(const std::vector<Buffer>& buffers, int i) {
    return buffers[static_cast<std::size_t>(i)].data();
  }

  static void Initialize(const training::StageLayout& layout, float* block, CounterRandom& random) {
    for (const training::ParameterTensor& tensor : layout.parameters) {
      std::vector<float> numbers(static_cast<std::size_t>(tensor.size()), 0.0F);
      for (float& number : numbers) {
        if (tensor.initializer == training::Initializer::kOne) number = 1;
        if (tensor.initializer == training::Initializer::kHeNormal ||
            tensor.initializer == training::Initializer::kLinearUniform) {
          number = Uniform(random) * std::sqrt(6.0F / static_cast<float>(tensor.fan));
        }
      }
      training::Pack<float>(tensor, numbers, block);
    }
  }

  template <class Work>
  static double Seconds(const Work& work) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    work();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  const hwmodel::Network& network_;
  std::shared_ptr<const training::Backend<float>> backend_;
  std::vector<std::unique_ptr<training::Stage<float>>> stages_;
  std::vector<Buffer> values_;
  std::vector<Buffer> gradients_;  // by value
  std::vector<Buffer> saved_;      // this and the rest by stage
  std::vector<Buffer> states_;
  std::vector<Buffer> parameters_;
  std::vector<Buffer> velocities_;
  std::vector<Buffer> parameter_gradients_;
  std::unique_ptr<Buffer> workspace_;
  training::Microbatch<float> samples_;
  std::vector<std::int32_t> labels_;
  std::vector<float> losses_;
  std::vector<std::uint8_t> correct_;
};

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

hwmodel::MeasuredNetwork MeasureStages(const hwmodel::Network& network, int microbatch,
                                       int rounds) {
  Timer timer(network, microbatch);
  const int stages = network.stage_count();
  const std::vector<std::vector<double>> empty(static_cast<std::size_t>(stages));
  std::vector<std::vector<double>> forward = empty;
  std::vector<std::vector<double>> backward = empty;
  std::vector<std::vector<double>> update = empty;
  for (int round = 0; round <= rounds; ++round) {
    const auto note = [&](std::vector<std::vector<double>>& times, int s, double seconds) {
      if (round > 0) times[static_cast<std::size_t>(s)].push_back(seconds);
    };
    for (int s = 0; s < stages; ++s) note(forward, s, timer.Forward(s));
    for (int s = stages - 1; s >= 0; --s) {
      note(backward, s, timer.Backward(s));
      note(update, s, timer.Update(s));
    }
  }
  hwmodel::MeasuredNetwork measured;
  measured.network = network.name;
  measured.microbatch = microbatch;
  for (std::size_t s = 0; s < forward.size(); ++s) {
    measured.forward_seconds.push_back(Median(forward[s]));
    measured.backward_seconds.push_back(Median(backward[s]));
    measured.update_seconds.push_back(Median(update[s]));
  }
  return measured;
}

}  // namespace batchless
