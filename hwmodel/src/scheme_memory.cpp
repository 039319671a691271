#include "batchless/hwmodel/scheme_memory.h"

#include <array>
#include <string>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "checks.h"

namespace batchless::hwmodel {
namespace {

constexpr std::array<MemoryScheme, 11> kSchemes = {{
    {.name = "pb", .schedule = "pb"},
    {.name = "stale", .schedule = "pb"},
    {.name = "pipedream", .schedule = "1f1b", .weight_stashing = true},
    {.name = "vertical-sync", .schedule = "1f1b", .weight_stashing = true, .vertical_sync = true},
    {.name = "paci", .schedule = "paci"},
    {.name = "pipemare", .schedule = "pb", .further_weight_copies = 1},
    {.name = "2bw", .schedule = "2bw", .counts_inputs = true},
    {.name = "2bw-recompute", .schedule = "2bw", .keeps_one = true, .counts_inputs = true},
    {.name = "gpipe", .schedule = "gpipe"},
    {.name = "gpipe-recompute", .schedule = "gpipe", .keeps_one = true, .counts_inputs = true},
    {.name = "reversible", .schedule = "pb", .keeps_one = true},
}};

}  // namespace

std::span<const MemoryScheme> MemorySchemes() { return kSchemes; }

const MemoryScheme& FindMemoryScheme(std::string_view name) {
  return analysis::FindRow(kSchemes, "scheme", name);
}

WorkerSizes MeasureWorker(const Workload& workload, int first, int end, std::int64_t microbatch) {
  const auto b = static_cast<double>(microbatch);
  WorkerSizes worker{
      .activations = b * static_cast<double>(workload.WorkerActivationBytes(first, end)),
      .input = b * static_cast<double>(workload.WorkerInputBytes(first, end))};
  for (int s = first; s < end; ++s) {
    worker.weights += static_cast<double>(workload.stages[s].parameter_bytes);
  }
  return worker;
}

SchemeMemory KeptBytes(const MemoryScheme& scheme, const WorkerSizes& worker, double versions,
                       double in_flight) {
  SchemeMemory kept;
  kept.weight_bytes = worker.weights * (versions + scheme.further_weight_copies);
  kept.activation_bytes = (scheme.keeps_one ? 1 : in_flight) * worker.activations;
  if (scheme.counts_inputs) kept.activation_bytes += in_flight * worker.input;
  return kept;
}

std::vector<SchemeMemory> PredictSchemeMemory(const MemoryScheme& scheme, const Workload& workload,
                                              std::span<const int> group_ends,
                                              const SchemeMemoryOptions& options) {
  CheckGroupEnds(group_ends, workload.stage_count());
  CheckAtLeastOne("microbatch", options.microbatch);
  const auto workers = static_cast<int>(group_ends.size());
  const bool updates_each = FindScheduleKind(scheme.schedule).updates_each;
  const std::int64_t given =
      options.microbatches_per_update > 0 ? options.microbatches_per_update : workers;
  const std::int64_t m = updates_each ? 1 : given;
  const auto stages_of = [&](std::int64_t per_update) {
    return Summarize(MakeSchedule(scheme.schedule,
                                  {.stages = workers,
                                   .microbatches = EnoughMicrobatches(workers, per_update),
                                   .microbatches_per_update = per_update,
                                   .weight_stashing = scheme.weight_stashing,
                                   .vertical_sync = scheme.vertical_sync}))
        .stages;
  };
  // Past a pipeline that is full each further micro-batch of an update adds to those in flight what the
  // one before it added, so that two short lists say what a long one would.
  const std::int64_t few = 4 * std::int64_t{workers};
  const bool is_long = m > 4 * few;
  const std::vector<StageSummary> stages = stages_of(is_long ? few : m);
  const std::vector<StageSummary> with_one_more =
      is_long ? stages_of(few + 1) : std::vector<StageSummary>();

  std::vector<SchemeMemory> memory(group_ends.size());
  for (std::size_t g = 0; g < group_ends.size(); ++g) {
    const int first = g == 0 ? 0 : group_ends[g - 1];
    std::int64_t in_flight = stages[g].activations_in_flight;
    if (is_long) in_flight += (m - few) * (with_one_more[g].activations_in_flight - in_flight);
    memory[g] =
        KeptBytes(scheme, MeasureWorker(workload, first, group_ends[g], options.microbatch),
                  static_cast<double>(stages[g].weight_versions), static_cast<double>(in_flight));
  }
  return memory;
}

MemoryIncrease PredictMemoryIncrease(const Workload& workload, std::span<const int> group_ends,
                                     const MemoryIncreaseOptions& options) {
  RefuseIf(group_ends.size() < 2, "group_ends", std::to_string(group_ends.size()) + " groups",
           "two or more");
  CheckAtLeastOne("minibatch", options.minibatch);
  // How many mini-batches' results a group keeps follows from the scheme's schedule.
  Workload counted = workload;
  std::int64_t outputs = 0;
  for (StageCost& cost : counted.stages) {
    cost.activation_bytes =
        cost.layer_output_bytes - (options.relu_in_place ? cost.relu_output_bytes : 0);
    cost.kept_again_bytes = 0;  // every layer's result is its own
    outputs += cost.activation_bytes;
  }
  RefuseIf(outputs == 0, "network", workload.name, "one whose layers are known");
  const std::vector<SchemeMemory> groups = PredictSchemeMemory(
      FindMemoryScheme("stale"), counted, group_ends, {.microbatch = options.minibatch});

  const auto results = static_cast<double>(options.minibatch * outputs);
  MemoryIncrease increase = {.activation_bytes = 2 * results, .waiting_bytes = -results};
  for (const SchemeMemory& group : groups) {
    increase.weight_bytes += group.weight_bytes;
    increase.waiting_bytes += group.activation_bytes;
  }
  increase.weight_copy_bytes = 2 * static_cast<double>(group_ends.size()) * increase.weight_bytes;
  return increase;
}

}  // namespace batchless::hwmodel
