// Cores for stages in proportion to their cost: a layer split over many cores.
//
//   minimise  max_s cost_s / k_s   over integers k_s >= minimum_s with sum k_s <= P
//
// A stage's work is taken to split evenly over its cores, whatever their number.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace batchless::hwmodel {

/// k_s, optimal; of what the optimum leaves, each further core goes to the stage that is slowest
/// then, the first of equals. minimums: (S), each at least 1, or empty for 1. O((S + sum of minimums)
/// log S). Throws analysis::InvalidArgument naming `cores`, `cost` or `minimums`.
std::vector<std::int64_t> AllotCores(std::span<const double> costs, std::int64_t cores,
                                     std::span<const std::int64_t> minimums = {});

}  // namespace batchless::hwmodel
