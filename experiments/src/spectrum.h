#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>

namespace batchless {

// The Hessian Q diag(eigenvalues) Q' for an orthogonal Q drawn uniformly (Haar measure): the
// orthogonal factor of a matrix of standard normal numbers, signs made unique. The same seed gives
// the same Q on every machine up to rounding. A coupling c below 1 takes the factor of
// (1 - c) P + c G / sqrt(n) instead, G the normal numbers and P a random permutation: at 0 the Hessian
// is diagonal, its eigenvalues in random order.
Eigen::MatrixXd RotatedHessian(std::span<const double> eigenvalues, double coupling,
                               std::uint32_t seed);

}  // namespace batchless
