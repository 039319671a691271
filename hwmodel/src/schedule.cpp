#include "batchless/hwmodel/schedule.h"

#include <algorithm>
#include <array>

#include "batchless/analysis/argument.h"

namespace batchless::hwmodel {
namespace {

constexpr std::array kRules = {WeightVersions::kNewest, WeightVersions::kStashed,
                               WeightVersions::kDoubleBuffered, WeightVersions::kVerticalSync};

}  // namespace

std::string_view Name(WeightVersions weights) {
  switch (weights) {
    case WeightVersions::kNewest:
      return "newest";
    case WeightVersions::kStashed:
      return "stashed";
    case WeightVersions::kDoubleBuffered:
      return "double-buffered";
    case WeightVersions::kVerticalSync:
      break;
  }
  return "vertical-sync";
}

WeightVersions ParseWeightVersions(std::string_view name) {
  for (const WeightVersions rule : kRules) {
    if (name == Name(rule)) return rule;
  }
  throw analysis::InvalidArgument("weights", name,
                                  "newest, stashed, double-buffered or vertical-sync");
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
