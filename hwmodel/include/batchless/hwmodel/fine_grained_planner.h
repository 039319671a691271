// How to lay a network out on one fine-grained machine: which consecutive stages become a worker, on
// how many cores, and how many workers there are at all.
//
//   W   workers g = 0 (input) .. W-1, each a group of stages      P   cores      M   memory of a core
//   t   seconds of a worker's passes on k cores (core_allotment.h), of its stages one after the other
//
//   minimise  T = max_g t_g(k_g)   over partitions into W groups and integers k_g with
//             sum k_g <= P,   k_g >= memory_g / M
//
// What a worker keeps grows with the workers behind it: with pb 2 (W-1-g) + 1 micro-batches are in
// flight (throughput.h says what is counted). So for a period T and from the last stage on, the fewest
// cores for the first h workers from the end are a dynamic program,
//
//   need(i..j, h) = max(least k with t_ij(k) <= T, ceil(memory_ij(h) / M))
//   f_h(i) = min over j of  need(i..j, h) + f_{h-1}(j)
//
// and T is found by bisection: O(S^2 W) for each T. Above 1024 the numbers of cores that it tries are a
// thousandth apart; the layout's own are those of core_allotment.h.
//
// A stage keeps no more cores busy than can share it, so a large machine takes many workers. But more
// workers mean longer delays of the gradients, 2 (W-1) updates with pb, and more in flight. A layout with
// few workers and nearly all the throughput is the one to train with.
//
// T is of workers in local memory, or of all in shared memory where they do not fit there. Where a
// machine has both, workers in either may be faster: the groups that PredictThroughput makes by itself
// are tried too. Links are not part of T. Whole predictions (PredictThroughput) have them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "batchless/hwmodel/machine.h"
#include "batchless/hwmodel/throughput.h"
#include "batchless/hwmodel/workload.h"

namespace batchless::hwmodel {

struct FineGrainedOptions {
  std::string schedule = "pb";  ///< pb or 1f1b
  std::int64_t microbatch = 1;
  bool weight_stashing = false;
  std::vector<int> workers{};  ///< to lay out; empty: powers of two, and as many as can be
  /// Share of the most samples a second that fewer workers may cost.
  double slack = 0.01;
};

struct FineGrainedPlan {
  /// By number of workers, ascending, each of the least T. Where no layout into that many workers fits the
  /// cores' memories, that is the least T whatever they keep. The largest delay is the first worker's.
  std::vector<Throughput> layouts;
  /// Chosen among the layouts that fit, where any does: the one with the fewest workers that is within the slack
  /// of the fastest.
  std::size_t best = 0;
};

/// Throws analysis::InvalidArgument naming an option, or what PredictThroughput throws.
FineGrainedPlan PlanFineGrained(const Workload& workload, const Machine& machine,
                                const FineGrainedOptions& options);

}  // namespace batchless::hwmodel

// Example
//   Machine machine;
//   machine.cores = 100;
//   machine.peak_flops_per_second = 1e11;
//   machine.local_memory_bytes = 1e9;
//   machine.local_bytes_per_second = 1e12;
//   machine.fabric_bytes_per_second = 1e12;
//   const FineGrainedPlan plan = PlanFineGrained(MakeWorkload("lenet5"), machine, {.workers = {1, 4}});
//   CHECK(plan.layouts.size() == 2);
//   CHECK(plan.layouts[0].workers.front().delay == 0);
//   CHECK(plan.layouts[1].workers.front().delay == 2 * 3);
