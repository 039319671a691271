#include "engine/program.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>

namespace batchless::training {
namespace {

using hwmodel::Action;
using hwmodel::ActionKind;
using hwmodel::SteadyAction;

// The workers' actions of the first cycles, with what is surely done before each.
class Timeline {
 public:
  Timeline(const Program& program, std::int64_t cycles)
      : program_(program), workers_(program.workers.size()) {
    events_.resize(workers_);
    done_.resize(workers_);
    for (auto& places : places_) places.resize(program.stages());
    for (std::size_t w = 0; w < workers_; ++w) {
      for (std::int64_t c = 0; c < cycles; ++c) {
        for (const SteadyAction& action : program.workers[w].actions) {
          const std::int64_t k = c * program.microbatches_per_cycle + action.offset;
          if (k < 0) continue;
          // Each stage takes the micro-batches in order; an update is numbered by its last one.
          places_[static_cast<std::size_t>(action.kind)][action.stage].resize(
              k + 1, static_cast<std::int64_t>(events_[w].size()));
          events_[w].push_back({action.stage, action.kind, k});
        }
      }
      done_[w].reserve(events_[w].size() * workers_);
    }
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t w = 0; w < workers_; ++w) {
        while (PlaceNext(w)) progress = true;
      }
    }
    // What waits for actions past the simulated cycles is left without a time.
    for (std::size_t w = 0; w < workers_; ++w) events_[w].resize(done_[w].size() / workers_);
  }

  const std::vector<Action>& events(std::size_t worker) const { return events_[worker]; }

  // Whether the action has surely been done when the worker's event of that index begins.
  bool Precedes(ActionKind kind, int stage, std::int64_t microbatch, std::size_t worker,
                std::size_t index) const {
    const std::vector<std::int64_t>& places = PlacesOf(kind, stage);
    if (microbatch >= static_cast<std::int64_t>(places.size())) return false;
    return places[microbatch] < done_[worker][index * workers_ + WorkerOf(stage)];
  }

 private:
  const std::vector<std::int64_t>& PlacesOf(ActionKind kind, int stage) const {
    return places_[static_cast<std::size_t>(kind)][stage];
  }

  std::size_t WorkerOf(int stage) const {
    std::size_t w = 0;
    while (program_.workers[w].end_stage <= stage) ++w;
    return w;
  }

  // Appends what is done before the worker's next event; false where there is none, and while the event that
  // it waits for has nothing.
  bool PlaceNext(std::size_t w) {
    const std::size_t index = done_[w].size() / workers_;
    if (index == events_[w].size()) return false;
    const Action& event = events_[w][index];
    const WorkerProgram& worker = program_.workers[w];
    int other = -1;
    if (event.kind == ActionKind::kForward && event.stage == worker.first_stage) {
      other = event.stage - 1;
    } else if (event.kind == ActionKind::kBackward && event.stage == worker.end_stage - 1 &&
               event.stage + 1 < program_.stages()) {
      other = event.stage + 1;
    }
    std::int64_t awaited = -1;
    std::size_t other_worker = 0;
    if (other >= 0) {
      const std::vector<std::int64_t>& places = PlacesOf(event.kind, other);
      if (event.microbatch >= static_cast<std::int64_t>(places.size())) return false;
      awaited = places[event.microbatch];
      other_worker = WorkerOf(other);
      if (done_[other_worker].size() < (awaited + 1) * workers_) return false;
    }
    for (std::size_t i = 0; i < workers_; ++i) {
      std::int64_t done = index == 0 ? 0 : done_[w][(index - 1) * workers_ + i];
      if (i == w) done = static_cast<std::int64_t>(index);
      if (awaited >= 0) {
        done = std::max(done, done_[other_worker][awaited * workers_ + i]);
        if (i == other_worker) done = std::max(done, awaited + 1);
      }
      done_[w].push_back(done);
    }
    return true;
  }

  const Program& program_;
  std::size_t workers_;
  std::vector<std::vector<Action>> events_;
  // By worker, for each of its events the number of every worker's events that are surely done.
  std::vector<std::vector<std::int64_t>> done_;
  // By kind, stage and micro-batch, the event's index at its worker.
  std::array<std::vector<std::vector<std::int64_t>>, hwmodel::kActionKinds.size()> places_;
};

