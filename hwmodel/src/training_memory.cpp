#include "batchless/hwmodel/training_memory.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/memory_plan.h"
#include "batchless/hwmodel/steady_state.h"

namespace batchless::hwmodel {
namespace {

// When each pass of each micro-batch comes. Stages of one step hand their results on before they
// take new ones: the forwards from the last stage down, the others from the first one up.
class Places {
 public:
  explicit Places(const Schedule& schedule) : microbatches_(schedule.microbatches) {
    for (auto& places : places_) {
      places.resize(static_cast<std::size_t>(schedule.stages * schedule.microbatches));
    }
    const std::int64_t stages = schedule.stages;
    for (const auto& [step, action] : schedule.actions) {
      const bool forward = action.kind == ActionKind::kForward;
      At({action.kind, action.stage}, action.microbatch) =
          2 * stages * step + (forward ? stages - 1 - action.stage : stages + action.stage);
    }
  }

  // The most micro-batches that have had their `write` and not yet all of their `releases`, the last
  // of these included.
  std::int64_t MostHeld(const MemoryUse& use) {
    std::vector<std::int64_t> written;
    std::vector<std::int64_t> released;
    for (std::int64_t i = 0; i < microbatches_; ++i) {
      written.push_back(At(use.write, i));
      std::int64_t last = At(use.write, i);
      for (const Pass release : use.releases) last = std::max(last, At(release, i));
      released.push_back(last);
    }
    std::sort(written.begin(), written.end());
    std::sort(released.begin(), released.end());
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
    return places_[static_cast<std::size_t>(pass.kind)]
                  [static_cast<std::size_t>(pass.stage * microbatches_ + microbatch)];
  }

  std::int64_t microbatches_;
  std::array<std::vector<std::int64_t>, kActionKinds.size()> places_;
};

// Numbers of scratch that a convolution's passes take.
std::int64_t ConvolutionWorkspace(const Layer& layer, std::int64_t microbatch) {
  // Tiles of 2x2 outputs from which on Winograd's method transforms all weights at once.
  constexpr std::int64_t kBlockOfTiles = 32;
  const std::int64_t pairs = std::int64_t{layer.input.channels} * layer.output.channels;
  const std::int64_t tiles = microbatch * layer.output.pixels() / 4;
  const bool transformed = layer.kernel == 3 && layer.stride == 1 && tiles > kBlockOfTiles;
  return 2 * microbatch * layer.input.elements() + pairs * layer.kernel * layer.kernel +
         (transformed ? 16 * pairs : 0);
}

}  // namespace

TrainingMemory PredictTrainingMemory(const Network& network, const Schedule& schedule,
                                     const TrainingMemoryOptions& options) {
  if (schedule.stages != network.stage_count()) {
    throw analysis::InvalidArgument(
        "schedule", std::to_string(schedule.stages) + " stages",
        "the " + std::to_string(network.stage_count()) + " of " + network.name);
  }
  const SteadyState steady = FindSteadyState(schedule);
  std::vector<std::int64_t> ages(network.stages.size(), options.delay);
  std::vector<std::int64_t> updates(network.stages.size());
  for (const std::vector<SteadyAction>& worker : steady.workers) {
    for (const SteadyAction& action : worker) {
      const auto stage = static_cast<std::size_t>(action.stage);
      ages[stage] = std::max(ages[stage], action.version_age + options.delay);
      if (action.kind == ActionKind::kUpdate) ++updates[stage];
    }
  }

  TrainingMemory memory;
  const std::int64_t number = options.bytes_per_number;
  const std::vector<StageCost> costs = ComputeCosts(network, options.bytes_per_number);
  std::int64_t all_parameters = 0;
  std::int64_t most_parameters = 0;
  bool waits = options.gradients_wait;
  for (std::size_t s = 0; s < costs.size(); ++s) {
    const std::int64_t bytes = costs[s].parameters * number;
    memory.weights += 2 * bytes;
    if (ages[s] > 0 || options.predicts_forward) memory.versions += (ages[s] + 1) * bytes;
    if (options.predicts_backward) memory.versions += bytes;
    all_parameters += bytes;
    most_parameters = std::max(most_parameters, bytes);
    waits = waits || updates[s] < steady.microbatches_per_cycle;
    for (const Layer& layer : network.stages[s].layers) {
      if (layer.kind != LayerKind::kConvolution) continue;
      memory.workspace =
          std::max(memory.workspace,
                   ConvolutionWorkspace(layer, options.microbatch) * number * options.workers);
    }
  }
  memory.gradients =
      waits ? options.gradient_sums * all_parameters : options.workers * most_parameters;

  Places places(schedule);
  const MemoryPlan plan(network);
  const StageSpan all{0, network.stage_count()};
  std::int64_t values = 0;  // of one sample
  for (int v = 0; v < static_cast<int>(network.values.size()); ++v) {
    const std::int64_t size = network.values[static_cast<std::size_t>(v)].shape.elements() * number;
    values += size;
    if (const auto use = plan.ValueUse(v, all)) {
      memory.activations += size * options.microbatch * places.MostHeld(*use);
    }
    if (const auto use = plan.GradientUse(v, all)) {
      memory.activation_gradients += size * options.microbatch * places.MostHeld(*use);
    }
  }
  std::int64_t most_saved = 0;
  for (int s = 0; s < network.stage_count(); ++s) {
    const std::int64_t saved =
        SavedBytes(network.stages[static_cast<std::size_t>(s)], options.bytes_per_number);
    most_saved = std::max(most_saved, saved);
    memory.activations +=
        saved * options.microbatch *
        places.MostHeld({{ActionKind::kForward, s}, {{ActionKind::kBackward, s}}});
  }
  memory.evaluation = options.workers * (values + most_saved) + memory.workspace;
  return memory;
}

}  // namespace batchless::hwmodel
