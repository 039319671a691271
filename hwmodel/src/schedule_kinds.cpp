#include "batchless/hwmodel/schedule_kinds.h"

#include <algorithm>
#include <array>
#include <string>

#include "checks.h"

namespace batchless::hwmodel {
namespace {

using Options = ScheduleOptions;

std::int64_t PerUpdate(const Options& options) {
  const std::int64_t given = options.microbatches_per_update;
  return given == 0 ? options.microbatches : given;
}

// The smallest divisor of the number of micro-batches that two versions of the weights allow.
std::int64_t PerUpdateOf2Bw(const Options& options) {
  if (options.microbatches_per_update != 0) return options.microbatches_per_update;
  CheckAtLeastOne("stages", options.stages);
  RefuseIf(options.microbatches < options.stages, "microbatches", options.microbatches,
           "at least the number of stages, " + std::to_string(options.stages));
  std::int64_t divisor = options.stages;
  while (options.microbatches % divisor != 0) ++divisor;
  return divisor;
}

template <Schedule (*kMake)(int, std::int64_t, std::int64_t)>
Schedule Made(const Options& o) {
  return kMake(o.stages, o.microbatches, PerUpdate(o));
}

constexpr std::array<ScheduleKind, 14> kKinds = {{
    {"pb", "Pipelined backpropagation", true, false, true,
     [](const Options& o) { return PipelinedBackpropagation(o.stages, o.microbatches); }},
    {"fill-drain", "Fill and drain", false, true, true, Made<FillDrain>},
    {"gpipe", "GPipe", false, true, true, Made<Gpipe>},
    {"1f1b", "1F1B", true, false, true,
     [](const Options& o) { return OneForwardOneBackward(o.stages, o.microbatches); }},
    {"2bw", "PipeDream-2BW", false, false, true,
     [](const Options& o) { return PipeDream2Bw(o.stages, o.microbatches, PerUpdateOf2Bw(o)); }},
    {"paci", "PACI", false, false, true, Made<Paci>},
    {"pipedream-flush", "PipeDream-Flush", false, true, true, Made<PipeDreamFlush>},
    {"interleaved", "Interleaved 1F1B", false, true, false,
     [](const Options& o) {
       return Interleaved(o.stages, o.chunks == 0 ? 2 : o.chunks, o.microbatches, PerUpdate(o));
     }},
    {"zb-h1", "Zero bubble ZB-H1", false, true, true, Made<ZeroBubbleH1>},
    {"zb-v", "Zero bubble ZB-V", false, true, false, Made<ZeroBubbleV>},
    {"dualpipe-v", "DualPipeV", false, true, false, Made<DualPipeV>},
    {"dualpipe", "DualPipe", false, true, false, Made<DualPipe>, 2},
    {"amdp", "AMDP, one pipeline", false, false, true, Made<Amdp>},
    {"amdp-multi", "AMDP, S/2 pipelines", false, false, false, Made<AmdpMulti>},
}};

}  // namespace

std::span<const ScheduleKind> ScheduleKinds() { return kKinds; }

const ScheduleKind& FindScheduleKind(std::string_view name) {
  return analysis::FindRow(kKinds, "kind", name);
}

Schedule MakeSchedule(std::string_view kind, const ScheduleOptions& options) {
  const ScheduleKind& found = FindScheduleKind(kind);
  const std::string only = "1 with " + std::string(kind);
  RefuseIf(found.updates_each && options.microbatches_per_update > 1, "microbatches_per_update",
           options.microbatches_per_update, only);
  RefuseIf(kind != "interleaved" && options.chunks > 1, "chunks", options.chunks, only);
  RefuseIf(options.microbatches_per_update < 0, "microbatches_per_update",
           options.microbatches_per_update, "an integer >= 1");
  RefuseIf(options.chunks < 0, "chunks", options.chunks, "an integer >= 1");
  Schedule schedule = found.make(options);
  if (options.weight_stashing) {
    RefuseIf(schedule.weights != WeightVersions::kNewest, "weight_stashing", "true",
             "false with " + std::string(kind));
    schedule.weights = WeightVersions::kStashed;
  }
  if (options.vertical_sync) {
    RefuseIf(
        !options.weight_stashing, "vertical_sync", "true",
        "false without weight stashing: a backward could not read its forward's version again");
    schedule.weights = WeightVersions::kVerticalSync;
  }
  return schedule;
}

std::int64_t EnoughMicrobatches(int stages, std::int64_t microbatches_per_update) {
  // The two directions of amdp take turns: by an odd number of micro-batches every other update is alike.
  const bool takes_two = microbatches_per_update > 1 && microbatches_per_update % 2 == 1;
  const std::int64_t cycle = (takes_two ? 2 : 1) * microbatches_per_update;
  return cycle * (4 * std::int64_t{stages} / cycle + 4);
}

std::int64_t MicrobatchesPerUpdate(const Schedule& schedule) {
  const std::int64_t updates =
      std::count_if(schedule.actions.begin(), schedule.actions.end(), [](const TimedAction& timed) {
        return timed.action.stage == 0 && timed.action.kind == ActionKind::kUpdate;
      });
  return std::max<std::int64_t>(1, schedule.microbatches / std::max<std::int64_t>(1, updates));
}

}  // namespace batchless::hwmodel