bool IsForward(const SteadyAction& action) { return action.kind == ActionKind::kForward; }

// Whether every stage's forward is the first that it does in these actions.
bool ForwardsComeFirst(std::span<const SteadyAction> actions) {
  std::set<int> others;  // stages that have done something else
  for (const SteadyAction& action : actions) {
    if (!IsForward(action)) others.insert(action.stage);
    if (IsForward(action) && others.contains(action.stage)) return false;
  }
  return true;
}

// Orders one worker's actions of one step. Stages are independent within a step, but for the forwards
// of one micro-batch; each keeps the order of its own actions. The forwards of the oldest micro-batch
// first, and the backwards from the first stage up, hand their results to the neighbours as early as
// they can, and free memory before it is written again.
void HandOverEarly(std::span<SteadyAction> step) {
  if (!ForwardsComeFirst(step)) return;
  std::stable_sort(step.begin(), step.end(), [](const SteadyAction& a, const SteadyAction& b) {
    if (IsForward(a) != IsForward(b)) return IsForward(a);
    if (IsForward(a) && a.offset != b.offset) return a.offset < b.offset;
    return a.stage < b.stage;
  });
}

// Where a cycle is one step in which every stage's forward comes first, takes the stages' cycles
// forward, each by as many as its forward comes after that of stage 0: a sample then goes through all
// forwards in one cycle, and a forward finds in the caches what the one before has written. Of each
// stage the order of actions, and so what it reads, stays. Backwards, whose gradients are then two
// cycles old in place of one, lose less than that.
void ForwardInOneCycle(hwmodel::SteadyState& steady) {
  if (steady.microbatches_per_cycle != 1 || steady.steps_per_cycle != 1) return;
  std::vector<std::int64_t> lags(steady.stages);
  for (const std::vector<SteadyAction>& worker : steady.workers) {
    if (!ForwardsComeFirst(worker)) return;
    for (const SteadyAction& action : worker) {
      if (IsForward(action)) lags[action.stage] = -action.offset;
    }
  }
  if (!std::is_sorted(lags.begin(), lags.end()) || lags.front() != 0) return;
  for (std::vector<SteadyAction>& worker : steady.workers) {
    for (SteadyAction& action : worker) action.offset += lags[action.stage];
  }
}

}  // namespace

std::vector<int> WorkersOfStages(const std::vector<int>& boundaries) {
  std::vector<int> workers;
  for (std::size_t w = 0; w < boundaries.size(); ++w) {
    workers.resize(boundaries[w], static_cast<int>(w));
  }
  return workers;
}

Program SteadyProgram(hwmodel::SteadyState steady, const std::vector<int>& boundaries) {
  ForwardInOneCycle(steady);
  Program program;
  program.microbatches_per_cycle = steady.microbatches_per_cycle;
  int first = 0;
  for (std::size_t w = 0; w < boundaries.size(); ++w) {
    std::vector<SteadyAction>& actions = steady.workers[w];
    for (auto step = actions.begin(); step != actions.end();) {
      const auto end = std::find_if(step, actions.end(), [&](const SteadyAction& action) {
        return action.step != step->step;
      });
      HandOverEarly({step, end});
      step = end;
    }
    program.workers.push_back({first, boundaries[w], std::move(actions)});
    first = boundaries[w];
  }
  return program;
}

std::vector<hwmodel::StageSpan> SpansOfProcesses(const Program& program, std::size_t processes) {
  const std::size_t workers = program.workers.size() / processes;
  std::vector<hwmodel::StageSpan> spans;
  for (std::size_t p = 0; p < processes; ++p) {
    spans.push_back({program.workers[p * workers].first_stage,
                     program.workers[(p + 1) * workers - 1].end_stage});
  }
  return spans;
}

