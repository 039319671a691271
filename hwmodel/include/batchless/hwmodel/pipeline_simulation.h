// A run of a schedule, event by event: what closed forms and cycle_time.h are checked against, and
// what stragglers and finite queues do, for which there is no formula.
//
//   worker w   does its actions in order, each by all of its k_w cores; a core goes on to the next
//              action when its own part is done, the result is passed on when all parts are
//   core       needs for its part  seconds * (1 + jitter u) , times stall_factor with
//              probability stall_probability; u in [-1, 1) and the stalls are functions of seed,
//              core and action, so that they do not depend on the order of the events
//   queue      what has been sent over a boundary in one direction and not yet been taken up, at
//              most `queue_capacity` messages. A result that finds it full waits at its worker, and
//              with it the worker
//
// An event is the end of a core's part of an action, a message's arrival where that takes time, or a
// place in a full queue that becomes free. Events of one time come in the order in which they were
// caused.
#pragma once

#include <cstdint>
#include <vector>

#include "batchless/hwmodel/pipeline_times.h"
#include "batchless/hwmodel/schedule.h"

namespace batchless::hwmodel {

struct SimulationOptions {
  PipelineTimes times;
  std::vector<std::int64_t> cores_of_worker{};  ///< (P), or empty: one each
  double jitter = 0;                            ///< in [0, 1)
  double stall_probability = 0;                 ///< in [0, 1], of a core at each action
  double stall_factor = 1;                      ///< at least 1
  std::int64_t queue_capacity = 0;              ///< messages; 0: no limit
  std::uint64_t seed = 0;
};

struct SimulationSummary {
  double seconds = 0;                  ///< until the last action's end
  std::vector<double> finish_seconds;  ///< (N), the end of each micro-batch's last action
  std::vector<double> busy_seconds;    ///< (P), sum over a worker's cores
  double utilisation = 0;              ///< of all cores, over the whole run
  std::int64_t events = 0;
  std::int64_t cores = 0;
  std::int64_t longest_queue = 0;  ///< messages
};

/// `schedule`: one that schedule_check.h accepts. Throws analysis::InvalidArgument naming an option
/// that is out of range, or queue_capacity where full queues keep the run from going on, with an
/// action that waits.
SimulationSummary SimulatePipeline(const Schedule& schedule, const SimulationOptions& options);

}  // namespace batchless::hwmodel

// Example
//   const int stages = 2, microbatches = 4;
//   SimulationOptions options;
//   options.times.stages.assign(stages, {.forward_seconds = 1, .backward_seconds = 1});
//   const SimulationSummary run = SimulatePipeline(Gpipe(stages, microbatches, microbatches), options);
//   CHECK(run.seconds == 2 * (microbatches + stages - 1));
//   CHECK(run.utilisation == Approx(0.8));
