#include "batchless/hwmodel/transformer_step.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "batchless/hwmodel/pipeline_simulation.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "checks.h"

namespace batchless::hwmodel {
namespace {

constexpr double kBytesAParameter = 18;
constexpr double kUpdateBytesAParameter = 30;
constexpr double kLogitBytes = 8;  // a pass of the loss: 32-bit numbers written and read

void Check(const TransformerRun& run) {
  CheckAtLeastOne("hidden", run.hidden);
  CheckAtLeastOne("heads", run.heads);
  CheckAtLeastOne("sequence", run.sequence);
  CheckAtLeastOne("vocabulary", run.vocabulary);
  CheckAtLeastOne("tensor_parallel", run.tensor_parallel);
  CheckAtLeastOne("blocks", run.blocks);
  CheckDivides("pipeline_parallel", run.pipeline_parallel, run.blocks);
  CheckDivides("interleaving", run.interleaving, run.blocks / run.pipeline_parallel);
  CheckAtLeastOne("batch", run.batch);
  CheckDivides("microbatch", run.microbatch, run.batch);
}

double Values(const TransformerRun& run) {
  return static_cast<double>(run.microbatch) * run.sequence * run.hidden;
}

Schedule ScheduleOf(const TransformerRun& run) {
  Check(run);
  return Interleaved(run.pipeline_parallel * run.interleaving, run.interleaving, run.microbatches(),
                     run.microbatches());
}

int BlocksOfChunk(const TransformerRun& run) {
  return run.blocks / (run.pipeline_parallel * run.interleaving);
}

// Seconds of one GPU's FLOPs and bytes, which all GPUs of the node do at once.
struct NodeRates {
  double flops;
  double memory;
  double fabric;
  double network;

