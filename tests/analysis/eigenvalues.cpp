#include "eigenvalues.h"

#include <Eigen/Eigenvalues>

namespace batchless::test {

Eigen::VectorXcd Eigenvalues(const Eigen::MatrixXd& matrix) {
  return Eigen::EigenSolver<Eigen::MatrixXd>(matrix, false).eigenvalues();
}

double LargestEigenvalue(const Eigen::MatrixXd& matrix) {
  return Eigenvalues(matrix).cwiseAbs().maxCoeff();
}

Eigen::MatrixXd Companion(const std::vector<double>& polynomial) {
  const auto degree = static_cast<Eigen::Index>(polynomial.size()) - 1;
  Eigen::MatrixXd companion = Eigen::MatrixXd::Zero(degree, degree);
  companion.diagonal(-1).setOnes();
  for (Eigen::Index k = 0; k < degree; ++k) {
    companion(0, k) = -polynomial[static_cast<std::size_t>(k) + 1] / polynomial[0];
  }
  return companion;
}

std::vector<double> ClosedLoop(const std::vector<double>& numerator,
                               std::vector<double> denominator, std::int64_t delay, double x) {
  denominator.resize(denominator.size() + static_cast<std::size_t>(delay), 0);
  for (std::size_t k = 0; k < numerator.size(); ++k) {
    denominator[denominator.size() - numerator.size() + k] += x * numerator[k];
  }
  return denominator;
}

}  // namespace batchless::test
