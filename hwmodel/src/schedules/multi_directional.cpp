// AMDP's pipelines in several directions over the same workers.
#include <algorithm>

#include "batchless/hwmodel/schedule_kinds.h"
#include "checks.h"
#include "schedules/orders.h"

namespace batchless::hwmodel {

Schedule AmdpMulti(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update) {
  CheckSizes(stages, microbatches, microbatches_per_update);
  RefuseIf(stages % 4 != 0, "stages", stages,
           "a multiple of 4: of any four workers one begins a pipeline down, one a pipeline up");
  RefuseIf(microbatches_per_update % stages != 0, "microbatches_per_update",
           microbatches_per_update,
           "a multiple of " + std::to_string(stages) + ", two of each pipeline");
  const int copies = stages / 2;
  Schedule schedule{.stages = stages, .microbatches = microbatches};
  for (int copy = 0; copy < copies; ++copy) {
    for (int stage = 0; stage < stages; ++stage) {
      const bool down = copy % 2 == 0;
      const int worker = down ? 2 * copy + stage : 2 * copy + 1 - stage + stages;
      schedule.worker_of_stage.push_back(worker % stages);
    }
  }
  // Every worker does its passes by the steps in which they would come without the others: the second
  // micro-batch of a pipeline two steps behind the first one, at the first stage one. All copies of a stage
  // end a mini-batch in one step; the last worker that has one then updates it, but where more micro-batches
  // follow only after its forwards of the next S.
  std::vector<std::vector<TimedAction>> passes(static_cast<std::size_t>(stages));
  for (std::int64_t i = 0; i < microbatches; ++i) {
    const std::int64_t first = i / stages * stages;  // of the S micro-batches that this one is of
    const bool is_second = i - first >= copies;
    for (int stage = 0; stage < stages; ++stage) {
      const int worker = schedule.worker(stage, i);
      const bool updates = is_second && worker == stages - 4 + std::max(stage % 4, 3 - stage % 4);
      const bool late = stage > 0 && stage < stages - 1;
      auto& of_worker = passes[worker];
      const auto append = [&](std::int64_t step, ActionKind kind, std::int64_t microbatch) {
        of_worker.push_back({2 * first + step, {stage, kind, microbatch}});
      };
      const int forward = stage + (!is_second ? 0 : stage == 0 ? 1 : 2);
      const int backward = 2 * stages - 1 - stage + (!is_second ? 0 : stage == 0 ? 3 : 2);
      append(forward, ActionKind::kForward, i);
      if (updates && late && first > 0 && first % microbatches_per_update == 0) {
        append(forward, ActionKind::kUpdate, i - stages);
      }
      append(backward, ActionKind::kBackward, i);
      const std::int64_t end = first + stages;
      if (updates && (late ? end == microbatches : end % microbatches_per_update == 0)) {
        append(backward, ActionKind::kUpdate, i);
      }
    }
  }
  std::vector<Order> orders;
  for (auto& of_worker : passes) {
    std::stable_sort(of_worker.begin(), of_worker.end(),
                     [](const auto& a, const auto& b) { return a.step < b.step; });
    Order& order = orders.emplace_back();
    for (const auto& [step, action] : of_worker) order.push_back(action);
  }
  SetActions(schedule, orders);
  return schedule;
}

}  // namespace batchless::hwmodel
