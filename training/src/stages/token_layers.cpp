#include "stages/token_layers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "batchless/analysis/argument.h"
#include "stages/stages.h"

namespace batchless::training {
namespace {

using hwmodel::Layer;
using hwmodel::LayerKind;

// The layer's first tensor: a matrix in PyTorch's order, with random values.
void AppendMatrix(StageLayout& layout, const Layer& layer, std::int64_t rows,
                  std::int64_t columns) {
  ParameterTensor tensor = RowByRow(layer.name + ".weight", {rows, columns});
  tensor.initializer = Initializer::kNormal;
  tensor.scale = layer.standard_deviation;
  AppendTensor(layout.parameters, layout.parameter_size, std::move(tensor));
}

template <class Real>
class Embedding final : public TokenLayer<Real> {
 public:
  Embedding(const Layer& layer, int microbatch)
      : rows_(microbatch * layer.input.pixels()),
        width_(layer.output.channels),
        vocabulary_(layer.vocabulary) {
    AppendMatrix(this->layout_, layer, vocabulary_, width_);
  }

  void Forward(const ForwardArguments<Real>& arguments) override {
    const Real* x = arguments.inputs[0];
    for (std::int64_t r = 0; r < rows_; ++r) {
      // A source of the caller's own may have any number.
      if (!(x[r] > -1 && x[r] < static_cast<Real>(vocabulary_))) {
        throw analysis::InvalidArgument("image", double{x[r]},
                                        "tokens from 0 to " + std::to_string(vocabulary_ - 1));
      }
      std::copy_n(arguments.parameters + Token(x, r) * width_, width_,
                  arguments.outputs[0] + r * width_);
    }
  }

  void Backward(const BackwardArguments<Real>& arguments) override {
    if (!arguments.add_gradient) std::fill_n(arguments.gradient, vocabulary_ * width_, Real(0));
    for (std::int64_t r = 0; r < rows_; ++r) {
      Real* row = arguments.gradient + Token(arguments.inputs[0], r) * width_;
      const Real* dy = arguments.output_gradients[0] + r * width_;
      for (std::int64_t c = 0; c < width_; ++c) row[c] += dy[c];
    }
  }

 private:
  static std::int64_t Token(const Real* x, std::int64_t r) {
    return static_cast<std::int64_t>(x[r]);
  }

  std::int64_t rows_;
  std::int64_t width_;
  std::int64_t vocabulary_;
};

template <class Real>
class Position final : public TokenLayer<Real> {
 public:
  Position(const Layer& layer, int microbatch, std::shared_ptr<const Backend<Real>> backend)
      : backend_(std::move(backend)), sequences_(microbatch), size_(layer.input.elements()) {
    AppendMatrix(this->layout_, layer, layer.input.pixels(), layer.input.channels);
  }

  void Forward(const ForwardArguments<Real>& arguments) override {
    for (std::int64_t i = 0; i < sequences_; ++i) {
      backend_->Add(size_, arguments.inputs[0] + i * size_, arguments.parameters,
                    arguments.outputs[0] + i * size_);
    }
  }

  void Backward(const BackwardArguments<Real>& arguments) override {
    const Real* dy = arguments.output_gradients[0];
    Real* gradient = arguments.gradient;
    for (std::int64_t i = 0; i < sequences_; ++i) {
      if (arguments.add_gradient || i > 0) {
        backend_->Add(size_, gradient, dy + i * size_, gradient);
      } else {
        std::copy_n(dy, size_, gradient);
      }
    }
    Real* dx = arguments.input_gradients[0];
    if (dx == nullptr) return;
    if (arguments.add_input_gradients[0]) {
      backend_->Add(sequences_ * size_, dx, dy, dx);
    } else if (dx != dy) {
      std::copy_n(dy, sequences_ * size_, dx);
    }
  }

 private:
  std::shared_ptr<const Backend<Real>> backend_;
  std::int64_t sequences_;
  std::int64_t size_;  // of a sequence
};

// Saves each row's statistics, then the forward's scale and shift, which rms_norm has not: h is made
// again of these.
template <class Real>
class RowNorm final : public TokenLayer<Real> {
 public:
  RowNorm(const Layer& layer, int microbatch, std::shared_ptr<const Backend<Real>> backend)
      : backend_(std::move(backend)),
        rows_(microbatch * layer.input.pixels()),
        width_(layer.input.channels),
        is_centered_(layer.kind == LayerKind::kLayerNormalization) {
    StageLayout& layout = this->layout_;
    AppendChannelTensor(layout.parameters, layout.parameter_size, layer.name + ".weight", width_, 1,
                        1);
    if (is_centered_) {
      beta_ = AppendChannelTensor(layout.parameters, layout.parameter_size, layer.name + ".bias",
                                  width_, 1, 0);
    }
    layout.saved_size = 2 * Aligned(rows_) + (is_centered_ ? 2 : 1) * Aligned(width_);
  }

