// Decompositions of dense matrices by Eigen, compiled once: each of them costs the compiler many seconds.
#pragma once

#include <Eigen/Core>

namespace batchless::analysis {

template <class Real>
using DenseMatrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic>;
template <class Real>
using DenseVector = Eigen::Matrix<Real, Eigen::Dynamic, 1>;

// Those of eigenvalues throw std::runtime_error where the iteration does not converge.

// Largest modulus of an eigenvalue.
double SpectralRadiusOf(const Eigen::MatrixXd& matrix);
// T of the real Schur form of a matrix that is 0 below its first subdiagonal: upper triangular but for
// blocks of two rows, each with a pair of complex eigenvalues or two real ones.
Eigen::MatrixXd SchurFormOf(const Eigen::MatrixXd& hessenberg);

// A X = X diag(values), with columns of length 1.
struct Eigenpairs {
  Eigen::VectorXcd values;
  Eigen::MatrixXcd vectors;
};
Eigenpairs EigenpairsOf(const Eigen::MatrixXd& matrix);
Eigenpairs EigenpairsOf(const Eigen::MatrixXcd& matrix);

// The same of a symmetric matrix, in rising order. Real is double or long double.
template <class Real>
struct SymmetricEigenpairs {
  DenseVector<Real> values;
  DenseMatrix<Real> vectors;
};
template <class Real>
SymmetricEigenpairs<Real> SymmetricEigenpairsOf(const DenseMatrix<Real>& matrix);

// Whether a symmetric matrix has no eigenvalue below -slack: pivots of its Cholesky decomposition with that
// added.
bool IsPositive(const Eigen::MatrixXd& matrix, double slack);

// x of A x = b.
DenseVector<long double> Solve(const DenseMatrix<long double>& matrix,
                               const DenseVector<long double>& right);
Eigen::VectorXcd Solve(const Eigen::MatrixXcd& matrix, const Eigen::VectorXcd& right);

// The invariant subspace of the `count` eigenvalues nearest to 0, as orthonormal columns, by `steps` steps of
// inverse iteration on a block of vectors.
Eigen::MatrixXcd NearestToZero(const Eigen::MatrixXcd& matrix, Eigen::Index count, int steps);

}  // namespace batchless::analysis
