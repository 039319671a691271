#include "batchless/hwmodel/pipeline_simulation.h"

#include <algorithm>

#include "batchless/hwmodel/cycle_time.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/steady_state.h"
#include "catch.h"
#include "random_times.h"

namespace batchless::hwmodel {
namespace {

// From the end of micro-batch `first` to that of `last`, for each of those between.
double SecondsPerMicrobatch(const SimulationSummary& run, std::int64_t first, std::int64_t last) {
  return (run.finish_seconds.at(static_cast<std::size_t>(last)) -
          run.finish_seconds.at(static_cast<std::size_t>(first))) /
         static_cast<double>(last - first);
}

constexpr double kAnalytic = 1e-9;  // simulated against analytic, relative

Schedule Make(std::string_view kind, int stages, std::int64_t microbatches,
              std::int64_t per_update = 0) {
  return MakeSchedule(
      kind,
      {.stages = stages, .microbatches = microbatches, .microbatches_per_update = per_update});
}

// Seconds until the end by the recursion that defines it, over the actions in the order of the list.
double LongestPath(const Schedule& schedule, const PipelineTimes& times) {
  const auto n = static_cast<std::size_t>(schedule.microbatches);
  std::vector<std::vector<double>> forward(schedule.stages, std::vector<double>(n));
  std::vector<std::vector<double>> backward = forward;
  std::vector<double> free(schedule.workers(), 0);
  double end = 0;
  for (const TimedAction& timed : schedule.actions) {
    const int s = timed.action.stage;
    const ActionKind kind = timed.action.kind;
    const auto i = static_cast<std::size_t>(timed.action.microbatch);
    double start = free[schedule.worker(s)];
    const auto from = [&](const std::vector<double>& group_ends, int sender) {
      const double latency =
          schedule.worker(sender) == schedule.worker(s) ? 0 : times.latency(std::min(sender, s));
      start = std::max(start, group_ends[i] + latency);
    };
    if (kind == ActionKind::kForward && s > 0) from(forward[s - 1], s - 1);
    if (kind == ActionKind::kBackward && s + 1 < schedule.stages) from(backward[s + 1], s + 1);
    const double done = start + times.stages[s].seconds(kind);
    free[schedule.worker(s)] = done;
    if (kind == ActionKind::kForward) forward[s][i] = done;
    if (kind == ActionKind::kBackward) backward[s][i] = done;
    end = std::max(end, done);
  }
  return end;
}

TEST_CASE("Fill and drain of equal stages take N + 2S - 2 steps", "[simulation]") {
  for (const int stages : {1, 2, 5, 34}) {
    for (const std::int64_t n : {1, 7, 128}) {
      // A step has a forward and a backward at every stage. The simulation does not wait for the
      // step's end: the last stage's first forward and backward follow each other at once.
      const PipelineTimes times = EqualTimes(stages, {0.5, 0.5, 0, 0});
      const SimulationSummary run =
          SimulatePipeline(Make("fill-drain", stages, n), {.times = times});
      CHECK(run.seconds == Approx(static_cast<double>(n) + stages - 1).epsilon(kAnalytic));
    }
  }
}

TEST_CASE("GPipe of equal stages takes (M + S - 1) (F + B)", "[simulation]") {
  for (const int stages : {1, 3, 8}) {
    for (const std::int64_t m : {1, 4, 32}) {
      const SimulationSummary run =
          SimulatePipeline(Make("gpipe", stages, m), {.times = EqualTimes(stages, {1, 2, 0, 0})});
      CHECK(run.seconds == Approx(3.0 * (static_cast<double>(m) + stages - 1)).epsilon(kAnalytic));
      CHECK(1 - run.utilisation ==
            Approx((stages - 1.0) / (static_cast<double>(m) + stages - 1)).margin(kAnalytic));
    }
  }
}

// Which are not simulated.
const auto kHasCopies = [](const ScheduleKind& kind) {
  return kind.name == "dualpipe" || kind.name == "amdp-multi";
};

TEST_CASE("The end is where the longest path of the list ends", "[simulation]") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 10; ++trial) {
    const int stages = 2 * (1 + static_cast<int>(random() % 4));
    for (const ScheduleKind& kind : ScheduleKinds()) {
      if (kHasCopies(kind)) continue;
      const Schedule schedule = Make(kind.name, stages, 8 * stages);
      PipelineTimes times = RandomTimes(stages, random, true);
      times.link_seconds.clear();
      CAPTURE(kind.name, stages);
      CHECK(SimulatePipeline(schedule, {.times = times}).seconds ==
            Approx(LongestPath(schedule, times)).epsilon(1e-13));
    }
  }
}

