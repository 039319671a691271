#include "engine/memory_plan.h"

#include <algorithm>
#include <utility>

namespace batchless::training {
namespace {

using hwmodel::ActionKind;

ProgramAction Forward(int stage) { return {ActionKind::kForward, stage, 0}; }
ProgramAction Backward(int stage) { return {ActionKind::kBackward, stage, 0}; }

}  // namespace

MemoryPlan::MemoryPlan(const hwmodel::Network& network, std::vector<const StageLayout*> layouts)
    : network_(&network), layouts_(std::move(layouts)), gradient_of_(network.values.size(), -1) {
  // Sums come after their inputs' other readers in the order of the stages, so going backwards the
  // output's ring is known first.
  for (int v = static_cast<int>(network.values.size()) - 1; v > 0; --v) {
    const int last = LastConsumer(v);
    gradient_of_[v] = last >= 0 && layouts_[last]->passes_gradient
                          ? gradient_of_[network.stages[last].outputs[0]]
                          : v;
  }
}

// The network's input comes from before the first stage, which feeds it.
int MemoryPlan::Producer(int v) const { return std::max(network_->values[v].producer, 0); }

int MemoryPlan::LastConsumer(int v) const {
  const std::vector<int>& consumers = network_->values[v].consumers;
  return consumers.empty() ? -1 : consumers.back();
}

std::optional<RingUse> MemoryPlan::ValueUse(int v, const StageSpan& span) const {
  const int producer = Producer(v);
  if (producer >= span.end) return std::nullopt;
  if (producer < span.first && LastConsumer(v) < span.first) return std::nullopt;
  RingUse use{.write = Forward(std::max(producer, span.first)), .releases = {}};
  for (const int consumer : network_->values[v].consumers) {
    if (!span.Holds(consumer)) continue;
    const bool kept = layouts_[consumer]->keeps_input && network_->stages[consumer].inputs[0] == v;
    use.releases.push_back(kept ? Backward(consumer) : Forward(consumer));
  }
  if (network_->values[v].producer >= 0 && span.Holds(producer) &&
      layouts_[producer]->keeps_output) {
    use.releases.push_back(Backward(producer));
  }
  if (LastConsumer(v) >= span.end) use.releases.push_back(Forward(span.end));
  return use;
}

std::optional<RingUse> MemoryPlan::GradientUse(int ring, const StageSpan& span) const {
  if (ring == 0 || gradient_of_[ring] != ring) return std::nullopt;
  // Its own last reader writes first; those that share the ring read and add later.
  const int last = LastConsumer(ring);
  if (last < span.first) return std::nullopt;
  RingUse use{.write = Backward(std::min(last, span.end - 1)), .releases = {}};
  bool goes_on = false;
  for (int u = 1; u < static_cast<int>(gradient_of_.size()); ++u) {
    if (gradient_of_[u] != ring) continue;
    const int producer = Producer(u);
    if (span.Holds(producer)) use.releases.push_back(Backward(producer));
    if (producer < span.first) goes_on = true;
  }
  if (goes_on) use.releases.push_back(Backward(span.first - 1));
  if (use.releases.empty()) return std::nullopt;
  return use;
}

std::vector<int> MemoryPlan::CrossingValues(int stage) const {
  std::vector<int> values;
  for (int v = 0; v < static_cast<int>(network_->values.size()); ++v) {
    if (Producer(v) < stage && LastConsumer(v) >= stage) values.push_back(v);
  }
  return values;
}

std::vector<int> MemoryPlan::CrossingGradients(int stage) const {
  std::vector<int> rings;
  for (const int v : CrossingValues(stage)) {
    const int ring = gradient_of_[v];
    if (ring >= 0 && std::find(rings.begin(), rings.end(), ring) == rings.end()) {
      rings.push_back(ring);
    }
  }
  return rings;
}

}  // namespace batchless::training
