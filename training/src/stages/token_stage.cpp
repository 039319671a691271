// Stages of layers that work on tokens.
#include <algorithm>
#include <array>

#include "stages/stages.h"
#include "stages/token_layers.h"

namespace batchless::training {
namespace {

// A chain of layers. What a layer's backward reads of its input is the stage's input, saved behind the
// layers' own, or made again from the input of the layer before (hwmodel::SavesInput).
template <class Real>
class TokenStage final : public Stage<Real> {
 public:
  explicit TokenStage(const StageParts<Real>& parts)
      : backend_(parts.backend), microbatch_(parts.microbatch) {
    StageLayout& layout = this->layout_;
    const std::vector<hwmodel::Layer>& layers = parts.stage.layers;
    std::int64_t most = 0;
    std::int64_t consumed_size = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      Link link;
      link.layer = MakeTokenLayer<Real>(layers[i], parts.microbatch, parts.backend);
      const StageLayout& own = link.layer->layout();
      const std::int64_t consumed = own.consumed < 0 ? 0 : own.parameters[own.consumed].stored_size;
      if (consumed > consumed_size) {
        consumed_size = consumed;
        layout.consumed = static_cast<int>(layout.parameters.size()) + own.consumed;
        consumed_layer_ = i;
      }
      link.parameters = layout.parameter_size;
      for (const ParameterTensor& tensor : own.parameters) {
        AppendTensor(layout.parameters, layout.parameter_size, tensor);
      }
      link.input_size = parts.microbatch * layers[i].input.elements();
      link.keeps_input = hwmodel::TraitsOf(layers[i].kind).keeps == hwmodel::Kept::kInput;
      link.saved = layout.saved_size;
      layout.saved_size += own.saved_size;
      link.saves_input = hwmodel::SavesInput(parts.stage, i);
      if (link.saves_input) {
        link.input = layout.saved_size;
        layout.saved_size += Aligned(link.input_size);
      } else if (i > 0) {
        link.input = values_size_;
        values_size_ += Aligned(link.input_size);
      }
      most = std::max({most, link.input_size, parts.microbatch * layers[i].output.elements()});
      layer_workspace_ = std::max(layer_workspace_, own.workspace_size);
      links_.push_back(std::move(link));
    }
    gradient_size_ = Aligned(most);
    layout.keeps_input = hwmodel::KeepsInput(parts.stage);
    layout.input_part = layout.parameter_size;
    layout.workspace_size = values_size_ + 2 * gradient_size_ + layer_workspace_;
    if (hwmodel::HandsOnRows(parts.stage)) rows_ = &layout.parameters[0];
  }

  void Forward(const ForwardArguments<Real>& arguments) override {
    const Real* x = arguments.inputs[0];
    for (std::size_t i = 0; i < links_.size(); ++i) {
      const bool is_last = i + 1 == links_.size();
      Real* y = is_last ? arguments.outputs[0]
                        : InputOf(links_[i + 1], arguments.saved, arguments.workspace);
      ForwardArguments<Real> layer = arguments;
      layer.parameters += links_[i].parameters;
      layer.inputs = {x};
      layer.outputs = {y};
      layer.saved += links_[i].saved;
      layer.workspace = LayerWorkspace(arguments.workspace);
      links_[i].layer->Forward(layer);
      // The input of the last layer, as a value of its own.
      if (is_last && arguments.outputs[1] != nullptr && rows_ == nullptr) {
        std::copy_n(x, links_[i].input_size, arguments.outputs[1]);
      }
      x = y;
    }
    if (rows_ == nullptr) return;
    for (int i = 0; i < microbatch_; ++i) {
      std::copy_n(arguments.parameters + rows_->offset, rows_->stored_size,
                  arguments.outputs[1] + i * rows_->stored_size);
    }
  }

