#include "roofline.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "batchless/hwmodel/scheme_memory.h"
#include "checks.h"

namespace batchless::hwmodel {
namespace {

// p: cores that can share stage `s`.
double MostCores(const Execution& execution, std::size_t s) {
  const StageCost& cost = execution.workload.stages[s];
  return std::max(execution.b * static_cast<double>(cost.largest_output),
                  static_cast<double>(cost.parameters));
}

// What the cores that share a pass of the stage exchange for a sample.
double ExchangedBytes(const Execution& execution, std::size_t s, ActionKind kind) {
  const StageCost& cost = execution.workload.stages[s];
  const auto forward = static_cast<double>(cost.read_bytes + cost.written_bytes);
  if (kind == ActionKind::kForward) return forward;
  if (kind != ActionKind::kBackward) return 0;
  return static_cast<double>(cost.gradient_bytes) + (execution.recomputes ? forward : 0);
}

// The time that a pass's cores take to exchange values, and no more cores than gain from it: a pass
// takes no less than the way through its region there and back, 2 sqrt(k) hops in a mesh.
void Exchange(const Execution& execution, std::size_t s, ActionKind kind, CoreWork& part) {
  if (kind == ActionKind::kUpdate || part.seconds == 0) return;
  const Machine& machine = execution.machine;
  const bool is_mesh = machine.fabric_links > 1;
  if (is_mesh && machine.fabric_bytes_per_second > 0) {
    part.exchange_seconds =
        execution.b * ExchangedBytes(execution, s, kind) / machine.link_bytes_per_second();
  }
  const double way = 2 * machine.fabric_latency_seconds;
  if (way <= 0) return;
  // Where the way through k cores takes as long as the work on them.
  const double most =
      is_mesh ? std::max(std::pow(part.seconds / way, 2.0 / 3.0), part.exchange_seconds / way)
              : part.seconds / way;
  part.most_cores = std::max(1.0, std::min(part.most_cores, most));
}

// Launch times of a stage's operations: one for each forward, one for each gradient, one for the update.
StageTimes LaunchesOf(const Execution& execution, std::size_t s) {
  if (!execution.launched) return {};
  const double launch = execution.machine.launch_seconds;
  const StageCost& cost = execution.workload.stages[s];
  const double inputs = cost.input_gradient_flops > 0 ? launch : 0;
  const double weights = cost.parameters > 0 ? launch : 0;
  const double again = execution.recomputes ? launch : 0;
  return {launch, again + inputs + (execution.split ? 0 : weights), execution.split ? weights : 0,
          weights};
}

// By stage.
std::vector<StageWork> WorkOf(const Execution& execution, bool local) {
  const Machine& machine = execution.machine;
  std::vector<StageWork> work(execution.workload.stages.size());
  for (std::size_t s = 0; s < work.size(); ++s) {
    const Passes passes = PassesOf(execution, s);
    StageTimes measured;
    if (execution.measured) measured = MeasuredTimes(*execution.measured, s, execution.b);
    if (execution.recomputes) measured.backward_seconds += measured.forward_seconds;
    for (std::size_t kind = 0; kind < passes.size(); ++kind) {
      CoreWork& part = work[s][kind];
      if (execution.measured) {
        part = {measured.seconds(kActionKinds[kind]), 1};
        continue;
      }
      part.most_cores = MostCores(execution, s);
      const double by_flops = passes[kind].flops / machine.core_flops_per_second();
      const double by_bytes =
          passes[kind].bytes / (local ? machine.local_bytes_per_second / machine.cores
                                      : machine.shared_bytes_per_second);
      part.seconds = std::max(by_flops, by_bytes);
      if (!local && by_bytes > 0) {
        part.most_cores = std::max(1.0, std::min(part.most_cores, by_flops / by_bytes));
      }
      if (!execution.launched) Exchange(execution, s, kActionKinds[kind], part);
    }
  }
  return work;
}

}  // namespace

Passes PassesOf(const Execution& execution, std::size_t s) {
  const StageCost& cost = execution.workload.stages[s];
  const double b = execution.b;
  const auto w = static_cast<double>(cost.parameter_bytes);
  const auto rows = b * static_cast<double>(cost.sample_parameter_bytes);
  const double v = rows > 0 ? std::min(w, rows) : w;
  const auto made = static_cast<double>(cost.written_bytes);
  const auto in_and_out = static_cast<double>(cost.read_bytes + cost.written_bytes);
  const auto saved = static_cast<double>(cost.saved_bytes);
  const auto kept = static_cast<double>(cost.kept_bytes);
  const auto gradients = static_cast<double>(cost.gradient_bytes);
  const auto input_gradient = static_cast<double>(cost.input_gradient_flops);
  const auto weight_gradient = static_cast<double>(cost.weight_gradient_flops);
  const PassWork forward = {b * static_cast<double>(cost.forward_flops),
                            v + b * (in_and_out + saved)};
  PassWork backward = {b * (input_gradient + weight_gradient), 2 * v + b * (gradients + kept)};
  PassWork weights;
  if (execution.split && w > 0) {
    backward = {b * input_gradient, v + b * (gradients + kept)};
    weights = {b * weight_gradient, v + b * (made + kept)};
  }
  if (execution.recomputes) {
    backward.flops += forward.flops;
    backward.bytes += forward.bytes;
  }
  return {forward, backward, weights, {static_cast<double>(cost.update_flops), 5 * w}};
}

double StageTraffic(const Execution& execution, std::size_t s) {
  const Passes passes = PassesOf(execution, s);
  double bytes = 0;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    bytes += passes[i].bytes * execution.Weight(kActionKinds[i]);
  }
  return bytes;
}

