#include "batchless/hwmodel/steady_state.h"

#include <algorithm>
#include <map>
#include <string>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/schedule_check.h"
#include "batchless/hwmodel/schedule_file.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "batchless/hwmodel/stage_groups.h"
#include "catch.h"
#include "refusal.h"

using namespace batchless::hwmodel;
using batchless::analysis::InvalidArgument;

namespace {

std::vector<SteadyAction> OfStage(const SteadyState& steady, int stage) {
  std::vector<SteadyAction> actions;
  for (const std::vector<SteadyAction>& worker : steady.workers) {
    for (const SteadyAction& action : worker) {
      if (action.stage == stage) actions.push_back(action);
    }
  }
  return actions;
}

// Letters and offsets of a stage's cycle.
std::string Cycle(const SteadyState& steady, int stage) {
  std::string text;
  for (const SteadyAction& action : OfStage(steady, stage)) {
    text += Letter(action.kind) + std::to_string(action.offset) + " ";
  }
  return text;
}

std::int64_t AgeOf(const SteadyState& steady, int stage, ActionKind kind) {
  for (const SteadyAction& action : OfStage(steady, stage)) {
    if (action.kind == kind) return action.version_age;
  }
  return -1;
}

// Runs the workers' lists as threads would: cycle by cycle, each worker on its own, waiting only for
// the data that come from another. Counts updates, and gives the versions that were the newest.
std::vector<std::vector<MicrobatchVersions>> RunWorkers(const SteadyState& steady,
                                                        std::int64_t microbatches,
                                                        WeightVersions weights) {
  struct Place {
    std::int64_t cycle = 0;
    std::size_t action = 0;
  };
  std::vector<Place> places(steady.workers.size());
  std::map<std::string, bool> done;
  std::vector<std::int64_t> newest(static_cast<std::size_t>(steady.stages));
  std::vector<std::vector<std::int64_t>> unapplied(newest.size());
  std::vector<std::vector<MicrobatchVersions>> versions(
      newest.size(), std::vector<MicrobatchVersions>(static_cast<std::size_t>(microbatches)));
  const bool splits =
      std::any_of(steady.workers.front().begin(), steady.workers.front().end(),
                  [](const SteadyAction& a) { return a.kind == ActionKind::kWeightGradient; });
  const auto is_done = [&](int stage, ActionKind kind, std::int64_t i) {
    return stage < 0 || stage >= steady.stages || done.contains(ToText({stage, kind, i}));
  };
  const std::int64_t cycles = 4 * steady.stages + microbatches;
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t w = 0; w < places.size(); ++w) {
      Place& place = places[w];
      if (place.cycle == cycles) continue;
      const SteadyAction& action = steady.workers[w][place.action];
      const std::int64_t i = place.cycle * steady.microbatches_per_cycle + action.offset;
      if (i >= 0 && i < microbatches) {
        const auto s = static_cast<std::size_t>(action.stage);
        MicrobatchVersions& own = versions[s][static_cast<std::size_t>(i)];
        if (action.kind == ActionKind::kForward) {
          if (!is_done(action.stage - 1, action.kind, i)) continue;
          own.forward = newest[s] - std::min(newest[s], action.version_age);
        }
        if (action.kind == ActionKind::kBackward) {
          if (!is_done(action.stage + 1, action.kind, i)) continue;
          own.backward = newest[s] - std::min(newest[s], action.version_age);
          // In the fill there are fewer versions to go back.
          if (weights == WeightVersions::kStashed) own.backward = own.forward;
        }
        if (action.kind == (splits ? ActionKind::kWeightGradient : ActionKind::kBackward)) {
          unapplied[s].push_back(i);
        }
        if (action.kind == ActionKind::kUpdate) {
          for (const std::int64_t k : unapplied[s]) {
            versions[s][static_cast<std::size_t>(k)].update = newest[s];
          }
          unapplied[s].clear();
          ++newest[s];
        }
        done[ToText({action.stage, action.kind, i})] = true;
      }
      if (++place.action == steady.workers[w].size()) place = {place.cycle + 1, 0};
      progress = true;
    }
  }
  for (const Place& place : places) CHECK(place.cycle == cycles);
  return versions;
}

