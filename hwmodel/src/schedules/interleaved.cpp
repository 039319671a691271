// Interleaved 1F1B: every worker has several stages, far apart.
#include <algorithm>
#include <utility>

#include "batchless/hwmodel/schedule_kinds.h"
#include "checks.h"
#include "schedules/orders.h"

namespace batchless::hwmodel {
namespace {

// What one of the workers does in a mini-batch of M micro-batches that begins with `first`.
struct InterleavedWorker {
  int worker;
  int workers;
  int chunks;
  std::int64_t microbatches_per_update;
  std::int64_t first;

  // Forwards ahead, then one forward and one backward in turn.
  void Append(Order& order) const {
    const std::int64_t count = microbatches_per_update * chunks;
    const std::int64_t ahead = std::min(count, ForwardsAhead());
    for (std::int64_t k = 0; k < count + ahead; ++k) {
      if (k < count) order.push_back(Forward(k));
      if (k < ahead) continue;
      const Action backward = Backward(k - ahead);
      order.push_back(backward);
      if (backward.microbatch == first + microbatches_per_update - 1) {
        order.push_back({backward.stage, ActionKind::kUpdate, backward.microbatch});
      }
    }
  }

  std::int64_t ForwardsAhead() const {
    const std::int64_t behind = workers - 1 - worker;
    if (chunks == 1) return behind;
    return 2 * behind + (std::int64_t{chunks} - 1) * workers;
  }

  // A group of `workers` micro-batches goes through the first chunk, then through the second, ...
  Action Forward(std::int64_t k) const {
    const std::int64_t group = k / (std::int64_t{workers} * chunks);
    const int chunk = static_cast<int>(k / workers % chunks);
    return {chunk * workers + worker, ActionKind::kForward, first + group * workers + k % workers};
  }

  // The same through the chunks in reverse.
  Action Backward(std::int64_t k) const {
    const Action mirrored = Forward(k);
    const int chunk = chunks - 1 - mirrored.stage / workers;
    return {chunk * workers + worker, ActionKind::kBackward, mirrored.microbatch};
  }
};

}  // namespace

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
  return InOrder(
      std::move(schedule), microbatches_per_update,
      [&](Order& order, int worker, std::int64_t first) {
        InterleavedWorker{worker, workers, chunks, microbatches_per_update, first}.Append(order);
      });
}

}  // namespace batchless::hwmodel
