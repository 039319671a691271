// A schedule is a plain list of timed actions; everything else is derived from it.
//
//   S  stages, numbered from 0 (input) to S-1 (loss)
//   N  micro-batches in all, numbered from 0 in the order in which they enter the pipeline
//   P  workers, numbered from 0; each stage belongs to one of them, a worker may have several
//   C  copies of the stages on the workers, 1 but for pipelines in several directions; micro-batch i goes
//      through copy i mod C, and an update changes all copies of its stage
//
// Time is counted in steps. What fits into a step of one worker is a property of the schedule:
//
//   slots_per_step 2   one forward and one backward (pipelined backpropagation and fill and drain
//                      as Kosson et al. draw them)
//   slots_per_step 1   one forward, one backward or one weight gradient, each a unit of time
//                      (1F1B and its relatives)
//
// An update takes no room: it happens in the step of the gradient that completes it. What a stage
// computes is there for its neighbours a step later.
//
// A stage's weights have a version, the number of updates it has made. Which one a pass reads is
// derived from the list and the schedule's rule:
//
//   rule             forward reads   backward reads   weights kept
//   newest           n - L           the newest       L + 1 versions
//   stashed          n - L           its forward's    L more than there are in flight
//   double-buffered  max(u-1, 0)     max(u-1, 0)      two versions
//   vertical-sync    n_0             its forward's    D_0 + 1 at every stage
//
// where n is the newest version, u the one that the micro-batch's gradient is applied to, n_0 the newest
// one at stage 0 when the micro-batch entered there, D_0 the delay of stage 0, and L the forwards' lag:
// 0 but for uniform delays, which are a lag of mini-batches that drain. Versions before the first are
// the first. Weight stashing is therefore not another list but another rule for the same one, and so are
// vertical sync, by which a micro-batch meets one version of the whole network, and a uniform delay.
//
// Sources, recalled beyond their abstracts: Kosson et al., Pipelined Backpropagation at Scale, arXiv
// 2003.11666 (newest); PipeDream, arXiv 1806.03377 (stashed, vertical sync); PipeDream-2BW, arXiv
// 2006.09503 (double-buffered).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "batchless/hwmodel/action.h"

namespace batchless::hwmodel {

struct TimedAction {
  std::int64_t step = 0;
  Action action;

  friend bool operator==(const TimedAction&, const TimedAction&) = default;
};

/// Largest lag of forwards: every update of it is one more copy of the weights.
inline constexpr std::int64_t kMaxForwardLag = 10'000;

enum class WeightVersions : unsigned char { kNewest, kStashed, kDoubleBuffered, kVerticalSync };

/// newest, stashed, double-buffered or vertical-sync.
std::string_view Name(WeightVersions weights);

/// Throws analysis::InvalidArgument naming `weights` where it is none of these names.
WeightVersions ParseWeightVersions(std::string_view name);

struct Schedule {
  int stages = 0;
  std::int64_t microbatches = 0;
  /// In order of execution: by step; the actions of one worker in one step as the worker does them.
  std::vector<TimedAction> actions = {};
  int slots_per_step = 2;  ///< 1 or 2
  WeightVersions weights = WeightVersions::kNewest;
  std::int64_t forward_lag =
      0;  ///< L, updates, at most kMaxForwardLag; 0 but with kNewest and kStashed
  /// (C S), by stage, copy after copy; empty where there is one, and stage s is worker s.
  std::vector<int> worker_of_stage = {};

  int copies() const;
  /// The one that has the copy of the stage that the micro-batch goes through.
  int worker(int stage, std::int64_t microbatch = 0) const {
    if (worker_of_stage.empty()) return stage;
    return worker_of_stage[(microbatch % copies()) * stages + stage];
  }
  int worker(const Action& action) const { return worker(action.stage, action.microbatch); }
  int workers() const;
  /// Number of a pass among those of its kind, by stage, then micro-batch.
  std::size_t place(int stage, std::int64_t microbatch) const {
    return static_cast<std::size_t>(stage * microbatches + microbatch);
  }
  /// Whether weight gradients are actions of their own, in any place of the list.
  bool splits_backward() const;

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

}  // namespace batchless::hwmodel

// Example
//   Schedule schedule;
//   schedule.stages = 1;
//   schedule.microbatches = 1;
//   for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward, ActionKind::kUpdate}) {
//     schedule.actions.push_back({.step = 0, .action = {0, kind, 0}});
//   }
//   CHECK(schedule.workers() == 1);
//   CHECK_FALSE(schedule.splits_backward());
//   CHECK(Name(schedule.weights) == "newest");