void CheckSameVersions(const SteadyState& steady, const Schedule& schedule) {
  const auto run = RunWorkers(steady, schedule.microbatches, schedule.weights);
  const ScheduleSummary summary = Summarize(schedule);
  for (int s = 0; s < schedule.stages; ++s) {
    const auto index = static_cast<std::size_t>(s);
    CAPTURE(s);
    CHECK(run[index] == summary.stages[index].microbatches);
  }
}

std::string Error(const Schedule& schedule) {
  return batchless::test::MessageOf([&] { FindSteadyState(schedule); });
}

// Two numbers of stages of which the kind takes both.
std::vector<int> SomeStages(const ScheduleKind& kind) {
  return kind.name == "amdp-multi" ? std::vector{4, 8} : std::vector{2, 6};
}

// 36 micro-batches, which make six updates where the kind does not update after each.
ScheduleOptions SixUpdates(const ScheduleKind& kind, int stages) {
  // The fewest of dualpipe's and of amdp-multi's.
  const std::int64_t per_update = kind.name == "dualpipe"     ? std::max(6, 2 * stages)
                                  : kind.name == "amdp-multi" ? stages
                                                              : 6;
  ScheduleOptions options{.stages = stages, .microbatches = 6 * per_update};
  if (!kind.updates_each) options.microbatches_per_update = per_update;
  return options;
}

}  // namespace

TEST_CASE("pipelined backpropagation repeats every step") {
  const int stages = GENERATE(1, 2, 5, 34);
  const SteadyState steady = FindSteadyState(PipelinedBackpropagation(stages, 2 * stages));
  CHECK(steady.microbatches_per_cycle == 1);
  CHECK(steady.steps_per_cycle == 1);
  CHECK(steady.utilisation == 1);
  REQUIRE(steady.workers.size() == static_cast<std::size_t>(stages));
  for (int s = 0; s < stages; ++s) {
    const std::int64_t backward = -2 * (stages - 1) + s;
    CHECK(OfStage(steady, s) ==
          std::vector<SteadyAction>{{ActionKind::kForward, s, -s, 0, 0},
                                    {ActionKind::kBackward, s, backward, 0, 0},
                                    {ActionKind::kUpdate, s, backward, 0, 0}});
  }
}

TEST_CASE("1F1B repeats every two steps and leaves no slot empty") {
  const int stages = GENERATE(1, 2, 5, 12);
  const SteadyState steady = FindSteadyState(OneForwardOneBackward(stages, 4 * stages));
  CHECK(steady.microbatches_per_cycle == 1);
  CHECK(steady.steps_per_cycle == 2);
  CHECK(steady.utilisation == 1);
  for (int s = 0; s < stages; ++s) {
    const std::vector<SteadyAction> actions = OfStage(steady, s);
    REQUIRE(actions.size() == 3);
    std::int64_t forward = 0;
    std::int64_t backward = 0;
    for (const SteadyAction& action : actions) {
      if (action.kind == ActionKind::kForward) forward = action.offset;
      if (action.kind == ActionKind::kBackward) backward = action.offset;
    }
    // In one cycle, or where the cycle begins between the two, one more.
    const std::int64_t ahead = stages - 1 - s;
    const bool forward_first = actions.front().kind == ActionKind::kForward;
    CHECK(forward - backward == (forward_first ? ahead : ahead + 1));
  }
}

