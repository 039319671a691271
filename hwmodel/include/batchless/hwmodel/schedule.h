// A schedule is a plain list of timed actions; everything else is derived from it.
//
//   pipelined backpropagation (PB)
//     forward of micro-batch i at stage s    step i + s
//     backward                               step i + 2(S-1) - s, followed by an update
//   fill and drain
//     the same steps counted from the start of each mini-batch of n micro-batches, which begins
//     when the one before it has drained, after n + 2S - 2 steps; a stage updates once in each
//     mini-batch, after its last backward
//
//   S  stages, numbered from 0 (input)       N  micro-batches in all
//
// In one step a stage does at most one forward, then one backward, then one update.
//
// Source: Kosson et al., Pipelined Backpropagation at Scale, arXiv 2003.11666.
#pragma once

#include <cstdint>
#include <vector>

#include "batchless/hwmodel/action.h"

namespace batchless::hwmodel {

struct TimedAction {
  std::int64_t step = 0;
  Action action;

  friend bool operator==(const TimedAction&, const TimedAction&) = default;
};

struct Schedule {
  int stages = 0;
  std::int64_t microbatches = 0;
  /// In order of execution: by step, then by stage; within a stage as the stage does them.
  std::vector<TimedAction> actions;
};

/// Throws analysis::InvalidArgument unless stages >= 1 and microbatches >= 1.
Schedule PipelinedBackpropagation(int stages, std::int64_t microbatches);

/// Throws analysis::InvalidArgument unless stages >= 1, microbatches >= 1 and
/// microbatches_per_update divides microbatches.
Schedule FillDrain(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update);

}  // namespace batchless::hwmodel
