#include <cmath>
#include <optional>
#include <span>

#include "stages/norm_relu.h"
#include "stages/stages.h"

namespace batchless::training {
namespace {

using hwmodel::Layer;

template <class Real>
class ConvolutionStage final : public Stage<Real> {
 public:
  explicit ConvolutionStage(const StageParts<Real>& parts) : backend_(parts.backend) {
    StageLayout& layout = this->layout_;
    const std::vector<Layer>& layers = parts.stage.layers;
    const Layer& convolution = layers.back();
    const ValueLayout input = parts.Input(0);
    const ValueLayout output = parts.Output(0);
    if (layers.size() > 1) {
      norm_relu_.emplace(std::span(layers).first(layers.size() - 1), parts.microbatch, input.block,
                         backend_);
      layout = norm_relu_->layout();
    }
    convolution_ = backend_->MakeConvolution({.layer = convolution,
                                              .microbatch = parts.microbatch,
                                              .input_block = input.block,
                                              .output_block = output.block});

    ParameterTensor weight = convolution_->weight_tensor();
    weight.name = convolution.name + ".weight";
    layout.splits = true;
    // He et al., arXiv 1502.01852, by fan-out.
    const std::int64_t fan =
        std::int64_t{convolution.output.channels} * convolution.kernel * convolution.kernel;
    weight.initializer = Initializer::kNormal;
    weight.scale = std::sqrt(2 / static_cast<double>(fan));
    weight_size_ = weight.stored_size;
    layout.consumed = static_cast<int>(layout.parameters.size());
    weight_ = AppendTensor(layout.parameters, layout.parameter_size, std::move(weight));
    output_shape_ = {.microbatch = parts.microbatch,
                     .channels = convolution.output.channels,
                     .pixels = convolution.output.pixels(),
                     .block = output.block};
    if (convolution.bias) {
      bias_ =
          AppendChannelTensor(layout.parameters, layout.parameter_size, convolution.name + ".bias",
                              convolution.output.channels, output.block, 0);
    }

    // The stage's scratch: the rectified input and its gradient (or the input's, where it is to be
    // added), then a weight gradient to be added, then what the kernels need.
    gradient_size_ = parts.microbatch * input.stored_size;
    input_size_ = Aligned(gradient_size_);
    layout.keeps_input = hwmodel::KeepsInput(parts.stage);
    layout.workspace_size +=
        2 * input_size_ + Aligned(weight_size_) + Aligned(convolution_->workspace_size());
  }

  void Forward(const ForwardArguments<Real>& arguments) override {
    const Workspace workspace = Divide(arguments.workspace);
    const Real* x = arguments.inputs[0];
    if (norm_relu_) {
      ForwardArguments<Real> first = arguments;
      first.outputs = {arguments.outputs[1] != nullptr ? arguments.outputs[1] : workspace.h};
      norm_relu_->Forward(first);
      x = first.outputs[0];
    }
    convolution_->Forward(x, arguments.parameters + weight_,
                          bias_ ? arguments.parameters + *bias_ : nullptr, arguments.outputs[0],
                          workspace.kernel, arguments.ahead);
  }

  // A consumer may change the weights, so that their gradient comes after what reads them; and before the
  // input's is added to where that is in the place of the output's, behind a sum of both.
  void Backward(const BackwardArguments<Real>& arguments) override {
    const bool adds_last = arguments.input_gradients[0] == arguments.output_gradients[0];
    const bool has_input = arguments.part != BackwardPart::kWeights;
    if (has_input) BackwardConvolution(arguments);
    if (has_input && !adds_last) BackwardInput(arguments);
    if (arguments.part != BackwardPart::kInput) BackwardWeights(arguments);
    if (has_input && adds_last) BackwardInput(arguments);
  }

 private:
  // The gradient of what is convolved: in scratch, or where the input's is where that is all of it.
  void BackwardConvolution(const BackwardArguments<Real>& arguments) {
    if (!norm_relu_ && arguments.input_gradients[0] == nullptr) return;
    const Workspace workspace = Divide(arguments.workspace);
    const bool is_all = !norm_relu_ && !arguments.add_input_gradients[0];
    convolution_->BackwardInput(arguments.output_gradients[0], arguments.parameters + weight_,
                                is_all ? arguments.input_gradients[0] : workspace.dh,
                                workspace.kernel, arguments.ahead);
  }

  void BackwardInput(const BackwardArguments<Real>& arguments) {
    const Workspace workspace = Divide(arguments.workspace);
    Real* dx = arguments.input_gradients[0];
    if (norm_relu_) {
      BackwardArguments<Real> first = arguments;
      first.output_gradients[0] = workspace.dh;
      first.workspace = workspace.kernel;
      norm_relu_->Backward(first);
    } else if (dx != nullptr && arguments.add_input_gradients[0]) {
      backend_->Add(gradient_size_, dx, workspace.dh, dx);
    }
  }

  void BackwardWeights(const BackwardArguments<Real>& arguments) {
    const Workspace workspace = Divide(arguments.workspace);
    const Real* dy = arguments.output_gradients[0];
    const Real* x = arguments.inputs[0];
    if (norm_relu_) {
      norm_relu_->Recompute(arguments, workspace.h);
      x = workspace.h;
    }
    if (bias_) {
      backend_->BiasGradient(output_shape_, dy, arguments.add_gradient,
                             arguments.gradient + *bias_);
    }
    Real* dw = arguments.gradient + weight_;
    if (arguments.add_gradient) {
      convolution_->BackwardWeights(x, dy, workspace.dw, workspace.kernel, arguments.ahead,
                                    nullptr);
      backend_->Add(weight_size_, dw, workspace.dw, dw);
    } else {
      convolution_->BackwardWeights(x, dy, dw, workspace.kernel, arguments.ahead,
                                    arguments.consumer);
    }
  }

  struct Workspace {
    Real* h;
    Real* dh;
    Real* dw;
    Real* kernel;
  };

  Workspace Divide(Real* workspace) const {
    return {.h = workspace,
            .dh = workspace + input_size_,
            .dw = workspace + 2 * input_size_,
            .kernel = workspace + 2 * input_size_ + Aligned(weight_size_)};
  }

  std::shared_ptr<const Backend<Real>> backend_;
  std::unique_ptr<Convolution<Real>> convolution_;
  std::optional<NormRelu<Real>> norm_relu_;
  std::int64_t weight_ = 0;  // offsets in the parameters' block
  std::optional<std::int64_t> bias_;
  std::int64_t weight_size_ = 0;
  std::int64_t gradient_size_ = 0;  // of the input's
  std::int64_t input_size_ = 0;     // the same, rounded up
  NormalizationShape output_shape_;
};

}  // namespace

const StageMaker kConvolutionStage = MakerOf<ConvolutionStage>();

}  // namespace batchless::training
