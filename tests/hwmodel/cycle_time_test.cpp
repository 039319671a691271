#include "batchless/hwmodel/cycle_time.h"

#include <algorithm>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "catch.h"
#include "random_times.h"

namespace batchless::hwmodel {
namespace {

constexpr double kRounding = 1e-12;  // of a sum of some hundred times

CycleTime Period(std::string_view kind, int stages, std::int64_t microbatches,
                 std::int64_t per_update, const PipelineTimes& times) {
  const Schedule schedule = MakeSchedule(
      kind,
      {.stages = stages, .microbatches = microbatches, .microbatches_per_update = per_update});
  return ComputeCycleTime(FindSteadyState(schedule), times);
}

double Work(const StageTimes& stage) {
  return stage.forward_seconds + stage.backward_seconds + stage.update_seconds;
}

TEST_CASE("Without messages an asynchronous pipeline takes its slowest worker's time",
          "[cycle_time]") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 20; ++trial) {
    const int stages = 1 + static_cast<int>(random() % 9);
    const PipelineTimes times = RandomTimes(stages, random, false);
    int slowest = 0;
    for (int s = 0; s < stages; ++s) {
      if (Work(times.stages[s]) > Work(times.stages[slowest])) slowest = s;
    }
    for (const std::string_view kind : {"pb", "1f1b"}) {
      const CycleTime cycle = Period(kind, stages, 6 * stages + 4, 0, times);
      CHECK(cycle.seconds == Approx(Work(times.stages[slowest])).epsilon(kRounding));
      CHECK(cycle.workers == std::vector{slowest});
    }
  }
}

TEST_CASE("A flush costs the fill and drain of its bubble", "[cycle_time]") {
  constexpr double kForward = 1;
  constexpr double kBackward = 2;
  for (int stages = 1; stages <= 6; ++stages) {
    for (const std::int64_t m : {stages, 2 * stages, 8 * stages}) {
      const PipelineTimes times = EqualTimes(stages, {kForward, kBackward, 0, 0});
      // (S - 1) / (M + S - 1) of the time nothing is done.
      const double expected = static_cast<double>(m + stages - 1) * (kForward + kBackward);
      for (const std::string_view kind : {"gpipe", "pipedream-flush"}) {
        const CycleTime cycle = Period(kind, stages, 4 * m, m, times);
        CAPTURE(kind, stages, m);
        CHECK(cycle.seconds == Approx(expected).epsilon(kRounding));
        CHECK(cycle.microbatches_per_cycle == m);
        CHECK(cycle.busy_seconds[0] ==
              Approx(static_cast<double>(m) * (kForward + kBackward)).epsilon(kRounding));
      }
    }
  }
}

TEST_CASE("A flush over unequal stages is a flow shop there and one back", "[cycle_time]") {
  std::mt19937 random(2);
  for (int trial = 0; trial < 20; ++trial) {
    const int stages = 2 + static_cast<int>(random() % 6);
    const std::int64_t m = 1 + static_cast<std::int64_t>(random() % 8);
    PipelineTimes times = RandomTimes(stages, random, false);
    double expected = 0;
    double forward = 0;
    double backward = 0;
    for (StageTimes& stage : times.stages) {
      stage.update_seconds = 0;
      expected += stage.forward_seconds + stage.backward_seconds;
      forward = std::max(forward, stage.forward_seconds);
      backward = std::max(backward, stage.backward_seconds);
    }
    expected += static_cast<double>(m - 1) * (forward + backward);
    CHECK(Period("gpipe", stages, 4 * m, m, times).seconds == Approx(expected).epsilon(kRounding));
  }
}

TEST_CASE("ZB-H1 loses S - 1 of 3 M + S - 1", "[cycle_time]") {
  const int stages = 4;
  const std::int64_t m = 8;
  const PipelineTimes times = EqualTimes(stages, {1, 1, 1, 0});
  CHECK(Period("zb-h1", stages, 4 * m, m, times).seconds ==
        Approx(3.0 * m + stages - 1).epsilon(kRounding));
}

TEST_CASE("Latency that too few micro-batches hide is the bottleneck", "[cycle_time]") {
  // 1F1B of two equal stages, two in flight at the first: F0 F1 B1 B0 U0 and twice the latency in the
  // time of two micro-batches.
  PipelineTimes times = EqualTimes(2, {1, 1, 0, 0.5});
  times.latency_seconds = {5};
  const CycleTime cycle = Period("1f1b", 2, 20, 0, times);
  CHECK(cycle.seconds == Approx((4.5 + 2 * 5.0) / 2).epsilon(kRounding));
  CHECK(cycle.workers == std::vector<int>{0, 1});
  // PB has three.
  CHECK(Period("pb", 2, 20, 0, times).seconds == Approx((4.5 + 2 * 5.0) / 3).epsilon(kRounding));
}

TEST_CASE("A slow link is the bottleneck by name", "[cycle_time]") {
  PipelineTimes times = EqualTimes(4, {0.5, 0.5, 0, 0});
  times.link_seconds = {0.5, 3, 0.5};
  const CycleTime cycle = Period("pb", 4, 40, 0, times);
  CHECK(cycle.seconds == Approx(3).epsilon(kRounding));
  CHECK(cycle.workers.empty());
  CHECK(cycle.boundary == 1);
}

TEST_CASE("Times that do not fit are refused", "[cycle_time]") {
  const SteadyState steady = FindSteadyState(PipelinedBackpropagation(2, 12));
  CHECK_THROWS_AS(ComputeCycleTime(steady, EqualTimes(3, {1, 1, 0, 0})), analysis::InvalidArgument);
  CHECK_THROWS_AS(ComputeCycleTime(steady, EqualTimes(2, {0, 0, 0, 0})), analysis::InvalidArgument);
  CHECK_THROWS_AS(ComputeCycleTime(steady, EqualTimes(2, {1, -1, 0, 0})),
                  analysis::InvalidArgument);
  PipelineTimes times = EqualTimes(2, {1, 1, 0, 0});
  times.link_seconds = {1, 1};
  CHECK_THROWS_AS(ComputeCycleTime(steady, times), analysis::InvalidArgument);
}

}  // namespace
}  // namespace batchless::hwmodel
