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

// What the passes of stage `s` do with b samples; `split`: the weight gradient is a pass of its own.
Passes PassesOf(const Workload& workload, std::size_t s, double b, bool split);

double Sum(const StageTimes& times);

// p: cores that can share stage `s` with micro-batches of b samples.
double MostCores(const Workload& workload, std::size_t s, double b);

// Launch times of a stage's operations: one for the forward, one for each gradient, one for the update.
StageTimes LaunchesOf(const Workload& workload, const Machine& machine, std::size_t s, bool split);
void Add(StageTimes& sum, const StageTimes& times);

// Times of the network measured with that many workers; none where it was not measured. Throws
// InvalidArgument where the network has another number of stages.
std::optional<MeasuredNetwork> Measured(const Workload& workload, const Machine& machine,
                                        int workers);

// The measured times of a stage, for micro-batches of b samples.
StageTimes MeasuredTimes(const MeasuredNetwork& measured, std::size_t s, double b);

enum class Memory : unsigned char { kLocal, kShared };

// A stage's passes, by ActionKind. Those in shared memory have all of its bandwidth: they take no less
// than their bytes take there, and more cores than get these are of no use to them.
using StageWork = std::array<CoreWork, kActionKinds.size()>;

// What the cores that share a pass of stage `s` exchange for a sample, bytes.
double ExchangedBytes(const Workload& workload, std::size_t s, ActionKind kind);

// Whether a stage's pass is shared by cores that exchange values over the fabric.
bool IsShared(const CoreWork& part, double cores);

// `launched`: operation after operation, each of which leaves its values in memory. For b samples;
// measured times, of one core, where the machine has some of the network.
std::vector<StageWork> WorkOf(const Workload& workload, const Machine& machine, double b,
                              bool split, Memory memory, bool launched,
                              const std::optional<MeasuredNetwork>& measured);

StageTimes TimesOn(const StageWork& work, double cores);

// Parts of stages first .. end-1, one after the other.
std::vector<CoreWork> PartsOf(std::span<const StageWork> work, int first, int end);

// Seconds of each stage on one core.
std::vector<double> OneCoreSeconds(std::span<const StageWork> work);

// What a worker with stages first .. end-1 keeps: w for each version, velocity and gradients, what
// the stages keep of the micro-batches in flight, a message in each direction.
double WorkerBytes(const Workload& workload, int first, int end, double b, double weight_versions,
                   double activations_in_flight);

// What the passes of a worker would take by each of its limits alone; of the fabric and its latency,
// what these add to the larger of the first two.
struct BoundTimes {
  double compute = 0;
  double memory = 0;
  double fabric = 0;
  double launch = 0;

  // A pass on `cores` that have so many FLOPs and bytes a second; it counts `weight` times.
  void Add(const PassWork& pass, const CoreWork& part, double cores, double flops_per_second,
           double bytes_per_second, double weight);
  void Add(const BoundTimes& other);
  Bound Largest(bool local) const;
};

// Everything that both ways of execution count in the same way, per sample.
void Finish(const Workload& workload, const Machine& machine, Throughput& result);

// The two ways, for options that are in range.
Throughput PredictSequential(const Workload& workload, const Machine& machine,
                             const ThroughputOptions& options);
Throughput PredictPipeline(const Workload& workload, const Machine& machine,
                           const ThroughputOptions& options);

}  // namespace batchless::hwmodel
