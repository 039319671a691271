#include "run_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/partition.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/stage_groups.h"
#include "batchless/hwmodel/steady_state.h"
#include "delays_argument.h"
#include "schedule_source.h"
#include "usage_error.h"

namespace batchless {

bool UpdatesEach(std::string_view kind) {
  return kind == "pb" || kind == "1f1b" || kind == "zhang";
}

namespace {

using analysis::InvalidArgument;

// Ends of the groups of stages that the pipeline has; empty where each stage is one.
std::vector<int> GroupEnds(const Configuration& c, const hwmodel::Network& network) {
  const std::vector<std::int64_t>& placement = c.schedule.placement;
  const std::optional<std::int64_t>& stages = c.schedule.stages;
  const int most = network.stage_count();
  RefuseIf(!placement.empty() && stages, "schedule.stages", stages,
           "either schedule.stages or schedule.placement");
  if (stages) {
    RefuseIf(*stages > most, "schedule.stages", stages,
             fmt::format("1 to {}, the stages of {}", most, network.name));
    return hwmodel::BalancedPartition(network, static_cast<int>(*stages));
  }
  std::vector<int> ends;
  for (const std::int64_t end : placement) {
    const int least = ends.empty() ? 1 : ends.back() + 1;
    RefuseIf(end < least || end >= most, "schedule.placement", end,
             fmt::format("numbers that increase from 1 to at most {}: how many of the {} "
                         "stages of {} come before each register",
                         most - 1, most, network.name));
    ends.push_back(static_cast<int>(end));
  }
  if (!ends.empty()) ends.push_back(most);
  return ends;
}

// The schedule in the configuration's file, which has to be one that the network can train by.
hwmodel::Schedule ScheduleFromFile(const Configuration& c, const hwmodel::Network& network) {
  constexpr std::string_view kKey = "schedule.file";
  const std::string& path = c.schedule.file;
  hwmodel::Schedule schedule = ReadScheduleFile(std::string(kKey), path);
  RefuseIf(
      schedule.stages != network.stage_count(), kKey,
      fmt::format("{}, a list of {} stages", path, schedule.stages),
      fmt::format("a list of {} stages, as many as {} has", network.stage_count(), network.name));
  try {
    static_cast<void>(hwmodel::FindSteadyState(schedule));
  } catch (const InvalidArgument& error) {
    throw NoSteadyState(std::string(kKey), path, schedule, error);
  }
  return schedule;
}

// Kinds without a list: mini-batches that drain, on however many workers there are.
bool IsMiniBatches(std::string_view kind) {
  return kind == "sequential" || kind == "fill-drain" || kind == "uniform-delay" ||
         kind == "random-delay";
}

// The list of actions of a kind by name.
hwmodel::Schedule ScheduleByName(const Configuration& c, const training::TrainerOptions& trainer) {
  const std::string& kind = c.schedule.kind;
  const std::vector<int> ends = GroupEnds(c, trainer.network);
  hwmodel::ScheduleOptions options;
  options.stages = ends.empty() ? trainer.network.stage_count() : static_cast<int>(ends.size());
  // What does not divide the batch is refused with the rest of the trainer's options.
  const std::int64_t per_update =
      UpdatesEach(kind) ? 1 : std::max<std::int64_t>(trainer.MicrobatchesPerUpdate(), 1);
  RefuseIf(kind == "2bw" && per_update < options.stages, "optimizer.batch", c.optimizer.batch,
           fmt::format("at least {} micro-batches with 2bw, one for each stage of each "
                       "pipeline",
                       options.stages * c.schedule.replicas));
  // What stashed backwards read settles later than what passes do that read the newest weights.
  options.microbatches = UpdatesEach(kind) && !c.schedule.weight_stashing
                             ? 2 * std::int64_t{options.stages} + 2
                             : hwmodel::EnoughMicrobatches(options.stages, per_update);
  options.microbatches_per_update = per_update;
  const auto make = [&] {
    try {
      return hwmodel::MakeSchedule(kind == "zhang" ? "pb" : kind, options);
    } catch (const InvalidArgument& error) {
      // zb-v and its kin take whole Vs of stages, and enough micro-batches to fill them.
      if (error.name() == "stages") {
        throw UsageError("schedule.stages", error.value(), error.accepted());
      }
      if (error.name() == "chunks") {
        throw UsageError("schedule.stages", std::to_string(options.stages),
                         "a multiple of 2 with interleaved: each worker of the list has two");
      }
      if (error.name() != "microbatches_per_update") throw;
      throw UsageError("optimizer.batch", std::to_string(c.optimizer.batch),
                       fmt::format("a number of micro-batches of an update, now {}, that is {}",
                                   error.value(), error.accepted()));
    }
  };
  const hwmodel::Schedule schedule = make();
  return ends.empty() ? schedule : hwmodel::ExpandGroups(schedule, ends);
}

}  // namespace

hwmodel::Schedule ScheduleOf(const Configuration& c, const training::TrainerOptions& options) {
  const std::string& kind = c.schedule.kind;
  const bool has_groups = c.schedule.stages || !c.schedule.placement.empty();
  const bool is_uniform = kind == "uniform-delay";
  RefuseIf(
      has_groups && (IsMiniBatches(kind) || kind == "file"),
      c.schedule.stages ? "schedule.stages" : "schedule.placement",
      c.schedule.stages ? std::to_string(*c.schedule.stages)
                        : fmt::format("[{}]", fmt::join(c.schedule.placement, ", ")),
      "nothing with the schedules sequential, fill-drain, uniform-delay, random-delay and file");
  RefuseIf(kind == "zhang" && !has_groups, "schedule.kind", "zhang",
           "zhang with schedule.placement or schedule.stages");
  RefuseIf(c.schedule.file.empty() != (kind != "file"), "schedule.file",
           "'" + c.schedule.file + "'",
           "a schedule's CSV file with schedule.kind = file, nothing with the others");
  // Both passes of random-delay read the same weights anyway.
  const bool may_stash =
      UpdatesEach(kind) || is_uniform || kind == "paci" || kind == "amdp" || kind == "random-delay";
  RefuseIf(c.schedule.weight_stashing && !may_stash, "schedule.weight_stashing", "true",
           "false but with the schedules pb, 1f1b, paci, amdp, zhang, uniform-delay and "
           "random-delay (a file says for itself, column weights)");
  RefuseIf(c.schedule.vertical_sync && !(c.schedule.weight_stashing && UpdatesEach(kind)),
           "schedule.vertical_sync", "true",
           "false but with schedule.weight_stashing, by which a backward can read its "
           "forward's version again, and the schedules pb, 1f1b and zhang");
  RefuseIf(c.schedule.delay > (is_uniform ? hwmodel::kMaxForwardLag : 0), "schedule.delay",
           c.schedule.delay,
           fmt::format("0 to {} with the schedule uniform-delay; the others' delays "
                       "follow from the schedule",
                       hwmodel::kMaxForwardLag));
  RefuseIf(kind == "sequential" && options.PipelineWorkers() != 1, "schedule.workers",
           options.PipelineWorkers(),
           "1, in one process, with the schedule sequential (fill-drain gives the same "
           "bits with more)");
  RefuseIf(!c.schedule.machine.empty() && kind == "sequential", "schedule.machine",
           c.schedule.machine, "nothing with sequential, which one worker runs");
  RefuseIf(UpdatesEach(kind) && options.microbatch != options.batch, "schedule.microbatch",
           options.microbatch,
           fmt::format("the batch, {}, with the schedule {}: every micro-batch makes an "
                       "update",
                       options.batch, kind));
  hwmodel::Schedule schedule;
  if (kind == "file") {
    schedule = ScheduleFromFile(c, options.network);
  } else if (!IsMiniBatches(kind)) {
    schedule = ScheduleByName(c, options);
  }
  if (c.schedule.weight_stashing && kind != "random-delay") {
    schedule.weights = c.schedule.vertical_sync ? hwmodel::WeightVersions::kVerticalSync
                                                : hwmodel::WeightVersions::kStashed;
  }
  if (is_uniform) schedule.forward_lag = c.schedule.delay;
  return schedule;
}

std::optional<analysis::DelayModel> RandomDelaysOf(const Configuration& c) {
  constexpr std::string_view kKey = "schedule.delays";
  const std::string& delays = c.schedule.delays;
  if (c.schedule.kind == "random-delay") {
    RefuseIf(delays.empty(), kKey, "nothing", kDrawnDelaysForms);
    return ParseDrawnDelays(kKey, delays);
  }
  constexpr std::string_view kOnly = "nothing but with schedule.kind = random-delay";
  RefuseIf(!delays.empty(), kKey, delays, kOnly);
  RefuseIf(c.schedule.compensate.has_value(), "schedule.compensate", c.schedule.compensate, kOnly);
  return std::nullopt;
}

}  // namespace batchless
