// What a stage of token layers is a chain of: each layer on its own, as a function of what is handed in.
#pragma once

#include <cstdint>
#include <memory>
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

template <class Real>
class TokenLayer {
 public:
  virtual ~TokenLayer() = default;
  TokenLayer(const TokenLayer&) = delete;
  TokenLayer& operator=(const TokenLayer&) = delete;
  TokenLayer(TokenLayer&&) = delete;
  TokenLayer& operator=(TokenLayer&&) = delete;

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
