#include "batchless/hwmodel/core_allotment.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <string>

#include "batchless/analysis/argument.h"

namespace batchless::hwmodel {

std::vector<std::int64_t> AllotCores(std::span<const double> costs, std::int64_t cores,
                                     std::span<const std::int64_t> minimums) {
  const std::size_t stages = costs.size();
  if (!minimums.empty() && minimums.size() != stages) {
    throw analysis::InvalidArgument("minimums", std::to_string(minimums.size()),
                                    "one for each of " + std::to_string(stages) + " stages");
  }
  std::vector<std::int64_t> allotted(minimums.begin(), minimums.end());
  allotted.resize(stages, 1);
  for (const std::int64_t minimum : allotted) {
    if (minimum < 1) {
      throw analysis::InvalidArgument("minimums", static_cast<double>(minimum), "integers >= 1");
    }
  }
  for (const double cost : costs) {
    if (!(cost >= 0) || !std::isfinite(cost)) {
      throw analysis::InvalidArgument("cost", cost, "finite numbers that are not negative");
    }
  }
  const std::int64_t least = std::accumulate(allotted.begin(), allotted.end(), std::int64_t{0});
  if (stages == 0 || cores < least) {
    throw analysis::InvalidArgument("cores", static_cast<double>(cores),
                                    "at least the " + std::to_string(least) + " needed");
  }
  const double total = std::accumulate(costs.begin(), costs.end(), 0.0);
  if (total == 0 || cores == least) return allotted;

  // max(minimum, ceil(c / T)) <= minimum + c / T, so that this T needs no more than there are, and
  // the optimum gives every stage at least as many. A rounding up must not take one too many.
  const double seconds = total / static_cast<double>(cores - least) * (1 + 1e-12);
  std::int64_t left = cores;
  for (std::size_t s = 0; s < stages; ++s) {
    allotted[s] = std::max(allotted[s], static_cast<std::int64_t>(std::ceil(costs[s] / seconds)));
    left -= allotted[s];
  }
  struct Slowest {
    double seconds;
    std::size_t stage;
    bool operator<(const Slowest& other) const {
      return seconds != other.seconds ? seconds < other.seconds : stage > other.stage;
    }
  };
  std::priority_queue<Slowest> queue;
  for (std::size_t s = 0; s < stages; ++s) {
    queue.push({costs[s] / static_cast<double>(allotted[s]), s});
  }
  for (; left > 0; --left) {
    const std::size_t s = queue.top().stage;
    queue.pop();
    ++allotted[s];
    queue.push({costs[s] / static_cast<double>(allotted[s]), s});
  }
  return allotted;
}

}  // namespace batchless::hwmodel
