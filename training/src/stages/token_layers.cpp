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

// A matrix in PyTorch's order, with random values. Its place in the block.
std::int64_t AppendMatrix(StageLayout& layout, const Layer& layer, std::int64_t rows,
                          std::int64_t columns) {
  ParameterTensor tensor = RowByRow(layer.name + ".weight", {rows, columns});
  tensor.initializer = Initializer::kNormal;
  tensor.scale = layer.standard_deviation;
  return AppendTensor(layout.parameters, layout.parameter_size, std::move(tensor)).offset;
}

std::int64_t AppendVector(StageLayout& layout, const std::string& name, std::int64_t size,
                          double initial) {
  return AppendChannelTensor(layout.parameters, layout.parameter_size, name, size, 1, initial)
      .offset;
}

template <class Real>
class Embedding final : public TokenLayer<Real> {
 public:
  Embedding(const Layer& layer, int microbatch, StageLayout& layout)
      : rows_(microbatch * layer.input.pixels()),
        width_(layer.output.channels),
        vocabulary_(layer.vocabulary),
        weight_(AppendMatrix(layout, layer, vocabulary_, width_)) {}

  void Forward(const Real* parameters, const Real* x, Real* y, Real* /*saved*/,
               Real* /*workspace*/) override {
    for (std::int64_t r = 0; r < rows_; ++r) {
      // A source of the caller's own may have any number.
      if (!(x[r] > -1 && x[r] < static_cast<Real>(vocabulary_))) {
        throw analysis::InvalidArgument("image", double{x[r]},
                                        "tokens from 0 to " + std::to_string(vocabulary_ - 1));
      }
      std::copy_n(parameters + weight_ + Token(x, r) * width_, width_, y + r * width_);
    }
  }

