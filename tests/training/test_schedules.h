// Lists of actions that tests train by.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "batchless/hwmodel/network.h"
#include "batchless/hwmodel/schedule_kinds.h"

namespace batchless::training {

// Schedules long enough for a trainer: by name, and pipelined backpropagation over a network's stages.
inline hwmodel::Schedule ScheduleOf(std::string_view kind, int stages, std::int64_t per_update) {
  return hwmodel::MakeSchedule(kind,
                               {.stages = stages,
                                .microbatches = hwmodel::EnoughMicrobatches(stages, per_update),
                                .microbatches_per_update = per_update});
}
inline hwmodel::Schedule PbOf(const hwmodel::Network& network) {
  return ScheduleOf("pb", network.stage_count(), 1);
}

inline hwmodel::Schedule With(hwmodel::WeightVersions weights, hwmodel::Schedule list) {
  list.weights = weights;
  return list;
}

inline void SortBySteps(hwmodel::Schedule& list) {
  std::ranges::stable_sort(list.actions, {}, &hwmodel::TimedAction::step);
}

// Every update a step later, before that step's passes.
inline hwmodel::Schedule WithLateUpdates(hwmodel::Schedule list) {
  const auto is_pass = [](const hwmodel::TimedAction& timed) {
    return timed.action.kind != hwmodel::ActionKind::kUpdate;
  };
  std::ranges::stable_sort(list.actions, {}, is_pass);
  for (hwmodel::TimedAction& timed : list.actions) timed.step += is_pass(timed) ? 0 : 1;
  SortBySteps(list);
  return list;
}

}  // namespace batchless::training
