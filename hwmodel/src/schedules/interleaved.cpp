// Interleaved 1F1B: every worker has several stages, far apart.
#include <algorithm>

#include "batchless/hwmodel/schedule_kinds.h"
#include "checks.h"
#include "schedules/orders.h"

namespace batchless::hwmodel {
namespace {

class InterleavedWorker {
 public:
  InterleavedWorker(int worker, int workers, int chunks, std::int64_t microbatches_per_update)
      : worker_(worker),
        workers_(workers),
        chunks_(chunks),
        microbatches_per_update_(microbatches_per_update) {}

  // One mini-batch: forwards ahead, then one forward and one backward in turn.
  void AppendMinibatch(Order& order, std::int64_t first) const {
    const std::int64_t count = microbatches_per_update_ * chunks_;
    const std::int64_t ahead = std::min(count, ForwardsAhead());
    for (std::int64_t k = 0; k < count + ahead; ++k) {
      if (k < count) order.push_back(Forward(k, first));
      if (k < ahead) continue;
      const Action backward = Backward(k - ahead, first);
      order.push_back(backward);
      if (backward.microbatch == first + microbatches_per_update_ - 1) {
        order.push_back({backward.stage, ActionKind::kUpdate, backward.microbatch});
      }
    }
  }

 private:
  std::int64_t ForwardsAhead() const {
    const std::int64_t behind = workers_ - 1 - worker_;
    if (chunks_ == 1) return behind;
    return 2 * behind + (std::int64_t{chunks_} - 1) * workers_;
  }

  // A group of `workers` micro-batches goes through the first chunk, then through the second, ...
  Action Forward(std::int64_t k, std::int64_t first) const {
    const std::int64_t group = k / (std::int64_t{workers_} * chunks_);
    const int chunk = static_cast<int>(k / workers_ % chunks_);
    return {chunk * workers_ + worker_, ActionKind::kForward,
            first + group * workers_ + k % workers_};
  }

  // The same through the chunks in reverse.
  Action Backward(std::int64_t k, std::int64_t first) const {
    const Action mirrored = Forward(k, first);
    const int chunk = chunks_ - 1 - mirrored.stage / workers_;
    return {chunk * workers_ + worker_, ActionKind::kBackward, mirrored.microbatch};
  }

  int worker_;
  int workers_;
  int chunks_;
  std::int64_t microbatches_per_update_;
};

}  // namespace

Schedule Interleaved(int stages, int chunks, std::int64_t microbatches,
                     std::int64_t microbatches_per_update) {
  CheckSizes(stages, microbatches, microbatches_per_update);
  CheckDivides("chunks", chunks, stages);
  const int workers = stages / chunks;
  RefuseIf(microbatches_per_update % workers != 0, "microbatches_per_update",
           std::to_string(microbatches_per_update),
           "a multiple of the number of workers, " + std::to_string(workers));
  Schedule schedule{.stages = stages, .microbatches = microbatches};
  if (chunks > 1) {
    for (int stage = 0; stage < stages; ++stage) {
      schedule.worker_of_stage.push_back(stage % workers);
    }
  }
  std::vector<Order> orders(static_cast<std::size_t>(workers));
  for (int worker = 0; worker < workers; ++worker) {
    const InterleavedWorker generator(worker, workers, chunks, microbatches_per_update);
    for (std::int64_t first = 0; first < microbatches; first += microbatches_per_update) {
      generator.AppendMinibatch(orders[worker], first);
    }
  }
  SetActions(schedule, orders);
  return schedule;
}

}  // namespace batchless::hwmodel
