// Which values and gradients a process keeps, and between which passes: for the trainer, which has the
// memory, and for predictions of it.
//
// A process holds the stages [first, end). Of a value it keeps a copy where one of its stages makes or
// reads it, and where it is on its way to a later process; the copy is written by the stage that makes
// it, or as it comes in with the forward of the process's first stage. It is kept until the process's
// stages and, where it goes on, the forward of the next process's first stage are done with it.
// Gradients go the other way likewise.
//
// The inputs of a sum that come to their last reader there share the gradient of its output: one place
// for all of them, named by gradient_of. An input has a place of its own, into which the sum copies, where
// what its other readers add would get into the gradient of another value, as beside parallel branches.
//
// Groups of stages can make their values a second time, from what came in, just before the group's first
// backward (activation recomputation; GPipe, arXiv 1811.06965): what the first time made is then gone as
// soon as the group's forwards have read it, and the values of the second time have places of their own.
//
// Where backwards are split, what a stage has kept of its input lasts until its weight gradient, and the
// gradient of its output, whose place others may have written by then, is held in a copy.
#pragma once

#include <optional>
#include <vector>

#include "batchless/hwmodel/action.h"
#include "batchless/hwmodel/network.h"

namespace batchless::hwmodel {

/// What a stage does for any one micro-batch.
struct Pass {
  ActionKind kind = ActionKind::kForward;
  int stage = 0;
};

/// A place in memory that passes of the same micro-batch write and read.
struct MemoryUse {
  Pass write;                  ///< the first one
  std::vector<Pass> releases;  ///< after all of these its content is not needed
};

struct StageSpan {
  int first = 0;
  int end = 0;  ///< one past the last

  bool Holds(int stage) const { return first <= stage && stage < end; }
};

class MemoryPlan {
 public:
  /// `network` has to outlive this object. `recomputed`: groups of stages that make their values and
  /// what they save again, in the backward of their last stage; none has a stage of another.
  MemoryPlan(const Network& network, bool splits_backward, std::vector<StageSpan> recomputed = {});

  /// The value in whose place the gradient of value v is; -1: none is wanted.
  int gradient_of(int v) const { return gradient_of_[static_cast<std::size_t>(v)]; }

  /// None where a process with these stages keeps no copy.
  std::optional<MemoryUse> ValueUse(int v, const StageSpan& span) const;
  /// Use of the place that value v's gradients share; none where there are no such gradients.
  std::optional<MemoryUse> GradientUse(int v, const StageSpan& span) const;

  /// From a stage's forward until nothing of the micro-batch is needed there.
  MemoryUse InFlightUse(int stage) const {
    return {.write = {ActionKind::kForward, stage}, .releases = {{last_, stage}}};
  }
  /// From the forward that saves something for a stage's backward, the second where its group makes
  /// it again, until it is not needed.
  MemoryUse SavedUse(int stage) const;

  /// The group that a stage is made again with; null: none.
  const StageSpan* GroupOf(int stage) const;
  /// Whether a stage's backward reads value v as it was made again.
  bool IsMadeAgain(int v, int stage) const;
  /// The use of the place for a value that is made again; none where it is not, or another process has
  /// it.
  std::optional<MemoryUse> ValueAgainUse(int v, const StageSpan& span) const;
  /// The use of the copy that a split backward holds for the stage's weight gradient; none where it has no
  /// weights or nothing is split.
  std::optional<MemoryUse> HeldUse(int stage) const;

  /// What passes from stage `stage` - 1 to `stage` with a forward, and back with a backward, ascending.
  std::vector<int> CrossingValues(int stage) const;
  std::vector<int> CrossingGradients(int stage) const;

 private:
  const Stage& StageOf(int stage) const {
    return network_->stages[static_cast<std::size_t>(stage)];
  }
  const Value& ValueOf(int v) const { return network_->values[static_cast<std::size_t>(v)]; }
  int Producer(int v) const;
  // Whether the stage's backward reads v, an input of the stage, again.
  bool KeepsValue(int stage, int v) const;
  int LastConsumer(int v) const;  // -1 where there is none
  // Whether other stages than the last that reads v add to its gradient.
  bool HasMoreReaders(int v) const { return ValueOf(v).consumers.size() > 1; }
  // Whether one of them would do so before the gradient of another value in that place is read.
  bool AddsTooEarly(int v, int place) const;

  const Network* network_;
  ActionKind last_;  // that reads what is kept of a micro-batch
  std::vector<int> gradient_of_;
  std::vector<StageSpan> recomputed_;
};

}  // namespace batchless::hwmodel

// Example
//   const Network network = MakeNetwork({.name = "linear"});
//   const MemoryPlan plan(network, /*splits_backward=*/false);
//   const StageSpan all{0, network.stage_count()};
//   const std::optional<MemoryUse> image = plan.ValueUse(0, all);
//   CHECK(image->write.stage == 0);
//   // The linear layer's gradient reads its input once more.
//   CHECK(image->releases[0].kind == ActionKind::kBackward);
//   CHECK_FALSE(plan.GradientUse(0, all).has_value());