  void Forward(const ForwardArguments<Real>& arguments) override {
    const Real* gamma = arguments.parameters;
    const Real* beta = OrNull(gamma + beta_);
    const RowNormalization<Real> norm = NormOf(arguments.inputs[0], arguments.saved);
    backend_->RowStatistics(norm);
    std::copy_n(gamma, width_, arguments.saved + scale());
    if (is_centered_) std::copy_n(beta, width_, arguments.saved + shift());
    backend_->NormalizeRows(norm, gamma, beta, arguments.outputs[0]);
  }

  void Remake(const Real* x, const Real* saved, Real* y) override {
    backend_->NormalizeRows(NormOf(x, saved), saved + scale(), OrNull(saved + shift()), y);
  }

  void Backward(const BackwardArguments<Real>& arguments) override {
    backend_->NormalizeRowsBackward(NormOf(arguments.inputs[0], arguments.saved),
                                    arguments.parameters, arguments.output_gradients[0],
                                    arguments.add_input_gradients[0], arguments.input_gradients[0],
                                    arguments.add_gradient, arguments.gradient,
                                    OrNull(arguments.gradient + beta_));
  }

 private:
  std::int64_t scale() const { return 2 * Aligned(rows_); }
  std::int64_t shift() const { return scale() + Aligned(width_); }

  template <class Pointer>
  Pointer OrNull(Pointer beta) const {
    return is_centered_ ? beta : nullptr;
  }

  // Only a forward writes the statistics.
  RowNormalization<Real> NormOf(const Real* x, const Real* saved) const {
    Real* mean = const_cast<Real*>(saved);
    return {.rows = rows_,
            .width = width_,
            .x = x,
            .mean = mean,
            .inverse_standard_deviation = mean + Aligned(rows_),
            .is_centered = is_centered_};
  }

  std::shared_ptr<const Backend<Real>> backend_;
  std::int64_t rows_;
  std::int64_t width_;
  bool is_centered_;
  std::int64_t beta_ = 0;
};

template <class Real>
class TokenLinear final : public TokenLayer<Real> {
 public:
  TokenLinear(const Layer& layer, int microbatch, std::shared_ptr<const Backend<Real>> backend)
      : backend_(std::move(backend)),
        rows_(microbatch * layer.input.pixels()),
        in_(layer.input.channels),
        out_(layer.output.channels),
        products_(backend_, rows_, in_, out_),
        product_size_(products_.workspace_size()) {
    StageLayout& layout = this->layout_;
    AppendMatrix(layout, layer, out_, in_);
    layout.consumed = 0;
    if (layer.bias) {
      bias_ = AppendChannelTensor(layout.parameters, layout.parameter_size, layer.name + ".bias",
                                  out_, 1, 0);
    }
    layout.workspace_size = Aligned(product_size_) + rows_ * in_;
  }

  void Forward(const ForwardArguments<Real>& arguments) override {
    const Real* weights = arguments.parameters;
    products_.Forward(arguments.inputs[0], weights, bias_ < 0 ? nullptr : weights + bias_,
                      arguments.outputs[0], arguments.workspace);
  }

  // The input's gradient goes through scratch where it is added, because that may be the place of dy;
  // the weights' comes last, because a consumer may change them.
  void Backward(const BackwardArguments<Real>& arguments) override {
    const Real* dy = arguments.output_gradients[0];
    Real* workspace = arguments.workspace;
    Real* dx = arguments.input_gradients[0];
    const bool adds = dx != nullptr && arguments.add_input_gradients[0];
    Real* made = adds ? workspace + Aligned(product_size_) : dx;
    if (dx != nullptr) products_.InputGradient(dy, arguments.parameters, made, workspace);
    if (bias_ >= 0) {
      backend_->SumRows(rows_, out_, dy, arguments.add_gradient, arguments.gradient + bias_);
    }
    products_.WeightGradient(dy, arguments.inputs[0], arguments.add_gradient, arguments.gradient,
                             workspace);
    if (arguments.consumer != nullptr) arguments.consumer->Take(0, out_ * in_, arguments.gradient);
    if (adds) backend_->Add(rows_ * in_, dx, made, dx);
  }

