#include "stage_timing.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>

#include "batchless/hwmodel/action.h"
#include "batchless/hwmodel/workload.h"

namespace batchless {
namespace {

using hwmodel::ActionKind;
using training::TraceEvent;
using training::TrainerOptions;

double Median(std::span<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Seconds of each pass of a stage, by micro-batch.
using PassTimes = std::array<std::vector<double>, hwmodel::kActionKinds.size()>;

std::vector<PassTimes> TimesByStage(std::span<const TraceEvent> events, int stages) {
  std::vector<PassTimes> times(static_cast<std::size_t>(stages));
  for (const TraceEvent& event : events) {
    if (event.is_wait) continue;
    times[event.stage][static_cast<std::size_t>(event.kind)].push_back(event.end - event.start);
  }
  return times;
}

}  // namespace

std::int64_t FillMicrobatches(const TrainerOptions& options) {
  // A list holds two of its cycles in which every stage does everything; mini-batches drain.
  if (!options.schedule.actions.empty()) return options.schedule.microbatches;
  return std::int64_t{2} * options.network.stage_count();
}

hwmodel::MeasuredNetwork MeasureStages(const TrainerOptions& all,
                                       const training::SampleSource& source, std::int64_t rounds) {
  TrainerOptions options = all.OfOneReplica();
  options.first_sample = 0;
  const std::int64_t per_update = options.MicrobatchesPerUpdate();
  const std::int64_t updates = (FillMicrobatches(options) + rounds + per_update - 1) / per_update;
  options.traced_microbatches = updates * per_update;
  // A run that goes on: the pipeline is not drained.
  options.samples = 2 * updates * options.batch;
  const std::unique_ptr<training::Trainer> trainer = MakeTrainer(options);
  std::vector<training::SampleResult> results;
  try {
    trainer->Advance(source, updates * options.batch, results);
  } catch (const training::Diverged&) {
    // Numbers that are not finite take the same time.
  }

  const std::vector<TraceEvent> events = trainer->trace();
  std::vector<PassTimes> times = TimesByStage(events, options.network.stage_count());
  hwmodel::MeasuredNetwork measured;
  measured.network = options.network.name;
  measured.microbatch = options.microbatch;
  measured.workers = options.workers;
  measured.sample_flops = hwmodel::MakeWorkload(options.network).training_flops();
  for (PassTimes& stage : times) {
    const auto median_of = [&](ActionKind kind) {
      std::vector<double>& seconds = stage[static_cast<std::size_t>(kind)];
      const std::int64_t count =
          kind == ActionKind::kUpdate ? std::max<std::int64_t>(rounds / per_update, 1) : rounds;
      return Median(std::span(seconds).last(
          static_cast<std::size_t>(std::min<std::int64_t>(count, std::ssize(seconds)))));
    };
    measured.forward_seconds.push_back(median_of(ActionKind::kForward));
    const bool splits = !stage[static_cast<std::size_t>(ActionKind::kWeightGradient)].empty();
    measured.backward_seconds.push_back(median_of(ActionKind::kBackward) +
                                        (splits ? median_of(ActionKind::kWeightGradient) : 0));
    measured.update_seconds.push_back(median_of(ActionKind::kUpdate));
  }
  return measured;
}

std::vector<double> StageCosts(const hwmodel::MeasuredNetwork& measured,
                               const TrainerOptions& options) {
  const double samples =
      static_cast<double>(options.microbatch) / static_cast<double>(measured.microbatch);
  const auto per_update = static_cast<double>(options.MicrobatchesPerUpdate());
  std::vector<double> costs;
  for (std::size_t s = 0; s < measured.forward_seconds.size(); ++s) {
    costs.push_back(samples * (measured.forward_seconds[s] + measured.backward_seconds[s]) +
                    measured.update_seconds[s] / per_update);
  }
  return costs;
}

}  // namespace batchless
