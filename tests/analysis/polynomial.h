// Products of polynomials, lists of coefficients in the same order.
#pragma once

#include <type_traits>
#include <vector>

namespace batchless::analysis {

template <class Number>
std::vector<Number> Multiply(const std::vector<Number>& a,
                             const std::type_identity_t<std::vector<Number>>& b) {
  std::vector<Number> c(a.size() + b.size() - 1, Number(0));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) c[i + j] = c[i + j] + a[i] * b[j];
  }
  return c;
}

}  // namespace batchless::analysis
