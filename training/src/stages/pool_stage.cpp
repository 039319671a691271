#include <string>

#include "batchless/analysis/argument.h"
#include "stages/stages.h"

namespace batchless::training {
namespace {

// A max-pool, or the average of all pixels.
template <class Real>
class PoolStage final : public Stage<Real> {
 public:
  explicit PoolStage(const StageParts<Real>& parts)
      : backend_(parts.backend),
        shape_{.microbatch = parts.microbatch, .layer = parts.stage.layers[0]},
        is_max_(shape_.layer.kind == hwmodel::LayerKind::kMaxPool) {
    if (!is_max_) return;
    const int kernel = shape_.layer.kernel;
    const auto square = [](int edge) {
      return std::to_string(edge) + " by " + std::to_string(edge);
    };
    analysis::RefuseIf(kernel > kMostMaxPoolKernel, "network",
                       parts.stage.name + " with a max-pool's window of " + square(kernel),
                       "windows of at most " + square(kMostMaxPoolKernel));
    // One byte a winner.
    const std::int64_t outputs = parts.microbatch * parts.Output(0).stored_size;
    constexpr std::int64_t kBytes = sizeof(Real);
    this->layout_.saved_size = Aligned((outputs + kBytes - 1) / kBytes);
  }

  void Forward(const ForwardArguments<Real>& arguments) override {
    const Real* x = arguments.inputs[0];
    Real* y = arguments.outputs[0];
    if (is_max_) {
      backend_->MaxPool(shape_, x, y, reinterpret_cast<std::uint8_t*>(arguments.saved));
    } else {
      backend_->AveragePool(shape_, x, y);
    }
  }

  void Backward(const BackwardArguments<Real>& arguments) override {
    const Real* dy = arguments.output_gradients[0];
    Real* dx = arguments.input_gradients[0];
    if (dx == nullptr) return;
    if (is_max_) {
      backend_->MaxPoolBackward(shape_, reinterpret_cast<const std::uint8_t*>(arguments.saved), dy,
                                dx);
    } else {
      backend_->AveragePoolBackward(shape_, dy, dx);
    }
  }

 private:
  std::shared_ptr<const Backend<Real>> backend_;
  PoolShape shape_;
  bool is_max_;
};

}  // namespace

const StageMaker kPoolStage = MakerOf<PoolStage>();

}  // namespace batchless::training
