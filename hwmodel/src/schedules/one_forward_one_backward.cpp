// Schedules of one stage a worker that differ in how far the forwards run ahead and in when the
// stage updates: GPipe, 1F1B, PipeDream-Flush, PACI, PipeDream-2BW and AMDP.
#include <algorithm>
#include <string>

#include "batchless/hwmodel/schedule_kinds.h"
#include "checks.h"
#include "schedules/orders.h"

namespace batchless::hwmodel {
namespace {

// `ahead` forwards of the micro-batches first .. first + count - 1, then one forward and one
// backward in turn, then the backwards that are left.
void AppendTurns(Order& order, int stage, std::int64_t first, std::int64_t count,
                 std::int64_t ahead, std::int64_t microbatches_per_update) {
  for (std::int64_t k = 0; k < count + ahead; ++k) {
    if (k < count) order.push_back({stage, ActionKind::kForward, first + k});
    if (k < ahead) continue;
    const std::int64_t i = first + k - ahead;
    order.push_back({stage, ActionKind::kBackward, i});
    if ((i + 1) % microbatches_per_update == 0) order.push_back({stage, ActionKind::kUpdate, i});
  }
}

// Passes of `count` micro-batches each; forwards_ahead(s) of them run ahead at stage s.
template <class Ahead>
Schedule Turns(int stages, std::int64_t microbatches, std::int64_t count,
               std::int64_t microbatches_per_update, const Ahead& forwards_ahead) {
  return InOrder({.stages = stages, .microbatches = microbatches}, count,
                 [&](Order& order, int stage, std::int64_t first) {
                   const std::int64_t ahead = std::min<std::int64_t>(forwards_ahead(stage), count);
                   AppendTurns(order, stage, first, count, ahead, microbatches_per_update);
                 });
}

// As many forwards as it takes for the first backward to come back.
auto AheadOfLast(int stages) {
  return [stages](int stage) { return stages - 1 - stage; };
}

}  // namespace

Schedule Gpipe(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update) {
  CheckSizes(stages, microbatches, microbatches_per_update);
  return Turns(stages, microbatches, microbatches_per_update, microbatches_per_update,
               [&](int) { return microbatches_per_update; });
}

Schedule OneForwardOneBackward(int stages, std::int64_t microbatches) {
  CheckSizes(stages, microbatches, 1);
  return Turns(stages, microbatches, microbatches, 1, AheadOfLast(stages));
}

Schedule PipeDreamFlush(int stages, std::int64_t microbatches,
                        std::int64_t microbatches_per_update) {
  CheckSizes(stages, microbatches, microbatches_per_update);
  return Turns(stages, microbatches, microbatches_per_update, microbatches_per_update,
               AheadOfLast(stages));
}

Schedule Paci(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update) {
  CheckSizes(stages, microbatches, microbatches_per_update);
  return Turns(stages, microbatches, microbatches, microbatches_per_update, AheadOfLast(stages));
}

Schedule Amdp(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update) {
  CheckSizes(stages, microbatches, microbatches_per_update);
  const auto append = [&](Order& order, int stage, std::int64_t) {
    // As the passes' inputs arrive: between the ends of the pipeline both backwards of a pair are there
    // before the forwards of the next one.
    const bool is_last = stage == stages - 1;
    const std::int64_t count = stage == 0 || is_last ? microbatches : 2;
    for (std::int64_t first = 0; first < microbatches; first += count) {
      const std::int64_t left = std::min(count, microbatches - first);
      const std::int64_t ahead = is_last ? 0 : std::min<std::int64_t>(stage == 0 ? 1 : 2, left);
      AppendTurns(order, stage, first, left, ahead, microbatches_per_update);
    }
  };
  return InOrder({.stages = stages, .microbatches = microbatches}, microbatches, append);
}

Schedule PipeDream2Bw(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update) {
  CheckSizes(stages, microbatches, microbatches_per_update);
  RefuseIf(microbatches_per_update < stages, "microbatches_per_update", microbatches_per_update,
           "at least the number of stages, " + std::to_string(stages) +
               ": with fewer there is a third version of the weights");
  Schedule schedule = Paci(stages, microbatches, microbatches_per_update);
  schedule.weights = WeightVersions::kDoubleBuffered;
  return schedule;
}

}  // namespace batchless::hwmodel
