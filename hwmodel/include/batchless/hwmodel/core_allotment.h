// Cores for workers: a layer split over many cores, but over no more than can share it.
//
//   a worker runs parts i (its stages' passes) one after the other, each of c_i seconds on one core and
//   of work for at most p_i cores, which take x_i seconds to exchange values over one link, and have
//   links in proportion to the edge of a square of so many cores:
//
//   t(k) = sum_i t_i(min(k, p_i)),   t_i(1) = c_i,   t_i(k) = min(c_i, max(c_i / k, x_i / sqrt(k)))
//
//   minimise  max_w t_w(k_w)   over integers k_w >= minimum_w with sum k_w <= P
//
// Up to p_i cores a part's work is taken to split evenly.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace batchless::hwmodel {

struct CoreWork {
  double seconds = 0;                                           ///< c, on one core
  double most_cores = std::numeric_limits<double>::infinity();  ///< p >= 1
  double exchange_seconds = 0;                                  ///< x, over one link
};

/// The most cores that share one of the parts.
double MostCores(std::span<const CoreWork> work);

/// How many of k cores share the part: min(k, p), or 1 where the exchange would take longer than the
/// work on one.
double CoresUsed(const CoreWork& part, double cores);

/// t(k).
double SecondsOn(std::span<const CoreWork> work, double cores);

/// The fewest cores, an integer, that do the work in so many seconds; infinity where no number does.
/// What rounding makes of equality decides a core more or less.
double CoresWithin(std::span<const CoreWork> work, double seconds);

/// k_w, optimal; of what the optimum leaves, each further core goes to the worker that is slowest
/// then, the first of equals, until that one has no use for all that are left. minimums: one for each
/// worker, each at least 1, or empty for 1. Throws analysis::InvalidArgument naming `cores`, `cost`,
/// `most_cores` or `minimums`.
std::vector<std::int64_t> AllotCores(std::span<const std::vector<CoreWork>> workers,
                                     std::int64_t cores,
                                     std::span<const std::int64_t> minimums = {});

}  // namespace batchless::hwmodel

// Example
//   // One worker has three times the work of the other.
//   const std::vector<std::vector<CoreWork>> workers = {{{.seconds = 3}}, {{.seconds = 1}}};
//   const std::vector<std::int64_t> cores = AllotCores(workers, 8);
//   CHECK(cores == std::vector<std::int64_t>{6, 2});
//   CHECK(SecondsOn(workers[0], 6) == SecondsOn(workers[1], 2));
