// The best multiplier for a point, not yet proven: what the certificates of worst_case.h and the searches
// over rates, momenta and coefficients share.
#pragma once

#include <limits>

#include "batchless/analysis/worst_case.h"
#include "linear_polynomial.h"

namespace batchless::analysis {

/// j of each tap.
constexpr int Lag(std::size_t tap) {
  const int at = static_cast<int>(tap) - kMultiplierTaps;
  return at < 0 ? at : at + 1;
}

/// p of the point's rule. Coefficients are right to half a unit in the last place, and a little.
template <class Real>
LinearPolynomial<Real> PolynomialOf(const WorstCasePoint& point);

/// eta mu, rounded down: functions of a smaller mu are more.
double LowRate(const WorstCasePoint& point);

/// The radius of the quadratic at a rate.
SpectralRadius RadiusAt(const WorstCasePoint& point, double rate);

/// ln rho and the taps; NaN where there are none.
struct FoundMultiplier {
  double log_rate = std::numeric_limits<double>::quiet_NaN();
  Multiplier taps{};
};

/// `low` is the radius at the least curvature; `tolerance` is relative, of ln rho.
FoundMultiplier FindMultiplier(const WorstCasePoint& point, const SpectralRadius& low,
                               double tolerance);

}  // namespace batchless::analysis
