// How to divide a network among machines: partition, copies, depth, micro-batch, recomputation.
//
//   M   machines   w   copies of a pipeline (width)   d   depth   b   micro-batch   B   batch
//
// `pipedream`: stages of consecutive layers, each on some machines that share its micro-batches.
//   T(i..j, m) = max(sum T_l, sum S_l(m)) / m       S_l(m) = 2 (m-1) / m |w_l| / bandwidth
//   A(j, m) = min(T(0..j, m), min over i, m' of max{A(i, m-m'), 2 C_i, T(i+1..j, m')})
//   C_i: a micro-batch's values over the boundary after i, over the bandwidth. The least A(S, m <= M)
//   is the time of a micro-batch; NOAM = ceil(m / machines of the input stage) are in flight.
//   The paper synchronises by a parameter server; S_l here is that of an all-reduce in a ring.
//
// `2bw`, `gpipe`: w equal pipelines of d workers, w = floor(M / d), each worker a balanced group of
// stages, by their time with b samples; all combinations of d, b = 1, 2, 4, .. and recomputation;
// m = B / (w b) micro-batches of a copy an update, where that is an integer.
//   2bw     t = max_i max(T_i + C_{i-1} + C_i, R_i / m)      w b samples every t;  m >= d
//   gpipe   t = sum (F_i + B_i + 2 C_i) + (m - 1) (max (F_i + C_i) + max (B_i + C_{i-1})) + max R_i
//           B samples every t; as with 2bw, a machine does nothing else while it sends
//   C_i with the network's latency. R_i: the all-reduce of the worker's weights over w copies.
//   Recomputation adds a forward to the backward. Of those whose memory fits the one with the most
//   samples a second is taken. The other schemes have one plan, which may not fit.
//   T_i includes everything that the throughput model of `sequential` counts: bytes and launches.
//
// `pb`: one pipeline through all machines, d = M, one micro-batch of b = B samples an update, stale
//   weights. Transfers go on beside the work; b samples every t, the schedule's period (cycle_time.h):
//   t = max_i max(T_i, C_i), C_i without latency, unless too few samples are on their way to hide
//   latencies, as of two machines  3 t = F_0 + F_1 + B_1 + B_0 + U_0 + 2 (C_0 + latency).
//
// `model-parallel`: the same sweep without a pipeline, one micro-batch of a copy at a time:
//   t = m sum (F_i + B_i + 2 C_i) + max R_i, and one micro-batch's activations.
//
// Servers (machine.h): machines are numbered, so many in each. Of w copies of d stages, the stages of a
//   copy are neighbours, machine c d + g, or the copies of a stage are, g w + c; the sweep tries both. C_i
//   is the slowest copy's, R_i by the network where all copies of the stage are in one server, else between
//   servers. `pipedream` takes every link for one between servers.
//
// `balanced`: `gpipe` with d = M and no recomputation: torchgpipe's partition.
//
// Memory: scheme_memory.h's of the scheme, velocity and gradients; with PipeDream's copies a stage
// keeps ceil(machines of it and of those after it / its own) versions and micro-batches.
//
// Sources, recalled beyond their abstracts: PipeDream, arXiv 1806.03377; PipeDream-2BW, arXiv
// 2006.09503; GPipe, arXiv 1811.06965; Kim et al., torchgpipe, arXiv 2004.09910; Zhang and
// Abdelrahman, arXiv 1912.12675 (pb over a few machines).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "batchless/hwmodel/machine.h"
#include "batchless/hwmodel/pipeline_times.h"
#include "batchless/hwmodel/workload.h"

namespace batchless::hwmodel {

/// What a stage of layers takes on one machine, for a micro-batch.
struct LayerTimes : StageTimes {
  double boundary_bytes = 0;  ///< to the next layer
  double parameter_bytes = 0;
};

/// Layers on one machine for micro-batches of b samples: roofline and launches, as `sequential`.
std::vector<LayerTimes> TimeLayers(const Workload& workload, const Machine& machine,
                                   std::int64_t microbatch);

struct PlanStage {
  int end = 0;  ///< one past its last layer
  int machines = 1;

  friend bool operator==(const PlanStage&, const PlanStage&) = default;
};

struct PlanOptions {
  std::string scheme = "2bw";  ///< pipedream, 2bw, gpipe, balanced, model-parallel or pb
  int machines = 4;            ///< each the whole of the machine's file
  std::int64_t batch = 256;    ///< B, samples an update; of pipedream and pb b, a machine's
  std::int64_t max_microbatch = 64;
  int depth = 0;  ///< d, of 2bw, gpipe and model-parallel; 0: any
  /// With pb, one past each machine's last layer; empty: shared evenly.
  std::vector<int> group_ends{};
};

struct PipelinePlan {
  std::vector<PlanStage> stages{};  ///< machines of all copies together
  int width = 1;
  int depth = 1;
  std::int64_t microbatch = 1;
  std::int64_t microbatches_per_update = 1;  ///< of one copy
  bool recompute = false;
  bool copies_are_neighbours = false;  ///< of a stage, not a copy's stages; with servers
  double samples_per_second = 0;
  double seconds_per_update = 0;
  double memory_bytes = 0;  ///< of the machine that keeps most; weights' versions and activations,
                            ///< velocity and gradients
  bool fits = true;
  std::int64_t plans = 0;  ///< that were compared
};

/// PipeDream's dynamic program over all layers and machines, O(S^2 M^2): stages, and A(S, M) as the seconds of
/// an update. Throws analysis::InvalidArgument naming machines or bandwidth unless both are positive.
PipelinePlan PlanPipeDream(std::span<const LayerTimes> layers, int machines,
                           double bytes_per_second);

std::span<const std::string_view> PlanSchemes();

/// The best plan: of 2bw, gpipe, balanced and model-parallel one that does not fit only where none does, with
/// the least memory then; pipedream and pb plan without regard to memory, and `fits` says what came of it.
/// Throws analysis::InvalidArgument naming an option, or network.bandwidth where the machine has none.
PipelinePlan MakePlan(const Workload& workload, const Machine& machine, const PlanOptions& options);

}  // namespace batchless::hwmodel

// Example
//   // Two layers of three seconds each and a network that costs nothing.
//   const LayerTimes layer{{.forward_seconds = 1, .backward_seconds = 2}};
//   const PipelinePlan plan = PlanPipeDream(std::vector{layer, layer}, /*machines=*/2,
//                                           /*bytes_per_second=*/1e12);
//   CHECK(plan.seconds_per_update == 3);
