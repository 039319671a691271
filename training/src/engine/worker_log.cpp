#include "engine/worker_log.h"

namespace batchless::training {

WorkerLog::WorkerLog(const Program& program, std::size_t first_worker, std::size_t end_worker,
                     std::int64_t traced)
    : first_worker_(first_worker), traced_(traced) {
  for (std::size_t w = first_worker; w < end_worker; ++w) {
    const WorkerProgram& worker = program.workers[w];
    times_.push_back({.first_stage = worker.first_stage, .end_stage = worker.end_stage});
    // A micro-batch's passes, and two waits for it.
    events_.emplace_back().reserve(traced * (3 * (worker.end_stage - worker.first_stage) + 2));
  }
}

void WorkerLog::AddEvent(std::size_t worker, const hwmodel::SteadyAction& action,
                         std::int64_t microbatch, bool is_wait, double start) {
  events_[worker - first_worker_].push_back({.worker = static_cast<int>(worker),
                                             .kind = action.kind,
                                             .is_wait = is_wait,
                                             .stage = action.stage,
                                             .microbatch = microbatch,
                                             .start = start,
                                             .end = Now()});
}

void WorkerLog::AddSeconds(std::size_t worker, double busy, double waiting) {
  times_[worker - first_worker_].busy_seconds += busy;
  times_[worker - first_worker_].waiting_seconds += waiting;
}

std::vector<TraceEvent> WorkerLog::Events() const {
  std::vector<TraceEvent> all;
  for (const std::vector<TraceEvent>& events : events_) {
    all.insert(all.end(), events.begin(), events.end());
  }
  return all;
}

}  // namespace batchless::training
