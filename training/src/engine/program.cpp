#include "engine/program.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace batchless::training {
namespace {

using hwmodel::ActionKind;

struct Event {
  ActionKind kind = ActionKind::kForward;
  int stage = 0;
  std::int64_t microbatch = 0;
  std::vector<std::int64_t> done;  // of each worker, the actions that have surely been done by then
};

// The workers' actions of the first cycles, with what is surely done before each.
class Timeline {
 public:
  Timeline(const Program& program, std::int64_t cycles) : program_(program) {
    const std::size_t workers = program.workers.size();
    events_.resize(workers);
    for (std::size_t w = 0; w < workers; ++w) {
      for (std::int64_t c = 0; c < cycles; ++c) {
        for (const ProgramAction& action : program.workers[w].actions) {
          const std::int64_t k = c * program.microbatches_per_cycle + action.offset;
          if (k < 0) continue;
          places_[{action.kind, action.stage, k}] = {w, events_[w].size()};
          events_[w].push_back(
              {.kind = action.kind, .stage = action.stage, .microbatch = k, .done = {}});
        }
      }
    }
    std::vector<std::size_t> next(workers);
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t w = 0; w < workers; ++w) {
        while (next[w] < events_[w].size() && Place(w, next[w])) {
          ++next[w];
          progress = true;
        }
      }
    }
    // What waits for actions past the simulated cycles is left without a time.
    for (std::size_t w = 0; w < workers; ++w) events_[w].resize(next[w]);
  }

  const std::vector<std::vector<Event>>& events() const { return events_; }

  // Whether the action has surely been done when `event` begins.
  bool Precedes(ActionKind kind, int stage, std::int64_t microbatch, const Event& event) const {
    const auto place = places_.find({kind, stage, microbatch});
    if (place == places_.end()) return false;
    const auto [worker, index] = place->second;
    return static_cast<std::int64_t>(index) < event.done[worker];
  }

 private:
  // Sets the event's `done`; false while the event that it waits for has none.
  bool Place(std::size_t w, std::size_t index) {
    Event& event = events_[w][index];
    std::vector<std::int64_t> done =
        index == 0 ? std::vector<std::int64_t>(events_.size()) : events_[w][index - 1].done;
    done[w] = static_cast<std::int64_t>(index);
    const WorkerProgram& worker = program_.workers[w];
    int other = -1;
    if (event.kind == ActionKind::kForward && event.stage == worker.first_stage) {
      other = event.stage - 1;
    } else if (event.kind == ActionKind::kBackward && event.stage == worker.end_stage - 1 &&
               event.stage + 1 < program_.stages()) {
      other = event.stage + 1;
    }
    if (other >= 0) {
      const auto place = places_.find({event.kind, other, event.microbatch});
      if (place == places_.end()) return false;
      const auto [other_worker, other_index] = place->second;
      const Event& awaited = events_[other_worker][other_index];
      if (awaited.done.empty()) return false;
      for (std::size_t i = 0; i < done.size(); ++i) done[i] = std::max(done[i], awaited.done[i]);
      done[other_worker] = std::max(done[other_worker], static_cast<std::int64_t>(other_index) + 1);
    }
    event.done = std::move(done);
    return true;
  }

  const Program& program_;
  std::vector<std::vector<Event>> events_;
  std::map<std::tuple<ActionKind, int, std::int64_t>, std::pair<std::size_t, std::size_t>> places_;
};

}  // namespace

Program FillDrainProgram(const std::vector<int>& boundaries, std::int64_t microbatches) {
  Program program;
  program.microbatches_per_cycle = microbatches;
  const int workers = static_cast<int>(boundaries.size());
  int first = 0;
  for (int w = 0; w < workers; ++w) {
    WorkerProgram worker{.first_stage = first, .end_stage = boundaries[w], .actions = {}};
    first = worker.end_stage;
    // The workers after this one hold that many micro-batches before the first comes back.
    const std::int64_t ahead = std::min<std::int64_t>(workers - 1 - w, microbatches);
    for (std::int64_t k = 0; k < microbatches + ahead; ++k) {
      if (k < microbatches) {
        for (int s = worker.first_stage; s < worker.end_stage; ++s) {
          worker.actions.push_back({ActionKind::kForward, s, k});
        }
      }
      if (k >= ahead) {
        // An update right after the last backward finds the gradient in the cache.
        const bool is_last = k - ahead == microbatches - 1;
        for (int s = worker.end_stage - 1; s >= worker.first_stage; --s) {
          worker.actions.push_back({ActionKind::kBackward, s, k - ahead});
          if (is_last) worker.actions.push_back({ActionKind::kUpdate, s, k - ahead});
        }
      }
    }
    program.workers.push_back(std::move(worker));
  }
  return program;
}

std::vector<std::int64_t> RingDepths(const Program& program, const std::vector<RingUse>& uses) {
  // Long enough to fill the deepest pipeline and to see its steady state.
  const std::int64_t cycles = 6 * program.stages() / program.microbatches_per_cycle + 3;
  const Timeline timeline(program, cycles);
  std::map<std::pair<ActionKind, int>, std::vector<std::size_t>> uses_of_write;
  for (std::size_t u = 0; u < uses.size(); ++u) {
    uses_of_write[{uses[u].write.kind, uses[u].write.stage}].push_back(u);
  }
  // By use, how many of the first micro-batches are known to be released; writes come in order.
  std::vector<std::int64_t> released(uses.size());
  std::vector<std::int64_t> depths(uses.size(), 1);
  for (const std::vector<Event>& events : timeline.events()) {
    for (const Event& event : events) {
      const auto written = uses_of_write.find({event.kind, event.stage});
      if (written == uses_of_write.end()) continue;
      for (const std::size_t u : written->second) {
        const auto is_released = [&](std::int64_t k) {
          return std::all_of(uses[u].releases.begin(), uses[u].releases.end(),
                             [&](const ProgramAction& release) {
                               return timeline.Precedes(release.kind, release.stage, k, event);
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
