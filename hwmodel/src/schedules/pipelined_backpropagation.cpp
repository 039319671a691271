// Schedules whose steps have room for a forward and a backward: steps in closed form.
#include "batchless/analysis/cancellation.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "checks.h"

namespace batchless::hwmodel {
namespace {

// Passes of `count` micro-batches each through an empty pipeline of S stages, one after another.
// updates_each: whether a stage updates after every backward or after the last one of a pass only.
Schedule InPasses(int stages, std::int64_t microbatches, std::int64_t count, bool updates_each) {
  CheckSizes(stages, microbatches, count);
  Schedule schedule{.stages = stages, .microbatches = microbatches};
  const std::int64_t updates = updates_each ? microbatches : microbatches / count;
  schedule.actions.reserve(static_cast<std::size_t>(stages) *
                           static_cast<std::size_t>(2 * microbatches + updates));
  const std::int64_t depth = stages;
  const std::int64_t steps = count + 2 * depth - 2;
  const auto is_member = [count](std::int64_t i) { return i >= 0 && i < count; };
  for (std::int64_t first = 0, start = 0; first < microbatches; first += count, start += steps) {
    for (std::int64_t step = 0; step < steps; ++step) {
      analysis::CheckCancellation();
      for (int stage = 0; stage < stages; ++stage) {
        const auto append = [&](ActionKind kind, std::int64_t i) {
          schedule.actions.push_back({start + step, {stage, kind, first + i}});
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
  }
  return schedule;
}

}  // namespace

Schedule PipelinedBackpropagation(int stages, std::int64_t microbatches) {
  return InPasses(stages, microbatches, microbatches, /*updates_each=*/true);
}

Schedule FillDrain(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update) {
  return InPasses(stages, microbatches, microbatches_per_update, /*updates_each=*/false);
}

}  // namespace batchless::hwmodel
