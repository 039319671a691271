#include "batchless/hwmodel/throughput.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>

#include "checks.h"
#include "roofline.h"

namespace batchless::hwmodel {
namespace {

void Check(const Workload& workload, const ThroughputOptions& options) {
  const int stages = workload.stage_count();
  CheckAtLeastOne("microbatch", options.microbatch);
  RefuseIf(options.microbatches_per_update < 0, "microbatches_per_update",
           options.microbatches_per_update, "an integer >= 0");
  RefuseIf(options.workers < 0 || options.workers > stages, "workers", options.workers,
           "at most the " + std::to_string(stages) + " stages");
  if (!options.group_ends.empty()) {
    CheckGroupEnds(options.group_ends, stages);
    RefuseIf(options.workers != 0 && std::ssize(options.group_ends) != options.workers, "workers",
             options.workers,
             "0 or " + std::to_string(options.group_ends.size()) + ", as there are ends");
    RefuseIf(options.schedule == kSequential, "group_ends", stages, "none with sequential");
  }
  RefuseIf(options.samples < 0, "samples", options.samples, "an integer >= 0");
}

// Layers one after the other on the whole machine.
Throughput PredictSequential(const Workload& workload, const Machine& machine,
                             const ThroughputOptions& options) {
  const auto b = static_cast<double>(options.microbatch);
  RefuseIf(options.microbatches_per_update > 1, "microbatches_per_update",
           options.microbatches_per_update,
           "0 or 1 with sequential, which takes the whole batch at once");
  RefuseIf(options.workers > 1, "workers", options.workers, "1 with sequential");
  RefuseIf(options.samples > 0, "samples", options.samples,
           "nothing with sequential, which has no fill and drain");
  RefuseIf(options.weight_stashing, "weight_stashing", "true", "false with sequential");
  RefuseIf(options.vertical_sync, "vertical_sync", "true", "false with sequential");
  RefuseIf(options.recompute, "recompute", "true", "false with sequential");
  Throughput result;
  result.samples_per_update = options.microbatch;
  double largest_boundary = static_cast<double>(workload.input_bytes);
  for (int s = 0; s < workload.stage_count(); ++s) {
    const StageCost& cost = workload.stages[s];
    WorkerThroughput& row = result.workers.emplace_back();
    row.first_stage = s;
    row.end_stage = s + 1;
    row.cores = static_cast<std::int64_t>(machine.cores);
    row.memory_bytes = 3 * static_cast<double>(cost.parameter_bytes) +
                       b * static_cast<double>(cost.activation_bytes);
    result.memory_bytes += row.memory_bytes;
    largest_boundary = std::max(largest_boundary, static_cast<double>(cost.boundary_bytes));
  }
  result.memory_bytes += 2 * b * largest_boundary;
  const bool local = machine.shared_memory_bytes == 0 ||
                     (machine.launch_seconds == 0 && machine.local_memory_bytes > 0 &&
                      result.memory_bytes <= machine.local_memory_bytes);
  result.fits =
      result.memory_bytes <= (local ? machine.local_memory_bytes : machine.shared_memory_bytes);
  const std::optional<MeasuredNetwork> measured = Measured(workload, machine, 1);
  Execution execution{
      .workload = workload, .machine = machine, .b = b, .launched = machine.launch_seconds > 0};
  SetWork(execution);

  BoundTimes all{};
  PassSums sums;
  double bytes = 0;
  for (WorkerThroughput& row : result.workers) {
    const int s = row.first_stage;
    row.in_local_memory = local;
    row.fits = result.fits;
    BoundTimes bounds{};
    AddStage(execution, s, row, bounds, sums);
    bytes += StageTraffic(execution, s);
    row.bound = LargestOf(bounds);
    if (measured) {
      row.times = MeasuredTimes(*measured, s, b);
      row.bound = Bound::kMeasured;
      row.cores = 1;
    }
    std::ranges::transform(all, bounds, all.begin(), std::plus<>());
    result.seconds_per_update += row.times.total();
    result.latency_seconds += row.times.forward_seconds + row.times.backward_seconds;
  }
  // Times were measured on one core, which sends nothing to another.
  result.fabric_bytes_per_sample = measured ? 0 : sums.fabric_bytes;
  (local ? result.local_bytes_per_sample : result.shared_bytes_per_sample) = bytes / b;
  result.samples_per_second = b / result.seconds_per_update;
  result.utilisation = 1;
  if (measured) {
    // On one core.
    result.busy = 1 / machine.cores;
    result.bottleneck = "measured times";
  } else {
    result.busy = sums.core_seconds / (machine.cores * result.seconds_per_update);
    result.bottleneck = Name(LargestOf(all));
    if (!local) {
      result.shared_seconds_per_sample =
          result.shared_bytes_per_sample / machine.shared_bytes_per_second;
    }
  }
  Finish(workload, machine, result);
  return result;
}

}  // namespace

std::string_view Name(Bound bound) {
  // In the order of the enumeration.
  constexpr std::array<std::string_view, 6> kNames = {"compute", "local memory", "shared memory",
                                                      "fabric",  "launch",       "measured"};
  return kNames.at(static_cast<std::size_t>(bound));
}

PipelineTimes Throughput::times() const {
  PipelineTimes times;
  for (const WorkerThroughput& worker : workers) {
    times.stages.push_back(worker.times);
    times.link_seconds.push_back(worker.link_seconds);
  }
  if (!workers.empty()) times.link_seconds.pop_back();
  times.latency_seconds.assign(times.link_seconds.size(), message_latency_seconds);
  return times;
}

Throughput PredictThroughput(const Workload& workload, const Machine& machine,
                             const ThroughputOptions& options) {
  Validate(machine);
  Check(workload, options);
  if (options.schedule == kSequential) return PredictSequential(workload, machine, options);
  return PredictPipeline(workload, machine, options);
}

}  // namespace batchless::hwmodel
