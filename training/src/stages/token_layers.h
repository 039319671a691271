// What a stage of token layers is a chain of: each layer on its own, as a function of what is handed in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "batchless/training/backend.h"
#include "batchless/training/stage.h"

namespace batchless::training {

template <class Real>
struct TokenBackward {
  const Real* parameters = nullptr;  // of the stage
  const Real* saved = nullptr;       // this layer's
  const Real* x = nullptr;           // null where the layer keeps no input
  const Real* dy = nullptr;
  Real* dx = nullptr;  // null: not wanted. May be dy where both have one shape
  bool add_dx = false;
  Real* gradient = nullptr;  // of the stage
  bool add_gradient = false;
  GradientConsumer<Real>* consumer = nullptr;
  Real* workspace = nullptr;
};

// The three products of a linear layer on tokens, y = x W^T + b, W of `out` rows.
template <class Real>
class RowProducts {
 public:
  RowProducts(std::shared_ptr<const Backend<Real>> backend, std::int64_t rows, std::int64_t in,
              std::int64_t out)
      : backend_(std::move(backend)), rows_(rows), in_(in), out_(out) {}

  std::int64_t workspace_size() const {
    return std::max({backend_->ProductWorkspace(rows_, out_, in_),
                     backend_->ProductWorkspace(rows_, in_, out_),
                     backend_->ProductWorkspace(out_, in_, rows_)});
  }

  void Forward(const Real* x, const Real* weights, const Real* bias, Real* y,
               Real* workspace) const {
    backend_->Multiply({.rows = rows_,
                        .columns = out_,
                        .steps = in_,
                        .a = x,
                        .a_row = in_,
                        .b = weights,
                        .b_step = 1,
                        .b_column = in_,
                        .bias = bias,
                        .c = y,
                        .c_row = out_},
                       workspace);
  }

  void InputGradient(const Real* dy, const Real* weights, Real* dx, Real* workspace) const {
    backend_->Multiply({.rows = rows_,
                        .columns = in_,
                        .steps = out_,
                        .a = dy,
                        .a_row = out_,
                        .b = weights,
                        .b_step = in_,
                        .c = dx,
                        .c_row = in_},
                       workspace);
  }

  void WeightGradient(const Real* dy, const Real* x, bool add, Real* gradient,
                      Real* workspace) const {
    backend_->Multiply({.rows = out_,
                        .columns = in_,
                        .steps = rows_,
                        .a = dy,
                        .a_row = 1,
                        .a_step = out_,
                        .b = x,
                        .b_step = in_,
                        .c = gradient,
                        .c_row = in_,
                        .add = add},
                       workspace);
  }

 private:
  std::shared_ptr<const Backend<Real>> backend_;
  std::int64_t rows_;
  std::int64_t in_;
  std::int64_t out_;
};

template <class Real>
class TokenLayer {
 public:
  virtual ~TokenLayer() = default;
  TokenLayer(const TokenLayer&) = delete;
  TokenLayer& operator=(const TokenLayer&) = delete;

  std::int64_t saved_size() const { return saved_size_; }
  std::int64_t workspace_size() const { return workspace_size_; }
  // The place of its weights in the stage's list of parameters; -1 where a consumer can take none.
  int consumed() const { return consumed_; }

  virtual void Forward(const Real* parameters, const Real* x, Real* y, Real* saved,
                       Real* workspace) = 0;
  // y once more, of what the forward saved; where hwmodel's table says that it is remade.
  virtual void Remake(const Real* /*x*/, const Real* /*saved*/, Real* /*y*/) {}
  virtual void Backward(const TokenBackward<Real>& arguments) = 0;

 protected:
  TokenLayer() = default;
  std::int64_t saved_size_ = 0;
  std::int64_t workspace_size_ = 0;
  int consumed_ = -1;
};

// Appends its parameters to the stage's layout. `microbatch`: sequences.
template <class Real>
std::unique_ptr<TokenLayer<Real>> MakeTokenLayer(const hwmodel::Layer& layer, int microbatch,
                                                 std::shared_ptr<const Backend<Real>> backend,
                                                 StageLayout& layout);

}  // namespace batchless::training
