// The dominant root at one point in a chosen arithmetic, and the ladder of arithmetics.
#pragma once

#include <vector>

#include "batchless/analysis/spectral_radius.h"
#include "not_finite.h"

namespace batchless::analysis {

/// What is said of a point where no arithmetic proves anything.
inline constexpr SpectralRadius kNothingProven{0, kInfinity, 1, kInfinity, Precision::kFiftyDigits};

/// rho at one valid point, starting in double and climbing to long double and 50 digits until the
/// tolerances are met.
SpectralRadius SolvePoint(const RuleSpec& spec, double momentum, Delay delay, double rate);

/// Count of roots with |z| > 1 in double; `clear` says that no root is within rounding of the
/// circle. In long double the circle is 2000 times sharper.
int CountOutsideUnitCircle(const Characteristic<double>& p, double rate, bool* clear);
int CountOutsideUnitCircle(const Characteristic<long double>& p, double rate, bool* clear);

/// A gain crossover: a point e^{i theta} of the unit circle where |f| = |g| (root_kernel-inl.h).
struct GainCrossover {
  double theta;
  /// Phase lag in (0, 2 pi] that brings a root onto the circle there.
  double lag;
};

/// The crossovers with 0 < theta < pi, at most two.
std::vector<GainCrossover> GainCrossovers(const Characteristic<double>& p, double rate);

}  // namespace batchless::analysis
