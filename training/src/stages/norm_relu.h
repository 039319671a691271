// Normalisation, ReLU or both, as a stage or the first half of one.
#pragma once

#include <memory>
#include <span>

#include "stages/stages.h"

namespace batchless::training {

// Its tensors are the first of the blocks that it is handed. Without normalisation its constants are null.
template <class Real>
class NormRelu final : public Stage<Real> {
 public:
  // `layers`: a normalisation, a ReLU, or the one before the other.
  NormRelu(std::span<const hwmodel::Layer> layers, int microbatch, int block,
           std::shared_ptr<const Backend<Real>> backend);
  explicit NormRelu(const StageParts<Real>& parts);

  // Statistics into `saved`, then the output h.
  void Forward(const ForwardArguments<Real>& arguments) override;
  // h has two gradients where there is a second one of outputs.
  void Backward(const BackwardArguments<Real>& arguments) override;
  // h again, from what was saved.
  void Recompute(const BackwardArguments<Real>& arguments, Real* h) const;

 private:
  bool normalizes() const { return shape_.kind != hwmodel::Normalization::kNone; }
  // Only a forward writes them.
  ChannelConstants<Real> Constants(const Real* saved) const;

  NormalizationShape shape_;
  std::shared_ptr<const Backend<Real>> backend_;
  std::int64_t beta_ = 0;          // offset in the parameters' block, behind gamma
  std::int64_t running_mean_ = 0;  // offsets in the state's block, batch normalisation
  std::int64_t running_variance_ = 0;
};

}  // namespace batchless::training
