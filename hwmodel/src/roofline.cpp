#include "roofline.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "batchless/analysis/argument.h"

namespace batchless::hwmodel {
namespace {

using analysis::InvalidArgument;

PassWork& At(Passes& passes, ActionKind kind) { return passes[static_cast<std::size_t>(kind)]; }

// The time that a pass's cores take to exchange values, and no more cores than gain from it: a pass
// takes no less than the way through its region there and back, 2 sqrt(k) hops in a mesh.
void Exchange(const Workload& workload, const Machine& machine, std::size_t s, double b,
              ActionKind kind, CoreWork& part) {
  if (kind == ActionKind::kUpdate || part.seconds == 0) return;
  const bool is_mesh = machine.fabric_links > 1;
  if (is_mesh && machine.fabric_bytes_per_second > 0) {
    part.exchange_seconds = b * ExchangedBytes(workload, s, kind) / machine.link_bytes_per_second();
  }
  const double way = 2 * machine.fabric_latency_seconds;
  if (way <= 0) return;
  // Where the way through k cores takes as long as the work on them.
  const double most =
      is_mesh ? std::max(std::pow(part.seconds / way, 2.0 / 3.0), part.exchange_seconds / way)
              : part.seconds / way;
  part.most_cores = std::max(1.0, std::min(part.most_cores, most));
}

}  // namespace

Passes PassesOf(const Workload& workload, std::size_t s, double b, bool split) {
  const StageCost& cost = workload.stages[s];
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
  Passes passes;
  At(passes, ActionKind::kForward) = {b * static_cast<double>(cost.forward_flops),
                                      v + b * (in_and_out + saved)};
  At(passes, ActionKind::kUpdate) = {static_cast<double>(cost.update_flops), 5 * w};
  if (split && w > 0) {
    At(passes, ActionKind::kBackward) = {b * input_gradient, v + b * (gradients + kept)};
    At(passes, ActionKind::kWeightGradient) = {b * weight_gradient, v + b * (made + kept)};
  } else {
    At(passes, ActionKind::kBackward) = {b * (input_gradient + weight_gradient),
                                         2 * v + b * (gradients + kept)};
  }
  return passes;
}

double MostCores(const Workload& workload, std::size_t s, double b) {
  const StageCost& cost = workload.stages[s];
  return std::max(b * static_cast<double>(cost.largest_output),
                  static_cast<double>(cost.parameters));
}

StageTimes LaunchesOf(const Workload& workload, const Machine& machine, std::size_t s, bool split) {
  const double launch = machine.launch_seconds;
  const double weights = workload.stages[s].parameters > 0 ? launch : 0;
  return {launch, (s > 0 ? launch : 0) + (split ? 0 : weights), split ? weights : 0, weights};
}

double Sum(const StageTimes& times) {
  return times.forward_seconds + times.backward_seconds + times.weight_gradient_seconds +
         times.update_seconds;
}

void Add(StageTimes& sum, const StageTimes& times) {
  sum.forward_seconds += times.forward_seconds;
  sum.backward_seconds += times.backward_seconds;
  sum.weight_gradient_seconds += times.weight_gradient_seconds;
  sum.update_seconds += times.update_seconds;
}

std::optional<MeasuredNetwork> Measured(const Workload& workload, const Machine& machine,
                                        int workers) {
  std::optional<MeasuredNetwork> measured = machine.MeasuredTimes(workload.name, workers);
  if (!measured) return std::nullopt;
  if (measured->forward_seconds.size() != workload.stages.size()) {
    throw InvalidArgument("measured." + workload.name,
                          std::to_string(measured->forward_seconds.size()) + " stages",
                          "the " + std::to_string(workload.stages.size()) + " of the network");
  }
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

double ExchangedBytes(const Workload& workload, std::size_t s, ActionKind kind) {
  const StageCost& cost = workload.stages[s];
  switch (kind) {
    case ActionKind::kForward:
      return static_cast<double>(cost.read_bytes + cost.written_bytes);
    case ActionKind::kBackward:
      return static_cast<double>(cost.gradient_bytes);
    case ActionKind::kWeightGradient:
    case ActionKind::kUpdate:
      return 0;
  }
  return 0;
}

bool IsShared(const CoreWork& part, double cores) {
  return part.seconds > 0 && CoresUsed(part, cores) > 1;
}

std::vector<StageWork> WorkOf(const Workload& workload, const Machine& machine, double b,
                              bool split, Memory memory, bool launched,
                              const std::optional<MeasuredNetwork>& measured) {
  std::vector<StageWork> work(workload.stages.size());
  for (std::size_t s = 0; s < work.size(); ++s) {
    const Passes passes = PassesOf(workload, s, b, split);
    for (std::size_t kind = 0; kind < passes.size(); ++kind) {
      CoreWork& part = work[s][kind];
      part.most_cores = MostCores(workload, s, b);
      if (measured) {
        part.most_cores = 1;
        part.seconds = MeasuredTimes(*measured, s, b).seconds(kActionKinds[kind]);
        continue;
      }
      const double by_flops = passes[kind].flops / machine.core_flops_per_second();
      if (memory == Memory::kLocal) {
        const double bandwidth = machine.local_bytes_per_second / machine.cores;
        part.seconds = std::max(by_flops, passes[kind].bytes / bandwidth);
        if (!launched) Exchange(workload, machine, s, b, kActionKinds[kind], part);
        continue;
      }
      const double by_bytes = passes[kind].bytes / machine.shared_bytes_per_second;
      part.seconds = std::max(by_flops, by_bytes);
      if (by_bytes > 0) {
        part.most_cores = std::max(1.0, std::min(part.most_cores, by_flops / by_bytes));
      }
      if (!launched) Exchange(workload, machine, s, b, kActionKinds[kind], part);
    }
  }
  return work;
}

StageTimes TimesOn(const StageWork& work, double cores) {
  const auto seconds = [&](ActionKind kind) {
    return SecondsOn({&work[static_cast<std::size_t>(kind)], 1}, cores);
  };
  return {seconds(ActionKind::kForward), seconds(ActionKind::kBackward),
          seconds(ActionKind::kWeightGradient), seconds(ActionKind::kUpdate)};
}

std::vector<CoreWork> PartsOf(std::span<const StageWork> work, int first, int end) {
  std::vector<CoreWork> parts;
  for (int s = first; s < end; ++s) {
    const StageWork& stage = work[static_cast<std::size_t>(s)];
    parts.insert(parts.end(), stage.begin(), stage.end());
  }
  return parts;
}

std::vector<double> OneCoreSeconds(std::span<const StageWork> work) {
  std::vector<double> seconds;
  for (const StageWork& stage : work) seconds.push_back(SecondsOn(stage, 1));
  return seconds;
}

double WorkerBytes(const Workload& workload, int first, int end, double b, double weight_versions,
                   double activations_in_flight) {
  const auto boundary = [&](int stage) {
    return b * static_cast<double>(
                   stage < 0 ? workload.input_bytes
                             : workload.stages[static_cast<std::size_t>(stage)].boundary_bytes);
  };
  double parameters = 0;
  for (int s = first; s < end; ++s) {
    parameters += static_cast<double>(workload.stages[static_cast<std::size_t>(s)].parameter_bytes);
  }
  const auto kept = static_cast<double>(workload.WorkerActivationBytes(first, end));
  return parameters * (weight_versions + 2) + b * kept * activations_in_flight +
         2 * (boundary(end - 1) + boundary(first - 1));
}

void BoundTimes::Add(const PassWork& pass, const CoreWork& part, double cores,
                     double flops_per_second, double bytes_per_second, double weight) {
  const double by_flops = weight * pass.flops / flops_per_second;
  const double by_bytes = weight * pass.bytes / bytes_per_second;
  compute += by_flops;
  memory += by_bytes;
  fabric += std::max(0.0, weight * SecondsOn({&part, 1}, cores) - std::max(by_flops, by_bytes));
}

void BoundTimes::Add(const BoundTimes& other) {
  compute += other.compute;
  memory += other.memory;
  fabric += other.fabric;
  launch += other.launch;
}

Bound BoundTimes::Largest(bool local) const {
  const double work = std::max(compute, memory);
  if (launch > std::max(work, fabric)) return Bound::kLaunch;
  if (fabric > work) return Bound::kFabric;
  if (compute >= memory) return Bound::kCompute;
  return local ? Bound::kLocalMemory : Bound::kSharedMemory;
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
