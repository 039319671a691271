#include "batchless/hwmodel/schedule.h"

#include <string>

#include "batchless/analysis/argument.h"

namespace batchless::hwmodel {
namespace {

void CheckAtLeastOne(const char* name, std::int64_t value) {
  if (value < 1) {
    throw analysis::InvalidArgument(name, std::to_string(value), "an integer >= 1");
  }
}

// Appends one mini-batch of micro-batches first .. first + count - 1 that enters at `start`.
// updates_each: whether a stage updates after every backward or after its last one only.
void AppendMinibatch(Schedule& schedule, std::int64_t start, std::int64_t first, std::int64_t count,
                     bool updates_each) {
  const std::int64_t depth = schedule.stages;
  const auto is_member = [count](std::int64_t i) { return i >= 0 && i < count; };
  const std::int64_t steps = count + 2 * depth - 2;
  for (std::int64_t step = 0; step < steps; ++step) {
    for (int stage = 0; stage < schedule.stages; ++stage) {
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

}  // namespace

Schedule PipelinedBackpropagation(int stages, std::int64_t microbatches) {
  CheckAtLeastOne("stages", stages);
  CheckAtLeastOne("microbatches", microbatches);
  Schedule schedule{stages, microbatches, {}};
  AppendMinibatch(schedule, 0, 0, microbatches, /*updates_each=*/true);
  return schedule;
}

Schedule FillDrain(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update) {
  CheckAtLeastOne("stages", stages);
  CheckAtLeastOne("microbatches", microbatches);
  CheckAtLeastOne("microbatches_per_update", microbatches_per_update);
  if (microbatches % microbatches_per_update != 0) {
    throw analysis::InvalidArgument("microbatches_per_update",
                                    std::to_string(microbatches_per_update),
                                    "a divisor of " + std::to_string(microbatches));
  }
  Schedule schedule{stages, microbatches, {}};
  const std::int64_t depth = stages;
  std::int64_t start = 0;
  for (std::int64_t first = 0; first < microbatches; first += microbatches_per_update) {
    AppendMinibatch(schedule, start, first, microbatches_per_update, /*updates_each=*/false);
    start += microbatches_per_update + 2 * depth - 2;
  }
  return schedule;
}

}  // namespace batchless::hwmodel
