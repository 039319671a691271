// What the two ways of executing a network have in common (throughput.h): the FLOPs and bytes of a
// stage's passes, their times, and what every prediction ends with.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "batchless/hwmodel/action.h"
#include "batchless/hwmodel/core_allotment.h"
#include "batchless/hwmodel/machine.h"
#include "batchless/hwmodel/pipeline_times.h"
#include "batchless/hwmodel/throughput.h"
#include "batchless/hwmodel/workload.h"

namespace batchless::hwmodel {

// FLOPs and bytes of a pass over a micro-batch.
struct PassWork {
  double flops = 0;
  double bytes = 0;
};

using Passes = std::array<PassWork, kActionKinds.size()>;

// A stage's passes, by ActionKind. Those in shared memory have all of its bandwidth: they take no less
// than their bytes take there, and more cores than get these are of no use to them.
using StageWork = std::array<CoreWork, kActionKinds.size()>;

// How a network is executed: what every step of a prediction reads.
struct Execution {
  const Workload& workload;
  const Machine& machine;
  double b = 1;             // samples of a micro-batch
  bool split = false;       // the weight gradient is a pass of its own
  bool recomputes = false;  // backwards do the forwards once more
  bool launched = false;    // operation after operation, each of which leaves its values in memory
  std::optional<MeasuredNetwork> measured{};  // times on one core, in place of the roofline's
  std::int64_t per_update = 1;                // micro-batches
  // By stage, where its values are in local or in shared memory; empty: the machine has none.
  std::vector<StageWork> local_work{}, shared_work{};

  const std::vector<StageWork>& work(bool local) const { return local ? local_work : shared_work; }
  // How often a micro-batch takes a pass.
  double Weight(ActionKind kind) const {
    return kind == ActionKind::kUpdate ? 1 / static_cast<double>(per_update) : 1;
  }
};

// What the passes of stage `s` do.
Passes PassesOf(const Execution& execution, std::size_t s);
// Bytes of all its passes for a micro-batch, with its part of the update's.
double StageTraffic(const Execution& execution, std::size_t s);

// Times of the network measured with that many workers; none where it was not measured. Throws
// InvalidArgument where the network has another number of stages, or other FLOPs than are known of the
// measured one.
std::optional<MeasuredNetwork> Measured(const Workload& workload, const Machine& machine,
                                        int workers);

// The measured times of a stage, for micro-batches of b samples.
StageTimes MeasuredTimes(const MeasuredNetwork& measured, std::size_t s, double b);

// Fills in the work, which follows from all the rest.
void SetWork(Execution& execution);

// Parts of stages first .. end-1, one after the other, for a micro-batch: of an update its part.
std::vector<CoreWork> PartsOf(const Execution& execution, bool local, int first, int end);

// What a worker with stages first .. end-1 keeps: w for each version, velocity and gradients, what
// the stages keep of the micro-batches in flight, a message in each direction. With recomputation it
// keeps the inputs of those in flight, and the rest of one.
double WorkerBytes(const Workload& workload, int first, int end, std::int64_t microbatch,
                   double weight_versions, double activations_in_flight, bool recomputes = false);

// What the passes of a worker would take by each of its limits alone, by Bound; of the fabric and its
// latency, what these add to the larger of compute and memory.
using BoundTimes = std::array<double, static_cast<std::size_t>(Bound::kMeasured)>;

// The first of equals.
Bound LargestOf(const BoundTimes& bounds);

// Sums over stages, for a micro-batch with its part of the update.
struct PassSums {
  double seconds = 0;
  double core_seconds = 0;  // while they work
  double fabric_bytes = 0;  // that cores of one stage exchange, for a sample
};

// Adds the passes of stage `s` on the worker's cores, with their launches, to its times and to the sums.
void AddStage(const Execution& execution, std::size_t s, WorkerThroughput& worker,
              BoundTimes& bounds, PassSums& sums);

// Everything that both ways of execution count in the same way, per sample.
void Finish(const Workload& workload, const Machine& machine, Throughput& result);

// A pipeline, for options that are in range.
Throughput PredictPipeline(const Workload& workload, const Machine& machine,
                           const ThroughputOptions& options);

}  // namespace batchless::hwmodel