  double Seconds(const PassCosts& pass) const {
    const double exchange = pass.exchanged_bytes > 0 ? pass.exchanged_bytes / fabric : 0;
    return pass.flops / flops + pass.bytes / memory + exchange;
  }
};

NodeRates RatesOf(const TransformerRun& run, const Machine& node,
                  const Efficiencies& efficiencies) {
  RefuseIf(!(efficiencies.compute > 0), "compute", efficiencies.compute, "a positive number");
  RefuseIf(!(efficiencies.bandwidth > 0), "bandwidth", efficiencies.bandwidth, "a positive number");
  RefuseIf(!(node.shared_bytes_per_second > 0), "node", "no shared memory",
           "one with its bandwidth");
  RefuseIf(run.tensor_parallel > 1 && !(node.fabric_bytes_per_second > 0), "node", "no fabric",
           "one between its GPUs");
  RefuseIf(run.pipeline_parallel > 1 && !(node.network_bytes_per_second > 0), "node", "no network",
           "one between nodes");
  const double bandwidth = efficiencies.bandwidth / node.cores;
  return {.flops = efficiencies.compute * node.core_flops_per_second(),
          .memory = bandwidth * node.shared_bytes_per_second,
          .fabric = bandwidth * node.fabric_bytes_per_second,
          .network = efficiencies.bandwidth * node.network_bytes_per_second};
}

// `schedule` is that of the run.
double StepSeconds(const TransformerRun& run, const Schedule& schedule, const BlockOptions& options,
                   const Machine& node, const Efficiencies& efficiencies) {
  const BlockCosts block = CostBlock(run, options);
  const NodeRates rates = RatesOf(run, node, efficiencies);
  const double blocks = BlocksOfChunk(run);
  const double forward = rates.Seconds(block.forward);
  const auto& [flops, bytes, exchanged_bytes] = block.forward;
  const double backward =
      rates.Seconds({2 * flops, 2 * bytes, exchanged_bytes}) + rates.Seconds(block.again);
  const StageTimes chunk{
      .forward_seconds = blocks * forward,
      .backward_seconds = blocks * backward,
      .update_seconds = blocks * kUpdateBytesAParameter * block.parameters / rates.memory};
  SimulationOptions simulation;
  simulation.times.stages.assign(static_cast<std::size_t>(schedule.stages), chunk);
  const double n = Values(run);
  const double logits = n / run.hidden * run.vocabulary / run.tensor_parallel;
  simulation.times.stages.back().forward_seconds +=
      rates.Seconds({2 * logits * run.hidden, kLogitBytes * logits});
  simulation.times.stages.back().backward_seconds +=
      rates.Seconds({4 * logits * run.hidden, kLogitBytes * logits});
  if (run.pipeline_parallel > 1) {
    simulation.times.link_seconds.assign(static_cast<std::size_t>(schedule.stages) - 1,
                                         2 * n / rates.network);
    simulation.times.latency_seconds.assign(simulation.times.link_seconds.size(),
                                            node.network_latency_seconds);
  }
  return SimulatePipeline(schedule, simulation).seconds;
}

}  // namespace

BlockCosts CostBlock(const TransformerRun& run, const BlockOptions& options) {
  Check(run);
  const double t = run.tensor_parallel;
  const double q = options.sequence_parallel ? t : 1;
  const double n = Values(run);
  const double pairs = static_cast<double>(run.microbatch) * run.sequence * run.sequence;
  const double attention_flops = 4 * pairs * run.hidden / t;
  const double attention_bytes = 9 * run.heads * pairs / t;
  BlockCosts costs{
      .parameters = 12.0 * run.hidden * run.hidden / t,
      .forward = {.flops = 24 * n * run.hidden / t + attention_flops,
                  .bytes = 22 * n / q + 16 * n / t + attention_bytes,
                  .exchanged_bytes = 8 * n * (t - 1) / t},
      .kept_bytes = 10 * n / q + (24 * n + 5 * run.heads * pairs) / t,
  };
  if (options.recomputation == Recomputation::kAttention) {
    costs.again = {.flops = attention_flops, .bytes = attention_bytes};
    costs.kept_bytes = 10 * n / q + 24 * n / t;
  } else if (options.recomputation == Recomputation::kFull) {
    costs.again = costs.forward;
    costs.kept_bytes = 2 * n / q;
  }
  return costs;
}

double PredictStepSeconds(const TransformerRun& run, const BlockOptions& options,
                          const Machine& node, const Efficiencies& efficiencies) {
  return StepSeconds(run, ScheduleOf(run), options, node, efficiencies);
}

double PredictWeightBytes(const TransformerRun& run) {
  return kBytesAParameter * CostBlock(run, {}).parameters * run.blocks / run.pipeline_parallel;
}

double PredictActivationBytes(const TransformerRun& run, const BlockOptions& options) {
  const double kept_bytes = CostBlock(run, options).kept_bytes * BlocksOfChunk(run);
  const Schedule schedule = ScheduleOf(run);
  std::int64_t in_flight = 0;  // micro-batches of the first node's chunks
  std::int64_t most = 0;
  for (const TimedAction& timed : schedule.actions) {
    if (schedule.worker(timed.action) != 0) continue;
    if (timed.action.kind == ActionKind::kForward) most = std::max(most, ++in_flight);
    if (timed.action.kind == ActionKind::kBackward) --in_flight;
  }
  return kept_bytes * static_cast<double>(most);
}

Efficiencies FitEfficiencies(std::span<const MeasuredStep> steps, const Machine& node) {
  RefuseIf(steps.size() < 2, "steps", steps.size(), "at least two");
  constexpr int kIterations = 20;
  constexpr double kStep = 1e-4;     // of a logarithm, for differences
  constexpr double kEnough = 1e-10;  // change of the logarithms
  std::array<double, 2> logarithms = {std::log(0.5), std::log(0.5)};
  std::vector<Schedule> schedules;
  for (const MeasuredStep& step : steps) schedules.push_back(ScheduleOf(step.run));
  const auto error = [&](std::size_t i, const std::array<double, 2>& at) {
    const MeasuredStep& step = steps[i];
    const Efficiencies efficiencies{std::exp(at[0]), std::exp(at[1])};
    return StepSeconds(step.run, schedules[i], step.options, node, efficiencies) / step.seconds - 1;
  };
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    double cc = 0;
    double cb = 0;
    double bb = 0;
    double cr = 0;
    double br = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const double r = error(i, logarithms);
      const double c = (error(i, {logarithms[0] + kStep, logarithms[1]}) - r) / kStep;
      const double b = (error(i, {logarithms[0], logarithms[1] + kStep}) - r) / kStep;
      cc += c * c;
      cb += c * b;
      bb += b * b;
      cr += c * r;
      br += b * r;
    }
    const double determinant = cc * bb - cb * cb;
    const double compute = (cb * br - bb * cr) / determinant;
    const double bandwidth = (cb * cr - cc * br) / determinant;
    logarithms[0] += compute;
    logarithms[1] += bandwidth;
    if (std::hypot(compute, bandwidth) < kEnough) break;
  }
  return {.compute = std::exp(logarithms[0]), .bandwidth = std::exp(logarithms[1])};
}

}  // namespace batchless::hwmodel
