// What the two ways of executing a network have in common (throughput.h): the FLOPs and bytes of a
// stage's passes, their times, and what every prediction ends with.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
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

enum class Memory : unsigned char { kLocal, kShared };

// A stage's passes, by ActionKind. Those in shared memory have all of its bandwidth: they take no less
// than their bytes take there, and more cores than get these are of no use to them.
using StageWork = std::array<CoreWork, kActionKinds.size()>;

// By stage.
std::vector<StageWork> WorkOf(const Execution& execution, Memory memory);

// Parts of stages first .. end-1, one after the other, for a micro-batch: of an update its part.
std::vector<CoreWork> PartsOf(const Execution& execution, std::span<const StageWork> work,
                              int first, int end);

// What a worker with stages first .. end-1 keeps: w for each version, velocity and gradients, what
// the stages keep of the micro-batches in flight, a message in each direction. With recomputation it
// keeps the inputs of those in flight, and the rest of one.
double WorkerBytes(const Workload& workload, int first, int end, std::int64_t microbatch,
                   double weight_versions, double activations_in_flight, bool recomputes = false);

// What the passes of a worker would take by each of its limits alone; of the fabric and its latency,
// what these add to the larger of the first two.
struct BoundTimes {
  double compute = 0;
  double memory = 0;
  double fabric = 0;
  double launch = 0;

  void Add(const BoundTimes& other);
  Bound Largest(Memory where) const;
};

// Sums over stages, for a micro-batch with its part of the update.
struct PassSums {
  double seconds = 0;
  double core_seconds = 0;  // while they work
  double fabric_bytes = 0;  // that cores of one stage exchange, for a sample
};

// Adds the passes of stage `s` on so many cores, with their launches.
void AddStage(const Execution& execution, std::size_t s, const StageWork& work, Memory memory,
              double cores, StageTimes& times, BoundTimes& bounds, PassSums& sums);

// Everything that both ways of execution count in the same way, per sample.
void Finish(const Workload& workload, const Machine& machine, Throughput& result);

// A pipeline, for options that are in range.
Throughput PredictPipeline(const Workload& workload, const Machine& machine,
                           const ThroughputOptions& options);

}  // namespace batchless::hwmodel
