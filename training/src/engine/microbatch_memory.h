// Memory of the micro-batches in flight.
//
// What is kept of micro-batch k:
//
//   value v       output of a stage (or the network's input), kept until nobody reads it again
//   gradient v    the loss's gradient by a value. The last stage to read the value writes it first,
//                 the others add to it; a sum's inputs share the gradient of its output
//   saved s       what stage s saved for its backward
//   again         values of groups that make them twice (hwmodel/memory_plan.h)
//   held s        where backwards are split: gradients of stage s, the parameters' that its input's came
//                 with and its output's, for its weight gradient
//   the rest      labels, losses, where it is in the run
//
// Each lives in a ring of as many slots as micro-batches can need it at a time (program.h). Where
// processes share the stages, each has the rings of its own (hwmodel/memory_plan.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "aligned_buffer.h"
#include "batchless/hwmodel/memory_plan.h"
#include "batchless/training/sample_source.h"
#include "batchless/training/trainer.h"
#include "engine/pipeline_options.h"
#include "engine/ring.h"

namespace batchless::training {

// Results and labels of one micro-batch.
template <class Real>
struct MicrobatchSlot {
  MicrobatchSlot(std::int64_t samples, std::int64_t labels_of_sample)
      : labels_per_sample(labels_of_sample),
        labels(samples * labels_of_sample),
        losses(samples),
        correct(labels.size()) {
    microbatch.labels = labels.data();
    microbatch.losses = losses.data();
    microbatch.correct = correct.data();
  }

  // What the loss has written of sample number i.
  SampleResult Result(std::int64_t i) const {
    const auto first = correct.begin() + i * labels_per_sample;
    const auto won = std::accumulate(first, first + labels_per_sample, std::int64_t{0});
    return {.sample = microbatch.first_sample + i,
            .label = labels[(i + 1) * labels_per_sample - 1],
            .loss = losses[i],
            .correct = static_cast<double>(won) / static_cast<double>(labels_per_sample)};
  }

  Microbatch<Real> microbatch;
  std::int64_t labels_per_sample;
  std::vector<std::int32_t> labels;
  std::vector<Real> losses;
  std::vector<std::uint8_t> correct;
};

template <class Real>
class MicrobatchMemory {
 public:
  // `processes`: by rank, the stages of those that share them, this one's rank among them.
  MicrobatchMemory(const PipelineOptions<Real>& options,
                   const std::vector<hwmodel::StageSpan>& processes, int rank,
                   const std::vector<const StageLayout*>& stages);

  // Only for the values and stages that this process has.
  Real* Value(int v, std::int64_t k) { return values_[v].Slot(k); }
  // Null where no gradient by the value is wanted.
  Real* Gradient(int v, std::int64_t k) { return GradientSpan(v, k).data(); }
  // The same with their sizes; empty where there is none.
  std::span<Real> ValueSpan(int v, std::int64_t k) { return values_[v].SlotSpan(k); }
  std::span<Real> GradientSpan(int v, std::int64_t k) {
    const int place = plan_.gradient_of(v);
    return place < 0 ? std::span<Real>() : gradients_[place].SlotSpan(k);
  }
  // Where a forward saves for its backward, and where the backward finds it; apart in groups that make
  // all of it again.
  Real* ForwardSaved(int stage, std::int64_t k) {
    const hwmodel::StageSpan* group = plan_.GroupOf(stage);
    return group == nullptr ? Saved(stage, k) : saved_once_[group->first].data();
  }
  Real* Saved(int stage, std::int64_t k) { return saved_[stage].Slot(k); }
  // A value for a stage's backward, made again where its group does that.
  Real* KeptValue(int v, int stage, std::int64_t k) {
    return (plan_.IsMadeAgain(v, stage) ? values_again_ : values_)[v].Slot(k);
  }
  Real* Held(int stage, std::int64_t k) { return held_[stage].Slot(k); }
  MicrobatchSlot<Real>& At(std::int64_t k) {
    return microbatches_[k % static_cast<std::int64_t>(microbatches_.size())];
  }

  // Takes micro-batch k's place in the run, and labels, for this process, and its images.
  void Feed(const SampleSource& source, std::int64_t k);
  void FeedImages(const SampleSource& source, std::int64_t k);

  // How many micro-batches can be between a stage's forward and what completes their gradient.
  std::int64_t InFlight(int stage) const { return in_flight_[stage]; }
  // What comes to `stage` from the one before with a forward, or goes back with a backward.
  std::vector<Ring<Real>*> Crossing(hwmodel::ActionKind kind, int stage);

  // visit(data, bytes, ranks of the processes that have it) for all values, gradients and what is
  // saved, of micro-batches that still need them where done(pass) have had a pass; the data are null
  // where this process is not one of them.
  template <class Done, class Visit>
  void ForEachKept(Done done, Visit visit);

  std::int64_t bytes() const;

 private:
  // A ring, and the passes that write and release its slots, by process; none where a process has no
  // copy.
  struct Lifetime {
    Ring<Real>* ring = nullptr;
    std::int64_t slot_size = 0;  // elements
    std::vector<std::optional<hwmodel::MemoryUse>> uses;
  };

  const PipelineOptions<Real>& options_;
  int rank_;
  hwmodel::MemoryPlan plan_;
  std::vector<Ring<Real>> values_;
  std::vector<Ring<Real>> gradients_;
  std::vector<Ring<Real>> saved_;
  std::vector<Ring<Real>> held_;
  std::vector<Ring<Real>> values_again_;
  std::vector<AlignedBuffer<Real>> saved_once_;  // by a group's first stage
  std::vector<std::int64_t> in_flight_;          // by stage
  std::vector<Lifetime> lifetimes_;              // in the order in which states are saved
  std::vector<MicrobatchSlot<Real>> microbatches_;
  std::int64_t image_size_ = 0;
  std::vector<float> image_;  // on its way to double precision
};

template <class Real>
template <class Done, class Visit>
void MicrobatchMemory<Real>::ForEachKept(Done done, Visit visit) {
  struct Range {
    std::int64_t first = 0;
    std::int64_t end = 0;
  };
  std::vector<int> holders;
  for (const Lifetime& lifetime : lifetimes_) {
    if (lifetime.slot_size == 0) continue;
    std::vector<Range> kept(lifetime.uses.size());  // by process
    Range all{std::numeric_limits<std::int64_t>::max(), 0};
    for (std::size_t p = 0; p < kept.size(); ++p) {
      const std::optional<hwmodel::MemoryUse>& use = lifetime.uses[p];
      if (!use) continue;
      kept[p].end = done(use->write);
      kept[p].first = kept[p].end;
      for (const hwmodel::Pass& release : use->releases) {
        kept[p].first = std::min(kept[p].first, done(release));
      }
      all = {std::min(all.first, kept[p].first), std::max(all.end, kept[p].end)};
    }
    for (std::int64_t k = all.first; k < all.end; ++k) {
      holders.clear();
      for (std::size_t p = 0; p < kept.size(); ++p) {
        if (kept[p].first <= k && k < kept[p].end) holders.push_back(static_cast<int>(p));
      }
      if (holders.empty()) continue;
      const bool here = kept[rank_].first <= k && k < kept[rank_].end;
      visit(here ? lifetime.ring->Slot(k) : nullptr, lifetime.slot_size * sizeof(Real), holders);
    }
  }
}

}  // namespace batchless::training