std::optional<MeasuredNetwork> Measured(const Workload& workload, const Machine& machine,
                                        int workers) {
  std::optional<MeasuredNetwork> measured = machine.MeasuredTimes(workload.name, workers);
  if (!measured) return std::nullopt;
  RefuseIf(measured->forward_seconds.size() != workload.stages.size(), "measured." + workload.name,
           std::to_string(measured->forward_seconds.size()) + " stages",
           "the " + std::to_string(workload.stages.size()) + " of the network");
  const std::int64_t flops = workload.training_flops();
  RefuseIf(measured->sample_flops != 0 && measured->sample_flops != flops,
           "measured." + workload.name,
           "times of " + std::to_string(measured->sample_flops) + " FLOPs a sample",
           "those of the network, which has " + std::to_string(flops) +
               "; under another name it is predicted from the machine");
  return measured;
}

StageTimes MeasuredTimes(const MeasuredNetwork& measured, std::size_t s, double b) {
  const double scale = b / static_cast<double>(measured.microbatch);
  return {scale * measured.forward_seconds[s], scale * measured.backward_seconds[s], 0,
          measured.update_seconds[s]};
}

int MostWorkers(const Workload& workload, const Machine& machine) {
  return static_cast<int>(
      std::min<double>(machine.cores, static_cast<double>(workload.stage_count())));
}

void SetWork(Execution& execution) {
  if (execution.machine.local_memory_bytes > 0) execution.local_work = WorkOf(execution, true);
  if (execution.machine.shared_memory_bytes > 0) execution.shared_work = WorkOf(execution, false);
}

std::vector<CoreWork> PartsOf(const Execution& execution, bool local, int first, int end) {
  std::vector<CoreWork> parts;
  for (int s = first; s < end; ++s) {
    for (std::size_t kind = 0; kind < kActionKinds.size(); ++kind) {
      CoreWork& part = parts.emplace_back(execution.work(local)[s][kind]);
      part.seconds *= execution.Weight(kActionKinds[kind]);
    }
  }
  return parts;
}

double WorkerBytes(const Workload& workload, int first, int end, std::int64_t microbatch,
                   double weight_versions, double activations_in_flight, bool recomputes) {
  const auto boundary = [&](int stage) {
    return static_cast<double>(stage < 0 ? workload.input_bytes
                                         : workload.stages[stage].boundary_bytes);
  };
  const WorkerSizes worker = MeasureWorker(workload, first, end, microbatch);
  const MemoryScheme& scheme = FindMemoryScheme(recomputes ? "gpipe-recompute" : "gpipe");
  return KeptBytes(scheme, worker, weight_versions, activations_in_flight).total() +
         2 * worker.weights +
         2 * static_cast<double>(microbatch) * (boundary(end - 1) + boundary(first - 1));
}

void AddStage(const Execution& execution, std::size_t s, WorkerThroughput& worker,
              BoundTimes& bounds, PassSums& sums) {
  const Machine& machine = execution.machine;
  const bool local = worker.in_local_memory;
  const auto cores = static_cast<double>(worker.cores);
  const double sharing = std::min(cores, MostCores(execution, s));
  const double bytes_per_second = local ? sharing / machine.cores * machine.local_bytes_per_second
                                        : machine.shared_bytes_per_second;
  const Passes passes = PassesOf(execution, s);
  const StageTimes launches = LaunchesOf(execution, s);
  StageTimes& times = worker.times;
  double* const total[] = {&times.forward_seconds, &times.backward_seconds,
                           &times.weight_gradient_seconds, &times.update_seconds};
  const auto add = [&](Bound bound, double seconds) {
    bounds[static_cast<std::size_t>(bound)] += seconds;
  };
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const ActionKind kind = kActionKinds[i];
    const CoreWork& part = execution.work(local)[s][i];
    const double used = CoresUsed(part, cores);
    const double seconds = SecondsOn({&part, 1}, cores);
    *total[i] += seconds;
    *total[i] += launches.seconds(kind);
    if (!execution.launched && part.seconds > 0 && used > 1) {
      sums.fabric_bytes += ExchangedBytes(execution, s, kind);
    }
    const double weight = execution.Weight(kind);
    sums.core_seconds += weight * used * seconds;
    sums.seconds += weight * (seconds + launches.seconds(kind));
    const double by_flops = weight * passes[i].flops / (sharing * machine.core_flops_per_second());
    const double by_bytes = weight * passes[i].bytes / bytes_per_second;
    add(Bound::kCompute, by_flops);
    add(local ? Bound::kLocalMemory : Bound::kSharedMemory, by_bytes);
    add(Bound::kFabric, std::max(0.0, weight * seconds - std::max(by_flops, by_bytes)));
    add(Bound::kLaunch, weight * launches.seconds(kind));
  }
}

Bound LargestOf(const BoundTimes& bounds) {
  return static_cast<Bound>(std::ranges::max_element(bounds) - bounds.begin());
}

void Finish(const Workload& workload, const Machine& machine, Throughput& result) {
  for (const StageCost& cost : workload.stages) {
    result.flops_per_sample +=
        static_cast<double>(cost.update_flops) / static_cast<double>(result.samples_per_update);
  }
  result.flops_per_sample += static_cast<double>(workload.training_flops());
  result.peak_share =
      result.samples_per_second * result.flops_per_sample / machine.peak_flops_per_second;
  if (machine.energy) {
    result.joules_per_sample =
        result.flops_per_sample * machine.energy->joules_per_flop +
        result.local_bytes_per_sample * machine.energy->joules_per_local_byte +
        result.shared_bytes_per_sample * machine.energy->joules_per_shared_byte +
        result.fabric_bytes_per_sample * machine.energy->joules_per_fabric_byte;
  }
}

}  // namespace batchless::hwmodel