TEST_CASE("Simulated and analytic periods are equal", "[simulation]") {
  std::mt19937 random(2);
  for (int trial = 0; trial < 2; ++trial) {
    for (const ScheduleKind& kind : ScheduleKinds()) {
      if (kHasCopies(kind)) continue;
      for (const int stages : {2, 4}) {
        for (const bool links : {false, true}) {
          const std::int64_t m = kind.updates_each ? 1 : 4;
          const std::int64_t per_update = kind.updates_each ? 0 : m;
          const PipelineTimes times = RandomTimes(stages, random, links);
          const CycleTime cycle =
              ComputeCycleTime(FindSteadyState(Make(kind.name, stages, 32, per_update)), times);
          // A settled run repeats itself after as many cycles as the critical circuit spans, which
          // are few and divide this.
          constexpr std::int64_t kWindow = 8 * 9 * 5 * 7;
          constexpr std::int64_t kSettled = 500;
          const std::int64_t n = (kSettled + kWindow + 100) * m;
          const SimulationSummary run =
              SimulatePipeline(Make(kind.name, stages, n, per_update), {.times = times});
          const double period = SecondsPerMicrobatch(run, kSettled * m, (kSettled + kWindow) * m) *
                                static_cast<double>(cycle.microbatches_per_cycle);
          CAPTURE(kind.name, stages, links);
          CHECK(period == Approx(cycle.seconds).epsilon(kAnalytic));
        }
      }
    }
  }
}

TEST_CASE("Equal cores of a worker are as one", "[simulation]") {
  std::mt19937 random(3);
  const PipelineTimes times = RandomTimes(4, random, true);
  const Schedule schedule = Make("pb", 4, 30);
  const SimulationSummary one = SimulatePipeline(schedule, {.times = times});
  const SimulationSummary many =
      SimulatePipeline(schedule, {.times = times, .cores_of_worker = {3, 1, 7, 2}});
  CHECK(many.finish_seconds == one.finish_seconds);
  CHECK(many.cores == 13);
  CHECK(many.busy_seconds[2] == Approx(7 * one.busy_seconds[2]).epsilon(1e-12));
}

TEST_CASE("A slow worker makes the pipeline's pace", "[simulation]") {
  PipelineTimes times = EqualTimes(5, {1, 2, 0, 0});
  times.stages[2] = {1.5, 3, 0, 0};
  const SimulationSummary run = SimulatePipeline(Make("pb", 5, 400), {.times = times});
  CHECK(SecondsPerMicrobatch(run, 100, 300) == Approx(4.5).epsilon(kAnalytic));
}

TEST_CASE("Stalls lengthen an action by their mean", "[simulation]") {
  // One worker: nothing waits, so that the time is the sum of its draws.
  const std::int64_t n = 200'000;
  const SimulationSummary run =
      SimulatePipeline(Make("pb", 1, n), {.times = EqualTimes(1, {1, 1, 0, 0}),
                                          .jitter = 0.5,
                                          .stall_probability = 0.1,
                                          .stall_factor = 3,
                                          .seed = 4});
  // Mean of a draw 1 + 0.1 * 2; its deviation is below 0.8, of the mean of 2 n below 0.0013.
  CHECK(run.seconds / (2.0 * static_cast<double>(n)) == Approx(1.2).margin(5 * 0.0013));
}

TEST_CASE("The same seed gives the same run, another one another", "[simulation]") {
  const Schedule schedule = Make("1f1b", 6, 60);
  SimulationOptions options = {.times = EqualTimes(6, {1, 2, 0, 0}), .jitter = 0.3, .seed = 9};
  const SimulationSummary first = SimulatePipeline(schedule, options);
  CHECK(SimulatePipeline(schedule, options).finish_seconds == first.finish_seconds);
  options.seed = 10;
  CHECK(SimulatePipeline(schedule, options).finish_seconds != first.finish_seconds);
}

