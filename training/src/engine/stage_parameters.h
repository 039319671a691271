// The parameters of one stage, in all the versions that its passes read, and what the optimizer keeps
// beside them.
//
// Version u is what u updates have made. The newest weights are always there. Versions that forwards
// read (predicted, or kept because forwards or stashed backwards read old ones) lie in a ring of
// their own where they differ from the newest weights, written by the update in passing; so does a
// prediction for the backward. Where delays are drawn the ring has a place for each update to come in
// place of one for each version: what its passes will read, with the look-ahead of its delay, lies there
// from the update on that makes it.
//
// Everything lies in one table of arrays, which saved states, memory and resets go over.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "aligned_buffer.h"
#include "batchless/training/stage.h"
#include "optimizers/definition.h"

namespace batchless::training {

// Which versions a stage keeps beside its newest weights.
struct VersionCounts {
  std::int64_t forward = 0;         // 0: forwards read the newest weights
  bool predicted_backward = false;  // else backwards that are not stashed read the newest weights
  std::int64_t raw = 0;             // that an optimizer reads again; 0: none
};

template <class Real>
class StageParameters {
 public:
  // What there is to keep; it has no memory yet. `block`: the backend's.
  StageParameters(const StageLayout& layout, VersionCounts counts, const Optimizer& optimizer,
                  int block);

  // Has to come before all but the sizes.
  void Allocate();

  // Updates made so far: the newest version.
  std::int64_t updates() const { return updates_; }

  // What a forward reads, and a backward that is to read the same, by the ring's place.
  const Real* forward(std::int64_t place) const {
    const AlignedBuffer<Real>& versions = arrays_[forward_place()];
    if (versions.empty()) return weights();
    return versions.data() + place % counts_.forward * arrays_[kWeights].size();
  }
  // What any other backward reads.
  const Real* backward() const {
    const AlignedBuffer<Real>& predicted = arrays_[backward_place()];
    return predicted.empty() ? weights() : predicted.data();
  }
  const Real* weights() const { return arrays_[kWeights].data(); }
  // Elements of a version.
  std::size_t size() const { return static_cast<std::size_t>(arrays_[kWeights].size()); }
  Real* state() { return arrays_[running_place()].data(); }
  // The optimizer's arrays.
  std::span<const AlignedBuffer<Real>> optimizer_states() const {
    return std::span(arrays_).subspan(kStates, state_count());
  }

  // Whether an update can be made piece by piece.
  bool TakesPieces(int tensor) const { return tensors_[tensor].kernels.prepare == nullptr; }

  // `gradient`: the stage's, of a micro-batch whose forward read version `forward`. All tensors but
  // the one that UpdatePiece has been over already (-1: none). `workspace`: workspace_size() numbers.
  void Update(const Real* gradient, const StageCoefficients<Real>& coefficients,
              std::int64_t forward, Real* workspace, int done = -1);

  // Makes `size` elements of a tensor from `first` on, whose gradient begins at `gradient`, ready for
  // the next update.
  void UpdatePiece(int tensor, std::int64_t first, std::int64_t size, const Real* gradient,
                   const StageCoefficients<Real>& coefficients, std::int64_t forward);

  // Replaces weights and state (each a block in the stage's order) in all versions; the optimizer's
  // arrays become 0.
  void Reset(std::span<const Real> weights, std::span<const Real> state);

  // Weights, and what the optimizer keeps.
  bool IsFinite() const;
  std::int64_t bytes() const { return SumBytes(arrays_); }

  // The table of arrays, all that a resumed run needs beside the count of updates: weights, the
  // optimizer's, running statistics, the forward's versions, the backward's, raw ones. Arrays are null
  // before Allocate.
  const std::vector<std::int64_t>& array_sizes() const { return sizes_; }
  Real* array(std::size_t place) { return arrays_[place].data(); }
  const Real* array(std::size_t place) const { return arrays_[place].data(); }
  // Places in the table: of the weights, of an optimizer's array, of the running statistics. An
  // optimizer's arrays beside the weights come before its arrays beside tensors.
  static constexpr std::size_t kWeights = 0;
  static constexpr std::size_t kStates = 1;
  std::size_t running_place() const { return kStates + state_count(); }
  std::size_t state_count() const { return named_tensors_.size() - 2; }  // arrays of the optimizer
  // What lies in one of these arrays, with the names of the stage's tensors; in an optimizer's array,
  // "ARRAY/TENSOR".
  const std::vector<ParameterTensor>& named_tensors(std::size_t place) const {
    return named_tensors_[place];
  }
  void set_updates(std::int64_t updates) { updates_ = updates; }

  // Numbers of scratch of the stage's passes and updates.
  std::int64_t workspace_size() const { return workspace_size_; }

 private:
  std::size_t forward_place() const { return running_place() + 1; }
  std::size_t backward_place() const { return running_place() + 2; }
  std::size_t raw_place() const {
    return running_place() + 3;
  }  // there where raw versions are kept

  struct Tensor {
    ParameterTensor description;  // by itself, its offset 0
    std::int64_t offset = 0;      // in a version
    UpdateKernels<Real> kernels;
    OwnLoop<Real> own = nullptr;
    bool is_vector = false;
    // Where it lies in the optimizer's arrays; -1: in none.
    std::array<std::int64_t, kMaxStates + kMaxTensorArrays> state_offsets{};
  };

  UpdateArguments<Real> Arguments(const Tensor& tensor, std::int64_t first, std::int64_t size,
                                  const Real* gradient, const StageCoefficients<Real>& coefficients,
                                  std::int64_t forward);

  VersionCounts counts_;
  std::int64_t updates_ = 0;
  std::int64_t workspace_size_;
  std::size_t beside_weights_;  // arrays of the optimizer, before those beside tensors
  std::vector<std::vector<ParameterTensor>>
      named_tensors_;  // by place, up to the running statistics
  std::vector<Tensor> tensors_;
  std::vector<std::int64_t> sizes_;  // of the arrays
  std::vector<AlignedBuffer<Real>> arrays_;
};

}  // namespace batchless::training
