#include "stages/norm_relu.h"

#include <cmath>

#include "stages/stages.h"

namespace batchless::training {
namespace {

using hwmodel::Normalization;

// As in PyTorch.
constexpr double kRunningMomentum = 0.1;

}  // namespace

template <class Real>
NormRelu<Real>::NormRelu(std::span<const hwmodel::Layer> layers, int microbatch, int block,
                         std::shared_ptr<const Backend<Real>> backend, StageLayout& layout)
    : shape_(MakeNormalizationShape(layers[0], microbatch, block)), backend_(std::move(backend)) {
  shape_.rectifies = layers.back().kind == hwmodel::LayerKind::kRelu;
  if (!normalizes()) return;
  const hwmodel::Layer& norm = layers[0];
  gamma_ = AppendChannelTensor(layout.parameters, layout.parameter_size, norm.name + ".weight",
                               shape_.channels, block, 1);
  beta_ = AppendChannelTensor(layout.parameters, layout.parameter_size, norm.name + ".bias",
                              shape_.channels, block, 0);
  layout.saved_size = 4 * Aligned(shape_.sets() * shape_.stored_channels());
  if (shape_.kind == Normalization::kBatch) {
    running_mean_ = AppendChannelTensor(layout.state, layout.state_size,
                                        norm.name + ".running_mean", shape_.channels, block, 0);
    running_variance_ = AppendChannelTensor(layout.state, layout.state_size,
                                            norm.name + ".running_var", shape_.channels, block, 1);
  }
}

template <class Real>
ChannelConstants<Real> NormRelu<Real>::Constants(const Real* saved) const {
  if (!normalizes()) return {};
  Real* scale = const_cast<Real*>(saved);
  const std::int64_t size = Aligned(shape_.sets() * shape_.stored_channels());
  return {.scale = scale,
          .shift = scale + size,
          .mean = scale + 2 * size,
          .inverse_standard_deviation = scale + 3 * size};
}

template <class Real>
void NormRelu<Real>::Forward(const ForwardArguments<Real>& arguments, Real* h) const {
  const ChannelConstants<Real> constants = Constants(arguments.saved);
  if (normalizes()) {
    const Real* gamma = arguments.parameters + gamma_;
    const Real* beta = arguments.parameters + beta_;
    const bool batch = shape_.kind == Normalization::kBatch;
    if (batch && !arguments.microbatch->training) {
      // Scale and shift of channels that pad a block are zero.
      for (std::int64_t c = 0; c < shape_.stored_channels(); ++c) {
        const double mean = arguments.state[running_mean_ + c];
        const double inverse =
            1 / std::sqrt(arguments.state[running_variance_ + c] + kNormalizationEpsilon);
        constants.scale[c] = static_cast<Real>(gamma[c] * inverse);
        constants.shift[c] = static_cast<Real>(beta[c] - gamma[c] * inverse * mean);
      }
    } else {
      backend_->NormalizationStatistics(shape_, arguments.inputs[0], gamma, beta, constants);
    }
    if (batch && arguments.microbatch->training) {
      const double count = static_cast<double>(shape_.microbatch * shape_.pixels);
      const double unbiased = count > 1 ? count / (count - 1) : 1;
      for (std::int64_t c = 0; c < shape_.channels; ++c) {
        const double inverse = constants.inverse_standard_deviation[c];
        const double variance = (1 / (inverse * inverse) - kNormalizationEpsilon) * unbiased;
        Real& running_mean = arguments.state[running_mean_ + c];
        Real& running_variance = arguments.state[running_variance_ + c];
        running_mean = static_cast<Real>((1 - kRunningMomentum) * running_mean +
                                         kRunningMomentum * constants.mean[c]);
        running_variance = static_cast<Real>((1 - kRunningMomentum) * running_variance +
                                             kRunningMomentum * variance);
      }
    }
  }
  backend_->NormalizedRelu(shape_, arguments.inputs[0], constants, h);
}

template <class Real>
void NormRelu<Real>::Recompute(const BackwardArguments<Real>& arguments, Real* h) const {
  backend_->NormalizedRelu(shape_, arguments.inputs[0], Constants(arguments.saved), h);
}

template <class Real>
void NormRelu<Real>::Backward(const BackwardArguments<Real>& arguments, const Real* dh,
                              const Real* dh_extra, Real* workspace) const {
  typename Backend<Real>::NormalizationGradient gradient;
  // What a ReLU alone keeps is positive where its input was.
  gradient.x = arguments.output != nullptr ? arguments.output : arguments.inputs[0];
  gradient.dh = dh;
  gradient.dh_extra = dh_extra;
  gradient.dx = arguments.input_gradients[0];
  gradient.add_dx = arguments.add_input_gradients[0];
  gradient.workspace = workspace;
  if (normalizes()) {
    gradient.gamma = arguments.parameters + gamma_;
    const auto [scale, shift, mean, inverse] = Constants(arguments.saved);
    gradient.constants = {scale, shift, mean, inverse};
    gradient.dgamma = arguments.gradient + gamma_;
    gradient.dbeta = arguments.gradient + beta_;
    gradient.add_gradient = arguments.add_gradient;
  }
  backend_->NormalizedReluBackward(shape_, gradient);
}

template class NormRelu<float>;
template class NormRelu<double>;

namespace {

template <class Real>
class NormalizationStage final : public Stage<Real> {
 public:
  explicit NormalizationStage(const StageParts<Real>& parts)
      : norm_relu_(parts.stage.layers, parts.microbatch, parts.Input(0).block, parts.backend,
                   this->layout_) {
    this->layout_.keeps_input = hwmodel::KeepsInput(parts.stage);
    this->layout_.keeps_output = hwmodel::KeepsOutput(parts.stage);
    this->layout_.input_part = this->layout_.parameter_size;
    this->layout_.workspace_size = norm_relu_.workspace_size();
  }

  void Forward(const ForwardArguments<Real>& arguments) override {
    norm_relu_.Forward(arguments, arguments.outputs[0]);
  }

  void Backward(const BackwardArguments<Real>& arguments) override {
    norm_relu_.Backward(arguments, arguments.output_gradients[0], nullptr, arguments.workspace);
  }

 private:
  NormRelu<Real> norm_relu_;
};

}  // namespace

const StageMaker kNormalizationStage = MakerOf<NormalizationStage>();

}  // namespace batchless::training
