// Normalisation, ReLU or both, as the first half of a stage or a stage of its own.
#pragma once

#include <memory>
#include <span>

#include "batchless/training/backend.h"
#include "batchless/training/stage.h"

namespace batchless::training {

// Appends its tensors to the stage's layout and runs on the stage's blocks. Without normalisation its
// constants are null.
template <class Real>
class NormRelu {
 public:
  // `layers`: a normalisation, a ReLU, or the one before the other.
  NormRelu(std::span<const hwmodel::Layer> layers, int microbatch, int block,
           std::shared_ptr<const Backend<Real>> backend, StageLayout& layout);

  std::int64_t workspace_size() const { return normalizes() ? 4 * shape_.stored_channels() : 0; }

  // Statistics into `saved`, then h.
  void Forward(const ForwardArguments<Real>& arguments, Real* h) const;
  // h again, from what was saved.
  void Recompute(const BackwardArguments<Real>& arguments, Real* h) const;
  // The stage's input gradient from h's, and the gradients of scale and shift.
  void Backward(const BackwardArguments<Real>& arguments, const Real* dh, const Real* dh_extra,
                Real* workspace) const;

 private:
  bool normalizes() const { return shape_.kind != hwmodel::Normalization::kNone; }
  // Only a forward writes them.
  ChannelConstants<Real> Constants(const Real* saved) const;

  NormalizationShape shape_;
  std::shared_ptr<const Backend<Real>> backend_;
  std::int64_t gamma_ = 0;  // offsets in the parameters' block
  std::int64_t beta_ = 0;
  std::int64_t running_mean_ = 0;  // offsets in the state's block, batch normalisation
  std::int64_t running_variance_ = 0;
};

}  // namespace batchless::training
