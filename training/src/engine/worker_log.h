// What the workers did when: how long each worked and waited and, of the run's first micro-batches,
// every pass.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "batchless/training/trainer.h"
#include "engine/program.h"

namespace batchless::training {

class WorkerLog {
 public:
  // Logs a process with the program's workers first_worker .. end_worker - 1. Micro-batches are
  // numbered as in the run; those below `traced` are traced, without any allocation.
  WorkerLog(const Program& program, std::size_t first_worker, std::size_t end_worker,
            std::int64_t traced)
      : first_worker_(first_worker), traced_(traced) {
    for (std::size_t w = first_worker; w < end_worker; ++w) {
      const WorkerProgram& worker = program.workers[w];
      times_.push_back({.first_stage = worker.first_stage, .end_stage = worker.end_stage});
      // A micro-batch's passes, and two waits for it.
      events_.emplace_back().reserve(traced * (3 * (worker.end_stage - worker.first_stage) + 2));
    }
  }

  // Training begins, or goes on.
  void Start() {
    if (!started_) started_ = Clock::now();
  }
  // Seconds since the first Start.
  double Now() const { return std::chrono::duration<double>(Clock::now() - *started_).count(); }

  bool traces(std::int64_t microbatch) const { return microbatch < traced_; }
  // A pass, or the wait before it, from `start` until now; by the worker's own thread.
  void AddEvent(std::size_t worker, const hwmodel::SteadyAction& action, std::int64_t microbatch,
                bool is_wait, double start) {
    events_[worker - first_worker_].push_back({.worker = static_cast<int>(worker),
                                               .kind = action.kind,
                                               .is_wait = is_wait,
                                               .stage = action.stage,
                                               .microbatch = microbatch,
                                               .start = start,
                                               .end = Now()});
  }
  void AddSeconds(std::size_t worker, double busy, double waiting) {
    times_[worker - first_worker_].busy_seconds += busy;
    times_[worker - first_worker_].waiting_seconds += waiting;
  }

  // Those of this process, by worker.
  const std::vector<WorkerTimes>& times() const { return times_; }
  std::vector<TraceEvent> Events() const {
    std::vector<TraceEvent> all;
    for (const std::vector<TraceEvent>& events : events_) {
      all.insert(all.end(), events.begin(), events.end());
    }
    return all;
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::size_t first_worker_;
  std::int64_t traced_;
  std::optional<Clock::time_point> started_;
  std::vector<WorkerTimes> times_;  // by worker of this process
  std::vector<std::vector<TraceEvent>> events_;
};

}  // namespace batchless::training
