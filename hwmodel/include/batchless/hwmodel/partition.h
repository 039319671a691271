// Contiguous groups of stages for workers, so that the most loaded has as little as possible.
//
//   minimise over  0 = b_0 < b_1 < .. < b_W = S   of   max_w sum of cost[b_w .. b_{w+1})
//
// Dynamic program over (first stages, workers); of equally good partitions the one whose first
// groups end earliest.
#pragma once

#include <span>
#include <vector>

#include "batchless/hwmodel/network.h"

namespace batchless::hwmodel {

/// The boundaries b_1 .. b_W: group w holds the stages from the one before (0 at first) up to, and
/// without, boundaries[w]. Throws analysis::InvalidArgument unless 1 <= workers <= stages and every
/// cost is finite and not negative.
std::vector<int> BalancedPartition(std::span<const double> costs, int workers);

/// The partitions for 1, 2, .. `workers` workers, in the time that the last one takes.
std::vector<std::vector<int>> BalancedPartitions(std::span<const double> costs, int workers);

/// BalancedPartition of a network, by the FLOPs of a stage's forward, input gradient and weight gradient.
std::vector<int> BalancedPartition(const Network& network, int workers);

}  // namespace batchless::hwmodel

// Example
//   const std::vector<double> costs = {1, 2, 3, 4};
//   const std::vector<int> ends = BalancedPartition(costs, /*workers=*/2);
//   CHECK(ends == std::vector<int>{3, 4});  // 6 and 4
