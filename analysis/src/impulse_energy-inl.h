// Sums of products of impulse responses: the recursion that noise.h describes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace batchless::analysis {

// sum_k h_k g_k of each two numerators over the denominator a; empty where a is not stable. Coefficients by
// descending powers; degrees are equal: the numerators are padded.
template <class Real>
std::vector<std::vector<Real>> ImpulseProducts(std::vector<std::vector<Real>> numerators,
                                               std::vector<Real> a) {
  const Real first = a[0];
  const std::size_t size = numerators.size();
  std::vector<Real> reversed(a.size());
  std::vector<std::vector<Real>> sums(size, std::vector<Real>(size, Real(0)));
  for (std::size_t k = a.size() - 1;; --k) {
    // The sign is that of a_0 / first; the negation lets no NaN pass.
    if (!(a[0] / first > 0)) return {};
    for (std::size_t n = 0; n < size; ++n) {
      for (std::size_t m = 0; m <= n; ++m) {
        sums[n][m] += numerators[n][k] * numerators[m][k] / a[0];
      }
    }
    std::reverse_copy(a.begin(), a.begin() + k + 1, reversed.begin());
    for (std::vector<Real>& b : numerators) {
      const Real beta = b[k] / a[0];
      for (std::size_t i = 0; i < k; ++i) b[i] -= beta * reversed[i];
    }
    if (k == 0) break;
    const Real alpha = a[k] / a[0];
    for (std::size_t i = 0; i < k; ++i) a[i] -= alpha * reversed[i];
  }
  for (std::size_t n = 0; n < size; ++n) {
    for (std::size_t m = 0; m <= n; ++m) sums[m][n] = sums[n][m] /= first;
  }
  return sums;
}

}  // namespace batchless::analysis
