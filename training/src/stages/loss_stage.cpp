// Softmax cross-entropy:  loss = log sum_c exp(z_c) - z_label,  dloss/dz_c = p_c - [c = label].
#include "backends/reference_tokens.h"
#include "stages/stages.h"

namespace batchless::training {
namespace {

// The loss of a sample with several labels, those of its tokens, is the mean over them.
template <class Real>
class LossStage final : public Stage<Real> {
 public:
  explicit LossStage(const StageParts<Real>& parts)
      : backend_(parts.backend),
        samples_(parts.microbatch),
        labels_(hwmodel::LabelsOf(parts.network)),
        classes_(parts.network.classes),
        stored_(parts.Input(0).stored_size / labels_) {
    this->layout_.saved_size = Aligned(samples_ * labels_ * classes_);
    if (labels_ > 1) this->layout_.workspace_size = samples_ * labels_;
  }

  void Forward(const ForwardArguments<Real>& arguments) override {
    const Microbatch<Real>& microbatch = *arguments.microbatch;
    const Real* z = arguments.inputs[0];
    if (labels_ == 1) {
      for (std::int64_t i = 0; i < samples_; ++i) {
        CrossEntropyOfRow(classes_, z + i * stored_, microbatch.labels[i],
                          arguments.saved + i * classes_, microbatch.losses[i],
                          microbatch.correct[i]);
      }
      return;
    }
    Real* losses = arguments.workspace;
    backend_->CrossEntropy(samples_ * labels_, classes_, z, microbatch.labels, arguments.saved,
                           losses, microbatch.correct);
    for (std::int64_t i = 0; i < samples_; ++i) {
      double sum = 0;
      for (std::int64_t t = 0; t < labels_; ++t) sum += losses[i * labels_ + t];
      microbatch.losses[i] = static_cast<Real>(sum / static_cast<double>(labels_));
    }
  }

  void Backward(const BackwardArguments<Real>& arguments) override {
    if (arguments.input_gradients[0] == nullptr) return;
    const Microbatch<Real>& microbatch = *arguments.microbatch;
    const Real scale = microbatch.gradient_scale / static_cast<Real>(labels_);
    for (std::int64_t row = 0; row < samples_ * labels_; ++row) {
      const Real* p = arguments.saved + row * classes_;
      Real* dz = arguments.input_gradients[0] + row * stored_;
      for (std::int64_t c = 0; c < classes_; ++c) dz[c] = p[c] * scale;
      dz[microbatch.labels[row]] -= scale;
    }
  }

 private:
  std::shared_ptr<const Backend<Real>> backend_;
  std::int64_t samples_;
  std::int64_t labels_;  // of a sample
  std::int64_t classes_;
  std::int64_t stored_;  // of a label's scores; a convolution's or pool's are padded
};

}  // namespace

const StageMaker kLossStage = MakerOf<LossStage>();

}  // namespace batchless::training
