// The end of the stable rates as a curve over the momentum, followed from point to point.
//
//   1 + x G(e^{i theta}; m) = 0,   G = (kappa + beta u)(1 + gamma u) / (z^n (z - 1)(z - m)),   u = z - 1
//
// with the symbols of characteristic.h: at the edge a root is on the unit circle, at the angle theta where the
// phase of -G is a whole turn, and x = 1 / |G|. Along a branch theta is followed by Newton's method on that
// phase; the critical rate of every point is the certified one of stability.h, and a branch goes on only
// where the two agree. Where another root comes first the edge has a corner: theta jumps.
#pragma once

#include <vector>

#include "batchless/analysis/characteristic.h"

namespace batchless::analysis {

struct BoundaryPoint {
  double momentum = 0;
  double critical_rate = 0;  ///< as CriticalRate has it
  /// theta in [0, pi], radians per update; NaN where the critical rate is 0 or infinite.
  double frequency = 0;
  /// At a corner there are two points within 1e-9 of one another in ln(1 - m), one of each branch.
  bool is_corner = false;
};

struct BoundaryCurve {
  double least_momentum = 0;
  double largest_momentum = 0.9999;  ///< below 1
  /// By how much the logarithm of the rate between two points may depart from the straight line over
  /// ln(1 - m).
  double tolerance = 1e-3;
};

/// Points in ascending momentum, from the least to the largest. For rules of a momentum. Throws
/// InvalidArgument for `rule`, `delay`, `momentum` or `tolerance`.
std::vector<BoundaryPoint> TraceBoundary(const RuleSpec& spec, Delay delay,
                                         const BoundaryCurve& curve);

}  // namespace batchless::analysis

// Example
//   const RuleSpec sgdm{FindRule("sgdm"), {}};
//   const std::vector<BoundaryPoint> edge = TraceBoundary(sgdm, /*delay=*/0, {});
//   // 2 (1 + m), where a root leaves at -1.
//   CHECK(edge.back().critical_rate == Approx(2 * 1.9999));
//   CHECK(edge.back().frequency == Approx(std::numbers::pi));
