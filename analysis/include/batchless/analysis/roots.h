// All roots of p(z) for small problems.
//
// Starting points are the eigenvalues of the balanced companion matrix (Eigen). All of them are
// then polished together by Newton's method with the known neighbours divided out,
//
//   z_j <- z_j - 1 / (p'(z_j)/p(z_j) - sum_{k != j} 1/(z_j - z_k)),
//
// so that no two approximations fall into one root (Ehrlich, Comm. ACM 10 (1967) 107; Aberth,
// Math. Comp. 27 (1973) 339; both recalled). p'/p is evaluated in long double from the form of
// characteristic.h, which has no expanded coefficients to lose digits in.
//
// Accuracy: a simple root is right to a few roundings of a double; a root of multiplicity k to
// about the k-th root of a rounding of a long double.
#pragma once

#include <complex>
#include <vector>

#include "batchless/analysis/characteristic.h"

namespace batchless::analysis {

/// Largest delay for which AllRoots answers: the companion matrix costs D^3 operations (seconds
/// here).
inline constexpr Delay kMaxRootsDelay = 1000;

/// All n + 2 roots of p(z), by falling modulus, conjugates side by side (positive imaginary part
/// first) and exactly conjugate. Zeros that were divided out of p(z) are not listed; a root at 0
/// that is left is an exact 0. Throws InvalidArgument for options, momentum, rate or a delay above
/// kMaxRootsDelay.
std::vector<std::complex<double>> AllRoots(const RuleSpec& spec, double momentum, Delay delay,
                                           double rate);

}  // namespace batchless::analysis

// Example
//   const RuleSpec sgdm{FindRule("sgdm"), {}};
//   // Without momentum and with a delay of 1 the polynomial is z^2 - z + x.
//   const double momentum = 0, rate = 0.75 * 0.25;
//   const auto roots = AllRoots(sgdm, momentum, /*delay=*/1, rate);
//   CHECK(roots[0].real() == Approx(0.75));
//   CHECK(roots[1].real() == Approx(0.25));
