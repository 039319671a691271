// Schedules in which a worker does its forwards, backwards and weight gradients each in order and in turn. They
// differ in how far the forwards run ahead and in when a stage updates: GPipe, 1F1B, interleaved 1F1B,
// PipeDream-Flush, PACI, PipeDream-2BW, AMDP and ZB-H1.
#include <algorithm>
#include <string>
#include <utility>

#include "batchless/hwmodel/schedule_kinds.h"
#include "checks.h"
#include "schedules/orders.h"

namespace batchless::hwmodel {
namespace {

// What a worker does in turn for `count` micro-batches, in each of its chunks of stages.
struct Turns {
  std::int64_t count;
  std::int64_t microbatches_per_update;
  bool splits_backward = false;
  int workers = 1;  // as many micro-batches go through one chunk, then through the next
  int chunks = 1;
};

// `ahead` forwards of the micro-batches from `first` on, then one of each pass in turn, then the passes that
// are left.
void AppendTurns(Order& order, const Turns& t, int worker, std::int64_t first, std::int64_t ahead) {
  const std::int64_t passes = t.count * t.chunks;
  ahead = std::min(ahead, passes);
  // Forwards run ahead of backwards, and those of weight gradients, by S-1 in all.
  const std::int64_t behind =
      ahead + (t.splits_backward ? std::min<std::int64_t>(worker, passes) : 0);
  const ActionKind gradient =
      t.splits_backward ? ActionKind::kWeightGradient : ActionKind::kBackward;
  const auto append = [&](ActionKind kind, std::int64_t k) {
    if (k < 0 || k >= passes) return;
    const std::int64_t group = k / (std::int64_t{t.workers} * t.chunks);
    const int forwards = static_cast<int>(k / t.workers % t.chunks);
    const int chunk = kind == ActionKind::kForward ? forwards : t.chunks - 1 - forwards;
    const int stage = chunk * t.workers + worker;
    const std::int64_t i = first + group * t.workers + k % t.workers;
    order.push_back({stage, kind, i});
    if (kind == gradient && (i + 1) % t.microbatches_per_update == 0) {
      order.push_back({stage, ActionKind::kUpdate, i});
    }
  };
  for (std::int64_t k = 0; k < passes + behind; ++k) {
    append(ActionKind::kForward, k);
    append(ActionKind::kBackward, k - ahead);
    if (t.splits_backward) append(ActionKind::kWeightGradient, k - behind);
  }
}

// All workers' turns, one `count` after the other; forwards_ahead(w) run ahead at worker w.
template <class Ahead>
Schedule InTurns(Schedule schedule, const Turns& turns, const Ahead& forwards_ahead) {
  CheckSizes(schedule.stages, schedule.microbatches, turns.microbatches_per_update);
  return InOrder(std::move(schedule), turns.count,
                 [&](Order& order, int worker, std::int64_t first) {
                   AppendTurns(order, turns, worker, first, forwards_ahead(worker));
                 });
}

// As many forwards as it takes for the first backward to come back.
auto AheadOfLast(int stages) {
  return [stages](int stage) { return stages - 1 - stage; };
}

}  // namespace

Schedule Gpipe(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update) {
  return InTurns({.stages = stages, .microbatches = microbatches},
                 {microbatches_per_update, microbatches_per_update},
                 [&](int) { return microbatches_per_update; });
}

Schedule OneForwardOneBackward(int stages, std::int64_t microbatches) {
  return Paci(stages, microbatches, 1);
}

Schedule PipeDreamFlush(int stages, std::int64_t microbatches,
                        std::int64_t microbatches_per_update) {
  return InTurns({.stages = stages, .microbatches = microbatches},
                 {microbatches_per_update, microbatches_per_update}, AheadOfLast(stages));
}

Schedule Paci(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update) {
  return InTurns({.stages = stages, .microbatches = microbatches},
                 {microbatches, microbatches_per_update}, AheadOfLast(stages));
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
      const std::int64_t ahead = is_last ? 0 : stage == 0 ? 1 : 2;
      AppendTurns(order, {left, microbatches_per_update}, stage, first, ahead);
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

Schedule Interleaved(int stages, int chunks, std::int64_t microbatches,
                     std::int64_t microbatches_per_update) {
  CheckSizes(stages, microbatches, microbatches_per_update);
  CheckDivides("chunks", chunks, stages);
  const int workers = stages / chunks;
  RefuseIf(microbatches_per_update % workers != 0, "microbatches_per_update",
           microbatches_per_update,
           "a multiple of the number of workers, " + std::to_string(workers));
  Schedule schedule{.stages = stages, .microbatches = microbatches};
  if (chunks > 1) {
    for (int stage = 0; stage < stages; ++stage) {
      schedule.worker_of_stage.push_back(stage % workers);
    }
  }
  return InTurns(std::move(schedule),
                 {microbatches_per_update, microbatches_per_update, false, workers, chunks},
                 [&](int worker) -> std::int64_t {
                   const std::int64_t behind = workers - 1 - worker;
                   if (chunks == 1) return behind;
                   return 2 * behind + (std::int64_t{chunks} - 1) * workers;
                 });
}

Schedule ZeroBubbleH1(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update) {
  return InTurns({.stages = stages, .microbatches = microbatches},
                 {microbatches_per_update, microbatches_per_update, true}, AheadOfLast(stages));
}

}  // namespace batchless::hwmodel
