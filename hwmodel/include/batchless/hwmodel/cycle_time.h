// The time that a schedule's steady state takes, exactly, for any times of its stages.
//
//   start_v(c) >= start_u(c - k_uv) + seconds_u + latency_uv     for every action u that v waits for
//   seconds of a cycle = max over circuits of  sum (seconds + latency) / sum k
//
// u, v are the actions of one cycle (steady_state.h), c the number of the cycle, k_uv how many
// cycles lie between them. v waits for the action before it on its worker and for the message with
// its input; a message waits for the one before it on its link. The largest ratio over all circuits
// is the pipeline's period. The circuit of a worker is its own work, of which no schedule gets rid;
// where that is the largest, the worker is the bottleneck. Otherwise it is a circuit of
// several: workers that wait for one another's results, as in a flush, or for latencies that there
// are too few micro-batches in flight to hide.
//
// Computed by Howard's policy iteration: every action waits for one other, its policy; the circuit of
// these with the largest ratio gives a period and, from there on, all starts; each action then waits
// for what lets it start last, until none starts later. The period never falls, and few rounds do.
//
// Sources, recalled: Baccelli, Cohen, Olsder and Quadrat, Synchronization and Linearity, 1992 (the
// period of an event graph is its largest circuit ratio); Cochet-Terrasson, Cohen, Gaubert,
// McGettrick and Quadrat, Numerical computation of spectral elements in max-plus algebra, 1998
// (policy iteration).
#pragma once

#include <cstdint>
#include <vector>

#include "batchless/hwmodel/pipeline_times.h"
#include "batchless/hwmodel/steady_state.h"

namespace batchless::hwmodel {

struct CycleTime {
  double seconds = 0;  ///< of a cycle of microbatches_per_cycle micro-batches, on the average
  /// sum k of the slowest circuit: what a run repeats exactly.
  std::int64_t circuit_cycles = 1;
  /// The bottleneck: workers that the slowest circuit goes through, ascending. Where there is none it is
  /// the link between stages `boundary` and the next.
  std::vector<int> workers{};
  int boundary = -1;
  std::vector<double> busy_seconds{};     ///< (P), by worker, in a cycle
  std::int64_t microbatches_per_cycle{};  ///< as in the steady state
};

/// Throws what Validate of the times throws, and analysis::InvalidArgument naming `times` where a
/// cycle takes no time at all.
CycleTime ComputeCycleTime(const SteadyState& steady, const PipelineTimes& times);

}  // namespace batchless::hwmodel

// Example
//   PipelineTimes times;
//   times.stages.assign(3, {.forward_seconds = 1, .backward_seconds = 2});
//   times.stages[1].backward_seconds = 4;
//   const SteadyState steady = FindSteadyState(PipelinedBackpropagation(3, 24));
//   const CycleTime cycle = ComputeCycleTime(steady, times);
//   CHECK(cycle.seconds == Approx(5.0 * static_cast<double>(cycle.microbatches_per_cycle)));
//   CHECK(cycle.workers == std::vector{1});
