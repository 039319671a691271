#include "schedules/orders.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>

#include "batchless/analysis/cancellation.h"

namespace batchless::hwmodel {
namespace {

constexpr std::int64_t kUnknown = -2;
constexpr std::int64_t kNoInput = -1;  // before the first step

class Clock {
 public:
  Clock(const Schedule& schedule, const std::vector<Order>& orders)
      : schedule_(schedule),
        orders_(orders),
        steps_(orders.size()),
        next_step_(orders.size(), 0),
        forwards_(schedule.place(schedule.stages, 0), kUnknown),
        backwards_(forwards_) {
    for (std::size_t worker = 0; worker < orders.size(); ++worker) {
      steps_[worker].reserve(orders[worker].size());
      waiting_.push_back(orders.size() - 1 - worker);
    }
  }

  // The step of every action, by worker, as in the orders.
  std::vector<std::vector<std::int64_t>> Run() {
    while (!waiting_.empty()) {
      const std::size_t worker = waiting_.back();
      waiting_.pop_back();
      while (steps_[worker].size() < orders_[worker].size() && DoNext(worker)) {
      }
    }
    for (std::size_t worker = 0; worker < orders_.size(); ++worker) {
      if (steps_[worker].size() < orders_[worker].size()) {
        throw std::logic_error(ToText(orders_[worker][steps_[worker].size()]) +
                               " waits for ever in its worker's order");
      }
    }
    return std::move(steps_);
  }

 private:
  bool IsStage(int stage) const { return stage >= 0 && stage < schedule_.stages; }

  // Whether the worker's next action has its input; sets its step where it has.
  bool DoNext(std::size_t worker) {
    analysis::CheckCancellation();
    const auto& [stage, kind, microbatch] = orders_[worker][steps_[worker].size()];
    std::int64_t& next_step = next_step_[worker];
    const bool forward = kind == ActionKind::kForward;
    if (forward || kind == ActionKind::kBackward) {
      std::vector<std::int64_t>& steps = forward ? forwards_ : backwards_;
      const int sender = forward ? stage - 1 : stage + 1;
      const int receiver = forward ? stage + 1 : stage - 1;
      const std::size_t pass = schedule_.place(stage, microbatch);
      const std::int64_t input = IsStage(sender) ? steps[schedule_.place(sender, microbatch)]
                                 : forward       ? kNoInput
                                                 : forwards_[pass];
      if (input == kUnknown) return false;
      next_step = steps[pass] = std::max(next_step, input + 1);
      if (IsStage(receiver)) Wake(receiver, microbatch);
    }
    if (kind != ActionKind::kUpdate) ++next_step;
    steps_[worker].push_back(next_step - 1);
    return true;
  }

  void Wake(int stage, std::int64_t microbatch) {
    const auto worker = static_cast<std::size_t>(schedule_.worker(stage, microbatch));
    if (waiting_.empty() || waiting_.back() != worker) waiting_.push_back(worker);
  }

  const Schedule& schedule_;
  const std::vector<Order>& orders_;
  std::vector<std::vector<std::int64_t>> steps_;  // of the actions done, by worker
  std::vector<std::int64_t> next_step_;           // first free one, by worker
  std::vector<std::int64_t> forwards_;            // step of each stage's forward of a micro-batch
  std::vector<std::int64_t> backwards_;
  std::vector<std::size_t> waiting_;  // workers that may have something to do
};

}  // namespace

void SetActions(Schedule& schedule, const std::vector<Order>& orders) {
  schedule.slots_per_step = 1;
  const std::vector<std::vector<std::int64_t>> steps = Clock(schedule, orders).Run();
  std::int64_t last = 0;
  for (const std::vector<std::int64_t>& of_worker : steps) last = std::max(last, of_worker.back());
  // Sorted by counting: where the actions of each step begin, worker after worker.
  std::vector<std::size_t> place(static_cast<std::size_t>(last) + 2);
  for (const std::vector<std::int64_t>& of_worker : steps) {
    for (const std::int64_t step : of_worker) ++place[static_cast<std::size_t>(step) + 1];
  }
  for (std::size_t step = 1; step < place.size(); ++step) place[step] += place[step - 1];
  schedule.actions.resize(place.back());
  for (std::size_t worker = 0; worker < orders.size(); ++worker) {
    for (std::size_t k = 0; k < orders[worker].size(); ++k) {
      const std::int64_t step = steps[worker][k];
      schedule.actions[place[step]++] = {step, orders[worker][k]};
    }
  }
}

}  // namespace batchless::hwmodel
