#include "batchless/hwmodel/stage_groups.h"

#include <algorithm>
#include <string>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "schedules/arguments.h"

namespace batchless::hwmodel {

Schedule ExpandGroups(const Schedule& groups, std::span<const int> ends) {
  if (ends.size() != static_cast<std::size_t>(groups.stages)) {
    throw analysis::InvalidArgument("ends", std::to_string(ends.size()) + " groups",
                                    std::to_string(groups.stages) + ", as the schedule has stages");
  }
  int longest = 0;
  int start = 0;
  for (const int end : ends) {
    if (end <= start) {
      throw analysis::InvalidArgument("ends", std::to_string(end),
                                      "more than " + std::to_string(start));
    }
    longest = std::max(longest, end - start);
    start = end;
  }

  Schedule schedule = {.stages = ends.back(),
                       .microbatches = groups.microbatches,
                       .slots_per_step = 1,
                       .weights = groups.weights,
                       .forward_lag = groups.forward_lag};
  for (std::size_t g = 0; g < ends.size(); ++g) {
    schedule.worker_of_stage.resize(ends[g], groups.worker(static_cast<int>(g)));
  }
  for (const TimedAction& timed : groups.actions) {
    const auto g = static_cast<std::size_t>(timed.action.stage);
    const int first = g == 0 ? 0 : ends[g - 1];
    const std::int64_t step = timed.step * 2 * longest;
    for (int s = first; s < ends[g]; ++s) {
      const bool forward = timed.action.kind == ActionKind::kForward;
      const std::int64_t place = forward ? s - first : longest + ends[g] - 1 - s;
      schedule.actions.push_back({step + place, {s, timed.action.kind, timed.action.microbatch}});
    }
  }
  std::stable_sort(schedule.actions.begin(), schedule.actions.end(),
                   [](const TimedAction& a, const TimedAction& b) { return a.step < b.step; });
  return schedule;
}

Schedule MiniBatches(std::span<const int> ends, std::int64_t microbatches_per_update) {
  CheckAtLeastOne("microbatches_per_update", microbatches_per_update);
  return ExpandGroups(PipeDreamFlush(static_cast<int>(ends.size()), 2 * microbatches_per_update,
                                     microbatches_per_update),
                      ends);
}

}  // namespace batchless::hwmodel
