#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>

namespace batchless {

// The Hessian Q diag(eigenvalues) Q' for an orthogonal Q drawn uniformly (Haar measure): the
// orthogonal factor of a matrix of standard normal numbers, signs made unique. The same seed gives
// the same Q on every machine up to rounding.
Eigen::MatrixXd RotatedHessian(std::span<const double> eigenvalues, std::uint32_t seed);

}  // namespace batchless
