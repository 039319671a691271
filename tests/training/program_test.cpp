#include "engine/program.h"

#include <algorithm>
#include <map>
#include <random>

#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/stage_groups.h"
#include "catch.h"

namespace batchless::training {
namespace {

using hwmodel::ActionKind;

hwmodel::Pass On(ActionKind kind, int stage) { return {kind, stage}; }

Program Steady(const hwmodel::Schedule& list, const std::vector<int>& boundaries) {
  return SteadyProgram(hwmodel::FindSteadyState(list, WorkersOfStages(boundaries)), boundaries);
}

Program MiniBatchProgram(const std::vector<int>& boundaries, std::int64_t microbatches) {
  return Steady(hwmodel::MiniBatches(boundaries, microbatches), boundaries);
}

TEST_CASE("Every micro-batch passes every stage once, forward, backward and into an update",
          "[program]") {
  for (const std::vector<int>& boundaries :
       {std::vector<int>{5}, std::vector<int>{2, 5}, std::vector<int>{1, 2, 3, 4, 5}}) {
    for (const std::int64_t microbatches : {1, 2, 7}) {
      const Program program = MiniBatchProgram(boundaries, microbatches);
      CHECK(program.stages() == 5);
      for (const WorkerProgram& worker : program.workers) {
        for (int s = worker.first_stage; s < worker.end_stage; ++s) {
          std::map<ActionKind, std::vector<std::int64_t>> order;
          for (const hwmodel::SteadyAction& action : worker.actions) {
            if (action.stage == s) order[action.kind].push_back(action.offset);
          }
          std::vector<std::int64_t> all;
          for (std::int64_t k = 0; k < microbatches; ++k) all.push_back(k);
          CHECK(order[ActionKind::kForward] == all);
          CHECK(order[ActionKind::kBackward] == all);
          CHECK(order[ActionKind::kUpdate] == std::vector<std::int64_t>{microbatches - 1});
        }
      }
    }
  }
}

// Plays the program's first cycles with workers that are held up at random, and looks at what is alive.
std::int64_t MostAlive(const Program& program, const hwmodel::MemoryUse& use, std::uint32_t seed) {
  const auto cycles = static_cast<std::size_t>(6 + 2 * DrainCycles(program));
  std::mt19937 random(seed);
  const std::size_t workers = program.workers.size();
  std::vector<std::size_t> next(workers);
  std::map<std::pair<ActionKind, int>, std::int64_t> done;
  std::int64_t most = 0;
  constexpr int kSteps = 200'000;
  const auto is_done = [&](std::size_t w) {
    return next[w] == cycles * program.workers[w].actions.size();
  };
  for (int step = 0; step < kSteps; ++step) {
    const std::size_t w = random() % workers;
    const WorkerProgram& worker = program.workers[w];
    if (is_done(w)) {
      bool all = true;
      for (std::size_t v = 0; v < workers; ++v) all = all && is_done(v);
      if (all) return most;
      continue;
    }
    const hwmodel::SteadyAction& action = worker.actions[next[w] % worker.actions.size()];
    const std::int64_t k = static_cast<std::int64_t>(next[w] / worker.actions.size()) *
                               program.microbatches_per_cycle +
                           action.offset;
    if (k < 0) {
      ++next[w];
      continue;
    }
    if (action.kind == ActionKind::kForward && action.stage == worker.first_stage && w > 0 &&
        done[{ActionKind::kForward, action.stage - 1}] <= k) {
      continue;
    }
    if (action.kind == ActionKind::kBackward && action.stage == worker.end_stage - 1 &&
        w + 1 < workers && done[{ActionKind::kBackward, action.stage + 1}] <= k) {
      continue;
    }
    if (action.kind == use.write.kind && action.stage == use.write.stage) {
      std::int64_t released = k;
      for (const hwmodel::Pass& release : use.releases) {
        released = std::min(released, done[{release.kind, release.stage}]);
      }
      most = std::max(most, k - released + 1);
    }
    ++next[w];
    if (action.kind != ActionKind::kUpdate) done[{action.kind, action.stage}] = k + 1;
  }
  FAIL("the program does not come to its end");
  return most;
}

constexpr int kSixStages = 6;

Program FillDrainOf(const std::vector<int>& boundaries) { return MiniBatchProgram(boundaries, 8); }

Program PbOf(const std::vector<int>& boundaries) {
  return Steady(hwmodel::PipelinedBackpropagation(kSixStages, 24), boundaries);
}
Program OneForwardOneBackwardOf(const std::vector<int>& boundaries) {
  return Steady(hwmodel::OneForwardOneBackward(kSixStages, 24), boundaries);
}
Program DoubleBufferedOf(const std::vector<int>& boundaries) {
  return Steady(hwmodel::PipeDream2Bw(kSixStages, 48, 8), boundaries);
}
// The first stage's backwards come so late that more is in flight than in any schedule with a name.
Program DeepOf(const std::vector<int>& boundaries) {
  hwmodel::Schedule list = hwmodel::PipelinedBackpropagation(kSixStages, 160);
  for (hwmodel::TimedAction& timed : list.actions) {
    if (timed.action.stage == 0 && timed.action.kind != ActionKind::kForward) timed.step += 40;
  }
  std::ranges::stable_sort(list.actions, {}, &hwmodel::TimedAction::step);
  return Steady(list, boundaries);
}

TEST_CASE("Rings are deep enough for workers held up at random, and no deeper", "[program]") {
  using Make = Program (*)(const std::vector<int>&);
  for (const auto& [name, make] : {std::pair<const char*, Make>{"fill-drain", FillDrainOf},
                                   {"pb", PbOf},
                                   {"1f1b", OneForwardOneBackwardOf},
                                   {"2bw", DoubleBufferedOf},
                                   {"deep", DeepOf}}) {
    for (const std::vector<int>& boundaries :
         {std::vector<int>{6}, std::vector<int>{3, 6}, std::vector<int>{1, 3, 6},
          std::vector<int>{1, 2, 3, 4, 5, 6}}) {
      const Program program = make(boundaries);
      std::vector<hwmodel::MemoryUse> uses;
      for (int s = 0; s < kSixStages; ++s) {
        uses.push_back({On(ActionKind::kForward, s), {On(ActionKind::kBackward, s)}});
        if (s > 0) {
          uses.push_back({On(ActionKind::kBackward, s), {On(ActionKind::kBackward, s - 1)}});
          uses.push_back({On(ActionKind::kForward, s - 1), {On(ActionKind::kForward, s)}});
          uses.push_back({On(ActionKind::kForward, s - 1),
                          {On(ActionKind::kForward, s), On(ActionKind::kBackward, s)}});
        }
      }
      const std::vector<std::int64_t> depths = RingDepths(program, uses);
      for (std::size_t u = 0; u < uses.size(); ++u) {
        INFO(name << ", workers " << boundaries.size() << ", use " << u);
        std::int64_t most = 0;
        for (std::uint32_t seed = 0; seed < 20; ++seed) {
          most = std::max(most, MostAlive(program, uses[u], seed));
        }
        CHECK(most <= depths[u]);
        // Random orders come to the worst one where few workers can drift apart by little.
        const bool drifts_little = make == FillDrainOf && boundaries.size() == 2;
        if (boundaries.size() == 1 || drifts_little) CHECK(most == depths[u]);
      }
    }
  }
}

TEST_CASE("One worker needs one slot for everything", "[program]") {
  const Program program = MiniBatchProgram({4}, 16);
  const std::vector<std::int64_t> depths =
      RingDepths(program, {{On(ActionKind::kForward, 0), {On(ActionKind::kBackward, 0)}},
                           {On(ActionKind::kBackward, 3), {On(ActionKind::kBackward, 0)}}});
  CHECK(depths == std::vector<std::int64_t>{1, 1});
}

TEST_CASE("Pipelined backpropagation takes a sample through all forwards in one cycle",
          "[program]") {
  constexpr int kStages = 5;
  const hwmodel::Schedule schedule = hwmodel::PipelinedBackpropagation(kStages, 3 * kStages);
  for (const std::vector<int>& boundaries : {std::vector<int>{5}, std::vector<int>{2, 5}}) {
    const Program program =
        SteadyProgram(hwmodel::FindSteadyState(schedule, WorkersOfStages(boundaries)), boundaries);
    CHECK(DrainCycles(program) == 2 * (kStages - 1));
    for (const WorkerProgram& worker : program.workers) {
      const int stages = worker.end_stage - worker.first_stage;
      REQUIRE(worker.actions.size() == static_cast<std::size_t>(3 * stages));
      for (int i = 0; i < stages; ++i) {
        const int stage = worker.first_stage + i;
        const hwmodel::SteadyAction& forward = worker.actions[i];
        const hwmodel::SteadyAction& backward = worker.actions[stages + 2 * i];
        const hwmodel::SteadyAction& update = worker.actions[stages + 2 * i + 1];
        CHECK((forward.kind == ActionKind::kForward && forward.stage == stage));
        CHECK((backward.kind == ActionKind::kBackward && backward.stage == stage));
        CHECK((update.kind == ActionKind::kUpdate && update.stage == stage));
        CHECK(forward.offset == 0);
        // The delay of the list, D = 2 (S - 1 - s).
        CHECK(backward.offset == -2 * (kStages - 1 - stage));
        CHECK(update.offset == backward.offset);
      }
    }
  }
}

TEST_CASE("Updates before a forward are those that the worker makes before it", "[program]") {
  constexpr std::int64_t kMicrobatches = 60;
  for (const auto make : {PbOf, OneForwardOneBackwardOf, DoubleBufferedOf, DeepOf, FillDrainOf}) {
    for (const std::vector<int>& boundaries : {std::vector<int>{6}, std::vector<int>{1, 3, 6}}) {
      const Program program = make(boundaries);
      for (const WorkerProgram& worker : program.workers) {
        std::vector<std::int64_t> updates(kSixStages);
        for (std::int64_t cycle = 0; cycle < kMicrobatches; ++cycle) {
          for (const hwmodel::SteadyAction& action : worker.actions) {
            const std::int64_t k = cycle * program.microbatches_per_cycle + action.offset;
            if (k < 0 || k >= kMicrobatches) continue;
            if (action.kind == ActionKind::kUpdate) ++updates[action.stage];
            if (action.kind != ActionKind::kForward) continue;
            CHECK(UpdatesBeforeForward(program, action.stage, k) == updates[action.stage]);
          }
        }
      }
    }
  }
}

TEST_CASE("A list whose forwards are in one cycle already keeps its order", "[program]") {
  const hwmodel::Schedule schedule = hwmodel::OneForwardOneBackward(4, 16);
  const hwmodel::SteadyState steady = hwmodel::FindSteadyState(schedule);
  const Program program = SteadyProgram(steady, {1, 2, 3, 4});
  for (std::size_t w = 0; w < program.workers.size(); ++w) {
    REQUIRE(program.workers[w].actions.size() == steady.workers[w].size());
    for (std::size_t i = 0; i < steady.workers[w].size(); ++i) {
      CHECK(program.workers[w].actions[i].kind == steady.workers[w][i].kind);
      CHECK(program.workers[w].actions[i].offset == steady.workers[w][i].offset);
    }
  }
}

}  // namespace
}  // namespace batchless::training
