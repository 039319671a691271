// Eigen's eigenvalues of a real matrix, compiled once: each file that has its own takes ten seconds more.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <vector>

namespace batchless::test {

Eigen::VectorXcd Eigenvalues(const Eigen::MatrixXd& matrix);
double LargestEigenvalue(const Eigen::MatrixXd& matrix);  // its modulus

// The matrix whose eigenvalues are a polynomial's roots. Polynomials have their highest power first.
Eigen::MatrixXd Companion(const std::vector<double>& polynomial);
// z^delay D + x N.
std::vector<double> ClosedLoop(const std::vector<double>& numerator,
                               std::vector<double> denominator, std::int64_t delay, double x);

}  // namespace batchless::test
