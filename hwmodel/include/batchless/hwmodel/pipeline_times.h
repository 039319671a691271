// How long the actions of a schedule take, and what it takes to pass on their results.
//
//   worker    does its actions one after the other, in the order of the schedule
//   message   a forward's result to the next stage, a backward's to the one before. It occupies the
//             link of its boundary and direction for `seconds`, messages one after the other, and
//             arrives the boundary's `latency_seconds` later
//
// Between stages of one worker there is no message. The steps of the schedule count for nothing
// here: an action starts when its worker and its input are there.
#pragma once

#include <vector>

#include "batchless/hwmodel/action.h"
#include "batchless/hwmodel/schedule.h"

namespace batchless::hwmodel {

struct StageTimes {
  double forward_seconds = 0;
  /// Time of both gradients, or of the input's alone where the schedule splits the backward.
  double backward_seconds = 0;
  double weight_gradient_seconds = 0;
  double update_seconds = 0;

  double seconds(ActionKind kind) const;
  /// Seconds of all passes of a micro-batch, with so many updates.
  double total(double updates = 1) const {
    return forward_seconds + backward_seconds + weight_gradient_seconds + updates * update_seconds;
  }
};

struct PipelineTimes {
  std::vector<StageTimes> stages;  ///< (S)
  /// (S-1), of a message over the boundary s | s+1, and from its end to its arrival; or empty: 0.
  std::vector<double> link_seconds{};
  std::vector<double> latency_seconds{};

  double message_seconds(int boundary) const {
    return link_seconds.empty() ? 0 : link_seconds[boundary];
  }
  double latency(int boundary) const {
    return latency_seconds.empty() ? 0 : latency_seconds[boundary];
  }
};

/// Throws analysis::InvalidArgument naming `times`, `link_seconds` or `latency_seconds` unless there
/// is one for each stage and boundary, finite and not negative.
void Validate(const PipelineTimes& times, int stages);

}  // namespace batchless::hwmodel

// Example
//   const StageTimes stage{.forward_seconds = 1, .backward_seconds = 2};
//   CHECK(stage.seconds(ActionKind::kBackward) == 2);
//   const PipelineTimes times{.stages = {stage, stage}, .link_seconds = {0.5}};
//   Validate(times, 2);
//   CHECK(times.message_seconds(0) == 0.5);
