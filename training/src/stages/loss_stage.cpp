// Softmax cross-entropy:  loss = log sum_c exp(z_c) - z_label,  dloss/dz_c = p_c - [c = label].
#include <algorithm>
#include <cmath>

#include "stages/stages.h"

namespace batchless::training {
namespace {

template <class Real>
class LossStage final : public Stage<Real> {
 public:
  explicit LossStage(const StageParts<Real>& parts)
      : n_(parts.microbatch), classes_(parts.network.classes), stored_(parts.Input(0).stored_size) {
    this->layout_.saved_size = Aligned(n_ * classes_);
  }

  void Forward(const ForwardArguments<Real>& arguments) override {
    const Microbatch<Real>& microbatch = *arguments.microbatch;
    for (std::int64_t sample = 0; sample < n_; ++sample) {
      const Real* z = arguments.inputs[0] + sample * stored_;
      Real* p = arguments.saved + sample * classes_;
      const std::int64_t best = std::max_element(z, z + classes_) - z;
      double sum = 0;
      for (std::int64_t c = 0; c < classes_; ++c) sum += std::exp(double{z[c]} - z[best]);
      for (std::int64_t c = 0; c < classes_; ++c) {
        p[c] = static_cast<Real>(std::exp(double{z[c]} - z[best]) / sum);
      }
      const std::int32_t label = microbatch.labels[sample];
      microbatch.losses[sample] = static_cast<Real>(std::log(sum) + (double{z[best]} - z[label]));
      microbatch.correct[sample] = best == label ? 1 : 0;
    }
  }

  void Backward(const BackwardArguments<Real>& arguments) override {
    if (arguments.input_gradients[0] == nullptr) return;
    const Microbatch<Real>& microbatch = *arguments.microbatch;
    for (std::int64_t sample = 0; sample < n_; ++sample) {
      const Real* p = arguments.saved + sample * classes_;
      Real* dz = arguments.input_gradients[0] + sample * stored_;
      for (std::int64_t c = 0; c < classes_; ++c) dz[c] = p[c] * microbatch.gradient_scale;
      dz[microbatch.labels[sample]] -= microbatch.gradient_scale;
    }
  }

 private:
  std::int64_t n_;
  std::int64_t classes_;
  std::int64_t stored_;  // of a sample's scores; a convolution's or pool's are padded
};

}  // namespace

const StageMaker kLossStage = MakerOf<LossStage>();

}  // namespace batchless::training