bool UpdatesAtOnce(const Program& program) {
  const auto waits = [](const SteadyAction& action, const SteadyAction& next) {
    return action.kind == ActionKind::kBackward &&
           (next.kind != ActionKind::kUpdate || next.stage != action.stage);
  };
  return std::ranges::all_of(program.workers, [&](const WorkerProgram& worker) {
    return worker.actions.back().kind != ActionKind::kBackward &&
           std::ranges::adjacent_find(worker.actions, waits) == worker.actions.end();
  });
}

std::int64_t DrainCycles(const Program& program) {
  std::int64_t oldest = 0;
  for (const WorkerProgram& worker : program.workers) {
    for (const SteadyAction& action : worker.actions) oldest = std::min(oldest, action.offset);
  }
  return (-oldest + program.microbatches_per_cycle - 1) / program.microbatches_per_cycle;
}

std::int64_t UpdatesBeforeForward(const Program& program, int stage, std::int64_t k) {
  const std::int64_t per_cycle = program.microbatches_per_cycle;
  for (const WorkerProgram& worker : program.workers) {
    for (const SteadyAction& forward : worker.actions) {
      if (forward.kind != ActionKind::kForward || forward.stage != stage) continue;
      if ((k - forward.offset) % per_cycle != 0) continue;
      const std::int64_t cycle = (k - forward.offset) / per_cycle;
      std::int64_t updates = 0;
      for (const SteadyAction& action : worker.actions) {
        if (action.kind != ActionKind::kUpdate || action.stage != stage) continue;
        // From the first cycle whose micro-batch is one of the run.
        const std::int64_t first = (per_cycle - 1 - action.offset) / per_cycle;
        const std::int64_t end = &action < &forward ? cycle + 1 : cycle;
        updates += std::max<std::int64_t>(0, end - first);
      }
      return updates;
    }
  }
  return 0;
}

std::int64_t CountDone(const Program& program, ActionKind kind, int stage, std::int64_t cycles,
                       std::int64_t microbatches) {
  if (cycles == 0) return 0;
  std::int64_t count = 0;
  for (const WorkerProgram& worker : program.workers) {
    for (const SteadyAction& action : worker.actions) {
      if (action.kind != kind || action.stage != stage) continue;
      const std::int64_t last = (cycles - 1) * program.microbatches_per_cycle + action.offset;
      count = std::max(count, last + 1);
    }
  }
  return std::min(count, microbatches);
}

std::vector<std::int64_t> RingDepths(const Program& program,
                                     const std::vector<hwmodel::MemoryUse>& uses) {
  // Until the pipeline has filled; what is surely done then follows from waits that go through it once
  // in each direction, so that after as many cycles again twice nothing changes any more.
  const std::int64_t cycles =
      3 * std::max<std::int64_t>(2 * program.stages() / program.microbatches_per_cycle,
                                 DrainCycles(program)) +
      3;
  const Timeline timeline(program, cycles);
  std::map<std::pair<ActionKind, int>, std::vector<std::size_t>> uses_of_write;
  for (std::size_t u = 0; u < uses.size(); ++u) {
    uses_of_write[{uses[u].write.kind, uses[u].write.stage}].push_back(u);
  }
  // By use, how many of the first micro-batches are known to be released; writes come in order.
  std::vector<std::int64_t> released(uses.size());
  std::vector<std::int64_t> depths(uses.size(), 1);
  for (std::size_t w = 0; w < program.workers.size(); ++w) {
    for (std::size_t index = 0; index < timeline.events(w).size(); ++index) {
      const Action& event = timeline.events(w)[index];
      const auto written = uses_of_write.find({event.kind, event.stage});
      if (written == uses_of_write.end()) continue;
      for (const std::size_t u : written->second) {
        const auto is_released = [&](std::int64_t k) {
          return std::all_of(uses[u].releases.begin(), uses[u].releases.end(),
                             [&](const hwmodel::Pass& release) {
                               return timeline.Precedes(release.kind, release.stage, k, w, index);
                             });
        };
        while (released[u] < event.microbatch && is_released(released[u])) ++released[u];
        depths[u] = std::max(depths[u], event.microbatch - released[u] + 1);
      }
    }
  }
  return depths;
}

}  // namespace batchless::training
