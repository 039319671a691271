// Polynomials as lists of coefficients: their products, and those in powers of u = z - 1, constant terms first,
// that the searches for free coefficients share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace batchless::analysis {

/// The product, of powers in the same order; Vector is a std::vector or one of Eigen's.
template <class Vector>
Vector Multiply(const Vector& a, const Vector& b) {
  Vector c(a.size() + b.size() - 1);
  std::fill(c.data(), c.data() + c.size(), 0);
  for (decltype(a.size()) i = 0; i < a.size(); ++i) {
    for (decltype(b.size()) j = 0; j < b.size(); ++j) c[i + j] += a[i] * b[j];
  }
  return c;
}

/// Powers of z, highest first. The shift by 1 adds up binomials in the precision of Vector.
template <class Vector>
std::vector<double> InPowersOfZ(Vector c) {
  for (decltype(c.size()) k = 0; k < c.size(); ++k) {
    for (auto j = c.size() - 1; j-- > k;) c[j] -= c[j + 1];
  }
  std::vector<double> in_z(c.data(), c.data() + c.size());
  std::reverse(in_z.begin(), in_z.end());
  return in_z;
}

}  // namespace batchless::analysis
