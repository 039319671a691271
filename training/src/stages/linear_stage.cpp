#include <algorithm>
#include <cmath>

#include "stages/stages.h"

namespace batchless::training {
namespace {

using hwmodel::Layer;

// The weight's columns follow the input's layout, so that an image needs no reordering.
template <class Real>
class LinearStage final : public Stage<Real> {
 public:
  explicit LinearStage(const StageParts<Real>& parts)
      : backend_(parts.backend), n_(parts.microbatch) {
    StageLayout& layout = this->layout_;
    const Layer& layer = parts.stage.layers[0];
    const ValueLayout input = parts.Input(0);
    in_ = input.stored_size;
    out_ = layer.output.channels;

    ParameterTensor weight;
    weight.name = layer.name + ".weight";
    weight.shape = {out_, layer.input.elements()};
    weight.sizes = {out_, layer.input.channels, layer.input.height, layer.input.width};
    weight.order = {.in_block = input.block,
                    .out_outer = in_,
                    .in_outer = layer.input.pixels() * input.block,
                    .height = std::int64_t{layer.input.width} * input.block,
                    .width = input.block,
                    .in_inner = 1};
    weight.stored_size = out_ * in_;
    // As in PyTorch, by fan-in, and the same for the bias.
    const double largest = 1 / std::sqrt(static_cast<double>(layer.input.elements()));
    weight.initializer = Initializer::kUniform;
    weight.scale = largest;
    layout.consumed = 0;
    layout.splits = true;
    AppendTensor(layout.parameters, layout.parameter_size, std::move(weight));
    ParameterTensor bias = RowByRow(layer.name + ".bias", {out_});
    bias.initializer = Initializer::kUniform;
    bias.scale = largest;
    bias_ = AppendTensor(layout.parameters, layout.parameter_size, std::move(bias));
    layout.keeps_input = hwmodel::KeepsInput(parts.stage);
  }

  void Forward(const ForwardArguments<Real>& arguments) override {
    backend_->Linear(n_, in_, out_, arguments.inputs[0], arguments.parameters,
                     arguments.parameters + bias_, arguments.outputs[0]);
  }

  void Backward(const BackwardArguments<Real>& arguments) override {
    const Real* dy = arguments.output_gradients[0];
    if (arguments.part != BackwardPart::kWeights && arguments.input_gradients[0] != nullptr) {
      backend_->LinearBackwardInput(n_, in_, out_, dy, arguments.parameters,
                                    arguments.input_gradients[0]);
    }
    if (arguments.part == BackwardPart::kInput) return;
    // Rows that a consumer finds in the nearest caches. With several samples, dy's rows are of all
    // outputs, and so are the pieces.
    constexpr std::int64_t kPieceSize = 8192;
    const bool pieces = arguments.consumer != nullptr && n_ == 1;
    const std::int64_t rows = pieces ? std::max<std::int64_t>(kPieceSize / in_, 1) : out_;
    for (std::int64_t o = 0; o < out_; o += rows) {
      const std::int64_t count = std::min(rows, out_ - o);
      backend_->LinearBackwardWeights(n_, in_, count, arguments.inputs[0], dy + o,
                                      arguments.add_gradient, arguments.gradient,
                                      arguments.gradient + bias_ + o);
      if (arguments.consumer != nullptr) {
        arguments.consumer->Take(o * in_, count * in_, arguments.gradient);
      }
    }
  }

 private:
  std::shared_ptr<const Backend<Real>> backend_;
  std::int64_t n_;
  std::int64_t in_ = 0;  // stored elements
  std::int64_t out_ = 0;
  std::int64_t bias_ = 0;
};

}  // namespace

const StageMaker kLinearStage = MakerOf<LinearStage>();

}  // namespace batchless::training
