// The parameters of one stage, in all the versions that its passes read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "aligned_buffer.h"
#include "batchless/training/backend.h"
#include "batchless/training/stage.h"
#include "batchless/training/update.h"

namespace batchless::training {

template <class Real>
class StageParameters {
 public:
  explicit StageParameters(const StageLayout& layout);

  // What the next forward reads, in the forward's order.
  const Real* forward() const { return weights_.data(); }
  // What the next backward reads, square sub-blocks transposed.
  const Real* backward() const { return backward_.empty() ? weights_.data() : backward_.data(); }
  const Real* weights() const { return weights_.data(); }
  Real* state() { return state_.data(); }
  const Real* state() const { return state_.data(); }

  // One fused pass over the block; `coefficients` without its pointers.
  void Update(const Backend<Real>& backend, const StageLayout& layout, const Real* gradient,
              const UpdateCoefficients<Real>& coefficients);

  // Replaces weights and state (each a block in the stage's order); velocities become 0.
  void Reset(const StageLayout& layout, const std::vector<Real>& weights,
             const std::vector<Real>& state);

  bool IsFinite() const;
  std::int64_t bytes() const;

  // visit(name, data, elements) for every array that a resumed run needs.
  template <class Visit>
  void ForEachArray(Visit visit) {
    visit("weights", weights_.data(), weights_.size());
    visit("velocity", velocity_.data(), velocity_.size());
    visit("state", state_.data(), state_.size());
    visit("backward", backward_.data(), backward_.size());
  }

 private:
  AlignedBuffer<Real> weights_;
  AlignedBuffer<Real> velocity_;
  AlignedBuffer<Real> backward_;
  AlignedBuffer<Real> state_;
};

}  // namespace batchless::training
