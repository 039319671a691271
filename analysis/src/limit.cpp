#include "batchless/analysis/limit.h"

#include <cmath>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/characteristic.h"

namespace batchless::analysis {

void CheckCondition(double condition) {
  // Written so that a NaN fails.
  RefuseIf(!(condition >= 1 && condition <= kMaxCondition), "condition", condition,
           "a number from 1 to 1e12");
}

Limit LimitOfLinearRules(Delay delay, double condition) {
  CheckDelay(delay);
  CheckCondition(condition);
  const double root = std::sqrt(condition);
  // (root - 1) / (root + 1), whose logarithm is small where root is large.
  const double undelayed = std::log1p(-2 / (root + 1));
  Limit limit;
  limit.log_radius = undelayed / static_cast<double>(delay + 1);
  limit.spectral_radius = std::exp(limit.log_radius);
  limit.half_life_updates = std::log(2.0) / -limit.log_radius;
  limit.momentum = std::exp(2 * undelayed);
  const double ratio = 2 * root / (root + 1);
  limit.rate = ratio * ratio;
  return limit;
}

}  // namespace batchless::analysis
