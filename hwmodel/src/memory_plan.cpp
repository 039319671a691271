#include "batchless/hwmodel/memory_plan.h"

#include <algorithm>
#include <utility>

namespace batchless::hwmodel {
namespace {

Pass ForwardOf(int stage) { return {ActionKind::kForward, stage}; }
Pass BackwardOf(int stage) { return {ActionKind::kBackward, stage}; }

}  // namespace

MemoryPlan::MemoryPlan(const Network& network, bool splits_backward,
                       std::vector<StageSpan> recomputed)
    : network_(&network),
      last_(splits_backward ? ActionKind::kWeightGradient : ActionKind::kBackward),
      gradient_of_(network.values.size(), -1),
      recomputed_(std::move(recomputed)) {
  // Sums come after their inputs' other readers in the order of the stages, so going backwards the
  // output's place is known first.
  // By place: how many of its values have other readers, which add to it. By value: how many of those it
  // is a part of, whose gradients are all its own.
  std::vector<int> added(network.values.size());
  std::vector<int> behind(network.values.size());
  for (int v = static_cast<int>(network.values.size()) - 1; v > 0; --v) {
    const int last = LastConsumer(v);
    const bool passes = last >= 0 && TraitsOf(StageOf(last).layers.back().kind).passes_gradient &&
                        ValueOf(v).shape == StageOf(last).layers.back().output;
    gradient_of_[v] = v;
    if (passes) {
      const int sum = StageOf(last).outputs[0];
      const int place = gradient_of(sum);
      const int own = behind[sum] + (HasMoreReaders(sum) ? 1 : 0);
      if (added[place] == own && !AddsTooEarly(v, place)) {
        gradient_of_[v] = place;
        behind[v] = own;
      }
    }
    if (HasMoreReaders(v)) ++added[gradient_of(v)];
  }
}

bool MemoryPlan::AddsTooEarly(int v, int place) const {
  if (!HasMoreReaders(v)) return false;
  const std::vector<int>& consumers = ValueOf(v).consumers;
  const int adds = consumers[consumers.size() - 2];
  // Values are in the order of their producers, and the sum that reads v last has an output.
  for (int w = v + 1; Producer(w) <= adds; ++w) {
    // A stage can add to the place of its first output's gradient once it has read it.
    const bool is_own = Producer(w) == adds && StageOf(adds).outputs[0] == w;
    if (gradient_of(w) == place && !is_own) return true;
  }
  return false;
}

// The network's input comes from before the first stage, which feeds it.
int MemoryPlan::Producer(int v) const { return std::max(ValueOf(v).producer, 0); }

int MemoryPlan::LastConsumer(int v) const {
  const std::vector<int>& consumers = ValueOf(v).consumers;
  return consumers.empty() ? -1 : consumers.back();
}

std::optional<MemoryUse> MemoryPlan::ValueUse(int v, const StageSpan& span) const {
  const int producer = Producer(v);
  if (producer >= span.end) return std::nullopt;
  if (producer < span.first && LastConsumer(v) < span.first) return std::nullopt;
  MemoryUse use{.write = ForwardOf(std::max(producer, span.first)), .releases = {}};
  for (const int consumer : ValueOf(v).consumers) {
    if (!span.Holds(consumer)) continue;
    if (IsMadeAgain(v, consumer)) {
      use.releases.push_back(ForwardOf(consumer));
      continue;
    }
    use.releases.push_back(KeepsValue(consumer, v) ? Pass{last_, consumer} : ForwardOf(consumer));
    const StageSpan* group = GroupOf(consumer);
    if (group != nullptr) use.releases.push_back(BackwardOf(group->end - 1));
  }
  if (ValueOf(v).producer >= 0 && span.Holds(producer) && KeepsOutput(StageOf(producer)) &&
      !IsMadeAgain(v, producer)) {
    use.releases.push_back(BackwardOf(producer));
  }
  if (LastConsumer(v) >= span.end) use.releases.push_back(ForwardOf(span.end));
  return use;
}

bool MemoryPlan::KeepsValue(int stage, int v) const {
  const std::vector<int>& inputs = StageOf(stage).inputs;
  return KeepsInput(StageOf(stage)) && std::ranges::find(inputs, v) != inputs.end();
}

const StageSpan* MemoryPlan::GroupOf(int stage) const {
  const auto found =
      std::ranges::find_if(recomputed_, [&](const StageSpan& group) { return group.Holds(stage); });
  return found == recomputed_.end() ? nullptr : &*found;
}

bool MemoryPlan::IsMadeAgain(int v, int stage) const {
  const StageSpan* group = GroupOf(stage);
  return group != nullptr && group->Holds(ValueOf(v).producer);
}

std::optional<MemoryUse> MemoryPlan::ValueAgainUse(int v, const StageSpan& span) const {
  const int producer = ValueOf(v).producer;
  if (!span.Holds(producer) || !IsMadeAgain(v, producer)) return std::nullopt;
  const StageSpan& group = *GroupOf(producer);
  const Pass again = BackwardOf(group.end - 1);
  MemoryUse use{.write = again, .releases = {again}};
  for (const int consumer : ValueOf(v).consumers) {
    if (!group.Holds(consumer) || !KeepsValue(consumer, v)) continue;
    use.releases.push_back({last_, consumer});
  }
  if (KeepsOutput(StageOf(producer))) use.releases.push_back(BackwardOf(producer));
  return use;
}

MemoryUse MemoryPlan::SavedUse(int stage) const {
  const StageSpan* group = GroupOf(stage);
  if (group == nullptr) return InFlightUse(stage);
  return {.write = BackwardOf(group->end - 1), .releases = {{last_, stage}}};
}

std::optional<MemoryUse> MemoryPlan::GradientUse(int v, const StageSpan& span) const {
  if (v == 0 || gradient_of(v) != v) return std::nullopt;
  // Its own last reader writes first; those that share the place read and add later.
  const int last = LastConsumer(v);
  if (last < span.first) return std::nullopt;
  MemoryUse use{.write = BackwardOf(std::min(last, span.end - 1)), .releases = {}};
  bool goes_on = false;
  for (int u = 1; u < static_cast<int>(gradient_of_.size()); ++u) {
    if (gradient_of(u) != v) continue;
    const int producer = Producer(u);
    if (span.Holds(producer)) use.releases.push_back(BackwardOf(producer));
    if (producer < span.first) goes_on = true;
  }
  if (goes_on) use.releases.push_back(BackwardOf(span.first - 1));
  if (use.releases.empty()) return std::nullopt;
  return use;
}

std::optional<MemoryUse> MemoryPlan::HeldUse(int stage) const {
  const bool has_parameters = std::ranges::any_of(
      StageOf(stage).layers, [](const Layer& layer) { return ParametersOf(layer) > 0; });
  if (last_ == ActionKind::kBackward || !has_parameters) return std::nullopt;
  return MemoryUse{.write = BackwardOf(stage), .releases = {{last_, stage}}};
}

std::vector<int> MemoryPlan::CrossingValues(int stage) const {
  std::vector<int> values;
  for (int v = 0; v < static_cast<int>(network_->values.size()); ++v) {
    if (Producer(v) < stage && LastConsumer(v) >= stage) values.push_back(v);
  }
  return values;
}

std::vector<int> MemoryPlan::CrossingGradients(int stage) const {
  std::vector<int> places;
  for (const int v : CrossingValues(stage)) {
    const int place = gradient_of(v);
    if (place >= 0 && std::ranges::find(places, place) == places.end()) places.push_back(place);
  }
  return places;
}

}  // namespace batchless::hwmodel
