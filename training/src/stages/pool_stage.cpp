#include <string>

#include "batchless/analysis/argument.h"
#include "stages/stages.h"

namespace batchless::training {
namespace {

template <class Real>
PoolShape MakePoolShape(const StageParts<Real>& parts) {
  return {.microbatch = parts.microbatch, .layer = parts.stage.layers[0]};
}

template <class Real>
class MaxPoolStage final : public Stage<Real> {
 public:
  explicit MaxPoolStage(const StageParts<Real>& parts)
      : backend_(parts.backend), shape_(MakePoolShape(parts)) {
    const int kernel = shape_.layer.kernel;
    if (kernel > kMostMaxPoolKernel) {
      const auto square = [](int edge) {
        return std::to_string(edge) + " by " + std::to_string(edge);
      };
      throw analysis::InvalidArgument(
          "network", parts.stage.name + " with a max-pool's window of " + square(kernel),
          "windows of at most " + square(kMostMaxPoolKernel));
    }
    // One byte a winner.
    const std::int64_t outputs = parts.microbatch * parts.Output(0).stored_size;
    constexpr std::int64_t kBytes = sizeof(Real);
    this->layout_.saved_size = Aligned((outputs + kBytes - 1) / kBytes);
  }

  void Forward(const ForwardArguments<Real>& arguments) override {
    backend_->MaxPool(shape_, arguments.inputs[0], arguments.outputs[0],
                      reinterpret_cast<std::uint8_t*>(arguments.saved));
  }

  void Backward(const BackwardArguments<Real>& arguments) override {
    if (arguments.input_gradients[0] == nullptr) return;
    backend_->MaxPoolBackward(shape_, reinterpret_cast<const std::uint8_t*>(arguments.saved),
                              arguments.output_gradients[0], arguments.input_gradients[0]);
  }

 private:
  std::shared_ptr<const Backend<Real>> backend_;
  PoolShape shape_;
};

template <class Real>
class AveragePoolStage final : public Stage<Real> {
 public:
  explicit AveragePoolStage(const StageParts<Real>& parts)
      : backend_(parts.backend), shape_(MakePoolShape(parts)) {}

  void Forward(const ForwardArguments<Real>& arguments) override {
    backend_->AveragePool(shape_, arguments.inputs[0], arguments.outputs[0]);
  }

  void Backward(const BackwardArguments<Real>& arguments) override {
    if (arguments.input_gradients[0] == nullptr) return;
    backend_->AveragePoolBackward(shape_, arguments.output_gradients[0],
                                  arguments.input_gradients[0]);
  }

 private:
  std::shared_ptr<const Backend<Real>> backend_;
  PoolShape shape_;
};

}  // namespace

const StageMaker kMaxPoolStage = MakerOf<MaxPoolStage>();
const StageMaker kAveragePoolStage = MakerOf<AveragePoolStage>();

}  // namespace batchless::training
