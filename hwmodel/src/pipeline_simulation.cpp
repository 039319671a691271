#include "batchless/hwmodel/pipeline_simulation.h"

#include <algorithm>
#include <array>
#include <boost/heap/d_ary_heap.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/cancellation.h"
#include "checks.h"

namespace batchless::hwmodel {
namespace {

using analysis::InvalidArgument;

constexpr std::int32_t kArrival = -1;  // in place of a core
constexpr std::int32_t kPlaceFree = -2;
constexpr std::int64_t kMaxIndex = std::numeric_limits<std::int32_t>::max();

struct Event {
  double seconds = 0;
  std::uint64_t number = 0;
  std::int32_t core = 0;    // or kArrival, kPlaceFree
  std::int32_t action = 0;  // of a free place: the link
};

struct Later {
  bool operator()(const Event& a, const Event& b) const {
    return a.seconds != b.seconds ? a.seconds > b.seconds : a.number > b.number;
  }
};

// Four children a node: half as many levels as in a binary heap, and the children share a cache line
// or two.
using EventQueue =
    boost::heap::d_ary_heap<Event, boost::heap::arity<4>, boost::heap::compare<Later>>;

// The finalizer of SplitMix64 (Steele, Lea and Flood 2014).
std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

double UnitInterval(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

class Simulator {
 public:
  Simulator(const Schedule& schedule, const SimulationOptions& options)
      : schedule_(schedule),
        options_(options),
        workers_(static_cast<std::size_t>(schedule.workers())) {
    Check();
    Lay();
  }

  SimulationSummary Run() {
    for (std::int64_t core = 0; core < summary_.cores; ++core) {
      TryStart(static_cast<std::int32_t>(core));
    }
    while (!queue_.empty()) {
      analysis::CheckCancellation();
      const Event event = queue_.top();
      queue_.pop();
      now_ = event.seconds;
      ++summary_.events;
      if (event.core >= 0) {
        EndPart(event.core, event.action);
      } else if (event.core == kArrival) {
        Arrive(event.action);
      } else {
        TakePlace(event.action);
      }
    }
    CheckDone();
    summary_.seconds = now_;
    const double busy =
        std::accumulate(summary_.busy_seconds.begin(), summary_.busy_seconds.end(), 0.0);
    summary_.utilisation = now_ > 0 ? busy / (static_cast<double>(summary_.cores) * now_) : 0;
    return std::move(summary_);
  }

 private:
  struct Entry {
    std::int32_t stage = 0;
    std::int32_t microbatch = 0;
    std::int32_t parts = 0;     // still to end
    std::int32_t waiting = -1;  // first of the cores that wait for its input
    std::int32_t target = -1;   // action that its message is for
    std::int32_t input_link = -1;
    ActionKind kind = ActionKind::kForward;
    bool ready = true;
    bool same_worker = false;  // as its target
    bool begun = false;
  };

  struct Core {
    std::int32_t worker = 0;
    std::int32_t action = 0;         // that it does next
    std::int32_t next_waiting = -1;  // core that waits for the same
  };
  struct Link {
    double free_seconds = 0;
    std::int64_t queued = 0;
  };

  void Check() const {
    Validate(options_.times, schedule_.stages);
    RefuseIf(!options_.cores_of_worker.empty() && options_.cores_of_worker.size() != workers_,
             "cores_of_worker", options_.cores_of_worker.size(), "one for each worker");
    for (const std::int64_t cores : options_.cores_of_worker) {
      RefuseIf(cores < 1 || cores > kMaxIndex, "cores_of_worker", cores, "integers >= 1");
    }
    RefuseIf(!(options_.jitter >= 0 && options_.jitter < 1), "jitter", options_.jitter,
             "0 to 1, without 1");
    RefuseIf(!(options_.stall_probability >= 0 && options_.stall_probability <= 1),
             "stall_probability", options_.stall_probability, "0 to 1");
    RefuseIf(!(std::isfinite(options_.stall_factor) && options_.stall_factor >= 1), "stall_factor",
             options_.stall_factor, "a number >= 1");
    RefuseIf(options_.queue_capacity < 0 || options_.queue_capacity > kMaxIndex, "queue_capacity",
             options_.queue_capacity, "an integer >= 0");
    RefuseIf(schedule_.copies() > 1, "schedule",
             std::to_string(schedule_.copies()) + " copies of the stages", "one copy");
    const auto actions = static_cast<std::int64_t>(schedule_.actions.size());
    const double passes = 2.0 * schedule_.stages * static_cast<double>(schedule_.microbatches);
    RefuseIf(actions >= kMaxIndex || passes >= static_cast<double>(kMaxIndex), "schedule",
             std::to_string(actions) + " actions", "fewer than 2^31, and as many passes");
    for (const TimedAction& timed : schedule_.actions) {
      const auto& [stage, kind, microbatch] = timed.action;
      if (stage < 0 || stage >= schedule_.stages || microbatch < 0 ||
          microbatch >= schedule_.microbatches) {
        throw InvalidArgument("schedule", ToText(timed.action), "its stages and micro-batches");
      }
    }
  }

  // The message that a pass of a stage sends goes to this stage; -1 where there is none.
  int Receiver(const Entry& entry) const {
    if (entry.kind == ActionKind::kForward) {
      return entry.stage + 1 < schedule_.stages ? entry.stage + 1 : -1;
    }
    return entry.kind == ActionKind::kBackward ? entry.stage - 1 : -1;
  }

  // The link that an action's message goes over.
  static std::int32_t LinkOf(const Entry& entry) {
    return 2 * entry.stage - (entry.kind == ActionKind::kForward ? 0 : 1);
  }

  void Lay() {
    // Actions by worker, in order.
    ends_.assign(workers_ + 1, 0);
    for (const TimedAction& timed : schedule_.actions) {
      ++ends_[static_cast<std::size_t>(schedule_.worker(timed.action.stage)) + 1];
    }
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
    std::vector<std::int64_t> next(ends_.begin(), ends_.end() - 1);
    entries_.resize(schedule_.actions.size());
    const std::size_t passes = schedule_.place(schedule_.stages, 0);
    std::array<std::vector<std::int32_t>, 2> places;
    places.fill(std::vector<std::int32_t>(passes, -1));
    const auto place_of = [&](ActionKind kind, int stage,
                              std::int64_t microbatch) -> std::int32_t& {
      return places[kind == ActionKind::kBackward ? 1 : 0][schedule_.place(stage, microbatch)];
    };
    for (const TimedAction& timed : schedule_.actions) {
      analysis::CheckCancellation();
      const Action& action = timed.action;
      const auto worker = static_cast<std::size_t>(schedule_.worker(action.stage));
      const std::int64_t index = next[worker]++;
      Entry& entry = entries_[index];
      entry.stage = action.stage;
      entry.kind = action.kind;
      entry.microbatch = static_cast<std::int32_t>(action.microbatch);
      entry.parts = static_cast<std::int32_t>(CoresOf(worker));
      if (action.kind == ActionKind::kForward || action.kind == ActionKind::kBackward) {
        place_of(action.kind, action.stage, action.microbatch) = static_cast<std::int32_t>(index);
      }
    }
    for (Entry& entry : entries_) {
      const int receiver = Receiver(entry);
      if (receiver < 0) continue;
      entry.target = place_of(entry.kind, receiver, entry.microbatch);
      if (entry.target < 0) continue;
      entry.same_worker = schedule_.worker(receiver) == schedule_.worker(entry.stage);
      entries_[entry.target].ready = false;
      if (!entry.same_worker) entries_[entry.target].input_link = LinkOf(entry);
    }

    for (std::size_t w = 0; w < workers_; ++w) summary_.cores += CoresOf(w);
    RefuseIf(summary_.cores >= kMaxIndex, "cores_of_worker", summary_.cores,
             "fewer than 2^31 in all");
    for (std::size_t w = 0; w < workers_; ++w) {
      const Core core{static_cast<std::int32_t>(w), static_cast<std::int32_t>(ends_[w])};
      cores_.insert(cores_.end(), static_cast<std::size_t>(CoresOf(w)), core);
    }

    links_.resize(2 * static_cast<std::size_t>(schedule_.stages));
    held_.resize(workers_);
    stopped_.assign(workers_, -1);
    summary_.busy_seconds.assign(workers_, 0);
    summary_.finish_seconds.assign(static_cast<std::size_t>(schedule_.microbatches), 0);
  }

  std::int64_t CoresOf(std::size_t worker) const {
    return options_.cores_of_worker.empty() ? 1 : options_.cores_of_worker[worker];
  }

  double PartSeconds(std::int32_t core, std::int32_t action, const Entry& entry) const {
    double seconds = options_.times.stages[entry.stage].seconds(entry.kind);
    if (options_.jitter == 0 && options_.stall_probability == 0) return seconds;
    const std::uint64_t place =
        (static_cast<std::uint64_t>(static_cast<std::uint32_t>(core)) << 32) |
        static_cast<std::uint32_t>(action);
    const std::uint64_t bits = Mix(Mix(options_.seed) ^ place);
    if (options_.jitter > 0) seconds *= 1 + options_.jitter * (2 * UnitInterval(bits) - 1);
    if (UnitInterval(Mix(bits)) < options_.stall_probability) seconds *= options_.stall_factor;
    return seconds;
  }

  void At(double seconds, std::int32_t core, std::int32_t action) {
    queue_.push({seconds, number_++, core, action});
  }

  // Starts the core's part of its next action, or notes what it waits for.
  void TryStart(std::int32_t core) {
    auto& [worker, action, next_waiting] = cores_[core];
    if (action == ends_[worker + 1]) return;
    if (!held_[worker].empty()) {
      next_waiting = std::exchange(stopped_[worker], core);
      return;
    }
    Entry& entry = entries_[action];
    if (!entry.ready) {
      next_waiting = std::exchange(entry.waiting, core);
      return;
    }
    if (!entry.begun) Begin(entry);
    const double seconds = PartSeconds(core, action, entry);
    summary_.busy_seconds[worker] += seconds;
    At(now_ + seconds, core, action);
  }

  // The first core takes the message out of the queue.
  void Begin(Entry& entry) {
    entry.begun = true;
    if (entry.input_link < 0) return;
    if (links_[entry.input_link].queued-- == options_.queue_capacity) {
      At(now_, kPlaceFree, entry.input_link);
    }
  }

  void Wake(std::int32_t first) {
    while (first >= 0) {
      TryStart(std::exchange(first, cores_[first].next_waiting));
    }
  }

  void Arrive(std::int32_t action) {
    Entry& entry = entries_[action];
    entry.ready = true;
    Wake(std::exchange(entry.waiting, -1));
  }

  void EndPart(std::int32_t core, std::int32_t action) {
    Entry& entry = entries_[action];
    ++cores_[core].action;
    if (--entry.parts == 0) {
      summary_.finish_seconds[entry.microbatch] = now_;
      if (entry.target >= 0) PassOn(action, entry);
    }
    TryStart(core);
  }

  void PassOn(std::int32_t action, const Entry& entry) {
    if (entry.same_worker) {
      Arrive(entry.target);
      return;
    }
    const std::int32_t link = LinkOf(entry);
    if (options_.queue_capacity > 0) {
      std::vector<std::int32_t>& held = held_[schedule_.worker(entry.stage)];
      // No result overtakes one that waits for the same queue.
      if (links_[link].queued >= options_.queue_capacity || FirstHeld(held, link) != held.end()) {
        held.push_back(action);
        return;
      }
    }
    Send(entry, link);
  }

  std::vector<std::int32_t>::iterator FirstHeld(std::vector<std::int32_t>& held,
                                                std::int32_t link) const {
    return std::ranges::find(held, link,
                             [&](std::int32_t action) { return LinkOf(entries_[action]); });
  }

  void Send(const Entry& entry, std::int32_t link) {
    auto& [free_seconds, queued] = links_[link];
    summary_.longest_queue = std::max(summary_.longest_queue, ++queued);
    free_seconds = std::max(now_, free_seconds) + options_.times.message_seconds(link / 2);
    const double arrival = free_seconds + options_.times.latency(link / 2);
    if (arrival > now_) {
      At(arrival, kArrival, entry.target);
    } else {
      Arrive(entry.target);
    }
  }

  // The first result that waits for a place in this queue.
  void TakePlace(std::int32_t link) {
    // Odd links carry the backwards of the stage after theirs.
    const int stage = (link + 1) / 2;
    const auto worker = static_cast<std::size_t>(schedule_.worker(stage));
    std::vector<std::int32_t>& held = held_[worker];
    const auto found = FirstHeld(held, link);
    if (found == held.end()) return;
    const Entry& entry = entries_[*found];
    held.erase(found);
    Send(entry, link);
    if (held.empty()) Wake(std::exchange(stopped_[worker], -1));
  }

  void CheckDone() const {
    for (const Entry& entry : entries_) {
      if (entry.parts == 0) continue;
      throw InvalidArgument("queue_capacity", static_cast<double>(options_.queue_capacity),
                            "more messages, or a schedule that can go on: " +
                                ToText({entry.stage, entry.kind, entry.microbatch}) +
                                " waits for ever");
    }
  }

  const Schedule& schedule_;
  const SimulationOptions& options_;
  std::size_t workers_;
  std::vector<Entry> entries_;
  std::vector<std::int64_t> ends_;  // of each worker's entries, after a 0
  std::vector<Core> cores_;
  std::vector<Link> links_;                      // 2 s forwards of stage s, 2 s - 1 backwards
  std::vector<std::vector<std::int32_t>> held_;  // by worker: ended, not yet sent
  std::vector<std::int32_t> stopped_;            // by worker: first core that this stops
  EventQueue queue_;
  std::uint64_t number_ = 0;
  double now_ = 0;
  SimulationSummary summary_;
};

}  // namespace

SimulationSummary SimulatePipeline(const Schedule& schedule, const SimulationOptions& options) {
  return Simulator(schedule, options).Run();
}

}  // namespace batchless::hwmodel
