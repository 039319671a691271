#include "batchless/hwmodel/partition.h"

#include <algorithm>
#include <limits>
#include <string>

#include "batchless/analysis/cancellation.h"
#include "checks.h"

namespace batchless::hwmodel {

std::vector<std::vector<int>> BalancedPartitions(std::span<const double> costs, int workers) {
  const int stages = static_cast<int>(costs.size());
  RefuseIf(workers < 1 || workers > stages, "workers", workers,
           "1 to the " + std::to_string(stages) + " stages");
  for (const double cost : costs) CheckNotNegative("cost", cost);
  std::vector<double> before(stages + 1);
  for (int s = 0; s < stages; ++s) before[s + 1] = before[s] + costs[s];

  // best[w][s]: least load of the most loaded of w + 1 groups that share the first s stages.
  std::vector<std::vector<double>> best(
      workers, std::vector<double>(stages + 1, std::numeric_limits<double>::infinity()));
  std::vector<std::vector<int>> last(workers, std::vector<int>(stages + 1));
  best[0] = before;
  for (int w = 1; w < workers; ++w) {
    for (int s = w + 1; s <= stages; ++s) {
      analysis::CheckCancellation();
      for (int begin = w; begin < s; ++begin) {
        const double load = std::max(best[w - 1][begin], before[s] - before[begin]);
        if (load < best[w][s]) {
          best[w][s] = load;
          last[w][s] = begin;
        }
      }
    }
  }
  std::vector<std::vector<int>> partitions(workers);
  for (int count = 1; count <= workers; ++count) {
    std::vector<int>& boundaries = partitions[count - 1];
    boundaries.resize(count);
    int end = stages;
    for (int w = count - 1; w >= 0; --w) {
      boundaries[w] = end;
      end = last[w][end];
    }
  }
  return partitions;
}

std::vector<int> BalancedPartition(std::span<const double> costs, int workers) {
  return BalancedPartitions(costs, workers).back();
}

std::vector<int> BalancedPartition(const Network& network, int workers) {
  std::vector<double> costs;
  for (const StageCost& cost : ComputeCosts(network)) {
    costs.push_back(static_cast<double>(cost.training_flops()));
  }
  return BalancedPartition(costs, workers);
}

}  // namespace batchless::hwmodel
