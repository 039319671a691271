// What a stage of token layers is a chain of: each layer on its own, as a stage of one layer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "batchless/training/backend.h"
#include "batchless/training/stage.h"

namespace batchless::training {

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

// A stage of one layer, whose input a later layer of the same stage may want to see again.
template <class Real>
class TokenLayer : public Stage<Real> {
 public:
  // Its output once more, of what the forward saved; where hwmodel's table says that it is remade.
  virtual void Remake(const Real* /*x*/, const Real* /*saved*/, Real* /*y*/) {}
};

// `microbatch`: sequences.
template <class Real>
std::unique_ptr<TokenLayer<Real>> MakeTokenLayer(const hwmodel::Layer& layer, int microbatch,
                                                 std::shared_ptr<const Backend<Real>> backend);

}  // namespace batchless::training
