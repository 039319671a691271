// Memory that a training run keeps, from the network and the schedule alone.
//
//   weights        one copy of each parameter, and what the optimizer keeps beside it
//   versions       A + 1 further copies of a stage's weights where its passes read weights that are up
//                  to A updates old, or where the forward reads predicted ones (A = 0 then); one more
//                  where the backward reads predicted ones, and D + 1 for an optimizer that reads the
//                  weights of D updates before again
//   gradients      of parameters: of the worker's largest stage, which its stages use in turn; of every
//                  stage where gradients wait for other micro-batches or pipelines, as often as
//                  micro-batches are summed apart
//   activations    of a value, its size times the micro-batches between the forward that writes it
//                  and the last pass that reads it; what stages save for their backwards likewise
//   activation gradients   likewise, between the backward that writes and the one that reads
//   workspace      scratch of each worker, that of the process's stage that needs most; how much a stage
//                  needs the kernels say that compute it
//   links          what crosses to another process, there and back, times the micro-batches by which
//                  one can be ahead of the other: those between the forward and the backward of the
//                  last stage before the boundary
//   evaluation     of each worker, beside all that: the values of one sample, the most that a stage saves
//                  and a workspace; and all weights, in each of several processes
//
// How many micro-batches are between two passes is counted in the list of actions. A process holds a
// range of stages, and copies of the values that others of its stages' neighbours make (memory_plan.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "batchless/hwmodel/memory_plan.h"
#include "batchless/hwmodel/network.h"
#include "batchless/hwmodel/schedule.h"

namespace batchless::hwmodel {

/// Bytes.
struct TrainingMemory {
  std::int64_t weights = 0;  ///< and the optimizer's arrays
  std::int64_t versions = 0;
  std::int64_t gradients = 0;
  std::int64_t activations = 0;
  std::int64_t activation_gradients = 0;
  std::int64_t workspace = 0;
  std::int64_t links = 0;
  std::int64_t evaluation = 0;

  /// Bytes of training alone.
  std::int64_t total() const {
    return weights + versions + gradients + activations + activation_gradients + workspace + links;
  }
  /// With an evaluation on the way.
  std::int64_t peak() const { return total() + evaluation; }

  TrainingMemory& operator+=(const TrainingMemory& other);
};

struct TrainingMemoryOptions {
  std::int64_t microbatch = 1;  ///< samples
  int bytes_per_number = 4;
  int workers = 1;                 ///< of each process
  bool gradients_wait = false;     ///< whatever the schedule
  std::int64_t gradient_sums = 1;  ///< of a stage at a time, where they wait
  bool predicts_forward = false;
  bool predicts_backward = false;
  int optimizer_arrays = 1;  ///< numbers beside each weight
  /// By stage, numbers of what an optimizer keeps beside whole tensors; empty: nothing.
  std::vector<std::int64_t> optimizer_numbers = {};
  /// Groups of stages that make their values again (memory_plan.h).
  std::vector<StageSpan> recomputed = {};
  /// D by stage, where an optimizer keeps the forward's weights; else empty.
  std::vector<std::int64_t> kept_delays = {};
  /// Scratch by stage for a micro-batch, numbers; empty: none.
  std::vector<std::int64_t> workspace{};
  /// The same for one sample, as in evaluations.
  std::vector<std::int64_t> sample_workspace{};
  /// By stage, what a split backward holds of a micro-batch for its weight gradient, numbers: the gradients
  /// that came with its input's, and its output's. Empty: its output's alone.
  std::vector<std::int64_t> held{};
};

/// By process, of those that share the stages. `schedule`: of the network's stages, with two cycles in
/// which every stage does everything. Throws what FindSteadyState throws, and
/// analysis::InvalidArgument naming `schedule` where its stages are not the network's, or the option whose
/// numbers are not one for each of these.
std::vector<TrainingMemory> PredictTrainingMemory(const Network& network, const Schedule& schedule,
                                                  const TrainingMemoryOptions& options,
                                                  std::span<const StageSpan> processes);

/// The same for one process that has all stages.
TrainingMemory PredictTrainingMemory(const Network& network, const Schedule& schedule,
                                     const TrainingMemoryOptions& options);

}  // namespace batchless::hwmodel

// Example
//   const Network network = MakeNetwork({.name = "lenet5"});
//   Schedule schedule = PipelinedBackpropagation(network.stage_count(), 4 * network.stage_count());
//   const TrainingMemory memory = PredictTrainingMemory(network, schedule, {});
//   CHECK(memory.versions == 0);
//   schedule.weights = WeightVersions::kStashed;
//   CHECK(PredictTrainingMemory(network, schedule, {}).versions > 2 * memory.weights);
