#include <algorithm>
#include <map>
#include <string>

#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "catch.h"
#include "refusal.h"

using namespace batchless::hwmodel;
using batchless::test::MessageOf;
using batchless::test::RefusedName;

namespace {

// Step of each action, by its text.
std::map<std::string, std::int64_t> Steps(const Schedule& schedule) {
  std::map<std::string, std::int64_t> steps;
  for (const TimedAction& timed : schedule.actions) steps[ToText(timed.action)] = timed.step;
  return steps;
}

std::int64_t StepOf(const std::map<std::string, std::int64_t>& steps, int stage, ActionKind kind,
                    std::int64_t microbatch) {
  return steps.at(ToText({stage, kind, microbatch}));
}

// Whether every stage gets its input before it runs: activations from the stage before it,
// gradients from the one after it, each a step earlier or more.
bool DataArrivesInTime(const Schedule& schedule) {
  const auto steps = Steps(schedule);
  for (std::int64_t i = 0; i < schedule.microbatches; ++i) {
    for (int s = 0; s + 1 < schedule.stages; ++s) {
      if (StepOf(steps, s, ActionKind::kForward, i) >=
          StepOf(steps, s + 1, ActionKind::kForward, i)) {
        return false;
      }
      if (StepOf(steps, s, ActionKind::kBackward, i) <=
          StepOf(steps, s + 1, ActionKind::kBackward, i)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

TEST_CASE("pipelined backpropagation delays stage s by 2(S-1-s) updates") {
  const int stages = GENERATE(1, 2, 3, 4, 34);
  // D + 1 different versions are alive from micro-batch D on, while D more are in flight.
  const std::int64_t microbatches = 4 * stages + 1;
  const ScheduleSummary summary = Summarize(PipelinedBackpropagation(stages, microbatches));
  REQUIRE(summary.stages.size() == static_cast<std::size_t>(stages));
  for (int s = 0; s < stages; ++s) {
    CAPTURE(stages, s);
    const StageSummary& stage = summary.stages[static_cast<std::size_t>(s)];
    const std::int64_t delay = 2 * std::int64_t{stages - 1 - s};
    CHECK(stage.forward_delay_updates == delay);
    CHECK(stage.backward_delay_updates == 0);
    CHECK(stage.activations_in_flight == delay + 1);
    CHECK(stage.stashed_weight_versions == delay + 1);
    for (std::int64_t i = 0; i < microbatches; ++i) {
      const MicrobatchVersions& versions = stage.microbatches[static_cast<std::size_t>(i)];
      CHECK(versions.forward == std::max<std::int64_t>(0, i - delay));
      CHECK(versions.backward == i);
      CHECK(versions.update == i);
    }
  }
}

TEST_CASE("the last stage of pipelined backpropagation has no delay") {
  const ScheduleSummary summary = Summarize(PipelinedBackpropagation(8, 40));
  CHECK(summary.stages.back().forward_delay_updates == 0);
  CHECK(summary.stages.back().stashed_weight_versions == 1);
}

TEST_CASE("a run shorter than the pipeline shows no more delay than it has updates") {
  const ScheduleSummary summary = Summarize(PipelinedBackpropagation(8, 3));
  CHECK(summary.stages.front().forward_delay_updates == 2);
}

TEST_CASE("fill and drain has no delay and one weight version") {
  const int stages = GENERATE(1, 2, 5);
  const std::int64_t per_update = GENERATE(1, 4, 32);
  const ScheduleSummary summary = Summarize(FillDrain(stages, 3 * per_update, per_update));
  for (const StageSummary& stage : summary.stages) {
    CHECK(stage.forward_delay_updates == 0);
    CHECK(stage.backward_delay_updates == 0);
    CHECK(stage.stashed_weight_versions == 1);
    CHECK(stage.microbatches.back().update == 2);
  }
}

TEST_CASE("a mini-batch of N takes N + 2S - 2 steps, utilisation N / (N + 2S - 2)") {
  const int stages = GENERATE(1, 2, 34);
  const std::int64_t n = GENERATE(1, 8, 128);
  const std::int64_t steps = n + 2 * std::int64_t{stages} - 2;
  const double utilisation = static_cast<double>(n) / static_cast<double>(steps);
  for (const std::int64_t minibatches : {1, 3}) {
    const ScheduleSummary summary = Summarize(FillDrain(stages, minibatches * n, n));
    CAPTURE(stages, n, minibatches);
    CHECK(summary.steps == minibatches * steps);
    CHECK(summary.utilisation == Approx(utilisation).epsilon(1e-14));
    CHECK(summary.bubble_ratio == Approx(1 - utilisation).margin(1e-14));
  }
}

TEST_CASE("fill and drain of one micro-batch an update keeps one stage busy at a time") {
  // A forward and a backward at each of S stages, in steps with room for one of each at every
  // stage: 2 S of 2 S (2S - 1).
  const ScheduleSummary summary = Summarize(FillDrain(4, 1, 1));
  CHECK(summary.steps == 7);
  CHECK(summary.utilisation == Approx(1.0 / 7).epsilon(1e-14));
}

TEST_CASE("activations and gradients arrive before they are needed") {
  CHECK(DataArrivesInTime(PipelinedBackpropagation(5, 12)));
  CHECK(DataArrivesInTime(FillDrain(5, 12, 4)));
}

TEST_CASE("the actions of two stages and two micro-batches, written out") {
  std::string text;
  for (const TimedAction& timed : PipelinedBackpropagation(2, 2).actions) {
    text += std::to_string(timed.step) + ":" + ToText(timed.action) + " ";
  }
  CHECK(text == "0:0F0 1:0F1 1:1F0 1:1B0 1:1U0 2:0B0 2:0U0 2:1F1 2:1B1 2:1U1 3:0B1 3:0U1 ");
}

TEST_CASE("arguments out of range are refused by name") {
  CHECK(RefusedName([] { PipelinedBackpropagation(0, 1); }) == "stages");
  CHECK(RefusedName([] { PipelinedBackpropagation(1, 0); }) == "microbatches");
  CHECK(RefusedName([] { FillDrain(2, 6, 0); }) == "microbatches_per_update");
  CHECK(RefusedName([] { FillDrain(2, 6, 4); }) == "microbatches_per_update");
}

TEST_CASE("a schedule that is no schedule is refused with the place") {
  const Schedule good = PipelinedBackpropagation(2, 2);
  const auto message = [](const Schedule& schedule) {
    return MessageOf([&] { Summarize(schedule); });
  };
  REQUIRE(message(good).empty());

  Schedule twice = good;
  twice.actions[1].action.microbatch = 0;
  CHECK(message(twice).find("0F0 at step 1") != std::string::npos);

  Schedule backward_first = good;
  std::swap(backward_first.actions[2].action, backward_first.actions[3].action);
  CHECK(message(backward_first).find("1B0 at step 1") != std::string::npos);

  Schedule out_of_order = good;
  out_of_order.actions[4].step = 0;
  CHECK(message(out_of_order).find("1U0 at step 0") != std::string::npos);

  Schedule no_gradient = good;
  no_gradient.actions.erase(no_gradient.actions.begin() + 3);
  CHECK(message(no_gradient).find("1U0 at step 1") != std::string::npos);

  Schedule outside = good;
  outside.actions[0].action.stage = 2;
  CHECK(message(outside).find("stage 0 .. 1") != std::string::npos);

  Schedule cut_short = good;
  cut_short.actions.pop_back();
  CHECK(message(cut_short).find("micro-batch 1") != std::string::npos);

  Schedule empty = good;
  empty.actions.clear();
  CHECK(message(empty).find("micro-batch 0") != std::string::npos);
}
