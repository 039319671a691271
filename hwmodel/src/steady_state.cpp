#include "batchless/hwmodel/steady_state.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/cancellation.h"
#include "batchless/hwmodel/schedule_check.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "checks.h"

namespace batchless::hwmodel {
namespace {

// Largest multiple of `divisor` that is at most `number`.
std::int64_t FloorMultiple(std::int64_t number, std::int64_t divisor) {
  const std::int64_t quotient = number / divisor - (number % divisor < 0 ? 1 : 0);
  return quotient * divisor;
}

// However far forwards lag, a short list shows the steady state: a lag adds to every age alike, but for
// those of the first passes, which would read versions from before the first.
Schedule WithoutLag(Schedule schedule) {
  // What is looked at later has a lag of 0, which is always right.
  CheckSchedule(schedule);
  schedule.forward_lag = 0;
  return schedule;
}

// Looks for the cycle, one length after the other.
class Search {
 public:
  Search(const Schedule& schedule, std::span<const int> worker_of_stage)
      : schedule_(schedule),
        worker_of_stage_(worker_of_stage),
        versions_(Summarize(schedule.forward_lag == 0 ? schedule : WithoutLag(schedule))),
        splits_backward_(schedule.splits_backward()),
        by_stage_(static_cast<std::size_t>(schedule.stages)),
        entries_(static_cast<std::size_t>(schedule.microbatches)),
        updates_after_(entries_.size()) {
    std::vector<std::int64_t> updates(by_stage_.size());
    for (const TimedAction& timed : schedule.actions) {
      analysis::CheckCancellation();
      const Action& action = timed.action;
      const auto stage = static_cast<std::size_t>(action.stage);
      by_stage_[stage].push_back(timed);
      ages_.push_back(VersionAge(action, updates[stage]));
      if (action.kind == ActionKind::kUpdate) ++updates[stage];
      if (action.stage != 0) continue;
      const auto microbatch = static_cast<std::size_t>(action.microbatch);
      if (action.kind == ActionKind::kForward) entries_[microbatch] = timed.step;
      if (action.kind == ActionKind::kUpdate) {
        updates_after_[microbatch] = true;
        last_update_ = std::max(last_update_, action.microbatch);
      }
    }
  }

  SteadyState Run() {
    for (std::int64_t cycle = 1; cycle <= schedule_.microbatches / 2; ++cycle) {
      // In a list that repeats, the update a cycle before the last one is there: long lists of few
      // updates have few lengths to try.
      if (cycle > last_update_ || !updates_after_[static_cast<std::size_t>(last_update_ - cycle)]) {
        continue;
      }
      // The last update of a list may come earlier than those that more micro-batches follow.
      for (std::int64_t back = 2; back <= std::min<std::int64_t>(3, schedule_.microbatches / cycle);
           ++back) {
        if (const auto found = Try(cycle, back)) return *found;
      }
    }
    throw analysis::InvalidArgument("actions", place_, accepted_);
  }

 private:
  std::int64_t VersionAge(const Action& action, std::int64_t newest) const {
    const MicrobatchVersions& read = versions_.stages[static_cast<std::size_t>(action.stage)]
                                         .microbatches[static_cast<std::size_t>(action.microbatch)];
    const bool stashes = schedule_.weights == WeightVersions::kStashed;
    const std::int64_t lag = schedule_.forward_lag;
    if (action.kind == ActionKind::kForward) return newest - read.forward + lag;
    if (action.kind == ActionKind::kBackward) return newest - read.backward + (stashes ? lag : 0);
    return 0;
  }

  // Index of the first action from that step on.
  std::size_t IndexOf(std::int64_t step) const {
    const auto first = std::ranges::lower_bound(schedule_.actions, step, {}, &TimedAction::step);
    return static_cast<std::size_t>(first - schedule_.actions.begin());
  }

