#include "batchless/hwmodel/schedule_summary.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "batchless/analysis/cancellation.h"
#include "batchless/hwmodel/schedule_check.h"
#include "batchless/hwmodel/schedule_kinds.h"

namespace batchless::hwmodel {
namespace {

// Versions of one stage that are kept: the newest, and every older one with reads still to come.
class KeptVersions {
 public:
  void Expect(std::int64_t version) {
    const auto index = static_cast<std::size_t>(version);
    if (index >= reads_left_.size()) reads_left_.resize(index + 1);
    ++reads_left_[index];
  }

  void Read(std::int64_t version) {
    const bool is_last = --reads_left_[static_cast<std::size_t>(version)] == 0;
    if (is_last && version < newest_) --older_;
  }

  void Update() {
    const auto index = static_cast<std::size_t>(newest_++);
    if (index < reads_left_.size() && reads_left_[index] > 0) ++older_;
    most_ = std::max(most_, older_ + 1);
  }

  std::int64_t most() const { return most_; }

 private:
  std::vector<std::int64_t> reads_left_;  // by version
  std::int64_t newest_ = 0;
  std::int64_t older_ = 0;
  std::int64_t most_ = 1;
};

// One stage's part of the list, action by action.
class StageReplay {
 public:
  StageReplay(const Schedule& schedule, ActionKind gradient)
      : weights_(schedule.weights), lag_(schedule.forward_lag), gradient_(gradient) {
    summary_.microbatches.resize(static_cast<std::size_t>(schedule.microbatches));
  }

  // First time through: the versions.
  void FindVersions(const TimedAction& timed) {
    const Action& action = timed.action;
    MicrobatchVersions& versions = Of(action.microbatch);
    if (action.kind == ActionKind::kForward) versions.forward = version_;
    if (action.kind == ActionKind::kBackward) versions.backward = version_;
    if (action.kind == gradient_) unapplied_.push_back(action.microbatch);
    if (action.kind == ActionKind::kUpdate) {
      for (const std::int64_t i : unapplied_) Of(i).update = version_;
      unapplied_.clear();
      ++version_;
      update_steps_.push_back(timed.step);
    }
  }

  // Then, by micro-batch the step of its last backward: the versions that are made until there.
  void FindHorizons(std::span<const std::int64_t> last_backwards) {
    for (std::size_t i = 0; i < last_backwards.size(); ++i) {
      const MicrobatchVersions& newest = summary_.microbatches[i];
      const auto before =
          std::lower_bound(update_steps_.begin(), update_steps_.end(), last_backwards[i]);
      const std::int64_t made = before - update_steps_.begin();
      std::int64_t& forward = summary_.forward_horizon_updates;
      std::int64_t& backward = summary_.backward_horizon_updates;
      forward = std::max(forward, made - newest.forward);
      backward = std::max(backward, made - newest.backward);
    }
  }

  // Between the two. `entered_with`: the newest versions at stage 0 as the micro-batches entered.
  void ApplyRule(std::span<const std::int64_t> entered_with) {
    for (std::size_t i = 0; i < summary_.microbatches.size(); ++i) {
      MicrobatchVersions& versions = summary_.microbatches[i];
      versions.forward = weights_ == WeightVersions::kVerticalSync
                             ? entered_with[i]
                             : std::max<std::int64_t>(versions.forward - lag_, 0);
      stashed_.Expect(versions.forward);
      stashed_.Expect(versions.forward);
      forward_versions_.push_back(versions.forward);
      if (weights_ == WeightVersions::kDoubleBuffered) {
        versions.forward = std::max<std::int64_t>(versions.update - 1, 0);
      }
      if (weights_ != WeightVersions::kNewest) versions.backward = versions.forward;
      kept_.Expect(versions.forward);
      kept_.Expect(versions.backward);
      summary_.forward_delay_updates =
          std::max(summary_.forward_delay_updates, versions.forward_delay_updates());
      summary_.backward_delay_updates =
          std::max(summary_.backward_delay_updates, versions.backward_delay_updates());
    }
    if (weights_ == WeightVersions::kNewest) return;
    summary_.forward_horizon_updates = summary_.forward_delay_updates;
    summary_.backward_horizon_updates = 0;
  }