  void Backward(const TokenBackward<Real>& arguments) override {
    Real* gradient = arguments.gradient + weight_;
    if (!arguments.add_gradient) std::fill_n(gradient, vocabulary_ * width_, Real(0));
    for (std::int64_t r = 0; r < rows_; ++r) {
      Real* row = gradient + Token(arguments.x, r) * width_;
      const Real* dy = arguments.dy + r * width_;
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
  std::int64_t weight_;
};

template <class Real>
class Position final : public TokenLayer<Real> {
 public:
  Position(const Layer& layer, int microbatch, std::shared_ptr<const Backend<Real>> backend,
           StageLayout& layout)
      : backend_(std::move(backend)),
        sequences_(microbatch),
        size_(layer.input.elements()),
        weight_(AppendMatrix(layout, layer, layer.input.pixels(), layer.input.channels)) {}

  void Forward(const Real* parameters, const Real* x, Real* y, Real* /*saved*/,
               Real* /*workspace*/) override {
    for (std::int64_t i = 0; i < sequences_; ++i) {
      backend_->Add(size_, x + i * size_, parameters + weight_, y + i * size_);
    }
  }

  void Backward(const TokenBackward<Real>& arguments) override {
    Real* gradient = arguments.gradient + weight_;
    for (std::int64_t i = 0; i < sequences_; ++i) {
      const Real* dy = arguments.dy + i * size_;
      if (arguments.add_gradient || i > 0) {
        backend_->Add(size_, gradient, dy, gradient);
      } else {
        std::copy_n(dy, size_, gradient);
      }
    }
    if (arguments.dx == nullptr) return;
    if (arguments.add_dx) {
      backend_->Add(sequences_ * size_, arguments.dx, arguments.dy, arguments.dx);
    } else if (arguments.dx != arguments.dy) {
      std::copy_n(arguments.dy, sequences_ * size_, arguments.dx);
    }
  }

 private:
  std::shared_ptr<const Backend<Real>> backend_;
  std::int64_t sequences_;
  std::int64_t size_;  // of a sequence
  std::int64_t weight_;
};

// Saves each row's statistics, then the forward's scale and shift, which rms_norm has not: h is made
// again of these.
template <class Real>
class RowNorm final : public TokenLayer<Real> {
 public:
  RowNorm(const Layer& layer, int microbatch, std::shared_ptr<const Backend<Real>> backend,
          StageLayout& layout)
      : backend_(std::move(backend)),
        rows_(microbatch * layer.input.pixels()),
        width_(layer.input.channels),
        is_centered_(layer.kind == LayerKind::kLayerNormalization),
        gamma_(AppendVector(layout, layer.name + ".weight", width_, 1)) {
    if (is_centered_) {
      beta_ = AppendVector(layout, layer.name + ".bias", width_, 0);
    }
    this->saved_size_ = 2 * Aligned(rows_) + (is_centered_ ? 2 : 1) * Aligned(width_);
  }

  void Forward(const Real* parameters, const Real* x, Real* y, Real* saved,
               Real* /*workspace*/) override {
    const RowNormalization<Real> norm = NormOf(x, saved);
    backend_->RowStatistics(norm);
    std::copy_n(parameters + gamma_, width_, saved + scale());
    if (is_centered_) std::copy_n(parameters + beta_, width_, saved + shift());
    backend_->NormalizeRows(norm, parameters + gamma_, OrNull(parameters + beta_), y);
  }

  void Remake(const Real* x, const Real* saved, Real* y) override {
    backend_->NormalizeRows(NormOf(x, saved), saved + scale(), OrNull(saved + shift()), y);
  }

  void Backward(const TokenBackward<Real>& arguments) override {
    backend_->NormalizeRowsBackward(
        NormOf(arguments.x, arguments.saved), arguments.parameters + gamma_, arguments.dy,
        arguments.add_dx, arguments.dx, arguments.add_gradient, arguments.gradient + gamma_,
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
  std::int64_t gamma_;
  std::int64_t beta_ = 0;
};

template <class Real>
class TokenLinear final : public TokenLayer<Real> {
 public:
  TokenLinear(const Layer& layer, int microbatch, std::shared_ptr<const Backend<Real>> backend,
              StageLayout& layout)
      : backend_(std::move(backend)),
        rows_(microbatch * layer.input.pixels()),
        in_(layer.input.channels),
        out_(layer.output.channels),
        products_(backend_, rows_, in_, out_),
        weight_(AppendMatrix(layout, layer, out_, in_)) {
    this->consumed_ = static_cast<int>(layout.parameters.size()) - 1;
    if (layer.bias) bias_ = AppendVector(layout, layer.name + ".bias", out_, 0);
    product_size_ = products_.workspace_size();
    this->workspace_size_ = Aligned(product_size_) + rows_ * in_;
  }

  void Forward(const Real* parameters, const Real* x, Real* y, Real* /*saved*/,
               Real* workspace) override {
    products_.Forward(x, parameters + weight_, bias_ < 0 ? nullptr : parameters + bias_, y,
                      workspace);
  }

  // The input's gradient goes through scratch where it is added, because that may be the place of dy;
  // the weights' comes last, because a consumer may change them.
  void Backward(const TokenBackward<Real>& arguments) override {
    const Real* dy = arguments.dy;
    Real* workspace = arguments.workspace;
    Real* dx = arguments.add_dx ? workspace + Aligned(product_size_) : arguments.dx;
    if (arguments.dx != nullptr) {
      products_.InputGradient(dy, arguments.parameters + weight_, dx, workspace);
    }
    if (bias_ >= 0) {
      backend_->SumRows(rows_, out_, dy, arguments.add_gradient, arguments.gradient + bias_);
    }
    Real* dw = arguments.gradient + weight_;
    products_.WeightGradient(dy, arguments.x, arguments.add_gradient, dw, workspace);
    if (arguments.consumer != nullptr) arguments.consumer->Take(0, out_ * in_, dw);
    if (arguments.dx != nullptr && arguments.add_dx) {
      backend_->Add(rows_ * in_, arguments.dx, dx, arguments.dx);
    }
  }

 private:
  std::shared_ptr<const Backend<Real>> backend_;
  std::int64_t rows_;
  std::int64_t in_;
  std::int64_t out_;
  RowProducts<Real> products_;
  std::int64_t weight_;
  std::int64_t bias_ = -1;  // none
  std::int64_t product_size_ = 0;
};

template <class Real>
class AttentionLayer final : public TokenLayer<Real> {
 public:
  AttentionLayer(const Layer& layer, int microbatch, std::shared_ptr<const Backend<Real>> backend)
      : backend_(std::move(backend)),
        shape_{.sequences = microbatch,
               .tokens = layer.input.pixels(),
               .heads = layer.heads,
               .head_width = layer.output.channels / layer.heads} {
    this->saved_size_ = Aligned(shape_.rows() * shape_.heads);
    input_size_ = microbatch * layer.input.elements();
    this->workspace_size_ = Aligned(backend_->AttentionWorkspace(shape_)) + input_size_;
  }

  void Forward(const Real* /*parameters*/, const Real* x, Real* y, Real* saved,
               Real* workspace) override {
    backend_->Attention(shape_, x, y, saved, workspace);
  }

  void Backward(const TokenBackward<Real>& arguments) override {
    if (arguments.dx == nullptr) return;
    Real* workspace = arguments.workspace;
    Real* dx =
        arguments.add_dx ? workspace + Aligned(backend_->AttentionWorkspace(shape_)) : arguments.dx;
    backend_->AttentionBackward(shape_, arguments.x, arguments.saved, arguments.dy, dx, workspace);
    if (arguments.add_dx) backend_->Add(input_size_, arguments.dx, dx, arguments.dx);
  }

 private:
  std::shared_ptr<const Backend<Real>> backend_;
  AttentionShape shape_;
  std::int64_t input_size_ = 0;
};

template <class Real>
class Activation final : public TokenLayer<Real> {
 public:
  Activation(const Layer& layer, int microbatch, std::shared_ptr<const Backend<Real>> backend)
      : backend_(std::move(backend)),
        is_gelu_(layer.kind == LayerKind::kGelu),
        size_(microbatch * layer.input.elements()) {}

  void Forward(const Real* /*parameters*/, const Real* x, Real* y, Real* /*saved*/,
               Real* /*workspace*/) override {
    Compute(x, y);
  }

  void Remake(const Real* x, const Real* /*saved*/, Real* y) override { Compute(x, y); }

  void Backward(const TokenBackward<Real>& arguments) override {
    if (arguments.dx == nullptr) return;
    const auto backward =
        is_gelu_ ? &Backend<Real>::GeluBackward : &Backend<Real>::SquaredReluBackward;
    ((*backend_).*backward)(size_, arguments.x, arguments.dy, arguments.add_dx, arguments.dx);
  }

 private:
  void Compute(const Real* x, Real* y) const {
    is_gelu_ ? backend_->Gelu(size_, x, y) : backend_->SquaredRelu(size_, x, y);
  }

  std::shared_ptr<const Backend<Real>> backend_;
  bool is_gelu_;
  std::int64_t size_;
};

}  // namespace

template <class Real>
std::unique_ptr<TokenLayer<Real>> MakeTokenLayer(const Layer& layer, int microbatch,
                                                 std::shared_ptr<const Backend<Real>> backend,
                                                 StageLayout& layout) {
  switch (layer.kind) {
    case LayerKind::kEmbedding:
      return std::make_unique<Embedding<Real>>(layer, microbatch, layout);
    case LayerKind::kPosition:
      return std::make_unique<Position<Real>>(layer, microbatch, std::move(backend), layout);
    case LayerKind::kLayerNormalization:
    case LayerKind::kRmsNormalization:
      return std::make_unique<RowNorm<Real>>(layer, microbatch, std::move(backend), layout);
    case LayerKind::kTokenLinear:
      return std::make_unique<TokenLinear<Real>>(layer, microbatch, std::move(backend), layout);
    case LayerKind::kAttention:
      return std::make_unique<AttentionLayer<Real>>(layer, microbatch, std::move(backend));
    default:
      return std::make_unique<Activation<Real>>(layer, microbatch, std::move(backend));
  }
}

template std::unique_ptr<TokenLayer<float>> MakeTokenLayer(const Layer&, int,
                                                           std::shared_ptr<const Backend<float>>,
                                                           StageLayout&);
template std::unique_ptr<TokenLayer<double>> MakeTokenLayer(const Layer&, int,
                                                            std::shared_ptr<const Backend<double>>,
                                                            StageLayout&);

}  // namespace batchless::training
