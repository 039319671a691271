// Zero-bubble schedules, which split the backward.
#include <algorithm>

#include "batchless/hwmodel/schedule_kinds.h"
#include "checks.h"
#include "schedules/orders.h"

namespace batchless::hwmodel {

Schedule ZeroBubbleH1(int stages, std::int64_t microbatches, std::int64_t microbatches_per_update) {
  CheckSizes(stages, microbatches, microbatches_per_update);
  const std::int64_t count = microbatches_per_update;
  const auto append = [&](Order& order, int stage, std::int64_t first) {
    // The forwards run ahead of the backwards, and those of the weight gradients, by S-1 in all.
    const std::int64_t ahead = std::min<std::int64_t>(stages - 1 - stage, count);
    const std::int64_t behind = ahead + std::min<std::int64_t>(stage, count);
    for (std::int64_t k = 0; k < count + behind; ++k) {
      const std::int64_t backward = k - ahead;
      const std::int64_t weights = k - behind;
      if (k < count) order.push_back({stage, ActionKind::kForward, first + k});
      if (backward >= 0 && backward < count) {
        order.push_back({stage, ActionKind::kBackward, first + backward});
      }
      if (weights >= 0) order.push_back({stage, ActionKind::kWeightGradient, first + weights});
    }
    order.push_back({stage, ActionKind::kUpdate, first + count - 1});
  };
  return InOrder({.stages = stages, .microbatches = microbatches}, count, append);
}

}  // namespace batchless::hwmodel
