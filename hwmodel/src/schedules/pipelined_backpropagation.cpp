// Schedules whose steps have room for a forward and a backward: steps in closed form.
#include "batchless/analysis/cancellation.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "checks.h"

namespace batchless::hwmodel {
namespace {

// One pass of `count` micro-batches through an empty pipeline of S stages, from step 0 on.
// updates_each: whether a stage updates after every backward or after its last one only.
std::vector<TimedAction> OnePass(int stages, std::int64_t count, bool updates_each) {
  std::vector<TimedAction> actions;
  actions.reserve(static_cast<std::size_t>(stages) *
                  static_cast<std::size_t>(updates_each ? 3 * count : 2 * count + 1));
  const std::int64_t depth = stages;
  const auto is_member = [count](std::int64_t i) { return i >= 0 && i < count; };
  for (std::int64_t step = 0; step < count + 2 * depth - 2; ++step) {
    analysis::CheckCancellation();
    for (int stage = 0; stage < stages; ++stage) {
      const auto append = [&](ActionKind kind, std::int64_t i) {
        actions.push_back({step, {stage, kind, i}});
      };
      const std::int64_t forward = step - stage;
      const std::int64_t backward = step - (2 * (depth - 1) - stage);
      if (is_member(forward)) append(ActionKind::kForward, forward);
      if (is_member(backward)) {
        append(ActionKind::kBackward, backward);
        if (updates_each || backward == count - 1) append(ActionKind::kUpdate, backward);
      }
    }
  }
  return actions;
}

}  // namespace

Schedule PipelinedBackpropagation(int stages, std::int64_t microbatches) {
  CheckSizes(stages, microbatches, 1);
  return {.stages = stages,
          .microbatches = microbatches,
          .actions = OnePass(stages, microbatches, /*updates_each=*/true)};
}

Schedule FillDrain(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update) {
  CheckSizes(stages, microbatches, microbatches_per_update);
  const std::vector<TimedAction> pass =
      OnePass(stages, microbatches_per_update, /*updates_each=*/false);
  const std::int64_t steps = microbatches_per_update + 2 * (std::int64_t{stages} - 1);
  const std::int64_t minibatches = microbatches / microbatches_per_update;
  Schedule schedule{.stages = stages, .microbatches = microbatches};
  schedule.actions.reserve(pass.size() * static_cast<std::size_t>(minibatches));
  for (std::int64_t minibatch = 0; minibatch < minibatches; ++minibatch) {
    analysis::CheckCancellation();
    for (const auto& [step, action] : pass) {
      schedule.actions.push_back(
          {step + minibatch * steps,
           {action.stage, action.kind, action.microbatch + minibatch * microbatches_per_update}});
    }
  }
  return schedule;
}

}  // namespace batchless::hwmodel
