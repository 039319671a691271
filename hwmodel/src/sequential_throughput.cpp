// Layers one after the other on the whole machine.
#include <algorithm>
#include <optional>

#include "batchless/analysis/argument.h"
#include "roofline.h"

namespace batchless::hwmodel {

Throughput PredictSequential(const Workload& workload, const Machine& machine,
                             const ThroughputOptions& options) {
  const auto b = static_cast<double>(options.microbatch);
  if (options.microbatches_per_update > 1) {
    throw analysis::InvalidArgument("microbatches_per_update",
                                    static_cast<double>(options.microbatches_per_update),
                                    "0 or 1 with sequential, which takes the whole batch at once");
  }
  if (options.workers > 1) {
    throw analysis::InvalidArgument("workers", options.workers, "0 or 1 with sequential");
  }
  Throughput result;
  result.samples_per_update = options.microbatch;
  const std::size_t stages = workload.stages.size();
  double largest_boundary = static_cast<double>(workload.input_bytes);
  for (const StageCost& cost : workload.stages) {
    result.memory_bytes += 3 * static_cast<double>(cost.parameter_bytes) +
                           b * static_cast<double>(cost.activation_bytes);
    largest_boundary = std::max(largest_boundary, static_cast<double>(cost.boundary_bytes));
  }
  result.memory_bytes += 2 * b * largest_boundary;
  const bool local =
      machine.shared_memory_bytes == 0 ||
      (machine.launch_seconds == 0 && result.memory_bytes <= machine.local_memory_bytes);
  result.fits =
      result.memory_bytes <= (local ? machine.local_memory_bytes : machine.shared_memory_bytes);
  const double bandwidth = local ? machine.local_bytes_per_second : machine.shared_bytes_per_second;
  const std::optional<MeasuredNetwork> measured = Measured(workload, machine, 1);

  double compute = 0;
  double memory = 0;
  double launch = 0;
  double bytes = 0;
  for (std::size_t s = 0; s < stages; ++s) {
    Passes passes = PassesOf(workload, s, b, false);
    const bool updates = workload.stages[s].parameters > 0;
    WorkerThroughput row = {.first_stage = static_cast<int>(s),
                            .end_stage = static_cast<int>(s) + 1,
                            .cores = static_cast<std::int64_t>(machine.cores),
                            .in_local_memory = local};
    row.memory_bytes = 3 * static_cast<double>(workload.stages[s].parameter_bytes) +
                       b * static_cast<double>(workload.stages[s].activation_bytes);
    row.fits = result.fits;
    double row_compute = 0;
    double row_memory = 0;
    for (const Pass& pass : passes) {
      bytes += pass.bytes;
      const double by_flops = pass.flops / machine.peak_flops_per_second;
      const double by_bytes = pass.bytes / bandwidth;
      (by_flops > by_bytes ? row_compute : row_memory) += std::max(by_flops, by_bytes);
    }
    row.times = TimesOf(passes, machine.peak_flops_per_second, bandwidth);
    // A kernel for the forward, one for each gradient, one for the update.
    const double backward_launches = (s > 0 ? 1 : 0) + (updates ? 1 : 0);
    const double row_launch = machine.launch_seconds * (1 + backward_launches + (updates ? 1 : 0));
    row.times.forward_seconds += machine.launch_seconds;
    row.times.backward_seconds += machine.launch_seconds * backward_launches;
    row.times.update_seconds += updates ? machine.launch_seconds : 0;
    row.bound = row_launch > std::max(row_compute, row_memory) ? Bound::kLaunch
                : row_compute > row_memory                     ? Bound::kCompute
                : local                                        ? Bound::kLocalMemory
                                                               : Bound::kSharedMemory;
    if (measured) {
      row.times = MeasuredTimes(*measured, s, b);
      row.bound = Bound::kMeasured;
    }
    compute += row_compute;
    memory += row_memory;
    launch += row_launch;
    result.seconds_per_update += Sum(row.times);
    result.latency_seconds += row.times.forward_seconds + row.times.backward_seconds;
    result.workers.push_back(row);
  }
  (local ? result.local_bytes_per_sample : result.shared_bytes_per_sample) = bytes / b;
  result.samples_per_second = b / result.seconds_per_update;
  result.utilisation = 1;
  result.busy = 1;
  if (measured) {
    result.bottleneck = "measured times";
  } else {
    result.busy = (compute + memory) / result.seconds_per_update;
    result.bottleneck = launch > std::max(compute, memory) ? "launch"
                        : compute > memory                 ? "compute"
                        : local                            ? "local memory"
                                                           : "shared memory";
  }
  Finish(workload, machine, result);
  return result;
}

}  // namespace batchless::hwmodel
