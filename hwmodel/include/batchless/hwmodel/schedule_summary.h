// What a schedule implies, read off its list of actions.
//
//   version at a stage    number of updates that the stage has made so far
//   forward delay         version that micro-batch i's gradient updates - version its forward reads
//   backward delay        the same for the version its backward reads
//   horizons              versions from the newest one at a micro-batch's forward, or backward, to the
//                         newest before the step of its last backward at any stage: what SpecTrain
//                         predicts. Where backwards read their forwards' weights again, the forward
//                         delay, and 0
//   in flight             micro-batches whose forward is done and whose gradient is not: those
//                         whose activations are kept
//   utilisation           forwards, backwards and weight gradients done
//                         / (workers * slots_per_step * steps)
//   bubble ratio          1 - utilisation
//
// Versions are read as the schedule's rule for them says (schedule.h). Nothing here knows a formula
// for any particular schedule; the tests compare with the formulas.
// The first micro-batches of a run see smaller delays, because there are no older weights to be
// late with: per stage the largest over all micro-batches counts. It is the steady state's once a
// run is long enough: D + 1 updates for a delay of D, 2 D + 1 for its D + 1 weight versions. The
// utilisation is that of the whole list, fill and drain included; steady_state.h has the other.
#pragma once

#include <cstdint>
#include <vector>

#include "batchless/hwmodel/schedule.h"

namespace batchless::hwmodel {

/// Weight versions that one micro-batch meets at one stage.
struct MicrobatchVersions {
  std::int64_t forward = 0;   ///< read by the forward
  std::int64_t backward = 0;  ///< read by the backward
  std::int64_t update = 0;    ///< that its gradient is applied to

  std::int64_t forward_delay_updates() const { return update - forward; }
  std::int64_t backward_delay_updates() const { return update - backward; }

  friend bool operator==(const MicrobatchVersions&, const MicrobatchVersions&) = default;
};

struct StageSummary {
  std::vector<MicrobatchVersions> microbatches;  ///< (N), by micro-batch
  std::int64_t forward_delay_updates = 0;        ///< largest over the micro-batches
  std::int64_t backward_delay_updates = 0;       ///< largest over the micro-batches
  std::int64_t forward_horizon_updates = 0;      ///< largest over the micro-batches
  std::int64_t backward_horizon_updates = 0;     ///< largest over the micro-batches
  std::int64_t activations_in_flight = 0;        ///< most micro-batches in flight at a time
  /// Most weight versions at a time of which a pass is still to come, and the newest.
  std::int64_t weight_versions = 0;
  /// The same if every backward used its forward's version, whatever the schedule's rule.
  std::int64_t stashed_weight_versions = 0;
};

struct ScheduleSummary {
  std::vector<StageSummary> stages;  ///< (S), by stage
  int workers = 0;
  std::int64_t steps = 0;   ///< from the first action's to the last action's, both counted
  double utilisation = 0;   ///< in [0, 1]
  double bubble_ratio = 0;  ///< in [0, 1]
};

/// O(actions). Throws analysis::InvalidArgument naming the first action that breaks a rule, and the
/// rule (schedule_check.h).
ScheduleSummary Summarize(const Schedule& schedule);

/// How far XPipe's passes at a stage predict, updates.
struct PlaceHorizons {
  double forward_updates = 0;
  double backward_updates = 0;
};

/// By stage: round((P + M - floor(r/2) - 2)/M) and round((M + floor(r/2) - 1)/M) for the stages of worker r
/// of P and M micro-batches an update, halves to the even number. Source: the code of AMDP's authors (arXiv
/// 2605.29664), read at second hand.
std::vector<PlaceHorizons> HorizonsByPlace(const Schedule& schedule);

}  // namespace batchless::hwmodel

// Example
//   const ScheduleSummary summary = Summarize(PipelinedBackpropagation(/*stages=*/4, 16));
//   CHECK(summary.stages[0].forward_delay_updates == 2 * 3);
//   CHECK(summary.stages[0].backward_delay_updates == 0);
//   CHECK(summary.stages[0].activations_in_flight == 2 * 3 + 1);
//   CHECK(summary.stages[1].forward_horizon_updates == 2 * 3 - 1);  // SpecTrain's
//   CHECK(summary.stages[3].microbatches[5].update == 5);
