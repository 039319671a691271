#include <algorithm>
#include <string>

#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "catch.h"
#include "refusal.h"

using namespace batchless::hwmodel;
using batchless::test::MessageOf;
using batchless::test::RefusedName;

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

TEST_CASE("arguments out of range are refused by name") {
  CHECK(RefusedName([] { PipelinedBackpropagation(0, 1); }) == "stages");
  CHECK(RefusedName([] { PipelinedBackpropagation(1, 0); }) == "microbatches");
  CHECK(RefusedName([] { FillDrain(2, 6, 0); }) == "microbatches_per_update");
  CHECK(RefusedName([] { FillDrain(2, 6, 4); }) == "microbatches_per_update");
}

TEST_CASE("a schedule that is no schedule is refused with the place") {
  const auto says = [](auto change, const char* part) {
    Schedule schedule = PipelinedBackpropagation(2, 2);
    change(schedule);
    return MessageOf([&] { Summarize(schedule); }).find(part) != std::string::npos;
  };
  CHECK(says([](Schedule& s) { s.actions[1].action.microbatch = 0; }, "0F0 at step 1"));
  CHECK(says([](Schedule& s) { s.actions[4].step = 0; }, "1U0 at step 0"));
  CHECK(says([](Schedule& s) { s.actions.clear(); }, "micro-batch 0"));
}