TEST_CASE("schedules with a flush repeat every mini-batch") {
  for (const char* name :
       {"fill-drain", "gpipe", "pipedream-flush", "interleaved", "zb-h1", "dualpipe-v"}) {
    const SteadyState steady = FindSteadyState(
        MakeSchedule(name, {.stages = 4, .microbatches = 24, .microbatches_per_update = 8}));
    CAPTURE(name);
    CHECK(steady.microbatches_per_cycle == 8);
    const ScheduleSummary one = Summarize(MakeSchedule(name, {.stages = 4, .microbatches = 8}));
    CHECK(steady.steps_per_cycle == one.steps);
    CHECK(steady.utilisation == Approx(one.utilisation).epsilon(1e-14));
    for (const std::vector<SteadyAction>& worker : steady.workers) {
      CHECK(worker.front().offset == 0);
      CHECK(worker.back().kind == ActionKind::kUpdate);
      CHECK(worker.back().offset == 7);
    }
  }
  CHECK(Cycle(FindSteadyState(FillDrain(2, 6, 3)), 0) == "F0 F1 F2 B0 B1 B2 U2 ");
}

TEST_CASE("2BW repeats every update, and says which passes read the older buffer") {
  const int stages = 3;
  const std::int64_t per_update = 5;
  const SteadyState steady = FindSteadyState(PipeDream2Bw(stages, 6 * per_update, per_update));
  CHECK(steady.microbatches_per_cycle == per_update);
  CHECK(steady.steps_per_cycle == 2 * per_update);
  CHECK(steady.utilisation == 1);
  for (int s = 0; s < stages; ++s) {
    // Passes of the update under way read the version before the newest, forwards of the next one,
    // which run ahead of its update, the newest.
    std::int64_t forwards_of_newest = 0;
    for (const SteadyAction& action : OfStage(steady, s)) {
      if (action.kind == ActionKind::kBackward) CHECK(action.version_age == 1);
      if (action.kind == ActionKind::kForward && action.version_age == 0) ++forwards_of_newest;
    }
    CHECK(forwards_of_newest == stages - 1 - s);
  }
}

TEST_CASE("stashed backwards are as old as the delay") {
  for (const char* name : {"pb", "1f1b"}) {
    const Schedule schedule =
        MakeSchedule(name, {.stages = 5, .microbatches = 40, .weight_stashing = true});
    const SteadyState steady = FindSteadyState(schedule);
    const ScheduleSummary summary = Summarize(schedule);
    for (int s = 0; s < 5; ++s) {
      CHECK(AgeOf(steady, s, ActionKind::kForward) == 0);
      CHECK(AgeOf(steady, s, ActionKind::kBackward) ==
            summary.stages[static_cast<std::size_t>(s)].forward_delay_updates);
    }
  }
}

TEST_CASE("a lag is every forward's delay, and every stage's versions, whatever the workers") {
  const std::vector<std::vector<int>> groups{{3}, {1, 3}, {1, 2, 3}};
  for (const std::vector<int>& ends : groups) {
    Schedule schedule = MiniBatches(ends, 4);
    schedule.forward_lag = 5;
    const SteadyState steady = FindSteadyState(schedule);
    CHECK(steady.microbatches_per_cycle == 4);
    const ScheduleSummary summary = Summarize(Repeat(steady, schedule, 4 * 12));
    for (int s = 0; s < 3; ++s) {
      CHECK(AgeOf(steady, s, ActionKind::kForward) == 5);
      CHECK(AgeOf(steady, s, ActionKind::kBackward) == 0);
      const StageSummary& stage = summary.stages[static_cast<std::size_t>(s)];
      CHECK(stage.forward_delay_updates == 5);
      CHECK(stage.backward_delay_updates == 0);
      CHECK(stage.weight_versions == 6);
      CHECK(stage.microbatches[0].forward == 0);
      CHECK(stage.microbatches[47].forward == 6);
    }
    schedule.weights = WeightVersions::kStashed;
    CHECK(AgeOf(FindSteadyState(schedule), 0, ActionKind::kBackward) == 5);
    schedule.weights = WeightVersions::kDoubleBuffered;
    CHECK_THROWS_AS(FindSteadyState(schedule), InvalidArgument);
  }
}

