#include "stages/norm_relu.h"

#include <cmath>

namespace batchless::training {
namespace {

using hwmodel::Normalization;

// As in PyTorch.
constexpr double kRunningMomentum = 0.1;

}  // namespace

template <class Real>
NormRelu<Real>::NormRelu(std::span<const hwmodel::Layer> layers, int microbatch, int block,
                         std::shared_ptr<const Backend<Real>> backend)
    : shape_{.microbatch = microbatch,
             .channels = layers[0].input.channels,
             .pixels = layers[0].input.pixels(),
             .block = block,
             .kind = hwmodel::TraitsOf(layers[0].kind).normalization,
             .groups = layers[0].groups,
             .rectifies = layers.back().kind == hwmodel::LayerKind::kRelu},
      backend_(std::move(backend)) {
  if (!normalizes()) return;
  const hwmodel::Layer& norm = layers[0];
  StageLayout& layout = this->layout_;
  AppendChannelTensor(layout.parameters, layout.parameter_size, norm.name + ".weight",
                      shape_.channels, block, 1);
  beta_ = AppendChannelTensor(layout.parameters, layout.parameter_size, norm.name + ".bias",
                              shape_.channels, block, 0);
  layout.input_part = layout.parameter_size;
  layout.saved_size = 4 * Aligned(shape_.sets() * shape_.stored_channels());
  layout.workspace_size = 4 * shape_.stored_channels();
  if (shape_.kind == Normalization::kBatch) {
    running_mean_ = AppendChannelTensor(layout.state, layout.state_size,
                                        norm.name + ".running_mean", shape_.channels, block, 0);
    running_variance_ = AppendChannelTensor(layout.state, layout.state_size,
                                            norm.name + ".running_var", shape_.channels, block, 1);
  }
}

template <class Real>
NormRelu<Real>::NormRelu(const StageParts<Real>& parts)
    : NormRelu(parts.stage.layers, parts.microbatch, parts.Input(0).block, parts.backend) {
  this->layout_.keeps_input = hwmodel::KeepsInput(parts.stage);
  this->layout_.keeps_output = hwmodel::KeepsOutput(parts.stage);
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
void NormRelu<Real>::Forward(const ForwardArguments<Real>& arguments) {
  const ChannelConstants<Real> constants = Constants(arguments.saved);
  if (normalizes()) {
    const Real* gamma = arguments.parameters;
    const Real* beta = gamma + beta_;
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
  backend_->NormalizedRelu(shape_, arguments.inputs[0], constants, arguments.outputs[0]);
}

template <class Real>
void NormRelu<Real>::Recompute(const BackwardArguments<Real>& arguments, Real* h) const {
  backend_->NormalizedRelu(shape_, arguments.inputs[0], Constants(arguments.saved), h);
}

template <class Real>
void NormRelu<Real>::Backward(const BackwardArguments<Real>& arguments) {
  typename Backend<Real>::NormalizationGradient gradient;
  // What a ReLU alone keeps is positive where its input was.
  gradient.x = arguments.output != nullptr ? arguments.output : arguments.inputs[0];
  gradient.dh = arguments.output_gradients[0];
  gradient.dh_extra = arguments.output_gradients[1];
  gradient.dx = arguments.input_gradients[0];
  gradient.add_dx = arguments.add_input_gradients[0];
  gradient.workspace = arguments.workspace;
  if (normalizes()) {
    gradient.gamma = arguments.parameters;
    const auto [scale, shift, mean, inverse] = Constants(arguments.saved);
    gradient.constants = {scale, shift, mean, inverse};
    gradient.dgamma = arguments.gradient;
    gradient.dbeta = arguments.gradient + beta_;
    gradient.add_gradient = arguments.add_gradient;
  }
  backend_->NormalizedReluBackward(shape_, gradient);
}

template class NormRelu<float>;
template class NormRelu<double>;

const StageMaker kNormalizationStage = MakerOf<NormRelu>();

}  // namespace batchless::training
