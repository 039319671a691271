#include <algorithm>

#include "batchless/training/random.h"
#include "stages/stages.h"

namespace batchless::training {
namespace {

using hwmodel::LayerKind;

template <class Real>
class ReluStage final : public Stage<Real> {
 public:
  explicit ReluStage(const StageParts<Real>& parts)
      : backend_(parts.backend),
        shape_(
            MakeNormalizationShape(parts.stage.layers[0], parts.microbatch, parts.Input(0).block)),
        size_(parts.microbatch * parts.Input(0).stored_size) {
    this->layout_.keeps_output = hwmodel::KeepsOutput(parts.stage);
  }

  void Forward(const ForwardArguments<Real>& arguments) override {
    backend_->NormalizedRelu(shape_, arguments.inputs[0], {}, arguments.outputs[0]);
  }

  void Backward(const BackwardArguments<Real>& arguments) override {
    backend_->ReluBackward(size_, arguments.output, arguments.output_gradients[0],
                           arguments.add_input_gradient, arguments.input_gradient);
  }

 private:
  std::shared_ptr<const Backend<Real>> backend_;
  NormalizationShape shape_;
  std::int64_t size_;
};

template <class Real>
class SumStage final : public Stage<Real> {
 public:
  explicit SumStage(const StageParts<Real>& parts)
      : backend_(parts.backend), size_(parts.microbatch * parts.Input(0).stored_size) {
    this->layout_.passes_gradient = true;
  }

  void Forward(const ForwardArguments<Real>& arguments) override {
    backend_->Add(size_, arguments.inputs[0], arguments.inputs[1], arguments.outputs[0]);
  }

  void Backward(const BackwardArguments<Real>& /*arguments*/) override {}

 private:
  std::shared_ptr<const Backend<Real>> backend_;
  std::int64_t size_;
};

// Inverted dropout: what survives is divided by the probability to survive. The mask is a function
// of the seed, the sample's position in the run and the stage, drawn again in the backward.
template <class Real>
class DropoutStage final : public Stage<Real> {
 public:
  explicit DropoutStage(const StageParts<Real>& parts)
      : microbatch_(parts.microbatch),
        size_(parts.Input(0).stored_size),
        stage_(parts.number),
        probability_(parts.stage.layers[0].dropout_probability) {}

  void Forward(const ForwardArguments<Real>& arguments) override {
    Apply(*arguments.microbatch, arguments.inputs[0], arguments.outputs[0]);
  }

  void Backward(const BackwardArguments<Real>& arguments) override {
    Apply(*arguments.microbatch, arguments.output_gradients[0], arguments.input_gradient);
  }

 private:
  void Apply(const Microbatch<Real>& microbatch, const Real* from, Real* to) const {
    if (!microbatch.training) {
      std::copy_n(from, microbatch_ * size_, to);
      return;
    }
    const Real scale = static_cast<Real>(1 / (1 - probability_));
    // An element survives where its 32 random bits are at or above the threshold.
    const auto threshold = static_cast<std::uint64_t>(probability_ * 0x1p32);
    for (std::int64_t sample = 0; sample < microbatch_; ++sample) {
      CounterRandom random(microbatch.seed, RandomStream::kDropout,
                           static_cast<std::uint64_t>(microbatch.first_sample + sample),
                           static_cast<std::uint32_t>(stage_));
      for (std::int64_t i = sample * size_; i < (sample + 1) * size_; ++i) {
        to[i] = random.Next() >= threshold ? from[i] * scale : Real(0);
      }
    }
  }

  std::int64_t microbatch_;
  std::int64_t size_;
  int stage_;
  double probability_;
};

}  // namespace

template <class Real>
std::unique_ptr<Stage<Real>> MakeElementwiseStage(const StageParts<Real>& parts) {
  switch (parts.stage.layers[0].kind) {
    case LayerKind::kRelu:
      return std::make_unique<ReluStage<Real>>(parts);
    case LayerKind::kSum:
      return std::make_unique<SumStage<Real>>(parts);
    case LayerKind::kDropout:
      return std::make_unique<DropoutStage<Real>>(parts);
    default:
      return nullptr;
  }
}

template std::unique_ptr<Stage<float>> MakeElementwiseStage(const StageParts<float>&);
template std::unique_ptr<Stage<double>> MakeElementwiseStage(const StageParts<double>&);

}  // namespace batchless::training