TEST_CASE("workers that repeat the cycle from the empty pipeline meet the list's versions") {
  for (const ScheduleKind& kind : ScheduleKinds()) {
    for (const int stages : SomeStages(kind)) {
      const ScheduleOptions options = SixUpdates(kind, stages);
      CAPTURE(std::string(kind.name), stages);
      const Schedule schedule = MakeSchedule(kind.name, options);
      const SteadyState steady = FindSteadyState(schedule);
      // Where a stage has two copies, the worker of one updates both.
      if (schedule.copies() == 1) CheckSameVersions(steady, schedule);
      const Schedule repeated = Repeat(steady, schedule, options.microbatches);
      CHECK_FALSE(FirstBrokenRule(repeated).has_value());
      for (int s = 0; s < stages; ++s) {
        const auto index = static_cast<std::size_t>(s);
        CHECK(Summarize(repeated).stages[index].microbatches ==
              Summarize(schedule).stages[index].microbatches);
      }
    }
  }
}

TEST_CASE("stages may be shared by fewer workers, in whatever way") {
  const std::vector<std::vector<int>> sharings = {
      {0, 0, 0, 0, 0, 0}, {0, 0, 1, 1, 1, 2}, {0, 0, 0, 0, 0, 1}, {0, 1, 2, 0, 1, 2}};
  for (const ScheduleKind& kind : ScheduleKinds()) {
    if (kind.name == "amdp-multi") continue;  // no six stages
    for (const std::vector<int>& sharing : sharings) {
      const ScheduleOptions options = SixUpdates(kind, 6);
      CAPTURE(std::string(kind.name), sharing);
      const Schedule schedule = MakeSchedule(kind.name, options);
      const SteadyState steady = FindSteadyState(schedule, sharing);
      CHECK(steady.workers.size() ==
            static_cast<std::size_t>(*std::max_element(sharing.begin(), sharing.end())) + 1);
      CheckSameVersions(steady, schedule);
    }
  }
}

TEST_CASE("a longer run of the same cycle") {
  const Schedule shorter = OneForwardOneBackward(4, 16);
  const Schedule repeated = Repeat(FindSteadyState(shorter), shorter, 50);
  const ScheduleSummary summary = Summarize(repeated);
  const ScheduleSummary expected = Summarize(OneForwardOneBackward(4, 50));
  for (std::size_t s = 0; s < 4; ++s) {
    CHECK(summary.stages[s].microbatches == expected.stages[s].microbatches);
  }
}

TEST_CASE("enough micro-batches of a cycle show what longer runs of it do") {
  for (const ScheduleKind& kind : ScheduleKinds()) {
    for (const int stages : SomeStages(kind)) {
      ScheduleOptions options = SixUpdates(kind, stages);
      CAPTURE(std::string(kind.name), stages);
      const Schedule schedule = MakeSchedule(kind.name, options);
      const SteadyState steady = FindSteadyState(schedule);
      const ScheduleSummary enough =
          Summarize(Repeat(steady, schedule, EnoughMicrobatches(steady)));
      options.microbatches = 360;
      const ScheduleSummary longer = Summarize(MakeSchedule(kind.name, options));
      options.microbatches =
          EnoughMicrobatches(stages, kind.updates_each ? 1 : options.microbatches_per_update);
      const ScheduleSummary by_name = Summarize(MakeSchedule(kind.name, options));
      for (std::size_t s = 0; s < longer.stages.size(); ++s) {
        for (const auto field :
             {&StageSummary::forward_delay_updates, &StageSummary::backward_delay_updates,
              &StageSummary::activations_in_flight, &StageSummary::weight_versions,
              &StageSummary::stashed_weight_versions}) {
          CHECK(enough.stages[s].*field == longer.stages[s].*field);
          CHECK(by_name.stages[s].*field == longer.stages[s].*field);
        }
      }
    }
  }
}

