// What a schedule implies, read off its list of actions.
//
//   version at a stage    number of updates that the stage has made so far
//   forward delay         version that micro-batch i's gradient updates - version its forward read
//   backward delay        the same for the version its backward reads without weight stashing
//   utilisation           forwards and backwards done / (2 * stages * steps): a step has room for
//                         one of each at every stage
//   bubble ratio          1 - utilisation
//
// Nothing here knows a formula for any particular schedule; the tests compare with the formulas.
// The first micro-batches of a run see smaller delays, because there are no older weights to be
// late with: per stage the largest over all micro-batches counts. It is the steady state's once a
// run is long enough: D + 1 micro-batches for a delay of D, 2 D + 1 for its D + 1 weight versions.
#pragma once

#include <cstdint>
#include <vector>

#include "batchless/hwmodel/schedule.h"

namespace batchless::hwmodel {

/// Weight versions that one micro-batch meets at one stage.
struct MicrobatchVersions {
  std::int64_t forward = 0;   ///< read by the forward
  std::int64_t backward = 0;  ///< read by the backward without weight stashing
  std::int64_t update = 0;    ///< that its gradient is applied to

  std::int64_t forward_delay_updates() const { return update - forward; }
  std::int64_t backward_delay_updates() const { return update - backward; }
};

struct StageSummary {
  std::vector<MicrobatchVersions> microbatches;  ///< (N), by micro-batch
  std::int64_t forward_delay_updates = 0;        ///< largest over the micro-batches
  std::int64_t backward_delay_updates = 0;       ///< largest over the micro-batches
  /// Most micro-batches at a time whose forward is done and whose backward is not.
  std::int64_t activations_in_flight = 0;
  /// Most weight versions alive at a time when every backward uses its forward's version.
  std::int64_t stashed_weight_versions = 0;
};

struct ScheduleSummary {
  std::vector<StageSummary> stages;  ///< (S), by stage
  std::int64_t steps = 0;            ///< from the first action's to the last action's, both counted
  double utilisation = 0;            ///< in [0, 1]
  double bubble_ratio = 0;           ///< in [0, 1]
};

/// Throws analysis::InvalidArgument naming the action and what is wrong with it: out of range, out
/// of order, done twice, missing, or an update without a gradient.
ScheduleSummary Summarize(const Schedule& schedule);

}  // namespace batchless::hwmodel
