// The dominant root at one point in a chosen arithmetic, and the ladder of arithmetics.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "batchless/analysis/spectral_radius.h"
#include "not_finite.h"
#include "outside_count.h"
#include "track_group.h"

namespace batchless::analysis {

/// What is said of a point where no arithmetic proves anything.
inline constexpr SpectralRadius kNothingProven{0, kInfinity, 1, kInfinity, Precision::kFiftyDigits};

/// Searches for a root end at |ln rho| = 100.
inline constexpr double kLogLimit = 99;

/// What is said where no root is outside the smallest circle of the search.
inline SpectralRadius NoRoot(Precision precision) {
  return {-kInfinity, 0, 0, 2 * std::exp(-kLogLimit / 2), precision};
}

/// Takes ln rho = s, certified to within `delta`; whether that meets the tolerances of spectral_radius.h.
template <class Real>
bool MeetsTolerances(Precision precision, const Real& s, const Real& delta, SpectralRadius& value) {
  using std::exp;
  constexpr double kRounding = std::numeric_limits<double>::epsilon();
  const double log_radius = static_cast<double>(s), error = static_cast<double>(delta);
  if (log_radius < -kLogLimit) {
    value = NoRoot(precision);
    return true;
  }
  const double radius = static_cast<double>(Real(exp(s)));
  value = {log_radius, error + kRounding * std::abs(log_radius), radius,
           radius * (error + 2 * kRounding), precision};
  return value.error_bound < TrackGroup::kRadiusGoal * std::max(1.0, radius) &&
         value.log_radius_error < TrackGroup::kLogGoal * std::abs(log_radius);
}

/// Where a neighbouring point or a coarser arithmetic left the root; out of range: nowhere.
struct RootGuess {
  double s = 0;
  double theta = 9;
};

/// rho at one valid point, starting in double and climbing to long double and 50 digits until the
/// tolerances are met.
SpectralRadius SolvePoint(const RuleSpec& spec, double momentum, Delay delay, double rate);

/// Roots with |z| > 1. Real is double or long double, in which the circle is 2000 times sharper.
template <class Real>
OutsideCount CountOutsideUnitCircle(const Characteristic<Real>& p, double rate);

/// A gain crossover: a point e^{i theta} of the unit circle where |f| = |g| (root_kernel-inl.h).
struct GainCrossover {
  double theta;
  /// Phase lag in (0, 2 pi] that brings a root onto the circle there.
  double lag;
};

/// The crossovers with 0 < theta < pi, at most two.
std::vector<GainCrossover> GainCrossovers(const Characteristic<double>& p, double rate);

}  // namespace batchless::analysis
