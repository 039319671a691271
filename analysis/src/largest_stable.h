// Where stability ends along one axis: what the searches for critical rates and delays share.
#pragma once

#include <algorithm>

#include "not_finite.h"

namespace batchless::analysis {

/// sup { x : all of [first, x] are stable }: up by factors of `step`, than which a window of instability would
/// have to be narrower to go unnoticed, then by bisection with `is_stable_close` until the bracket is
/// `tolerance` of its lower end wide, or to the last bits of a double. 0 where `first` is not stable, infinity
/// where `last` is.
template <class IsStable, class IsStableClose>
double LargestStable(double first, double last, double step, double tolerance,
                     const IsStable& is_stable, const IsStableClose& is_stable_close) {
  if (!is_stable(first)) return 0;
  double stable = first, unstable = std::min(first * step, last);
  while (is_stable(unstable)) {
    if (unstable >= last) return kInfinity;
    stable = unstable;
    unstable = std::min(unstable * step, last);
  }
  while (unstable - stable > tolerance * stable) {
    const double middle = stable + (unstable - stable) / 2;
    if (!(stable < middle && middle < unstable)) break;
    (is_stable_close(middle) ? stable : unstable) = middle;
  }
  return stable;
}

}  // namespace batchless::analysis
