#include "eigenvalues.h"

#include <Eigen/Eigenvalues>

namespace batchless::test {

Eigen::VectorXcd Eigenvalues(const Eigen::MatrixXd& matrix) {
  return Eigen::EigenSolver<Eigen::MatrixXd>(matrix, false).eigenvalues();
}

double LargestEigenvalue(const Eigen::MatrixXd& matrix) {
  return Eigenvalues(matrix).cwiseAbs().maxCoeff();
}

}  // namespace batchless::test
