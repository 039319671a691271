// Lists of actions that tests train by.
#pragma once

#include <algorithm>

#include "batchless/hwmodel/network.h"
#include "batchless/hwmodel/schedule_kinds.h"

namespace batchless::training {

// Pipelined backpropagation over a network's stages, long enough for a trainer.
inline hwmodel::Schedule PbOf(const hwmodel::Network& network) {
  const int stages = network.stage_count();
  return hwmodel::PipelinedBackpropagation(stages, hwmodel::EnoughMicrobatches(stages, 1));
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
