#include "roofline.h"

#include <algorithm>
#include <string>

#include "batchless/analysis/argument.h"

namespace batchless::hwmodel {
namespace {

using analysis::InvalidArgument;

Pass& At(Passes& passes, ActionKind kind) { return passes[static_cast<std::size_t>(kind)]; }

double Seconds(const Pass& pass, double flops_per_second, double bytes_per_second) {
  return std::max(pass.flops / flops_per_second, pass.bytes / bytes_per_second);
}

}  // namespace

Passes PassesOf(const Workload& workload, std::size_t s, double b, bool split) {
  const StageCost& cost = workload.stages[s];
  const auto w = static_cast<double>(cost.parameter_bytes);
  const auto in =
      static_cast<double>(s == 0 ? workload.input_bytes : workload.stages[s - 1].boundary_bytes);
  const auto out = static_cast<double>(cost.boundary_bytes);
  const auto kept = static_cast<double>(cost.activation_bytes);
  const auto input_gradient = static_cast<double>(cost.input_gradient_flops);
  const auto weight_gradient = static_cast<double>(cost.weight_gradient_flops);
  Passes passes;
  At(passes, ActionKind::kForward) = {b * static_cast<double>(cost.forward_flops),
                                      w + b * (in + out + kept)};
  At(passes, ActionKind::kUpdate) = {static_cast<double>(cost.update_flops), 5 * w};
  if (split) {
    At(passes, ActionKind::kBackward) = {b * input_gradient, w + b * (in + out)};
    At(passes, ActionKind::kWeightGradient) = {b * weight_gradient, w + b * kept};
  } else {
    At(passes, ActionKind::kBackward) = {b * (input_gradient + weight_gradient),
                                         2 * w + b * (in + out + kept)};
  }
  return passes;
}

StageTimes TimesOf(const Passes& passes, double flops_per_second, double bytes_per_second) {
  const auto seconds = [&](ActionKind kind) {
    return Seconds(passes[static_cast<std::size_t>(kind)], flops_per_second, bytes_per_second);
  };
  return {seconds(ActionKind::kForward), seconds(ActionKind::kBackward),
          seconds(ActionKind::kWeightGradient), seconds(ActionKind::kUpdate)};
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

std::vector<CoreWork> WorkOf(const Workload& workload, const Machine& machine, double b,
                             const std::optional<MeasuredNetwork>& measured) {
  const double bandwidth = machine.local_bytes_per_second > 0
                               ? machine.local_bytes_per_second / machine.cores
                               : machine.shared_bytes_per_second / machine.cores;
  std::vector<CoreWork> work;
  for (std::size_t s = 0; s < workload.stages.size(); ++s) {
    const double seconds = measured ? Sum(MeasuredTimes(*measured, s, b))
                                    : Sum(TimesOf(PassesOf(workload, s, b, false),
                                                  machine.core_flops_per_second(), bandwidth));
    const double values = b * static_cast<double>(workload.stages[s].largest_output);
    work.push_back({seconds, std::max(values, static_cast<double>(workload.stages[s].parameters))});
  }
  return work;
}

double WorkerBytes(const Workload& workload, int first, int end, double b, double weight_versions,
                   double activations_in_flight) {
  const auto boundary = [&](int stage) {
    return b * static_cast<double>(
                   stage < 0 ? workload.input_bytes
                             : workload.stages[static_cast<std::size_t>(stage)].boundary_bytes);
  };
  double parameters = 0;
  double kept = 0;
  for (int s = first; s < end; ++s) {
    const StageCost& cost = workload.stages[static_cast<std::size_t>(s)];
    parameters += static_cast<double>(cost.parameter_bytes);
    kept += static_cast<double>(cost.activation_bytes);
  }
  return parameters * (weight_versions + 2) + b * kept * activations_in_flight +
         2 * (boundary(end - 1) + boundary(first - 1));
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
