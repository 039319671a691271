#include "batchless/hwmodel/schedule_summary.h"

#include <algorithm>
#include <string>
#include <utility>

#include "batchless/analysis/argument.h"

namespace batchless::hwmodel {
namespace {

// Replays one stage's actions and keeps count of its versions.
class StageReplay {
 public:
  explicit StageReplay(std::int64_t microbatches)
      : phase_(static_cast<std::size_t>(microbatches), Phase::kWaiting) {
    summary_.microbatches.resize(static_cast<std::size_t>(microbatches));
  }

  // Empty, or what is wrong with the action.
  std::string Apply(const Action& action) {
    const auto i = static_cast<std::size_t>(action.microbatch);
    switch (action.kind) {
      case ActionKind::kForward:
        return Forward(i);
      case ActionKind::kBackward:
        return Backward(i);
      case ActionKind::kWeightGradient:
        return "no weight gradient of its own";
      case ActionKind::kUpdate:
        break;
    }
    return Update(i);
  }

  // The first micro-batch that did not get through, or one past the last.
  std::size_t FirstUnfinished() const {
    const auto unfinished =
        std::find_if(phase_.begin(), phase_.end(), [](Phase p) { return p != Phase::kApplied; });
    return static_cast<std::size_t>(unfinished - phase_.begin());
  }

  StageSummary TakeSummary() {
    for (const MicrobatchVersions& versions : summary_.microbatches) {
      summary_.forward_delay_updates =
          std::max(summary_.forward_delay_updates, versions.forward_delay_updates());
      summary_.backward_delay_updates =
          std::max(summary_.backward_delay_updates, versions.backward_delay_updates());
    }
    return std::move(summary_);
  }

 private:
  enum class Phase : unsigned char { kWaiting, kForwardDone, kBackwardDone, kApplied };

  std::string Forward(std::size_t i) {
    if (phase_[i] != Phase::kWaiting) return "one forward of each micro-batch";
    phase_[i] = Phase::kForwardDone;
    summary_.microbatches[i].forward = version_;
    in_flight_.push_back(i);
    CountInFlight();
    return {};
  }

  std::string Backward(std::size_t i) {
    if (phase_[i] != Phase::kForwardDone) return "one backward, after the forward";
    phase_[i] = Phase::kBackwardDone;
    summary_.microbatches[i].backward = version_;
    in_flight_.erase(std::find(in_flight_.begin(), in_flight_.end(), i));
    unapplied_.push_back(i);
    return {};
  }

  std::string Update(std::size_t i) {
    if (unapplied_.empty() || unapplied_.back() != i) {
      return "an update numbered by the last gradient that it applies";
    }
    for (const std::size_t applied : unapplied_) {
      phase_[applied] = Phase::kApplied;
      summary_.microbatches[applied].update = version_;
    }
    unapplied_.clear();
    ++version_;
    CountInFlight();
    return {};
  }

  // Versions grow in the order of forwards, so equal ones stand side by side in in_flight_.
  void CountInFlight() {
    std::int64_t versions = 1;  // the current one
    std::int64_t last = version_;
    for (auto i = in_flight_.rbegin(); i != in_flight_.rend(); ++i) {
      const std::int64_t version = summary_.microbatches[*i].forward;
      if (version != last) ++versions;
      last = version;
    }
    summary_.activations_in_flight =
        std::max(summary_.activations_in_flight, static_cast<std::int64_t>(in_flight_.size()));
    summary_.stashed_weight_versions = std::max(summary_.stashed_weight_versions, versions);
  }

  StageSummary summary_;
  std::vector<Phase> phase_;
  std::vector<std::size_t> in_flight_;  // forward done, backward not, in order of forwards
  std::vector<std::size_t> unapplied_;  // backward done, no update yet
  std::int64_t version_ = 0;
};

[[noreturn]] void Fail(const TimedAction& timed, const std::string& accepted) {
  throw analysis::InvalidArgument(
      "actions", ToText(timed.action) + " at step " + std::to_string(timed.step), accepted);
}

void CheckRange(const Schedule& schedule, const TimedAction& timed, std::int64_t last_step) {
  const Action& action = timed.action;
  if (action.stage < 0 || action.stage >= schedule.stages) {
    Fail(timed, "stage 0 .. " + std::to_string(schedule.stages - 1));
  }
  if (action.microbatch < 0 || action.microbatch >= schedule.microbatches) {
    Fail(timed, "micro-batch 0 .. " + std::to_string(schedule.microbatches - 1));
  }
  if (timed.step < last_step) {
    Fail(timed, "step >= " + std::to_string(last_step) + ", that of the action before it");
  }
}

}  // namespace

ScheduleSummary Summarize(const Schedule& schedule) {
  if (schedule.stages < 1) {
    throw analysis::InvalidArgument("stages", std::to_string(schedule.stages), "an integer >= 1");
  }
  if (schedule.microbatches < 1) {
    throw analysis::InvalidArgument("microbatches", std::to_string(schedule.microbatches),
                                    "an integer >= 1");
  }
  std::vector<StageReplay> replays(static_cast<std::size_t>(schedule.stages),
                                   StageReplay(schedule.microbatches));
  std::int64_t computations = 0;
  for (std::size_t k = 0; k < schedule.actions.size(); ++k) {
    const TimedAction& timed = schedule.actions[k];
    CheckRange(schedule, timed, schedule.actions[k == 0 ? 0 : k - 1].step);
    const std::string accepted =
        replays[static_cast<std::size_t>(timed.action.stage)].Apply(timed.action);
    if (!accepted.empty()) Fail(timed, accepted);
    if (timed.action.kind != ActionKind::kUpdate) ++computations;
  }

  ScheduleSummary summary;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    StageReplay& replay = replays[static_cast<std::size_t>(stage)];
    const std::size_t unfinished = replay.FirstUnfinished();
    if (unfinished < static_cast<std::size_t>(schedule.microbatches)) {
      throw analysis::InvalidArgument(
          "actions",
          "stage " + std::to_string(stage) + " ends before micro-batch " +
              std::to_string(unfinished) + " is applied",
          "forward, backward and update of every micro-batch at every stage");
    }
    summary.stages.push_back(replay.TakeSummary());
  }
  summary.steps = schedule.actions.back().step - schedule.actions.front().step + 1;
  summary.utilisation =
      static_cast<double>(computations) /
      (2.0 * static_cast<double>(schedule.stages) * static_cast<double>(summary.steps));
  summary.bubble_ratio = 1 - summary.utilisation;
  return summary;
}

}  // namespace batchless::hwmodel
