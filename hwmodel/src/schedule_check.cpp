#include "batchless/hwmodel/schedule_check.h"

#include <algorithm>
#include <array>
#include <vector>

#include "batchless/analysis/cancellation.h"
#include "checks.h"

namespace batchless::hwmodel {
namespace {

// Micro-batches at stages that take little memory.
constexpr std::size_t kFewPasses = 1'000'000;
constexpr const char* kWhole =
    "forward, backward (with its weight gradient, where any has one) and update of every "
    "micro-batch at every stage";

std::string Range(const char* what, std::int64_t count) {
  return std::string(what) + " 0 .. " + std::to_string(count - 1);
}

void CheckFields(const Schedule& schedule) {
  CheckAtLeastOne("stages", schedule.stages);
  CheckAtLeastOne("microbatches", schedule.microbatches);
  RefuseIf(schedule.slots_per_step != 1 && schedule.slots_per_step != 2, "slots_per_step",
           schedule.slots_per_step, "1 or 2");
  const bool may_lag =
      schedule.weights == WeightVersions::kNewest || schedule.weights == WeightVersions::kStashed;
  RefuseIf(schedule.forward_lag < 0 || schedule.forward_lag > (may_lag ? kMaxForwardLag : 0),
           "forward_lag", schedule.forward_lag,
           may_lag ? "an integer from 0 to " + std::to_string(kMaxForwardLag)
                   : "0 with " + std::string(Name(schedule.weights)) + " weights");
  const std::vector<int>& workers = schedule.worker_of_stage;
  if (workers.empty()) return;
  RefuseIf(workers.size() % static_cast<std::size_t>(schedule.stages) != 0, "worker_of_stage",
           std::to_string(workers.size()) + " workers",
           "one for each of the " + std::to_string(schedule.stages) +
               " stages of each copy, or none for a worker a stage");
  for (const int worker : workers) {
    RefuseIf(worker < 0 || worker >= schedule.stages, "worker_of_stage", worker,
             Range("worker", schedule.stages));
  }
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    RefuseIf(std::find(workers.begin(), workers.end(), worker) == workers.end(), "worker_of_stage",
             "no stage for worker " + std::to_string(worker),
             "workers numbered from 0 without a gap");
  }
}

// Goes through the list and keeps what the rules ask about.
class Checker {
 public:
  explicit Checker(const Schedule& schedule)
      : schedule_(schedule),
        gradient_(schedule.splits_backward() ? ActionKind::kWeightGradient : ActionKind::kBackward),
        passes_(schedule.place(schedule.stages, 0)),
        stages_(static_cast<std::size_t>(schedule.stages)),
        workers_(static_cast<std::size_t>(schedule.workers())) {}

  // What the action should have been, or nothing where it is right.
  std::string Apply(const TimedAction& timed) {
    const Action& action = timed.action;
    if (action.stage < 0 || action.stage >= schedule_.stages) {
      return Range("stage", schedule_.stages);
    }
    if (action.microbatch < 0 || action.microbatch >= schedule_.microbatches) {
      return Range("micro-batch", schedule_.microbatches);
    }
    if (timed.step < step_) {
      return "step >= " + std::to_string(step_) +
             (step_ == 0 ? "" : ", that of the action before it");
    }
    if (timed.step > kMaxStep) return "step <= " + std::to_string(kMaxStep);
    step_ = timed.step;
    std::string accepted = TakeSlot(timed);
    if (!accepted.empty()) return accepted;
    return action.kind == ActionKind::kUpdate ? Update(action) : Compute(action);
  }

  std::optional<BrokenRule> FirstMissing() const {
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      for (std::int64_t i = 0; i < schedule_.microbatches; ++i) {
        if (passes_[schedule_.place(stage, i)].is_applied) continue;
        return BrokenRule{.action = {},
                          .place = "stage " + std::to_string(stage) + " ends before micro-batch " +
                                   std::to_string(i) + " is applied",
                          .accepted = kWhole};
      }
    }
    return std::nullopt;
  }

 private:
  static constexpr std::int64_t kNotDone = -1;

  // A micro-batch at a stage.
  struct Pass {
    std::array<std::int64_t, 3> steps = {kNotDone, kNotDone, kNotDone};  // by kind
    std::int64_t newest_at_forward = 0;                                  // version
    bool is_applied = false;

    std::int64_t& StepOf(ActionKind kind) { return steps.at(static_cast<std::size_t>(kind)); }
  };
  struct Stage {
    std::int64_t version = 0;
    std::vector<std::int64_t> unapplied;  // micro-batches with a gradient and no update
  };
  struct Worker {
    std::int64_t step = kNotDone;  // that of its last computation
    int computations = 0;          // in that step
    unsigned kinds = 0;            // bits of those
  };

  Pass& At(int stage, std::int64_t i) { return passes_[schedule_.place(stage, i)]; }