TEST_CASE("enough micro-batches of forwards that lag show what longer runs do") {
  for (const auto& [name, per_update] :
       {std::pair{"pb", 1}, std::pair{"1f1b", 1}, std::pair{"paci", 2}, std::pair{"gpipe", 3}}) {
    for (const WeightVersions weights : {WeightVersions::kNewest, WeightVersions::kStashed}) {
      for (const std::int64_t lag : {1, 7, 30}) {
        CAPTURE(name, Name(weights), lag);
        ScheduleOptions options{.stages = 2, .microbatches = 12};
        if (per_update > 1) options.microbatches_per_update = per_update;
        Schedule schedule = MakeSchedule(name, options);
        const ScheduleSummary without =
            Summarize(Repeat(FindSteadyState(schedule), schedule, 12 * per_update));
        schedule.weights = weights;
        schedule.forward_lag = lag;
        const SteadyState steady = FindSteadyState(schedule);
        const ScheduleSummary enough =
            Summarize(Repeat(steady, schedule, EnoughMicrobatches(steady)));
        const ScheduleSummary longer = Summarize(Repeat(steady, schedule, 396));
        for (std::size_t s = 0; s < longer.stages.size(); ++s) {
          CHECK(longer.stages[s].forward_delay_updates ==
                without.stages[s].forward_delay_updates + lag);
          for (const auto field :
               {&StageSummary::forward_delay_updates, &StageSummary::backward_delay_updates,
                &StageSummary::activations_in_flight, &StageSummary::weight_versions,
                &StageSummary::stashed_weight_versions}) {
            CHECK(enough.stages[s].*field == longer.stages[s].*field);
          }
        }
      }
    }
  }
}

TEST_CASE("a lag that no list may have is refused before anything is made of it") {
  Schedule schedule = PipelinedBackpropagation(2, 12);
  for (const std::int64_t lag : {std::int64_t{10'001}, (std::int64_t{1} << 61) - 1}) {
    schedule.forward_lag = lag;
    CHECK(Error(schedule) ==
          "forward_lag: got " + std::to_string(lag) + ", accepted: an integer from 0 to 10000");
  }
}

TEST_CASE("flushes leave nothing late, and no other schedule does") {
  for (const ScheduleKind& kind : ScheduleKinds()) {
    const ScheduleSummary summary = Summarize(MakeSchedule(
        kind.name,
        {.stages = 4, .microbatches = 24, .microbatches_per_update = kind.updates_each ? 1 : 8}));
    CAPTURE(std::string(kind.name));
    CHECK((summary.stages[0].forward_delay_updates == 0) == kind.flushes);
  }
}

TEST_CASE("a list without a cycle is refused with the place") {
  CHECK(Error(PipelinedBackpropagation(8, 5)).find("actions: got ") == 0);
  CHECK(Error(Gpipe(2, 4, 4)).find("actions: got ") == 0);
  // Stashed versions grow until the delay is reached.
  Schedule young = PipelinedBackpropagation(4, 8);
  CHECK(Error(young).empty());
  young.weights = WeightVersions::kStashed;
  CHECK(Error(young).find("at step") != std::string::npos);
  // One stage that takes its third micro-batch's update late.
  const Schedule uneven = ParseScheduleText(
      "stages=1 microbatches=6 slots_per_step=2 weights=newest\n"
      "0: 0F0 0B0 0U0\n1: 0F1 0B1 0U1\n2: 0F2 0B2\n3: 0F3 0B3 0U3\n4: 0F4 0B4 0U4\n"
      "5: 0F5 0B5 0U5\n");
  const std::string error = Error(uneven);
  CHECK(error == "actions: got 0F3 at step 3, accepted: 0U2 next, as in a cycle of 1 micro-batch");
  // The updates say which lengths there are to try: none here, of half a million.
  CHECK(Error(Gpipe(1, 1'000'000, 1'000'000)).find("actions: got ") == 0);
  Schedule broken = uneven;
  broken.actions.pop_back();
  CHECK(Error(broken).find("micro-batch 5") != std::string::npos);
}

TEST_CASE("workers of stages that are not there are refused") {
  const Schedule schedule = PipelinedBackpropagation(3, 12);
  for (const std::vector<int>& workers :
       {std::vector<int>{0, 0}, std::vector<int>{0, 0, 3}, std::vector<int>{0, -1, 0}}) {
    CHECK_THROWS_AS(FindSteadyState(schedule, workers), InvalidArgument);
  }
}
