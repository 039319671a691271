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
            std::int64_t traced);

  // Training begins, or goes on.
  void Start() {
    if (!started_) started_ = Clock::now();
  }
  // Seconds since the first Start.
  double Now() const { return std::chrono::duration<double>(Clock::now() - *started_).count(); }

  bool traces(std::int64_t microbatch) const { return microbatch < traced_; }
  // A pass, or the wait before it, from `start` until now; by the worker's own thread.
  void AddEvent(std::size_t worker, const hwmodel::SteadyAction& action, std::int64_t microbatch,
                bool is_wait, double start);
  void AddSeconds(std::size_t worker, double busy, double waiting);

  // Those of this process, by worker.
  const std::vector<WorkerTimes>& times() const { return times_; }
  std::vector<TraceEvent> Events() const;

 private:
  using Clock = std::chrono::steady_clock;

  std::size_t first_worker_;
  std::int64_t traced_;
  std::optional<Clock::time_point> started_;
  std::vector<WorkerTimes> times_;  // by worker of this process
  std::vector<std::vector<TraceEvent>> events_;
};

}  // namespace batchless::training
