// Long computations end where their caller no longer wants them.
#include "batchless/analysis/cancellation.h"

#include <functional>
#include <stdexcept>

#include "batchless/analysis/design.h"
#include "batchless/analysis/worst_case.h"
#include "batchless/hwmodel/partition.h"
#include "batchless/hwmodel/pipeline_simulation.h"
#include "batchless/hwmodel/schedule_file.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_picture.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "batchless/hwmodel/steady_state.h"
#include "catch.h"

using namespace batchless;
using namespace batchless::hwmodel;

namespace {

struct Cancelled : std::runtime_error {
  Cancelled() : std::runtime_error("cancelled") {}
};

// How often the work asks; it is cancelled when it asks for the last of `most` times.
int Asked(const std::function<void()>& work, int most = -1) {
  int asked = 0;
  const analysis::CancellationCheck check([&] {
    if (++asked == most) throw Cancelled();
  });
  work();
  return asked;
}

}  // namespace

TEST_CASE("long computations ask whether they are wanted, and end where they are not") {
  const Schedule schedule = PipelinedBackpropagation(8, 100);
  const auto actions = static_cast<int>(schedule.actions.size());
  SimulationOptions simulated;
  simulated.times.stages.assign(8, {.forward_seconds = 1, .backward_seconds = 2});
  struct Work {
    const char* name;
    int least;  // times that it asks
    std::function<void()> work;
  };
  const std::vector<Work> works = {
      {"pb", 100, [] { MakeSchedule("pb", {.stages = 8, .microbatches = 100}); }},
      {"fill-drain", 10,
       [] {
         MakeSchedule("fill-drain",
                      {.stages = 8, .microbatches = 100, .microbatches_per_update = 10});
       }},
      {"zb-v", 2400, [] { MakeSchedule("zb-v", {.stages = 8, .microbatches = 100}); }},
      {"partition", 1000, [] { BalancedPartition(std::vector<double>(100, 1), 50); }},
      {"check and summary", 3 * actions, [&] { Summarize(schedule); }},
      {"steady state", actions, [&] { FindSteadyState(schedule); }},
      {"csv", actions, [&] { ToCsv(schedule); }},
      {"text", actions, [&] { ToText(schedule); }},
      {"trace", actions, [&] { ToTraceJson(schedule); }},
      {"simulation", actions, [&] { SimulatePipeline(schedule, simulated); }},
      {"design", 100, [] { analysis::DesignRule({.delay = 1, .condition = 10, .order = 2}); }},
      {"worst case", 100, [] { analysis::DesignForWorstCase(1, 10, 2); }},
  };
  for (const auto& [name, least, work] : works) {
    INFO(name);
    CHECK(Asked(work) >= least);
    CHECK_THROWS_AS(Asked(work, least / 2), Cancelled);
  }
  // Nobody is asked where there is no check.
  CHECK(Asked([] {}) == 0);
  Summarize(schedule);
}

TEST_CASE("the last check counts, and the one before it again after it") {
  int outer = 0;
  const analysis::CancellationCheck check([&] { ++outer; });
  CHECK(Asked(&analysis::CheckCancellation) == 1);
  CHECK(outer == 0);
  analysis::CheckCancellation();
  CHECK(outer == 1);
}
