#include "batchless/hwmodel/schedule.h"

#include <algorithm>
#include <array>

#include "checks.h"

namespace batchless::hwmodel {
namespace {

// In the order of WeightVersions.
constexpr std::array<std::string_view, 4> kVersionsNames = {"newest", "stashed", "double-buffered",
                                                            "vertical-sync"};

}  // namespace

std::string_view Name(WeightVersions weights) {
  return kVersionsNames.at(static_cast<std::size_t>(weights));
}

WeightVersions ParseWeightVersions(std::string_view name) {
  const auto found = std::find(kVersionsNames.begin(), kVersionsNames.end(), name);
  RefuseIf(found == kVersionsNames.end(), "weights", name,
           "newest, stashed, double-buffered or vertical-sync");
  return static_cast<WeightVersions>(found - kVersionsNames.begin());
}

int Schedule::copies() const {
  return worker_of_stage.empty() ? 1 : static_cast<int>(worker_of_stage.size()) / stages;
}

int Schedule::workers() const {
  if (worker_of_stage.empty()) return stages;
  return *std::max_element(worker_of_stage.begin(), worker_of_stage.end()) + 1;
}

bool Schedule::splits_backward() const {
  return std::any_of(actions.begin(), actions.end(), [](const TimedAction& timed) {
    return timed.action.kind == ActionKind::kWeightGradient;
  });
}

}  // namespace batchless::hwmodel