  Stage& StageOf(const Action& action) { return stages_[static_cast<std::size_t>(action.stage)]; }

  std::string TakeSlot(const TimedAction& timed) {
    const ActionKind kind = timed.action.kind;
    if (kind == ActionKind::kUpdate) return {};
    const int number = schedule_.worker(timed.action);
    Worker& worker = workers_[static_cast<std::size_t>(number)];
    if (worker.step != timed.step) worker = {.step = timed.step};
    const unsigned bit = 1U << static_cast<unsigned>(kind);
    const std::string place = " of worker " + std::to_string(number) + " in a step";
    if (worker.computations == schedule_.slots_per_step) {
      return "at most " + std::to_string(schedule_.slots_per_step) +
             (schedule_.slots_per_step == 1 ? " computation" : " computations") + place;
    }
    if ((worker.kinds & bit) != 0) return "at most 1 " + std::string(Name(kind)) + place;
    ++worker.computations;
    worker.kinds |= bit;
    return {};
  }

  std::string Compute(const Action& action) {
    const auto [stage, kind, i] = action;
    Pass& pass = At(stage, i);
    const bool forward = kind == ActionKind::kForward;
    const bool backward = kind == ActionKind::kBackward;
    if (pass.StepOf(kind) != kNotDone) {
      return "one " + std::string(Name(kind)) + " of each micro-batch at each stage";
    }
    const ActionKind before = backward ? ActionKind::kForward : ActionKind::kBackward;
    if (!forward && pass.StepOf(before) == kNotDone) {
      return ToText({stage, before, i}) + " before it";
    }
    const int sender = forward ? stage - 1 : stage + 1;
    if ((forward || backward) && sender >= 0 && sender < schedule_.stages) {
      const std::int64_t input = At(sender, i).StepOf(kind);
      if (input == kNotDone || input >= step_) {
        return ToText({sender, kind, i}) + " in an earlier step";
      }
    }
    pass.StepOf(kind) = step_;
    if (kind == gradient_) StageOf(action).unapplied.push_back(i);
    if (!forward) return {};
    pass.newest_at_forward = StageOf(action).version;
    const std::int64_t entered_with = At(0, i).newest_at_forward;
    if (schedule_.weights == WeightVersions::kVerticalSync &&
        pass.newest_at_forward < entered_with) {
      return "version " + std::to_string(entered_with) +
             " before it, which stage 0 read, with vertical sync";
    }
    return {};
  }

  std::string Update(const Action& action) {
    Stage& stage = StageOf(action);
    if (stage.unapplied.empty() || stage.unapplied.back() != action.microbatch) {
      return "an update numbered by the last gradient that it applies";
    }
    for (const std::int64_t i : stage.unapplied) {
      Pass& pass = At(action.stage, i);
      if (schedule_.weights == WeightVersions::kDoubleBuffered &&
          pass.newest_at_forward < stage.version - 1) {
        return "version " + std::to_string(stage.version - 1) +
               " of the double-buffered weights before the forward of micro-batch " +
               std::to_string(i) + ", which reads it";
      }
      pass.is_applied = true;
    }
    stage.unapplied.clear();
    ++stage.version;
    return {};
  }

  const Schedule& schedule_;
  ActionKind gradient_;  // that completes one
  std::int64_t step_ = 0;
  std::vector<Pass> passes_;  // (S, N)
  std::vector<Stage> stages_;
  std::vector<Worker> workers_;
};

}  // namespace

std::optional<BrokenRule> FirstBrokenRule(const Schedule& schedule) {
  CheckFields(schedule);
  // A list that names a micro-batch far away must not take the memory for all before it.
  const auto most = static_cast<std::int64_t>(schedule.actions.size() + kFewPasses);
  if (schedule.microbatches > most / schedule.stages) {
    return BrokenRule{.action = {},
                      .place = std::to_string(schedule.actions.size()) + " actions for " +
                               std::to_string(schedule.microbatches) + " micro-batches at " +
                               std::to_string(schedule.stages) + " stages",
                      .accepted = kWhole};
  }
  Checker checker(schedule);
  for (std::size_t k = 0; k < schedule.actions.size(); ++k) {
    analysis::CheckCancellation();
    const TimedAction& timed = schedule.actions[k];
    std::string accepted = checker.Apply(timed);
    if (accepted.empty()) continue;
    return BrokenRule{.action = k,
                      .place = ToText(timed.action) + " at step " + std::to_string(timed.step),
                      .accepted = std::move(accepted)};
  }
  return checker.FirstMissing();
}

void CheckSchedule(const Schedule& schedule) {
  const std::optional<BrokenRule> broken = FirstBrokenRule(schedule);
  if (broken) throw analysis::InvalidArgument("actions", broken->place, broken->accepted);
}

}  // namespace batchless::hwmodel
