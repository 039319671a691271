// Eigen's eigenvalues of a real matrix, compiled once: each file that has its own takes ten seconds more.
#pragma once

#include <Eigen/Core>

namespace batchless::test {

Eigen::VectorXcd Eigenvalues(const Eigen::MatrixXd& matrix);
double LargestEigenvalue(const Eigen::MatrixXd& matrix);  // its modulus

}  // namespace batchless::test