  // The cycle of that many micro-batches, so many of them before the end of the list.
  std::optional<SteadyState> Try(std::int64_t microbatches, std::int64_t back) {
    const std::int64_t first = microbatches * (schedule_.microbatches / microbatches - back);
    const std::int64_t start = entries_[static_cast<std::size_t>(first)];
    const std::int64_t steps = entries_[static_cast<std::size_t>(first + microbatches)] - start;
    if (steps < 1) return std::nullopt;
    const std::size_t begin = IndexOf(start), next = IndexOf(start + steps);
    const std::size_t end = IndexOf(start + 2 * steps);
    analysis::CheckCancellation();
    if (!HasAll({&schedule_.actions[begin], next - begin}, microbatches)) return std::nullopt;
    for (std::size_t k = 0; begin + k < next; ++k) {
      TimedAction expected = schedule_.actions[begin + k];
      expected.step += steps;
      expected.action.microbatch += microbatches;
      if (next + k < end && schedule_.actions[next + k] == expected &&
          ages_[next + k] == ages_[begin + k]) {
        continue;
      }
      Note(k, schedule_.actions[std::min(next + k, schedule_.actions.size() - 1)], expected.action,
           microbatches);
      return std::nullopt;
    }

    SteadyState steady;
    steady.stages = schedule_.stages;
    steady.microbatches_per_cycle = microbatches;
    steady.steps_per_cycle = steps;
    FillWorkers(steady, begin, next, first);
    const Schedule repeated = Repeat(steady, schedule_, schedule_.microbatches);
    if (!AgreesAtEveryStage(repeated, microbatches)) return std::nullopt;
    if (const auto broken = FirstBrokenRule(repeated)) {
      place_ =
          "a cycle of " + std::to_string(microbatches) + " whose repetition has " + broken->place;
      accepted_ = broken->accepted;
      return std::nullopt;
    }
    return steady;
  }

  // Whether every stage does as many of everything as micro-batches enter, and updates.
  bool HasAll(std::span<const TimedAction> window, std::int64_t microbatches) const {
    std::vector<std::array<std::int64_t, kActionKinds.size()>> counts(by_stage_.size());
    for (const auto& [step, action] : window) {
      ++counts[static_cast<std::size_t>(action.stage)][static_cast<std::size_t>(action.kind)];
    }
    return std::ranges::all_of(counts, [&](const auto& of_stage) {
      const auto [forwards, backwards, weight_gradients, updates] = of_stage;
      return forwards == microbatches && backwards == microbatches && updates > 0 &&
             weight_gradients == (splits_backward_ ? microbatches : 0);
    });
  }

  void FillWorkers(SteadyState& steady, std::size_t begin, std::size_t end,
                   std::int64_t first) const {
    std::int64_t computations = 0;
    std::int64_t largest = 0;  // offset
    for (std::size_t k = begin; k < end; ++k) {
      largest = std::max(largest, schedule_.actions[k].action.microbatch - first);
    }
    // A run starts with cycle 0, which therefore has to be the first one with anything to do.
    const std::int64_t origin = first + FloorMultiple(largest, steady.microbatches_per_cycle);
    const std::int64_t start = schedule_.actions[begin].step;
    for (std::size_t k = begin; k < end; ++k) {
      const auto& [step, action] = schedule_.actions[k];
      const auto worker = static_cast<std::size_t>(
          worker_of_stage_.empty() ? schedule_.worker(action) : worker_of_stage_[action.stage]);
      if (worker >= steady.workers.size()) steady.workers.resize(worker + 1);
      steady.workers[worker].push_back({.kind = action.kind,
                                        .stage = action.stage,
                                        .offset = action.microbatch - origin,
                                        .step = step - start,
                                        .version_age = ages_[k]});
      if (action.kind != ActionKind::kUpdate) ++computations;
    }
    steady.utilisation = static_cast<double>(computations) /
                         (static_cast<double>(schedule_.workers()) * schedule_.slots_per_step *
                          static_cast<double>(steady.steps_per_cycle));
  }

  // Whether the repeated cycle does at each stage what the list does, in the same order.
  bool AgreesAtEveryStage(const Schedule& repeated, std::int64_t cycle) {
    std::vector<std::vector<Action>> stages(by_stage_.size());
    for (const auto& [step, action] : repeated.actions) {
      stages[static_cast<std::size_t>(action.stage)].push_back(action);
    }
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      const std::vector<TimedAction>& list = by_stage_[stage];
      const std::vector<Action>& expected = stages[stage];
      const std::size_t both = std::min(list.size(), expected.size());
      std::size_t done = 0;
      while (done < both && list[done].action == expected[done]) ++done;
      if (done == list.size() && done == expected.size()) continue;
      if (done < expected.size()) {
        Note(schedule_.actions.size() + done, list[std::min(done, list.size() - 1)], expected[done],
             cycle);
      }
      return false;
    }
    return true;
  }

