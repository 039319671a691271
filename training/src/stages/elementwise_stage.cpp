#include <algorithm>

#include "batchless/analysis/argument.h"
#include "batchless/training/random.h"
#include "stages/stages.h"

namespace batchless::training {
namespace {

// The first input plus the second one or, with a stride t, plus every t-th pixel of it in both
// directions, with zeros for the channels that it lacks: the shortcut of arXiv 1512.03385 that has no
// weights.
template <class Real>
class SumStage final : public Stage<Real> {
 public:
  explicit SumStage(const StageParts<Real>& parts)
      : backend_(parts.backend),
        stride_(parts.stage.layers[0].stride),
        microbatch_(parts.microbatch),
        size_(parts.microbatch * parts.Input(0).stored_size),
        sum_(parts.Input(0)),
        second_(parts.Input(1)) {
    StageLayout& layout = this->layout_;
    layout.passes_gradient = sum_.shape == second_.shape;
    analysis::RefuseIf(sum_.block != second_.block, "network",
                       parts.stage.name + " of values in different orders",
                       "results of convolutions or pools, or of neither");
  }

  void Forward(const ForwardArguments<Real>& arguments) override {
    const Real* second = arguments.inputs[1];
    Real* sum = arguments.outputs[0];
    if (this->layout_.passes_gradient) {
      backend_->Add(size_, arguments.inputs[0], second, sum);
      return;
    }
    std::copy_n(arguments.inputs[0], size_, sum);
    ForEachShared([&](std::int64_t i, std::int64_t j) { sum[i] += second[j]; });
  }

  // Inputs of the sum's shape have its gradient, unless it lies in their place already.
  void Backward(const BackwardArguments<Real>& arguments) override {
    const Real* dy = arguments.output_gradients[0];
    const bool passes = this->layout_.passes_gradient;
    for (int i = 0; i < (passes ? 2 : 1); ++i) {
      Real* dx = arguments.input_gradients[i];
      if (dx != nullptr && dx != dy) std::copy_n(dy, size_, dx);
    }
    Real* gradient = arguments.input_gradients[1];
    if (passes || gradient == nullptr) return;
    std::fill_n(gradient, microbatch_ * second_.stored_size, Real(0));
    ForEachShared([&](std::int64_t i, std::int64_t j) { gradient[j] = dy[i]; });
  }

 private:
  // visit(position in the sum, in the second input) of every element that is in both.
  template <class Visit>
  void ForEachShared(Visit visit) const {
    const hwmodel::FeatureShape& to = sum_.shape;
    const hwmodel::FeatureShape& from = second_.shape;
    for (std::int64_t sample = 0; sample < microbatch_; ++sample) {
      for (int c = 0; c < from.channels; ++c) {
        for (int h = 0; h < to.height; ++h) {
          for (int w = 0; w < to.width; ++w) {
            visit(sum_.At(sample, c, std::int64_t{h} * to.width + w),
                  second_.At(sample, c, (std::int64_t{h} * from.width + w) * stride_));
          }
        }
      }
    }
  }

  std::shared_ptr<const Backend<Real>> backend_;
  int stride_;
  std::int64_t microbatch_;
  std::int64_t size_;
  ValueLayout sum_;
  ValueLayout second_;
};

// Inverted dropout: what survives is divided by the probability to survive. The mask is a function
// of the seed, the sample's position in the run and the stage, drawn again in the backward. It follows
// the order in which values lie: that of an image in blocks of 16 channels is another one than in blocks
// of 8 or plain.
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
    if (arguments.input_gradients[0] == nullptr) return;
    Apply(*arguments.microbatch, arguments.output_gradients[0], arguments.input_gradients[0]);
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

const StageMaker kSumStage = MakerOf<SumStage>();
const StageMaker kDropoutStage = MakerOf<DropoutStage>();

}  // namespace batchless::training
