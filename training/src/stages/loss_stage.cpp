// Softmax cross-entropy:  loss = log sum_c exp(z_c) - z_label,  dloss/dz_c = p_c - [c = label].
#include "stages/stages.h"

namespace batchless::training {
namespace {

// The loss of a sample with several labels, those of its tokens, is the mean over them. The few scores of
// one label go through the plain loops, whose sums are in double precision.
template <class Real>
class LossStage final : public Stage<Real> {
 public:
  explicit LossStage(const StageParts<Real>& parts)
      : samples_(parts.microbatch),
        labels_(hwmodel::LabelsOf(parts.network)),
        backend_(labels_ == 1 ? MakeReferenceBackend<Real>() : parts.backend),
        classes_(parts.network.classes),
        stored_(parts.Input(0).stored_size / labels_) {
    this->layout_.saved_size = Aligned(samples_ * labels_ * classes_);
    this->layout_.workspace_size = labels_;
  }

  void Forward(const ForwardArguments<Real>& arguments) override {
    const Microbatch<Real>& microbatch = *arguments.microbatch;
    Real* losses = arguments.workspace;
    for (std::int64_t i = 0; i < samples_; ++i) {
      const std::int64_t row = i * labels_;
      backend_->CrossEntropy(labels_, classes_, arguments.inputs[0] + row * stored_,
                             microbatch.labels + row, arguments.saved + row * classes_, losses,
                             microbatch.correct + row);
      double sum = 0;
      for (std::int64_t t = 0; t < labels_; ++t) sum += losses[t];
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
  std::int64_t samples_;
  std::int64_t labels_;  // of a sample
  std::shared_ptr<const Backend<Real>> backend_;
  std::int64_t classes_;
  std::int64_t stored_;  // of a label's scores; a convolution's or pool's are padded
};

}  // namespace

const StageMaker kLossStage = MakerOf<LossStage>();

}  // namespace batchless::training
