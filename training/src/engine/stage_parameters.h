// The parameters of one stage, in all the versions that its passes read.
//
// Version u is what u updates have made. The newest weights are always there. Versions for the
// forward (predicted, or kept because forwards read old ones) and for the backward (transposed,
// predicted, or kept because backwards read the forward's) live in rings of their own where they
// differ from the newest weights, written by the update in passing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "aligned_buffer.h"
#include "batchless/training/backend.h"
#include "batchless/training/stage.h"
#include "batchless/training/update.h"

namespace batchless::training {

// Which versions a stage keeps; 0: the newest weights serve.
struct VersionCounts {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
};

template <class Real>
class StageParameters {
 public:
  StageParameters(const StageLayout& layout, VersionCounts counts);

  // Updates made so far: the newest version.
  std::int64_t updates() const { return updates_; }

  // What a forward reads, in the forward's order.
  const Real* forward(std::int64_t version) const {
    return forward_.empty() ? weights_.data() : Slot(forward_, counts_.forward, version);
  }
  // What a backward reads, square sub-blocks transposed.
  const Real* backward(std::int64_t version) const {
    return backward_.empty() ? weights_.data() : Slot(backward_, counts_.backward, version);
  }
  const Real* weights() const { return weights_.data(); }
  Real* state() { return state_.data(); }
  const Real* state() const { return state_.data(); }

  // One fused pass over the block; `coefficients` without its pointers.
  void Update(const Backend<Real>& backend, const StageLayout& layout, const Real* gradient,
              const UpdateCoefficients<Real>& coefficients);

  // Replaces weights and state (each a block in the stage's order) in all versions; velocities
  // become 0.
  void Reset(const StageLayout& layout, const std::vector<Real>& weights,
             const std::vector<Real>& state);

  bool IsFinite() const;
  std::int64_t bytes() const;

  // visit(name, data, elements) for every array that a resumed run needs, then the count of updates.
  template <class Visit>
  void ForEachArray(Visit visit) {
    visit("weights", weights_.data(), weights_.size());
    visit("velocity", velocity_.data(), velocity_.size());
    visit("state", state_.data(), state_.size());
    visit("forward", forward_.data(), forward_.size());
    visit("backward", backward_.data(), backward_.size());
  }
  void set_updates(std::int64_t updates) { updates_ = updates; }

 private:
  const Real* Slot(const AlignedBuffer<Real>& ring, std::int64_t count,
                   std::int64_t version) const {
    return ring.data() + version % count * weights_.size();
  }

  VersionCounts counts_;
  std::int64_t updates_ = 0;
  AlignedBuffer<Real> weights_;
  AlignedBuffer<Real> velocity_;
  AlignedBuffer<Real> state_;
  AlignedBuffer<Real> forward_;
  AlignedBuffer<Real> backward_;
};

}  // namespace batchless::training
