#include "engine/waiting.h"

#include <cmath>

namespace batchless::training {

std::string Describe(const Wait& wait, const Program& program, int replica, double seconds) {
  const auto name = [&](std::size_t number) {
    const WorkerProgram& worker = program.workers[number];
    return "worker " + std::to_string(number) + " (stages " + std::to_string(worker.first_stage) +
           " to " + std::to_string(worker.end_stage - 1) + ")";
  };
  const std::string waited = " has waited " + std::to_string(std::llround(seconds)) + " s for ";
  const std::string stuck = ": it is stuck (watchdog_seconds)";
  if (wait.exchange_stage >= 0) {
    return name(wait.worker) + " of replica " + std::to_string(replica) + waited + "replica " +
           std::to_string(wait.missing_replica) + " to exchange the gradient of stage " +
           std::to_string(wait.exchange_stage) + stuck;
  }
  const char* what = wait.kind == hwmodel::ActionKind::kForward ? "forwards" : "backwards";
  return name(wait.worker) + waited + "micro-batch " + std::to_string(wait.microbatch) +
         " in the queue of " + what + (wait.is_full ? " to " : " from ") + name(wait.neighbour) +
         stuck;
}

}  // namespace batchless::training
