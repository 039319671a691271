#include "batchless/hwmodel/stage_groups.h"

#include <algorithm>
#include <string>

#include "batchless/hwmodel/schedule_kinds.h"
#include "checks.h"

namespace batchless::hwmodel {

Schedule ExpandGroups(const Schedule& groups, std::span<const int> group_ends) {
  RefuseIf(group_ends.size() != static_cast<std::size_t>(groups.stages), "group_ends",
           std::to_string(group_ends.size()) + " groups",
           std::to_string(groups.stages) + ", as the schedule has stages");
  CheckGroupEnds(group_ends, group_ends.empty() ? 0 : group_ends.back());
  int longest = 0;
  for (std::size_t g = 0; g < group_ends.size(); ++g) {
    longest = std::max(longest, group_ends[g] - (g == 0 ? 0 : group_ends[g - 1]));
  }

  Schedule schedule = {.stages = group_ends.back(),
                       .microbatches = groups.microbatches,
                       .slots_per_step = 1,
                       .weights = groups.weights,
                       .forward_lag = groups.forward_lag};
  std::vector<int>& workers = schedule.worker_of_stage;
  for (int copy = 0; copy < groups.copies(); ++copy) {
    const std::size_t before = workers.size();
    for (std::size_t g = 0; g < group_ends.size(); ++g) {
      workers.resize(before + group_ends[g], groups.worker(static_cast<int>(g), copy));
    }
  }
  for (const TimedAction& timed : groups.actions) {
    const auto g = static_cast<std::size_t>(timed.action.stage);
    const int first = g == 0 ? 0 : group_ends[g - 1];
    const std::int64_t step = timed.step * 2 * longest;
    for (int s = first; s < group_ends[g]; ++s) {
      const bool forward = timed.action.kind == ActionKind::kForward;
      const std::int64_t place = forward ? s - first : longest + group_ends[g] - 1 - s;
      schedule.actions.push_back({step + place, {s, timed.action.kind, timed.action.microbatch}});
    }
  }
  std::ranges::stable_sort(schedule.actions, {}, &TimedAction::step);
  return schedule;
}

Schedule MiniBatches(std::span<const int> group_ends, std::int64_t microbatches_per_update) {
  CheckAtLeastOne("microbatches_per_update", microbatches_per_update);
  return ExpandGroups(PipeDreamFlush(static_cast<int>(group_ends.size()),
                                     2 * microbatches_per_update, microbatches_per_update),
                      group_ends);
}

}  // namespace batchless::hwmodel
