#include "engine/microbatch_memory.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace batchless::training {

using hwmodel::ActionKind;
using hwmodel::MemoryUse;
using hwmodel::StageSpan;

template <class Real>
MicrobatchMemory<Real>::MicrobatchMemory(const PipelineOptions<Real>& options,
                                         const std::vector<StageSpan>& processes, int rank,
                                         const std::vector<const StageLayout*>& stages)
    : options_(options),
      rank_(rank),
      plan_(options.run.network, options.plan.completes == ActionKind::kWeightGradient,
            options.plan.recomputed) {
  const std::vector<ValueLayout> layouts =
      PlanValues(options.run.network, options.backend->block());
  const int stage_count = static_cast<int>(stages.size());
  image_size_ = layouts[0].stored_size;
  saved_.resize(stage_count);
  held_.resize(stage_count);
  saved_once_.resize(stage_count);
  const auto add = [&](Ring<Real>& ring, std::int64_t size, auto use_of) {
    Lifetime lifetime{.ring = &ring, .slot_size = Aligned(size), .uses = {}};
    for (const StageSpan& process : processes) lifetime.uses.push_back(use_of(process));
    lifetimes_.push_back(std::move(lifetime));
  };
  const auto add_values = [&](std::vector<Ring<Real>>& rings, auto use) {
    rings.resize(layouts.size());
    for (int v = 0; v < std::ssize(rings); ++v) {
      add(rings[v], options.run.microbatch * layouts[v].stored_size,
          [&](const StageSpan& process) { return (plan_.*use)(v, process); });
    }
  };
  add_values(values_, &hwmodel::MemoryPlan::ValueUse);
  add_values(gradients_, &hwmodel::MemoryPlan::GradientUse);
  for (int s = 0; s < stage_count; ++s) {
    add(saved_[s], stages[s]->saved_size, [&](const StageSpan& process) {
      return process.Holds(s) ? std::optional(plan_.SavedUse(s)) : std::nullopt;
    });
  }
  for (int s = 0; s < stage_count; ++s) {
    const bool splits = plan_.HeldUse(s).has_value();
    const std::int64_t output =
        stages[s]->splits
            ? options.run.microbatch * layouts[options.run.network.stages[s].outputs[0]].stored_size
            : 0;
    add(held_[s], splits ? stages[s]->input_part + output : 0, [&](const StageSpan& process) {
      return process.Holds(s) ? plan_.HeldUse(s) : std::nullopt;
    });
  }
  if (!options.plan.recomputed.empty()) {
    add_values(values_again_, &hwmodel::MemoryPlan::ValueAgainUse);
  }
  for (const StageSpan& group : options.plan.recomputed) {
    if (!processes[rank].Holds(group.first)) continue;
    std::int64_t most = 0;
    for (int s = group.first; s < group.end; ++s) most = std::max(most, stages[s]->saved_size);
    saved_once_[group.first] = AlignedBuffer<Real>(most);
  }
  // The micro-batch itself, from its first forward to its last backward.
  std::vector<MemoryUse> uses{
      {.write = {ActionKind::kForward, 0}, .releases = {{ActionKind::kBackward, 0}}}};
  for (const Lifetime& lifetime : lifetimes_) {
    uses.push_back(lifetime.uses[rank_].value_or(MemoryUse{}));
  }
  for (int s = 0; s < stage_count; ++s) uses.push_back(plan_.InFlightUse(s));
  const std::vector<std::int64_t> depths = RingDepths(options.plan.program, uses);
  for (std::size_t i = 0; i < lifetimes_.size(); ++i) {
    const Lifetime& lifetime = lifetimes_[i];
    if (lifetime.uses[rank_]) *lifetime.ring = Ring<Real>(lifetime.slot_size, depths[i + 1]);
  }
  in_flight_.assign(depths.end() - stage_count, depths.end());
  microbatches_.reserve(depths[0]);
  for (std::int64_t i = 0; i < depths[0]; ++i) {
    MicrobatchSlot<Real>& slot =
        microbatches_.emplace_back(options.run.microbatch, hwmodel::LabelsOf(options.run.network));
    slot.microbatch.seed = options.run.seed;
    slot.microbatch.gradient_scale =
        Real(1) / static_cast<Real>(options.run.microbatch * options.microbatches_per_update *
                                    options.replicas());
  }
}

template <class Real>
std::vector<Ring<Real>*> MicrobatchMemory<Real>::Crossing(ActionKind kind, int stage) {
  const bool forward = kind == ActionKind::kForward;
  std::vector<Ring<Real>*> rings;
  for (const int v : forward ? plan_.CrossingValues(stage) : plan_.CrossingGradients(stage)) {
    rings.push_back(&(forward ? values_ : gradients_)[v]);
  }
  return rings;
}

template <class Real>
void MicrobatchMemory<Real>::Feed(const SampleSource& source, std::int64_t k) {
  MicrobatchSlot<Real>& slot = At(k);
  slot.microbatch.first_sample =
      options_.run.first_sample + options_.InRun(k) * options_.run.microbatch;
  for (std::int64_t i = 0; i < options_.run.microbatch; ++i) {
    source.ReadLabels(
        slot.microbatch.first_sample + i,
        std::span(slot.labels).subspan(i * slot.labels_per_sample, slot.labels_per_sample));
  }
}

template <class Real>
void MicrobatchMemory<Real>::FeedImages(const SampleSource& source, std::int64_t k) {
  Real* image = Value(0, k);
  for (std::int64_t i = 0; i < options_.run.microbatch; ++i, image += image_size_) {
    const std::int64_t position = At(k).microbatch.first_sample + i;
    if constexpr (std::is_same_v<Real, float>) {
      source.Read(position, std::span<float>(image, image_size_));
    } else {
      image_.resize(image_size_);
      source.Read(position, image_);
      std::copy(image_.begin(), image_.end(), image);
    }
  }
}

template <class Real>
std::int64_t MicrobatchMemory<Real>::bytes() const {
  std::int64_t bytes = SumBytes(saved_once_);
  for (const auto* rings : {&values_, &gradients_, &saved_, &held_, &values_again_}) {
    bytes += SumBytes(*rings);
  }
  return bytes;
}

template class MicrobatchMemory<float>;
template class MicrobatchMemory<double>;

}  // namespace batchless::training