  // Second time through: what is kept.
  void CountKept(const Action& action) {
    const MicrobatchVersions& read = Of(action.microbatch);
    const bool forward = action.kind == ActionKind::kForward;
    if (forward) {
      summary_.activations_in_flight = std::max(summary_.activations_in_flight, ++in_flight_);
    }
    if (forward || action.kind == ActionKind::kBackward) {
      stashed_.Read(forward_versions_[static_cast<std::size_t>(action.microbatch)]);
      kept_.Read(forward ? read.forward : read.backward);
    }
    if (action.kind == ActionKind::kUpdate) {
      stashed_.Update();
      kept_.Update();
    }
    if (action.kind == gradient_) --in_flight_;
  }

  std::vector<std::int64_t> ForwardVersions() const {
    std::vector<std::int64_t> versions;
    for (const MicrobatchVersions& of : summary_.microbatches) versions.push_back(of.forward);
    return versions;
  }

  StageSummary TakeSummary() {
    summary_.weight_versions = kept_.most();
    summary_.stashed_weight_versions = stashed_.most();
    return std::move(summary_);
  }

 private:
  MicrobatchVersions& Of(std::int64_t i) {
    return summary_.microbatches[static_cast<std::size_t>(i)];
  }

  WeightVersions weights_;
  std::int64_t lag_;
  ActionKind gradient_;  // the action that completes a micro-batch's gradient
  StageSummary summary_;
  std::int64_t version_ = 0;
  std::vector<std::int64_t> update_steps_;
  std::int64_t in_flight_ = 0;
  std::vector<std::int64_t> unapplied_;         // with a gradient and no update
  std::vector<std::int64_t> forward_versions_;  // by micro-batch, of the stashed ones
  KeptVersions stashed_;
  KeptVersions kept_;
};

}  // namespace

ScheduleSummary Summarize(const Schedule& schedule) {
  CheckSchedule(schedule);
  const ActionKind gradient =
      schedule.splits_backward() ? ActionKind::kWeightGradient : ActionKind::kBackward;
  std::vector<StageReplay> replays(static_cast<std::size_t>(schedule.stages),
                                   StageReplay(schedule, gradient));
  std::int64_t computations = 0;
  std::vector<std::int64_t> last_backwards(static_cast<std::size_t>(schedule.microbatches));
  for (const TimedAction& timed : schedule.actions) {
    analysis::CheckCancellation();
    const Action& action = timed.action;
    replays[static_cast<std::size_t>(action.stage)].FindVersions(timed);
    if (action.kind != ActionKind::kUpdate) ++computations;
    if (action.kind == ActionKind::kBackward) {
      last_backwards[static_cast<std::size_t>(action.microbatch)] = timed.step;
    }
  }
  for (StageReplay& replay : replays) replay.FindHorizons(last_backwards);
  const std::vector<std::int64_t> entered_with = replays.front().ForwardVersions();
  for (StageReplay& replay : replays) replay.ApplyRule(entered_with);
  for (const auto& [step, action] : schedule.actions) {
    analysis::CheckCancellation();
    replays[static_cast<std::size_t>(action.stage)].CountKept(action);
  }

  ScheduleSummary summary;
  for (StageReplay& replay : replays) summary.stages.push_back(replay.TakeSummary());
  summary.workers = schedule.workers();
  summary.steps = schedule.actions.back().step - schedule.actions.front().step + 1;
  summary.utilisation = static_cast<double>(computations) /
                        (static_cast<double>(summary.workers) * schedule.slots_per_step *
                         static_cast<double>(summary.steps));
  summary.bubble_ratio = 1 - summary.utilisation;
  return summary;
}

std::vector<PlaceHorizons> HorizonsByPlace(const Schedule& schedule) {
  const std::int64_t m = MicrobatchesPerUpdate(schedule);
  const auto rounded = [m](std::int64_t microbatches) {
    return std::nearbyint(static_cast<double>(microbatches) / static_cast<double>(m));
  };
  std::vector<PlaceHorizons> horizons;
  for (int s = 0; s < schedule.stages; ++s) {
    const std::int64_t half = schedule.worker(s) / 2;
    horizons.push_back({rounded(schedule.workers() + m - half - 2), rounded(m + half - 1)});
  }
  return horizons;
}

}  // namespace batchless::hwmodel
