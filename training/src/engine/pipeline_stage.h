// One stage of a pipeline: its passes over micro-batches, and its updates.
//
// Which version of the weights a pass reads, after u updates:
//
//   forward     max(0, u - lag), the lag the plan's, or drawn for each update; double-buffered
//               max(0, k / m - 1) for micro-batch k, m of them an update
//   backward    the newest; stashed, synchronised or double-buffered the one that the forward read
//
// The gradients of an update's micro-batches are summed in parts (gradient_sum.h), then over the
// replicas of the pipeline (gradient_exchange.h), which meet at updates alone: where a stage's gradient
// is complete its exchange begins, and the stage's next pass that would read the new weights, or write
// the gradient, waits for it. Where nothing waits, a backward's gradient of its stage's largest tensor
// is handed to the update piece by piece while it is in the caches.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "aligned_buffer.h"
#include "engine/gradient_exchange.h"
#include "engine/gradient_sum.h"
#include "engine/microbatch_memory.h"
#include "engine/pipeline_options.h"
#include "engine/stage_parameters.h"

namespace batchless::training {

template <class Real>
class PipelineStage {
 public:
  // Any stage will do, whichever process has it. The options outlive it.
  PipelineStage(const PipelineOptions<Real>& options, int number);

  const StageLayout& layout() const { return compute_->layout(); }

  // Has to come before anything below, in the process that has the stage. `parts` are this replica's.
  // The gradient is summed in `gradient`, which stages that update at once can share; null: in memory
  // of its own.
  void Allocate(MicrobatchMemory<Real>& memory, const GradientParts& parts, Real* gradient);

  // Adds what a pass will read, or write, that no pass just before it touches.
  void LookAhead(hwmodel::ActionKind pass, std::int64_t k, Prefetcher& ahead);

  void Forward(std::int64_t k, Real* workspace, Prefetcher* ahead);
  // Which version of the weights it reads.
  std::int64_t ForwardVersion(std::int64_t k) const {
    return VersionAfter(parameters_.updates(), k);
  }
  // Makes what it made for micro-batch k a second time, of the same weights.
  void ForwardAgain(std::int64_t k, Real* workspace);
  void Backward(std::int64_t k, Real* workspace, Prefetcher* ahead);
  // The rest of a split backward.
  void WeightGradient(std::int64_t k, Real* workspace);
  // The update that micro-batch k ends; with replicas, the beginning of the exchange before it.
  void Update(std::int64_t k, Real* workspace);

  // Whether an update waits for other replicas, after micro-batch exchanged().
  bool is_exchanging() const { return exchanged_ >= 0; }
  std::int64_t exchanged() const { return exchanged_; }
  // Brings the exchange forward, and makes the update when it is done.
  void ProgressExchange(Real* workspace);
  int MissingReplica() { return exchange_->Missing(); }

  // Without memory where another process has the stage.
  StageParameters<Real>& parameters() { return parameters_; }
  const StageParameters<Real>& parameters() const { return parameters_; }
  // For saved states: the version that micro-batch k's forward read, and the gradient that waits for
  // its update, or for the rest of a mini-batch.
  std::int64_t* forward_version(std::int64_t k) {
    if (forward_versions_.empty()) return nullptr;
    return &forward_versions_[k % static_cast<std::int64_t>(forward_versions_.size())];
  }
  Real* gradient() { return gradient_; }
  // None waits.
  void DropGradient() { has_pending_gradient_ = false; }
  // One does, to which micro-batch k was the last to add; `updates` were made before k's forward.
  void KeepGradient(std::int64_t k, std::int64_t updates) {
    has_pending_gradient_ = true;
    stale_version_ = VersionAfter(updates, k);
  }

  std::int64_t bytes() const;

 private:
  class PieceUpdate;

  bool reads_newest() const {
    return options_.plan.schedule.weights == hwmodel::WeightVersions::kNewest;
  }
  // Weights of that version, for a pass of the next update where delays are drawn.
  const Real* ForwardParameters(std::int64_t version) const {
    return parameters_.forward(options_.draws != nullptr ? parameters_.updates() : version);
  }
  // What a backward of micro-batch k reads: the newest version, or the forward's.
  const Real* BackwardParameters(std::int64_t k) {
    return reads_newest() ? parameters_.backward() : ForwardParameters(*forward_version(k));
  }
  // A forward of micro-batch k with the version that is noted for it, on values that value_of(v) finds.
  template <class ValueOf>
  void RunForward(std::int64_t k, ForwardArguments<Real> arguments, ValueOf value_of);
  // What micro-batch k's forward reads after so many updates.
  std::int64_t VersionAfter(std::int64_t updates, std::int64_t k) const;
  bool splits() const { return options_.plan.completes == hwmodel::ActionKind::kWeightGradient; }
  void ShrinkGradient(std::int64_t k);
  // Where micro-batch k's gradient is summed.
  Real* GradientOf(std::int64_t k) { return gradient_ + parts_->slot(PartOf(k)) * gradient_size_; }
  // Micro-batch k's gradient is complete. Ends its part where it is the last one.
  void Complete(std::int64_t k);
  // The part of its share of a mini-batch that micro-batch k belongs to.
  std::int64_t PartOf(std::int64_t k) const {
    const std::int64_t share = options_.microbatches_per_update;
    return k % share * parts_->count() / share;
  }
  // The sums of slots `last` - 1 and `last` become one.
  void AddSums(std::int64_t last);
  // The coefficients of the update that micro-batch k ends.
  StageCoefficients<Real> Coefficients(std::int64_t k) const {
    return options_.coefficients(number_, options_.StartOfUpdate(k));
  }
  void UpdateParameters(std::int64_t k, Real* workspace);

  const PipelineOptions<Real>& options_;
  int number_;
  const hwmodel::Stage& description_;
  std::unique_ptr<Stage<Real>> compute_;
  StageParameters<Real> parameters_;

  MicrobatchMemory<Real>* memory_ = nullptr;
  const GradientParts* parts_ = nullptr;
  std::vector<std::int64_t>
      forward_versions_;  // of the micro-batches in flight, modulo their number
  // Slots of `gradient_size_` elements, for the sums of parts of a mini-batch.
  Real* gradient_ = nullptr;
  std::int64_t gradient_size_ = 0;
  AlignedBuffer<Real> own_gradient_;
  bool has_pending_gradient_ = false;                 // in the slot of the current part
  std::vector<Real> state_again_;                     // running statistics that go nowhere
  int updated_in_backward_ = -1;                      // parameter tensor; -1: none
  StageCoefficients<Real> coefficients_;              // of the update that is being made
  std::unique_ptr<GradientExchange<Real>> exchange_;  // null: one replica
  std::int64_t exchanged_ = -1;
  std::int64_t stale_version_ = 0;  // that the forward of the last backward's micro-batch read
};

}  // namespace batchless::training
