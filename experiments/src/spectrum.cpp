#include "spectrum.h"

#include <Eigen/QR>
#include <boost/random/mersenne_twister.hpp>
#include <boost/random/normal_distribution.hpp>
#include <boost/random/uniform_int_distribution.hpp>
#include <cmath>
#include <utility>

namespace batchless {

Eigen::MatrixXd RotatedHessian(std::span<const double> eigenvalues, double coupling,
                               std::uint32_t seed) {
  const auto n = static_cast<Eigen::Index>(eigenvalues.size());
  // Not the standard library's distribution: how that uses its random bits is left open.
  boost::random::mt19937_64 generator(seed);
  boost::random::normal_distribution<double> normal;
  Eigen::MatrixXd gaussian(n, n);
  for (Eigen::Index column = 0; column < n; ++column) {
    for (Eigen::Index row = 0; row < n; ++row) gaussian(row, column) = normal(generator);
  }
  if (coupling < 1) {
    Eigen::VectorXi order = Eigen::VectorXi::LinSpaced(n, 0, static_cast<int>(n) - 1);
    for (Eigen::Index k = n; k-- > 1;) {
      std::swap(order[k],
                order[boost::random::uniform_int_distribution<Eigen::Index>(0, k)(generator)]);
    }
    gaussian *= coupling / std::sqrt(static_cast<double>(n));
    for (Eigen::Index k = 0; k < n; ++k) gaussian(order[k], k) += 1 - coupling;
  }
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(gaussian);
  Eigen::MatrixXd rotation = qr.householderQ();
  for (Eigen::Index column = 0; column < n; ++column) {
    if (qr.matrixQR()(column, column) < 0) rotation.col(column) *= -1;
  }
  const Eigen::Map<const Eigen::VectorXd> diagonal(eigenvalues.data(), n);
  const Eigen::MatrixXd hessian = rotation * diagonal.asDiagonal() * rotation.transpose();
  return 0.5 * (hessian + hessian.transpose());
}

}  // namespace batchless
