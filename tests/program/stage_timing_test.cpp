// Times of stages in a running pipeline, and what they are worth to the workers.
#include "stage_timing.h"

#include <algorithm>
#include <memory>

#include "batchless/analysis/rule.h"
#include "batchless/hwmodel/network.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/training/dataset.h"
#include "catch.h"

namespace batchless {
using training::TrainerOptions;

namespace {

training::DatasetSource Source() {
  static const auto kData = training::MakeSynthetic(3, training::Split::kTrain, 64, 16);
  return {kData, {.seed = 2}};
}

TrainerOptions Options(std::int64_t batch) {
  TrainerOptions options;
  options.network = hwmodel::MakeNetwork({.name = "lenet5", .input = {3, 32, 32}});
  options.batch = batch;
  options.microbatch = 1;
  options.samples = 10'000;
  options.learning_rate.base = 1e-4;
  return options;
}

TrainerOptions Pb() {
  TrainerOptions options = Options(1);
  const int stages = options.network.stage_count();
  options.schedule = hwmodel::PipelinedBackpropagation(stages, 4 * stages);
  return options;
}

TrainerOptions UniformDelay() {
  TrainerOptions options = Options(16);
  options.schedule.forward_lag = 2;
  return options;
}

TrainerOptions DoubleBuffered() {
  TrainerOptions options = Options(16);
  const int stages = options.network.stage_count();
  // As short as a list may be.
  options.schedule = hwmodel::PipeDream2Bw(stages, 4 * 16, 16);
  return options;
}

}  // namespace

TEST_CASE("every pass of every stage is timed, whatever the schedule") {
  TrainerOptions shared = Options(12);
  shared.workers = 3;
  shared.microbatch = 4;
  for (const TrainerOptions& options : {Pb(), shared, UniformDelay(), DoubleBuffered()}) {
    for (const int rounds : {1, 5, 40}) {
      const hwmodel::MeasuredNetwork measured = MeasureStages(options, Source(), rounds);
      const auto stages = static_cast<std::size_t>(options.network.stage_count());
      CHECK(measured.network == "lenet5");
      CHECK(measured.microbatch == options.microbatch);
      CHECK(measured.workers == options.workers);
      for (const auto& seconds :
           {measured.forward_seconds, measured.backward_seconds, measured.update_seconds}) {
        REQUIRE(seconds.size() == stages);
        CHECK(std::all_of(seconds.begin(), seconds.end(), [](double s) { return s > 0; }));
      }
      CHECK(StageCosts(measured, options).size() == stages);
    }
  }
}

TEST_CASE("numbers that are not finite are timed as well") {
  TrainerOptions options = Pb();
  options.learning_rate.base = 1e6;
  CHECK(MeasureStages(options, Source(), 8).forward_seconds.size() == 12);
}

TEST_CASE("costs are those of a micro-batch, with its part of the update") {
  TrainerOptions options = Options(16);
  options.batch = 32;
  options.microbatch = 8;
  const hwmodel::MeasuredNetwork measured{.network = "any",
                                          .microbatch = 2,
                                          .forward_seconds = {1, 0},
                                          .backward_seconds = {2, 5},
                                          .update_seconds = {4, 8}};
  // Four times the samples, and four micro-batches an update.
  CHECK(StageCosts(measured, options) == std::vector<double>{13, 22});
}

}  // namespace batchless
