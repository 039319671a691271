// Samples a second of a network on a machine, by a schedule or with whole batches.
//
//   b   micro-batch, samples      B   samples an update      W   workers, each a group of stages
//   R   a core's FLOPs a second   k   cores of a worker      p   cores that can share a stage
//
// Roofline: a pass of a stage takes  max(FLOPs / (min(k, p) R), bytes / bandwidth)  seconds. A core has a
// value to compute or a weight of its own at least, so p is the larger of b times the values of the
// stage's largest layer and its parameters. What passes read and write, of weights w and of the
// sizes in network.h's StageCost, of which each is what the stage itself reads or makes:
//
//   forward            w + b (read + written + saved)
//   backward           2 w + b (gradient + kept)     both gradients
//     input gradient   w + b (gradient + kept)       where the schedule splits it
//     weight gradient  w + b (written + kept)        kept values, and its output's gradient
//   update             5 w                           reads w, velocity, gradient; writes the first two
//
// In local memory the bandwidth is that of these cores, in shared memory all of it; but this one
// serves all who keep something there, so that
//
//   seconds of a sample >= sum of the bytes of all passes in shared memory / its bandwidth
//
// Cores that share a pass exchange values, over `links` links of a core, the fabric's bandwidth shared by
// all links, and with latency L a hop. In a mesh the k cores of a region are a square and
//
//   pass >= b (read + written) / (sqrt(k) link)  forward,   b gradient / (sqrt(k) link)  backward
//   pass >= 2 sqrt(k) L                          (2 L where a core has one link to all)
//
// so that a pass takes fewer cores than its region has where these would be faster. Of a launched
// operation this is part of the launch.
//
// Pipelines: stages are grouped evenly into W workers (partition.h), or as given, and the cores shared
// among them (core_allotment.h), both by their time for a micro-batch with its part of the update. A
// worker in local memory has at least as many as what it keeps needs. Where a machine has both memories,
// workers come to local memory in the order of their traffic for each byte that they keep, as many of
// them as make the slowest, or shared memory, fastest; where it has no shared memory and the local one
// is too small it does not fit. Of
// P cores in a mesh each region is a strip, so that a message crosses to the next region on as many
// links as the smaller one has cores, at most sqrt(P). Workers run on beside one another, so that a
// pipeline knows no launch time; one worker alone is launched as `sequential` is. The period is
// that of cycle_time.h.
//
// `sequential`: layers one after the other on all cores, k = P, a batch at a time, each pass of each
// stage launched; weights are read once for the batch. Memory is the local one where everything fits
// and nothing is launched, because launches leave nothing there, else the shared.
//
// Keeping: w for each version, velocity and gradients; what the schedule has in flight of what
// stages keep; a message in each direction.
//
// Not in the model: work that splits unevenly over fewer cores than p; sums of gradients over cores that
// share weights, and copies of weights for them; several hops of an exchanged value, which counts as
// sent once; that strips are no squares; caches between local and shared memory, precision of
// accumulators, what code of real kernels loses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "batchless/hwmodel/cycle_time.h"
#include "batchless/hwmodel/machine.h"
#include "batchless/hwmodel/pipeline_times.h"
#include "batchless/hwmodel/workload.h"

namespace batchless::hwmodel {

inline constexpr std::string_view kSequential = "sequential";

struct ThroughputOptions {
  /// A name in ScheduleKinds(), of a kind whose workers have one stage each; or sequential.
  std::string schedule = "pb";
  std::int64_t microbatch = 1;  ///< b; of sequential the whole batch
  /// B / b; 0 is the kind's own: 1 where it updates after each, else 4 for each worker.
  std::int64_t microbatches_per_update = 0;
  int workers = 0;  ///< 0: one for each stage, or each core where there are fewer
  /// In a pipeline, one past each worker's last stage; empty: grouped evenly by their time.
  std::vector<int> group_ends{};
  bool weight_stashing = false;
  bool vertical_sync = false;  ///< with weight_stashing only
  /// Backwards do the forwards once more (scheme_memory.h), in pipelines whose backwards read the
  /// weights of their forwards.
  bool recompute = false;
  /// Samples of a whole run with its fill and drain, in whole updates; 0: the steady state.
  std::int64_t samples = 0;
};

enum class Bound : unsigned char {
  kCompute,
  kLocalMemory,
  kSharedMemory,
  kFabric,  ///< cores that share a pass exchange values, or too few share it for its latency
  kLaunch,
  kMeasured
};

/// compute, local memory, shared memory, fabric, launch or measured.
std::string_view Name(Bound bound);

struct WorkerThroughput {
  int first_stage = 0;
  int end_stage = 0;  ///< one past the last
  std::int64_t cores = 1;
  std::int64_t delay = 0;         ///< of its stages' forwards, updates
  StageTimes times{};             ///< of a micro-batch
  Bound bound = Bound::kCompute;  ///< what most of its time goes to
  double memory_bytes = 0;
  bool fits = true;  ///< in its cores' local memory, or its share of the shared
  bool in_local_memory = false;
  /// Share of the time in which it waits: 1 - load / largest load where the most loaded worker is the
  /// bottleneck.
  double idle = 0;
  double link_seconds = 0;  ///< of a message to the next worker, without latency
};

struct Throughput {
  double samples_per_second = 0;
  /// Share of the schedule's slots that are used, in the steady state or over the run, by stages that
  /// take equal times.
  double utilisation = 0;
  /// Share of the time in which the cores work; less than utilisation where workers are unequal, but with
  /// fill-drain, whose passes do not wait for the ends of their steps.
  double busy = 0;
  double peak_share = 0;          ///< FLOPs a second over the machine's peak
  double seconds_per_update = 0;  ///< samples_per_update / samples_per_second
  std::int64_t samples_per_update = 0;
  double latency_seconds = 0;  ///< of a sample alone: its way there and back
  std::string bottleneck;
  std::vector<WorkerThroughput> workers;
  double message_latency_seconds = 0;  ///< between workers
  double memory_bytes = 0;
  bool fits = true;
  double flops_per_sample = 0;
  double local_bytes_per_sample = 0;
  double shared_bytes_per_sample = 0;
  /// That all of them together keep the shared memory busy; 0 where times were measured.
  double shared_seconds_per_sample = 0;
  double fabric_bytes_per_sample = 0;
  double joules_per_sample = 0;  ///< 0 where the machine's energies are unknown

  /// FLOPs over bytes of memory.
  double arithmetic_intensity() const {
    return flops_per_sample / (local_bytes_per_sample + shared_bytes_per_sample);
  }

  /// What a pipeline's workers and links take, by worker: pipeline_simulation.h runs it.
  PipelineTimes times() const;
};

/// Workers that a pipeline has unless fewer are asked for: the stages, or the cores where there are
/// fewer.
int MostWorkers(const Workload& workload, const Machine& machine);

/// Throws analysis::InvalidArgument naming an option, or what Validate of the machine and
/// MakeSchedule throw.
Throughput PredictThroughput(const Workload& workload, const Machine& machine,
                             const ThroughputOptions& options);

}  // namespace batchless::hwmodel

// Example
//   Machine machine;
//   machine.cores = 4;
//   machine.peak_flops_per_second = 1e9;
//   machine.shared_memory_bytes = 1e12;
//   machine.shared_bytes_per_second = 1e18;  // so that FLOPs alone take time
//   const Throughput result =
//       PredictThroughput(MakeWorkload("linear"), machine, {.schedule = "sequential", .microbatch = 8});
//   CHECK(result.peak_share == Approx(1));
//   CHECK(result.samples_per_second * result.flops_per_sample == Approx(1e9));
