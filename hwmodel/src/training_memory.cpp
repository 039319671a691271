#include "batchless/hwmodel/training_memory.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "batchless/hwmodel/steady_state.h"
#include "checks.h"

namespace batchless::hwmodel {
namespace {

// When each pass of each micro-batch comes. Stages of one step hand their results on before they
// take new ones: the forwards from the last stage down, the others from the first one up.
class Places {
 public:
  explicit Places(const Schedule& schedule) : schedule_(schedule) {
    places_.fill(std::vector<std::int64_t>(schedule.place(schedule.stages, 0)));
    const std::int64_t stages = schedule.stages;
    for (const auto& [step, action] : schedule.actions) {
      const bool forward = action.kind == ActionKind::kForward;
      At({action.kind, action.stage}, action.microbatch) =
          2 * stages * step + (forward ? stages - 1 - action.stage : stages + action.stage);
    }
  }

  // The most micro-batches that have had their `write` and not yet all of their `releases`, the last
  // of these included; none without a use.
  std::int64_t MostHeld(const std::optional<MemoryUse>& optional) {
    if (!optional) return 0;
    const MemoryUse& use = *optional;
    std::vector<std::int64_t> written;
    std::vector<std::int64_t> released;
    for (std::int64_t i = 0; i < schedule_.microbatches; ++i) {
      written.push_back(At(use.write, i));
      std::int64_t last = At(use.write, i);
      for (const Pass release : use.releases) last = std::max(last, At(release, i));
      released.push_back(last);
    }
    std::ranges::sort(written);
    std::ranges::sort(released);
    std::int64_t most = 0;
    std::size_t gone = 0;
    for (std::size_t here = 0; here < written.size(); ++here) {
      while (released[gone] < written[here]) ++gone;
      most = std::max(most, static_cast<std::int64_t>(here + 1 - gone));
    }
    return most;
  }

 private:
  std::int64_t& At(Pass pass, std::int64_t microbatch) {
    return places_[static_cast<std::size_t>(pass.kind)][schedule_.place(pass.stage, microbatch)];
  }

  const Schedule& schedule_;
  std::array<std::vector<std::int64_t>, kActionKinds.size()> places_;
};

// How the list of actions uses a stage.
struct StageUse {
  std::int64_t age = 0;      // updates from the oldest weights that a pass reads to the newest
  std::int64_t updates = 0;  // in a cycle
  bool waits = false;        // its gradients, for other micro-batches
};

std::vector<StageUse> UsesOf(const Schedule& schedule) {
  const SteadyState steady = FindSteadyState(schedule);
  std::vector<StageUse> uses(static_cast<std::size_t>(schedule.stages));
  for (const std::vector<SteadyAction>& worker : steady.workers) {
    for (const SteadyAction& action : worker) {
      StageUse& use = uses[static_cast<std::size_t>(action.stage)];
      use.age = std::max(use.age, action.version_age);
      if (action.kind == ActionKind::kUpdate) ++use.updates;
    }
  }
  for (StageUse& use : uses) {
    use.waits = use.updates < steady.microbatches_per_cycle || schedule.splits_backward();
  }
  return uses;
}

class Prediction {
 public:
  Prediction(const Network& network, const Schedule& schedule, const TrainingMemoryOptions& options)
      : network_(network),
        options_(options),
        uses_(UsesOf(schedule)),
        places_(schedule),
        plan_(network, schedule.splits_backward(), options.recomputed),
        costs_(ComputeCosts(network, options.bytes_per_number)) {}

  TrainingMemory Of(const StageSpan& process) {
    TrainingMemory memory;
    AddParameters(process, memory);
    AddActivations(process, memory);
    AddLinks(process, memory);
    return memory;
  }

 private:
  std::int64_t number() const { return options_.bytes_per_number; }
  const StageCost& CostOf(int stage) const { return costs_[static_cast<std::size_t>(stage)]; }

  void AddParameters(const StageSpan& process, TrainingMemory& memory) const {
    std::int64_t all = 0;
    std::int64_t most = 0;
    bool waits = options_.gradients_wait;
    for (int s = process.first; s < process.end; ++s) {
      const std::int64_t bytes = CostOf(s).parameter_bytes;
      memory.weights += (1 + options_.optimizer_arrays) * bytes;
      if (!options_.optimizer_numbers.empty()) {
        memory.weights += options_.optimizer_numbers[static_cast<std::size_t>(s)] * number();
      }
      const StageUse& use = uses_[static_cast<std::size_t>(s)];
      if (use.age > 0 || options_.predicts_forward) memory.versions += (use.age + 1) * bytes;
      if (options_.predicts_backward) memory.versions += bytes;
      if (!options_.kept_delays.empty()) {
        memory.versions += (options_.kept_delays[static_cast<std::size_t>(s)] + 1) * bytes;
      }
      all += bytes;
      most = std::max(most, bytes);
      waits = waits || use.waits;
    }
    memory.gradients = waits ? options_.gradient_sums * all : options_.workers * most;
  }

