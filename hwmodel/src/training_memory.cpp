#include "batchless/hwmodel/training_memory.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/steady_state.h"

namespace batchless::hwmodel {
namespace {

struct Pass {
  ActionKind kind;
  int stage;
};

Pass ForwardOf(int stage) { return {ActionKind::kForward, stage}; }
Pass BackwardOf(int stage) { return {ActionKind::kBackward, stage}; }

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

  // The most micro-batches that have had their `write` and not yet all of their `reads`, the last
  // read included.
  std::int64_t MostHeld(Pass write, const std::vector<Pass>& reads) {
    std::vector<std::int64_t> written;
    std::vector<std::int64_t> released;
    for (std::int64_t i = 0; i < microbatches_; ++i) {
      written.push_back(At(write, i));
      std::int64_t last = At(write, i);
      for (const Pass read : reads) last = std::max(last, At(read, i));
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

bool PassesGradient(const Stage& stage) { return stage.layers.back().kind == LayerKind::kSum; }

// The value whose memory holds each value's gradient; -1 where there is none. The inputs of a sum
// that come to their last reader there share the gradient of its output.
std::vector<int> GradientHolders(const Network& network) {
  std::vector<int> holders(network.values.size(), -1);
  for (std::size_t v = network.values.size() - 1; v > 0; --v) {
    const Value& value = network.values[v];
    if (value.consumers.empty()) continue;
    const Stage& last = network.stages[static_cast<std::size_t>(value.consumers.back())];
    holders[v] = PassesGradient(last) ? holders[static_cast<std::size_t>(last.outputs[0])]
                                      : static_cast<int>(v);
  }
  return holders;
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
  bool waits = false;
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
      const std::int64_t pairs = std::int64_t{layer.input.channels} * layer.output.channels;
      memory.workspace = std::max(memory.workspace, 16 * pairs * number * options.workers);
    }
  }
  memory.gradients = waits ? all_parameters : options.workers * most_parameters;

  Places places(schedule);
  const std::vector<int> holders = GradientHolders(network);
  const auto size_of = [&](std::size_t v) {
    return network.values[v].shape.elements() * number * options.microbatch;
  };
  std::int64_t values = 0;  // of one sample
  for (std::size_t v = 0; v < network.values.size(); ++v) {
    const Value& value = network.values[v];
    std::vector<Pass> reads;
    for (const int consumer : value.consumers) {
      const Stage& stage = network.stages[static_cast<std::size_t>(consumer)];
      const bool kept = KeepsInput(stage) && stage.inputs[0] == static_cast<int>(v);
      reads.push_back(kept ? BackwardOf(consumer) : ForwardOf(consumer));
    }
    values += value.shape.elements() * number;
    const int producer = std::max(value.producer, 0);
    if (value.producer >= 0 && KeepsOutput(network.stages[static_cast<std::size_t>(producer)])) {
      reads.push_back(BackwardOf(producer));
    }
    memory.activations += size_of(v) * places.MostHeld(ForwardOf(producer), reads);
    if (holders[v] != static_cast<int>(v)) continue;
    reads.clear();
    for (std::size_t u = 1; u < network.values.size(); ++u) {
      if (holders[u] == static_cast<int>(v)) {
        reads.push_back(BackwardOf(network.values[u].producer));
      }
    }
    memory.activation_gradients +=
        size_of(v) * places.MostHeld(BackwardOf(value.consumers.back()), reads);
  }
  std::int64_t most_saved = 0;
  for (int s = 0; s < network.stage_count(); ++s) {
    const std::int64_t saved =
        SavedBytes(network.stages[static_cast<std::size_t>(s)], options.bytes_per_number);
    most_saved = std::max(most_saved, saved);
    memory.activations +=
        saved * options.microbatch * places.MostHeld(ForwardOf(s), {BackwardOf(s)});
  }
  memory.evaluation = options.workers * (values + most_saved) + memory.workspace;
  return memory;
}

}  // namespace batchless::hwmodel