 private:
  std::shared_ptr<const Backend<Real>> backend_;
  std::int64_t rows_;
  std::int64_t in_;
  std::int64_t out_;
  RowProducts<Real> products_;
  std::int64_t product_size_;
  std::int64_t bias_ = -1;  // none
};

template <class Real>
class AttentionLayer final : public TokenLayer<Real> {
 public:
  AttentionLayer(const Layer& layer, int microbatch, std::shared_ptr<const Backend<Real>> backend)
      : backend_(std::move(backend)),
        shape_{.sequences = microbatch,
               .tokens = layer.input.pixels(),
               .heads = layer.heads,
               .head_width = layer.output.channels / layer.heads},
        input_size_(microbatch * layer.input.elements()) {
    this->layout_.saved_size = Aligned(shape_.rows() * shape_.heads);
    this->layout_.workspace_size = Aligned(backend_->AttentionWorkspace(shape_)) + input_size_;
  }

  void Forward(const ForwardArguments<Real>& arguments) override {
    backend_->Attention(shape_, arguments.inputs[0], arguments.outputs[0], arguments.saved,
                        arguments.workspace);
  }

  void Backward(const BackwardArguments<Real>& arguments) override {
    Real* dx = arguments.input_gradients[0];
    if (dx == nullptr) return;
    const bool adds = arguments.add_input_gradients[0];
    Real* workspace = arguments.workspace;
    Real* made = adds ? workspace + Aligned(backend_->AttentionWorkspace(shape_)) : dx;
    backend_->AttentionBackward(shape_, arguments.inputs[0], arguments.saved,
                                arguments.output_gradients[0], made, workspace);
    if (adds) backend_->Add(input_size_, dx, made, dx);
  }

 private:
  std::shared_ptr<const Backend<Real>> backend_;
  AttentionShape shape_;
  std::int64_t input_size_;
};

template <class Real>
class Activation final : public TokenLayer<Real> {
 public:
  Activation(const Layer& layer, int microbatch, std::shared_ptr<const Backend<Real>> backend)
      : backend_(std::move(backend)),
        is_gelu_(layer.kind == LayerKind::kGelu),
        size_(microbatch * layer.input.elements()) {}

  void Forward(const ForwardArguments<Real>& arguments) override {
    Remake(arguments.inputs[0], arguments.saved, arguments.outputs[0]);
  }

  void Remake(const Real* x, const Real* /*saved*/, Real* y) override {
    is_gelu_ ? backend_->Gelu(size_, x, y) : backend_->SquaredRelu(size_, x, y);
  }

  void Backward(const BackwardArguments<Real>& arguments) override {
    if (arguments.input_gradients[0] == nullptr) return;
    const auto backward =
        is_gelu_ ? &Backend<Real>::GeluBackward : &Backend<Real>::SquaredReluBackward;
    ((*backend_).*backward)(size_, arguments.inputs[0], arguments.output_gradients[0],
                            arguments.add_input_gradients[0], arguments.input_gradients[0]);
  }

 private:
  std::shared_ptr<const Backend<Real>> backend_;
  bool is_gelu_;
  std::int64_t size_;
};

}  // namespace

template <class Real>
std::unique_ptr<TokenLayer<Real>> MakeTokenLayer(const Layer& layer, int microbatch,
                                                 std::shared_ptr<const Backend<Real>> backend) {
  switch (layer.kind) {
    case LayerKind::kEmbedding:
      return std::make_unique<Embedding<Real>>(layer, microbatch);
    case LayerKind::kPosition:
      return std::make_unique<Position<Real>>(layer, microbatch, std::move(backend));
    case LayerKind::kLayerNormalization:
    case LayerKind::kRmsNormalization:
      return std::make_unique<RowNorm<Real>>(layer, microbatch, std::move(backend));
    case LayerKind::kTokenLinear:
      return std::make_unique<TokenLinear<Real>>(layer, microbatch, std::move(backend));
    case LayerKind::kAttention:
      return std::make_unique<AttentionLayer<Real>>(layer, microbatch, std::move(backend));
    default:
      return std::make_unique<Activation<Real>>(layer, microbatch, std::move(backend));
  }
}

template std::unique_ptr<TokenLayer<float>> MakeTokenLayer(const Layer&, int,
                                                           std::shared_ptr<const Backend<float>>);
template std::unique_ptr<TokenLayer<double>> MakeTokenLayer(const Layer&, int,
                                                            std::shared_ptr<const Backend<double>>);

}  // namespace batchless::training
