// The part of a schedule that repeats: what a pipeline does over and over once it has filled.
//
//   cycle c of worker w   its list of actions, each on micro-batch
//                         c * microbatches_per_cycle + offset
//   fill and drain        the same cycles without the micro-batches before the first and after the
//                         last of the run
//
//   schedule         microbatches_per_cycle   actions of stage s in a cycle
//   pb               1                        F(k-s), B(k-2(S-1)+s), U
//   1f1b             1                        F(k), B(k-(S-1-s)), U up to a common shift
//   2bw              M                        M times the forward and backward of 1f1b, then U
//   with a flush     M                        a mini-batch
//
// What a run repeats is thus a short list, however long the run; a schedule of a few cycles is
// enough to find it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "batchless/hwmodel/schedule.h"

namespace batchless::hwmodel {

struct SteadyAction {
  ActionKind kind = ActionKind::kForward;
  int stage = 0;
  std::int64_t offset = 0;  ///< of the micro-batch, at most microbatches_per_cycle - 1
  std::int64_t step = 0;    ///< from the start of the cycle
  /// Updates between the version that a forward or backward reads and the newest one then: 0 where
  /// it reads the newest.
  std::int64_t version_age = 0;

  friend bool operator==(const SteadyAction&, const SteadyAction&) = default;
};

struct SteadyState {
  int stages = 0;
  std::int64_t microbatches_per_cycle = 0;
  std::int64_t steps_per_cycle = 0;
  /// (P), by worker: its actions of one cycle in order of execution.
  std::vector<std::vector<SteadyAction>> workers;
  double utilisation = 0;  ///< of the slots of a cycle, in [0, 1]
};

/// The smallest cycle in the middle of the list that, repeated from the empty pipeline on, does at
/// every stage what the list does, in the same order. The fill and drain may differ in their steps
/// only, so that every pass reads the same version.
///
/// worker_of_stage: workers that share the stages in another way than the schedule's own, (S); each
/// does its stages' actions in the order of the list. Empty for the schedule's own.
///
/// Throws analysis::InvalidArgument: naming `worker_of_stage` where it is not (S); naming `actions`
/// where the list is no schedule (schedule_check.h) or has no such cycle, with the first action
/// that differs from the cycle that comes nearest. A list is long enough when it has two cycles in
/// which every stage does everything.
SteadyState FindSteadyState(const Schedule& schedule, std::span<const int> worker_of_stage = {});

/// So many micro-batches of it, from the empty pipeline on, show every delay and all versions that
/// are kept at a time (schedule_summary.h says how many updates these take).
std::int64_t EnoughMicrobatches(const SteadyState& steady);

/// The steady state from the empty pipeline on until micro-batch microbatches - 1 has drained. The
/// steps count from the first action; slots, weights, lag and workers are those of `like`.
Schedule Repeat(const SteadyState& steady, const Schedule& like, std::int64_t microbatches);

}  // namespace batchless::hwmodel

// Example
//   const SteadyState steady = FindSteadyState(PipelinedBackpropagation(/*stages=*/3, 12));
//   CHECK(steady.microbatches_per_cycle == 1);
//   CHECK(steady.workers.size() == 3);
//   CHECK(steady.utilisation == 1);
//   const Schedule longer = Repeat(steady, PipelinedBackpropagation(3, 12), 100);
//   CHECK(longer == PipelinedBackpropagation(3, 100));
