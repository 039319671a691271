// Sums of squared impulse responses: the recursion that noise.h describes.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace batchless::analysis {

// sum_k h_k^2 of each numerator over the denominator a, NaN where a is not stable. Coefficients by
// descending powers; degrees are equal: the numerators are padded.
template <class Real>
std::vector<Real> ImpulseEnergies(std::vector<std::vector<Real>> numerators, std::vector<Real> a) {
  const Real first = a[0];
  std::vector<Real> sums(numerators.size(), Real(0));
  for (std::size_t k = a.size() - 1;; --k) {
    // The sign is that of a_0 / first; the negation lets no NaN pass.
    if (!(a[0] / first > 0)) {
      sums.assign(sums.size(), std::numeric_limits<Real>::quiet_NaN());
      return sums;
    }
    for (std::size_t n = 0; n < sums.size(); ++n) {
      std::vector<Real>& b = numerators[n];
      sums[n] += b[k] * b[k] / a[0];
      const Real beta = b[k] / a[0];
      for (std::size_t i = 0; i < k; ++i) b[i] -= beta * a[k - i];
    }
    if (k == 0) break;
    const Real alpha = a[k] / a[0];
    // In place, from both ends at once.
    for (std::size_t i = 0, j = k; i <= j; ++i, --j) {
      const Real low = a[i];
      const Real high = a[j];
      a[i] = low - alpha * high;
      if (i != j) a[j] = high - alpha * low;
    }
  }
  for (Real& sum : sums) sum /= first;
  return sums;
}

}  // namespace batchless::analysis
