// The parameters of one stage, in all the versions that its passes read.
//
// Version u is what u updates have made. The newest weights are always there. Versions that forwards
// read (predicted, or kept because forwards or stashed backwards read old ones) lie in a ring of
// their own where they differ from the newest weights, written by the update in passing; so does a
// prediction for the backward.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "aligned_buffer.h"
#include "batchless/training/backend.h"
#include "batchless/training/stage.h"
#include "batchless/training/update.h"

namespace batchless::training {

// Which versions a stage keeps beside its newest weights.
struct VersionCounts {
  std::int64_t forward = 0;         // 0: forwards read the newest weights
  bool predicted_backward = false;  // else backwards that are not stashed read the newest weights
};

template <class Real>
class StageParameters {
 public:
  StageParameters(const StageLayout& layout, VersionCounts counts);

  // Updates made so far: the newest version.
  std::int64_t updates() const { return updates_; }

  // What a forward reads, and a backward that is to read the same.
  const Real* forward(std::int64_t version) const {
    if (forward_.empty()) return weights_.data();
    return forward_.data() + version % counts_.forward * weights_.size();
  }
  // What any other backward reads.
  const Real* backward() const { return backward_.empty() ? weights_.data() : backward_.data(); }
  const Real* weights() const { return weights_.data(); }
  const Real* velocity() const { return velocity_.data(); }
  // Elements of each of them.
  std::size_t size() const { return static_cast<std::size_t>(weights_.size()); }
  Real* state() { return state_.data(); }
  const Real* state() const { return state_.data(); }

  // One fused pass over the block, but for a tensor that UpdatePiece has been over already (-1: none);
  // `coefficients` without its pointers.
  void Update(const Backend<Real>& backend, const StageLayout& layout, const Real* gradient,
              const UpdateCoefficients<Real>& coefficients, int done = -1);

  // Makes `size` elements of a tensor from `first` on ready for the next update.
  void UpdatePiece(const Backend<Real>& backend, const ParameterTensor& tensor, std::int64_t first,
                   std::int64_t size, const Real* gradient,
                   const UpdateCoefficients<Real>& coefficients);

  // Replaces weights and state (each a block in the stage's order) in all versions; velocities
  // become 0.
  void Reset(const std::vector<Real>& weights, const std::vector<Real>& state);

  bool IsFinite() const;
  std::int64_t bytes() const;

  // Elements of every array that a resumed run needs beside the count of updates, and the arrays.
  static constexpr int kArrays = 5;
  static std::array<std::int64_t, kArrays> ArraySizes(const StageLayout& layout,
                                                      const VersionCounts& counts);
  std::array<Real*, kArrays> Arrays();
  void set_updates(std::int64_t updates) { updates_ = updates; }

 private:
  VersionCounts counts_;
  std::int64_t updates_ = 0;
  AlignedBuffer<Real> weights_;
  AlignedBuffer<Real> velocity_;
  AlignedBuffer<Real> state_;
  AlignedBuffer<Real> forward_;
  AlignedBuffer<Real> backward_;
};

}  // namespace batchless::training