  void AddActivations(const StageSpan& process, TrainingMemory& memory) {
    for (int v = 0; v < static_cast<int>(network_.values.size()); ++v) {
      const std::int64_t bytes = ValueBytes(v) * options_.microbatch;
      memory.activations += bytes * (places_.MostHeld(plan_.ValueUse(v, process)) +
                                     places_.MostHeld(plan_.ValueAgainUse(v, process)));
      memory.activation_gradients += bytes * places_.MostHeld(plan_.GradientUse(v, process));
      // Evaluations go through all stages.
      memory.evaluation += ValueBytes(v) * options_.workers;
    }
    std::int64_t most_saved = 0;
    for (int s = 0; s < network_.stage_count(); ++s) {
      const Stage& stage = network_.stages[static_cast<std::size_t>(s)];
      const std::int64_t saved = CostOf(s).saved_bytes;
      most_saved = std::max(most_saved, saved);
      if (process.Holds(s)) {
        memory.activations += saved * options_.microbatch * places_.MostHeld(plan_.SavedUse(s));
        if (const auto use = plan_.HeldUse(s)) {
          const std::int64_t held = options_.held.empty()
                                        ? ValueBytes(stage.outputs[0]) * options_.microbatch
                                        : options_.held[static_cast<std::size_t>(s)] * number();
          memory.activation_gradients += held * places_.MostHeld(use);
        }
      }
    }
    // What a first forward saves is gone with it.
    for (const StageSpan& group : options_.recomputed) {
      std::int64_t most = 0;
      for (int s = group.first; s < group.end; ++s) {
        if (process.Holds(s)) most = std::max(most, CostOf(s).saved_bytes);
      }
      memory.activations += most * options_.microbatch;
    }
    const StageSpan all{0, network_.stage_count()};
    memory.workspace = Most(options_.workspace, process) * number() * options_.workers;
    memory.evaluation +=
        (most_saved + Most(options_.sample_workspace, all) * number()) * options_.workers;
    if (process.first == 0 && process.end == network_.stage_count()) return;
    for (int s = 0; s < network_.stage_count(); ++s) memory.evaluation += CostOf(s).parameter_bytes;
  }

  // The largest number of the process's stages; 0 where there are none.
  static std::int64_t Most(const std::vector<std::int64_t>& numbers, const StageSpan& process) {
    if (numbers.empty()) return 0;
    return *std::max_element(numbers.begin() + process.first, numbers.begin() + process.end);
  }

  void AddLinks(const StageSpan& process, TrainingMemory& memory) {
    for (const int stage : {process.first, process.end}) {
      if (stage == 0 || stage == network_.stage_count()) continue;
      // One side waits for the other when it has as many micro-batches in flight as ever.
      const std::int64_t messages = places_.MostHeld(
          MemoryUse{{ActionKind::kForward, stage - 1}, {{ActionKind::kBackward, stage - 1}}});
      for (const auto& crossing : {plan_.CrossingValues(stage), plan_.CrossingGradients(stage)}) {
        for (const int v : crossing) {
          memory.links += ValueBytes(v) * options_.microbatch * messages;
        }
      }
    }
  }

  // Bytes of the value for one sample.
  std::int64_t ValueBytes(int v) const {
    return network_.values[static_cast<std::size_t>(v)].shape.elements() * number();
  }

  const Network& network_;
  const TrainingMemoryOptions& options_;
  std::vector<StageUse> uses_;  // by stage
  Places places_;
  MemoryPlan plan_;
  std::vector<StageCost> costs_;
};

}  // namespace

TrainingMemory& TrainingMemory::operator+=(const TrainingMemory& other) {
  weights += other.weights;
  versions += other.versions;
  gradients += other.gradients;
  activations += other.activations;
  activation_gradients += other.activation_gradients;
  workspace += other.workspace;
  links += other.links;
  evaluation += other.evaluation;
  return *this;
}

std::vector<TrainingMemory> PredictTrainingMemory(const Network& network, const Schedule& schedule,
                                                  const TrainingMemoryOptions& options,
                                                  std::span<const StageSpan> processes) {
  RefuseIf(schedule.stages != network.stage_count(), "schedule",
           std::to_string(schedule.stages) + " stages",
           "the " + std::to_string(network.stage_count()) + " of " + network.name);
  const auto check = [&](std::string_view name, const std::vector<std::int64_t>& numbers) {
    RefuseIf(!numbers.empty() && numbers.size() != network.stages.size(), name,
             std::to_string(numbers.size()) + " numbers", "one for each stage, or none");
  };
  check("optimizer_numbers", options.optimizer_numbers);
  check("kept_delays", options.kept_delays);
  check("workspace", options.workspace);
  check("sample_workspace", options.sample_workspace);
  check("held", options.held);
  Prediction prediction(network, schedule, options);
  std::vector<TrainingMemory> memory;
  for (const StageSpan& process : processes) memory.push_back(prediction.Of(process));
  return memory;
}

TrainingMemory PredictTrainingMemory(const Network& network, const Schedule& schedule,
                                     const TrainingMemoryOptions& options) {
  const StageSpan all{0, network.stage_count()};
  return PredictTrainingMemory(network, schedule, options, {&all, 1}).front();
}

}  // namespace batchless::hwmodel
