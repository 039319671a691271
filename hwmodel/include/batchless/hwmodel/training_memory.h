// Memory that a training run keeps, from the network and the schedule alone.
//
//   weights        one copy of each parameter, and one of its velocity
//   versions       A + 1 further copies of a stage's weights where its passes read weights that are up
//                  to A updates old, or where the forward reads predicted ones (A = 0 then); one more
//                  where the backward reads predicted ones
//   gradients      of parameters: of the worker's largest stage, which its stages use in turn; of every
//                  stage where gradients wait for other micro-batches or pipelines, as often as
//                  micro-batches are summed apart
//   activations    of a value, its size times the micro-batches between the forward that writes it
//                  and the last pass that reads it; what stages save for their backwards likewise
//   activation gradients   likewise, between the backward that writes and the one that reads
//   workspace      of the largest convolution: its rectified input and that one's gradient, a gradient
//                  of its weights to be added, and 16 numbers for each 3x3 weights where many pixels
//                  share their transforms
//   evaluation     of each worker, beside all that: the values of one sample, the most that a stage saves
//                  and a workspace
//
// How many micro-batches are between two passes is counted in the list of actions.
#pragma once

#include <cstdint>

#include "batchless/hwmodel/network.h"
#include "batchless/hwmodel/schedule.h"

namespace batchless::hwmodel {

/// Bytes.
struct TrainingMemory {
  std::int64_t weights = 0;  ///< and velocities
  std::int64_t versions = 0;
  std::int64_t gradients = 0;
  std::int64_t activations = 0;
  std::int64_t activation_gradients = 0;
  std::int64_t workspace = 0;
  std::int64_t evaluation = 0;

  /// Of training alone.
  std::int64_t total() const {
    return weights + versions + gradients + activations + activation_gradients + workspace;
  }
  /// With an evaluation on the way.
  std::int64_t peak() const { return total() + evaluation; }
};

struct TrainingMemoryOptions {
  std::int64_t microbatch = 1;  ///< samples
  int bytes_per_number = 4;
  int workers = 1;
  bool gradients_wait = false;     ///< whatever the schedule
  std::int64_t gradient_sums = 1;  ///< of a stage at a time, where they wait
  bool predicts_forward = false;
  bool predicts_backward = false;
  /// Added to the age of the weights that both passes read: uniform delays.
  std::int64_t delay = 0;
};

/// `schedule`: of the network's stages, with two cycles in which every stage does everything. Throws
/// what FindSteadyState throws, and analysis::InvalidArgument naming `schedule` where its stages are
/// not the network's.
TrainingMemory PredictTrainingMemory(const Network& network, const Schedule& schedule,
                                     const TrainingMemoryOptions& options);

}  // namespace batchless::hwmodel