TEST_CASE("Jitter never speeds a pipeline up beyond its slowest worker's mean", "[simulation]") {
  const Schedule schedule = Make("pb", 8, 2000);
  const PipelineTimes times = EqualTimes(8, {1, 1, 0, 0});
  double before = 0;
  for (const double jitter : {0.0, 0.3, 0.9}) {
    const double period = SecondsPerMicrobatch(
        SimulatePipeline(schedule, {.times = times, .jitter = jitter, .seed = 1}), 200, 1800);
    CHECK(period > before);
    CHECK(period >= 2 * (1 - 0.02));
    before = period;
  }
}

TEST_CASE("Longer queues are never slower, and none is as fast as no limit", "[simulation]") {
  const Schedule schedule = Make("gpipe", 8, 600);
  SimulationOptions options = {.times = EqualTimes(8, {1, 1, 0, 0}), .jitter = 0.9, .seed = 5};
  const double free = SimulatePipeline(schedule, options).seconds;
  double before = std::numeric_limits<double>::infinity();
  for (const std::int64_t capacity : {1, 2, 4, 16, 600}) {
    options.queue_capacity = capacity;
    const SimulationSummary run = SimulatePipeline(schedule, options);
    CHECK(run.longest_queue <= capacity);
    CHECK(run.seconds <= before * (1 + 1e-12));
    CHECK(run.seconds >= free * (1 - 1e-12));
    before = run.seconds;
  }
  CHECK(before == free);
  options.queue_capacity = 1;
  CHECK(SimulatePipeline(schedule, options).seconds > 1.001 * free);
}

TEST_CASE("A queue that can never be emptied is refused with who waits", "[simulation]") {
  // Two workers with two stages each, in turn: GPipe's forwards over chunks need a place for each
  // micro-batch.
  const Schedule schedule = MakeSchedule(
      "interleaved", {.stages = 4, .microbatches = 8, .microbatches_per_update = 8, .chunks = 2});
  SimulationOptions options = {.times = EqualTimes(4, {1, 1, 0, 0})};
  CHECK_NOTHROW(SimulatePipeline(schedule, options));
  // The order of the list needs what stands behind a full queue.
  Schedule crossed = Make("gpipe", 2, 4);
  std::vector<TimedAction> last;
  for (const TimedAction& timed : crossed.actions) {
    if (timed.action.stage == 1) last.push_back(timed);
  }
  std::reverse(last.begin(), last.begin() + 4);  // its forwards, the last one first
  std::size_t next = 0;
  for (TimedAction& timed : crossed.actions) {
    if (timed.action.stage == 1) timed = last[next++];
  }
  options = {.times = EqualTimes(2, {1, 1, 0, 0}), .queue_capacity = 3};
  CHECK_THROWS_WITH(SimulatePipeline(crossed, options),
                    Catch::Matchers::Contains("queue_capacity: got 3"));
  options.queue_capacity = 4;
  CHECK_NOTHROW(SimulatePipeline(crossed, options));
}

TEST_CASE("Options out of range are refused by name", "[simulation]") {
  const Schedule schedule = Make("pb", 2, 4);
  const PipelineTimes times = EqualTimes(2, {1, 1, 0, 0});
  const auto refuses = [&](const SimulationOptions& options, const std::string& name) {
    CHECK_THROWS_WITH(SimulatePipeline(schedule, options), Catch::Matchers::StartsWith(name));
  };
  refuses({.times = EqualTimes(3, {1, 1, 0, 0})}, "times");
  refuses({.times = times, .cores_of_worker = {1}}, "cores_of_worker");
  refuses({.times = times, .cores_of_worker = {1, 0}}, "cores_of_worker");
  refuses({.times = times, .jitter = 1}, "jitter");
  refuses({.times = times, .stall_probability = 1.5}, "stall_probability");
  refuses({.times = times, .stall_factor = 0.5}, "stall_factor");
  refuses({.times = times, .queue_capacity = -1}, "queue_capacity");
}

}  // namespace
}  // namespace batchless::hwmodel