  // Keeps the place of the cycle that comes nearest.
  void Note(std::size_t matched, const TimedAction& place, const Action& expected,
            std::int64_t microbatches) {
    if (matched < nearest_) return;
    nearest_ = matched;
    place_ = ToText(place.action) + " at step " + std::to_string(place.step);
    accepted_ = ToText(expected) + " next, as in a cycle of " + std::to_string(microbatches) +
                (microbatches == 1 ? " micro-batch" : " micro-batches");
  }

  const Schedule& schedule_;
  std::span<const int> worker_of_stage_;  // empty: the schedule's own
  ScheduleSummary versions_;
  bool splits_backward_;
  std::vector<std::vector<TimedAction>> by_stage_;
  std::vector<std::int64_t> entries_;  // step of each micro-batch's forward at stage 0
  std::vector<bool> updates_after_;    // by micro-batch, of stage 0
  std::int64_t last_update_ = 0;       // the largest of them
  std::vector<std::int64_t> ages_;     // by action of the list
  std::size_t nearest_ = 0;
  std::string place_ = "no two cycles in which every stage does everything";
  std::string accepted_ = "a schedule that repeats, and more micro-batches of it";
};

}  // namespace

SteadyState FindSteadyState(const Schedule& schedule, std::span<const int> worker_of_stage) {
  RefuseIf(!worker_of_stage.empty() &&
               worker_of_stage.size() != static_cast<std::size_t>(schedule.stages),
           "worker_of_stage", std::to_string(worker_of_stage.size()) + " workers",
           "one for each of the " + std::to_string(schedule.stages) + " stages");
  for (const int worker : worker_of_stage) {
    RefuseIf(worker < 0 || worker >= schedule.stages, "worker_of_stage", worker,
             "worker 0 .. " + std::to_string(schedule.stages - 1));
  }
  return Search(schedule, worker_of_stage).Run();
}

std::int64_t EnoughMicrobatches(const SteadyState& steady) {
  std::int64_t smallest = 0;  // offset
  std::int64_t age = 0;       // of the oldest version that a forward reads
  std::vector<std::int64_t> updates(static_cast<std::size_t>(steady.stages));
  for (const std::vector<SteadyAction>& worker : steady.workers) {
    for (const SteadyAction& action : worker) {
      smallest = std::min(smallest, action.offset);
      if (action.kind == ActionKind::kForward) age = std::max(age, action.version_age);
      if (action.kind == ActionKind::kUpdate) ++updates[static_cast<std::size_t>(action.stage)];
    }
  }
  // No gradient is later than the updates of the cycles in which its micro-batch is on its way, and of
  // those by which forwards lag. A version is kept for as long again.
  const std::int64_t fewest = *std::ranges::min_element(updates);
  const std::int64_t cycles =
      2 - smallest / steady.microbatches_per_cycle + (age + fewest - 1) / fewest;
  return steady.microbatches_per_cycle * (2 * cycles + 1);
}

Schedule Repeat(const SteadyState& steady, const Schedule& like, std::int64_t microbatches) {
  Schedule schedule = {.stages = steady.stages,
                       .microbatches = microbatches,
                       .slots_per_step = like.slots_per_step,
                       .weights = like.weights,
                       .forward_lag = like.forward_lag,
                       .worker_of_stage = like.worker_of_stage};
  std::vector<SteadyAction> cycle;
  for (const std::vector<SteadyAction>& worker : steady.workers) {
    cycle.insert(cycle.end(), worker.begin(), worker.end());
  }
  std::ranges::stable_sort(cycle, {}, &SteadyAction::step);
  std::int64_t smallest = 0;  // offset
  for (const SteadyAction& action : cycle) smallest = std::min(smallest, action.offset);
  for (std::int64_t c = 0; c * steady.microbatches_per_cycle + smallest < microbatches; ++c) {
    for (const SteadyAction& action : cycle) {
      const std::int64_t i = c * steady.microbatches_per_cycle + action.offset;
      if (i < 0 || i >= microbatches) continue;
      schedule.actions.push_back(
          {c * steady.steps_per_cycle + action.step, {action.stage, action.kind, i}});
    }
  }
  const std::int64_t start = schedule.actions.empty() ? 0 : schedule.actions.front().step;
  for (TimedAction& timed : schedule.actions) timed.step -= start;
  return schedule;
}

}  // namespace batchless::hwmodel
