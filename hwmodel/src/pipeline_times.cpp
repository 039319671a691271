#include "batchless/hwmodel/pipeline_times.h"

#include <array>
#include <cmath>
#include <string>

#include "checks.h"

namespace batchless::hwmodel {
namespace {

void CheckSeconds(const char* name, double seconds) {
  RefuseIf(!std::isfinite(seconds) || seconds < 0, name, seconds, "seconds, not negative");
}

}  // namespace

double StageTimes::seconds(ActionKind kind) const {
  return std::array{forward_seconds, backward_seconds, weight_gradient_seconds, update_seconds}.at(
      static_cast<std::size_t>(kind));
}

void Validate(const PipelineTimes& times, int stages) {
  RefuseIf(times.stages.size() != static_cast<std::size_t>(stages), "times",
           std::to_string(times.stages.size()) + " stages",
           "the schedule's " + std::to_string(stages));
  const auto check_boundaries = [&](const char* name, const std::vector<double>& seconds) {
    RefuseIf(!seconds.empty() && seconds.size() + 1 != static_cast<std::size_t>(stages), name,
             std::to_string(seconds.size()) + " boundaries",
             "none, or " + std::to_string(stages - 1));
    for (const double each : seconds) CheckSeconds(name, each);
  };
  for (const StageTimes& stage : times.stages) {
    for (const ActionKind kind : kActionKinds) CheckSeconds("times", stage.seconds(kind));
  }
  check_boundaries("link_seconds", times.link_seconds);
  check_boundaries("latency_seconds", times.latency_seconds);
}

}  // namespace batchless::hwmodel