  void Backward(const BackwardArguments<Real>& arguments) override {
    const Real* dy = arguments.output_gradients[0];
    for (std::size_t i = links_.size(); i-- > 0;) {
      const Link& link = links_[i];
      Real* dx = i == 0 ? arguments.input_gradients[0]
                        : arguments.workspace + values_size_ + (i % 2 == 0 ? gradient_size_ : 0);
      BackwardArguments<Real> layer = arguments;
      layer.parameters += link.parameters;
      layer.inputs = {InputAgain(i, arguments)};
      layer.saved += link.saved;
      layer.output_gradients = {dy};
      layer.input_gradients = {dx};
      layer.add_input_gradients = {i == 0 && arguments.add_input_gradients[0]};
      layer.gradient += link.parameters;
      if (i != consumed_layer_) layer.consumer = nullptr;
      layer.workspace = LayerWorkspace(arguments.workspace);
      link.layer->Backward(layer);
      const bool is_last = i + 1 == links_.size();
      if (is_last && arguments.output_gradients[1] != nullptr && rows_ == nullptr) {
        backend_->Add(link.input_size, dx, arguments.output_gradients[1], dx);
      }
      dy = dx;
    }
    if (rows_ == nullptr) return;
    Real* gradient = arguments.gradient + rows_->offset;
    for (int i = 0; i < microbatch_; ++i) {
      backend_->Add(rows_->stored_size, gradient,
                    arguments.output_gradients[1] + i * rows_->stored_size, gradient);
    }
  }

 private:
  struct Link {
    std::unique_ptr<TokenLayer<Real>> layer;
    std::int64_t input_size = 0;
    bool keeps_input = false;
    bool saves_input = false;
    std::int64_t parameters = 0;  // where its own begin
    std::int64_t saved = 0;       // where what it saves begins
    std::int64_t input = 0;       // where its input is: in what is saved, or in scratch
  };

  Real* LayerWorkspace(Real* workspace) const {
    return workspace + values_size_ + 2 * gradient_size_;
  }

  // The input of a layer behind another one.
  static Real* InputOf(const Link& link, Real* saved, Real* workspace) {
    return (link.saves_input ? saved : workspace) + link.input;
  }

  const Real* InputAgain(std::size_t i, const BackwardArguments<Real>& arguments) const {
    const Link& link = links_[i];
    if (i == 0) return arguments.inputs[0];
    if (link.saves_input) return arguments.saved + link.input;
    if (!link.keeps_input) return nullptr;
    const Link& before = links_[i - 1];
    Real* x = arguments.workspace + link.input;
    before.layer->Remake(InputAgain(i - 1, arguments), arguments.saved + before.saved, x);
    return x;
  }

  std::shared_ptr<const Backend<Real>> backend_;
  int microbatch_;
  // An embedding whose rows go on with each sample; null: none.
  const ParameterTensor* rows_ = nullptr;
  std::vector<Link> links_;
  std::size_t consumed_layer_ = 0;    // whose weights' gradient a consumer takes
  std::int64_t values_size_ = 0;      // of scratch for inputs that are not saved
  std::int64_t gradient_size_ = 0;    // of each of two gradients on their way
  std::int64_t layer_workspace_ = 0;  // of the layer that takes the most
};

// y = x E^T, E the rows of the embedding, of which every sample has the same. The gradient of all of a
// micro-batch's tokens goes to its first sample's copy.
template <class Real>
class TiedLinearStage final : public Stage<Real> {
 public:
  explicit TiedLinearStage(const StageParts<Real>& parts)
      : microbatch_(parts.microbatch),
        size_(parts.Input(1).stored_size),
        products_(parts.backend, microbatch_ * parts.stage.layers[0].input.pixels(),
                  parts.stage.layers[0].input.channels, parts.stage.layers[0].vocabulary) {
    this->layout_.keeps_input = hwmodel::KeepsInput(parts.stage);
    this->layout_.workspace_size = products_.workspace_size();
  }

  void Forward(const ForwardArguments<Real>& arguments) override {
    products_.Forward(arguments.inputs[0], arguments.inputs[1], nullptr, arguments.outputs[0],
                      arguments.workspace);
  }

  void Backward(const BackwardArguments<Real>& arguments) override {
    const Real* dy = arguments.output_gradients[0];
    if (arguments.input_gradients[0] != nullptr) {
      products_.InputGradient(dy, arguments.inputs[1], arguments.input_gradients[0],
                              arguments.workspace);
    }
    Real* gradient = arguments.input_gradients[1];
    if (gradient == nullptr) return;
    products_.WeightGradient(dy, arguments.inputs[0], /*add=*/false, gradient, arguments.workspace);
    std::fill_n(gradient + size_, (microbatch_ - 1) * size_, Real(0));
  }

 private:
  std::int64_t microbatch_;
  std::int64_t size_;  // of a sample's copy of the rows
  RowProducts<Real> products_;
};

}  // namespace

const StageMaker kTokenStage = MakerOf<TokenStage>();
const StageMaker kTiedLinearStage = MakerOf<TiedLinearStage>();

}  // namespace batchless::training
