// Schedules over workers with two stages each, in the shape of a V: worker w has the stages w and S-1-w.
// The backward is split, and what is left of it fills the drain.
#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "batchless/hwmodel/schedule_kinds.h"
#include "checks.h"
#include "schedules/orders.h"

namespace batchless::hwmodel {
namespace {

// Appends what one worker does in a mini-batch of M micro-batches to its order. Arm 0 of the V is the stage
// on the way down, w; arm 1 the one on the way up.
class VWorker {
 public:
  VWorker(Order& order, int worker, int stages, std::int64_t microbatches, std::int64_t first)
      : order_(order),
        stages_{worker, stages - 1 - worker},
        microbatches_(microbatches),
        first_(first) {}

  void Forward(int arm) { Append(ActionKind::kForward, arm); }
  void Backward(int arm) {
    InputGradient(arm);
    WeightGradient(arm);
  }
  void InputGradient(int arm) { Append(ActionKind::kBackward, arm); }
  void WeightGradient(int arm) {
    const std::int64_t microbatch = Append(ActionKind::kWeightGradient, arm);
    if (Count(ActionKind::kWeightGradient, arm) < microbatches_) return;
    order_.push_back({stages_[arm], ActionKind::kUpdate, microbatch});
  }

  std::int64_t Count(ActionKind kind, int arm) const {
    return counts_[static_cast<std::size_t>(kind)][arm];
  }

 private:
  std::int64_t Append(ActionKind kind, int arm) {
    const std::int64_t microbatch = first_ + counts_[static_cast<std::size_t>(kind)][arm]++;
    order_.push_back({stages_[arm], kind, microbatch});
    return microbatch;
  }

  Order& order_;
  std::array<int, 2> stages_;
  std::int64_t microbatches_;
  std::int64_t first_;
  std::array<std::array<std::int64_t, 2>, kActionKinds.size()> counts_{};
};

void AppendZeroBubbleV(Order& order, int worker, int stages, std::int64_t microbatches,
                       std::int64_t first) {
  const int behind = stages / 2 - worker;  // workers from this one to the foot of the V
  VWorker v(order, worker, stages, microbatches, first);
  for (int k = 0; k < 2 * behind - 1; ++k) v.Forward(0);
  for (int k = 0; k < worker; ++k) {
    v.Forward(1);
    v.Forward(0);
  }
  for (int k = 0; k < behind; ++k) {
    v.Forward(1);
    v.Backward(1);
  }
  while (v.Count(ActionKind::kForward, 1) < microbatches) {
    if (v.Count(ActionKind::kForward, 0) < microbatches) v.Forward(0);
    v.Backward(0);
    v.Forward(1);
    v.Backward(1);
  }
  // What others wait for comes first.
  for (int k = 0; k < worker; ++k) {
    v.InputGradient(0);
    v.InputGradient(1);
  }
  for (int k = 0; k < behind; ++k) v.Backward(0);
  for (const int arm : {1, 0}) {
    while (v.Count(ActionKind::kWeightGradient, arm) < microbatches) v.WeightGradient(arm);
  }
}

void AppendDualPipeV(Order& order, int worker, int stages, std::int64_t microbatches,
                     std::int64_t first) {
  const int behind = stages / 2 - 1 - worker;
  VWorker v(order, worker, stages, microbatches, first);
  std::deque<int> left;  // arms of input gradients whose weight gradients come later
  const auto backward = [&](int arm, bool whole) {
    whole ? v.Backward(arm) : v.InputGradient(arm);
    if (!whole) left.push_back(arm);
  };
  const auto catch_up = [&] {
    v.WeightGradient(left.front());
    left.pop_front();
  };
  for (int k = 0; k < 2 * behind; ++k) v.Forward(0);
  for (int k = 0; k <= worker; ++k) {
    v.Forward(0);
    v.Forward(1);
  }
  for (int k = 0; k < behind; ++k) {
    backward(1, false);
    catch_up();
    v.Forward(1);
  }
  // A forward beside a backward of the other arm, in turn.
  while (v.Count(ActionKind::kForward, 0) < microbatches) {
    v.Forward(0);
    backward(1, true);
    v.Forward(1);
    backward(0, true);
  }
  for (int k = 0; k < behind; ++k) {
    backward(1, true);
    v.Forward(1);
    backward(0, true);
  }
  // From the middle of what is left on others are waited for.
  const int half = (worker + 1) / 2;
  for (int k = 0; k <= worker; ++k) {
    backward(1, k < half + (worker % 2 == 0 ? 1 : 0));
    backward(0, k < half);
  }
  for (int k = 0; k < behind; ++k) {
    catch_up();
    backward(0, false);
  }
  while (!left.empty()) catch_up();
}

void CheckV(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update,
            std::int64_t fewest) {
  CheckSizes(stages, microbatches, microbatches_per_update);
  RefuseIf(stages % 2 != 0, "stages", stages, "an even number, two of each worker");
  RefuseIf(microbatches_per_update < fewest, "microbatches_per_update", microbatches_per_update,
           "at least " + std::to_string(fewest) + " with " + std::to_string(stages) + " stages");
}

// A V of the stages; append(order, worker, stages, microbatches, first) adds a worker's mini-batch.
template <class Append>
Schedule VSchedule(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update,
                   const Append& append) {
  CheckV(stages, microbatches, microbatches_per_update, stages);
  Schedule schedule{.stages = stages, .microbatches = microbatches};
  for (int stage = 0; stage < stages; ++stage) {
    schedule.worker_of_stage.push_back(std::min(stage, stages - 1 - stage));
  }
  return InOrder(std::move(schedule), microbatches_per_update,
                 [&](Order& order, int worker, std::int64_t first) {
                   append(order, worker, stages, microbatches_per_update, first);
                 });
}

}  // namespace

Schedule ZeroBubbleV(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update) {
  return VSchedule(stages, microbatches, microbatches_per_update, AppendZeroBubbleV);
}

Schedule DualPipeV(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update) {
  return VSchedule(stages, microbatches, microbatches_per_update, AppendDualPipeV);
}

Schedule DualPipe(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update) {
  CheckV(stages, microbatches, microbatches_per_update, 2 * std::int64_t{stages});
  RefuseIf(microbatches_per_update % 2 != 0, "microbatches_per_update", microbatches_per_update,
           "an even number, half of them from each end");
  Schedule schedule{.stages = stages, .microbatches = microbatches};
  for (int stage = 0; stage < stages; ++stage) schedule.worker_of_stage.push_back(stage);
  for (int stage = 0; stage < stages; ++stage) {
    schedule.worker_of_stage.push_back(stages - 1 - stage);
  }
  // Each worker and the one across do what a worker of the V does, at the same time; where the V turns back
  // on one worker, the two hand on to each other. Micro-batch k of the V is 2k from the front, 2k + 1 from
  // the back.
  const auto append = [&](Order& order, int worker, std::int64_t first) {
    const bool mirrored = worker >= stages / 2;
    const int of_v = mirrored ? stages - 1 - worker : worker;
    Order actions_of_v;
    AppendDualPipeV(actions_of_v, of_v, stages, microbatches_per_update / 2, first / 2);
    for (const Action& action : actions_of_v) {
      // Both make the last gradients of their stages in one step, this one after the other.
      if (action.kind == ActionKind::kUpdate && !mirrored) continue;
      const bool from_back = (action.stage != of_v) != mirrored;
      order.push_back({action.stage, action.kind, 2 * action.microbatch + (from_back ? 1 : 0)});
    }
  };
  return InOrder(std::move(schedule), microbatches_per_update, append);
}

}  // namespace batchless::hwmodel
