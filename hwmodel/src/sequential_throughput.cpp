// Layers one after the other on the whole machine.
#include <algorithm>
#include <optional>
#include <vector>

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
  if (options.samples > 0) {
    throw analysis::InvalidArgument("samples", static_cast<double>(options.samples),
                                    "nothing with sequential, which has no fill and drain");
  }
  if (options.weight_stashing) {
    throw analysis::InvalidArgument("weight_stashing", "true", "false with sequential");
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

  const std::vector<StageWork> work =
      WorkOf(workload, machine, b, false, local ? Memory::kLocal : Memory::kShared,
             machine.launch_seconds > 0, {});

  BoundTimes all;
  double bytes = 0;
  double working = 0;  // seconds of all cores
  for (std::size_t s = 0; s < stages; ++s) {
    Passes passes = PassesOf(workload, s, b, false);
    WorkerThroughput row = {.first_stage = static_cast<int>(s),
                            .end_stage = static_cast<int>(s) + 1,
                            .cores = static_cast<std::int64_t>(machine.cores),
                            .in_local_memory = local};
    row.memory_bytes = 3 * static_cast<double>(workload.stages[s].parameter_bytes) +
                       b * static_cast<double>(workload.stages[s].activation_bytes);
    row.fits = result.fits;
    const double sharing = std::min(machine.cores, MostCores(workload, s, b));
    const double flops_per_second = sharing * machine.core_flops_per_second();
    const double bytes_per_second = local ? sharing / machine.cores * bandwidth : bandwidth;
    BoundTimes bounds;
    row.times = TimesOn(work[s], machine.cores);
    for (const ActionKind kind : kActionKinds) {
      const PassWork& pass = passes[static_cast<std::size_t>(kind)];
      const CoreWork& part = work[s][static_cast<std::size_t>(kind)];
      bytes += pass.bytes;
      bounds.Add(pass, part, machine.cores, flops_per_second, bytes_per_second, 1);
      if (machine.launch_seconds == 0 && IsShared(part, machine.cores)) {
        result.fabric_bytes_per_sample += ExchangedBytes(workload, s, kind);
      }
      working += CoresUsed(part, machine.cores) * SecondsOn({&part, 1}, machine.cores);
    }
    const StageTimes launches = LaunchesOf(workload, machine, s, false);
    bounds.launch = Sum(launches);
    Add(row.times, launches);
    row.bound = bounds.Largest(local);
    if (measured) {
      row.times = MeasuredTimes(*measured, s, b);
      row.bound = Bound::kMeasured;
      row.cores = 1;
    }
    all.Add(bounds);
    result.seconds_per_update += Sum(row.times);
    result.latency_seconds += row.times.forward_seconds + row.times.backward_seconds;
    result.workers.push_back(row);
  }
  (local ? result.local_bytes_per_sample : result.shared_bytes_per_sample) = bytes / b;
  result.samples_per_second = b / result.seconds_per_update;
  result.utilisation = 1;
  if (measured) {
    // On one core.
    result.busy = 1 / machine.cores;
    result.bottleneck = "measured times";
  } else {
    result.busy = working / (machine.cores * result.seconds_per_update);
    result.bottleneck = Name(all.Largest(local));
    if (!local) {
      result.shared_seconds_per_sample =
          result.shared_bytes_per_sample / machine.shared_bytes_per_second;
    }
  }
  Finish(workload, machine, result);
  return result;
}

}  // namespace batchless::hwmodel
