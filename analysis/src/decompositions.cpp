#include "decompositions.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <complex>
#include <stdexcept>
#include <string>

namespace batchless::analysis {
namespace {

using Eigen::Index;
using Eigen::MatrixXcd;
using Eigen::MatrixXd;
using Eigen::VectorXcd;

template <class Solver>
const Solver& Converged(const Solver& solver, Index size) {
  if (solver.info() != Eigen::Success) {
    throw std::runtime_error("the eigenvalue iteration of a matrix of size " +
                             std::to_string(size) + " did not converge");
  }
  return solver;
}

// Gram and Schmidt, twice.
void Orthonormalize(MatrixXcd& columns) {
  for (Index j = 0; j < columns.cols(); ++j) {
    for (int pass = 0; pass < 2; ++pass) {
      for (Index i = 0; i < j; ++i) {
        columns.col(j) -= columns.col(i).dot(columns.col(j)) * columns.col(i);
      }
      columns.col(j).normalize();
    }
  }
}

}  // namespace

double SpectralRadiusOf(const MatrixXd& matrix) {
  const Eigen::EigenSolver<MatrixXd> solver(matrix, false);
  return Converged(solver, matrix.rows()).eigenvalues().cwiseAbs().maxCoeff();
}

MatrixXd SchurFormOf(const MatrixXd& hessenberg) {
  Eigen::RealSchur<MatrixXd> schur(hessenberg.rows());
  const MatrixXd no_vectors(hessenberg.rows(), hessenberg.rows());
  schur.computeFromHessenberg(hessenberg, no_vectors, false);
  return Converged(schur, hessenberg.rows()).matrixT();
}

Eigenpairs EigenpairsOf(const MatrixXd& matrix) {
  const Eigen::EigenSolver<MatrixXd> solver(matrix);
  return {Converged(solver, matrix.rows()).eigenvalues(), solver.eigenvectors()};
}

Eigenpairs EigenpairsOf(const MatrixXcd& matrix) {
  const Eigen::ComplexEigenSolver<MatrixXcd> solver(matrix);
  return {Converged(solver, matrix.rows()).eigenvalues(), solver.eigenvectors()};
}

template <class Real>
SymmetricEigenpairs<Real> SymmetricEigenpairsOf(const DenseMatrix<Real>& matrix) {
  const Eigen::SelfAdjointEigenSolver<DenseMatrix<Real>> solver(matrix);
  return {Converged(solver, matrix.rows()).eigenvalues(), solver.eigenvectors()};
}

template SymmetricEigenpairs<double> SymmetricEigenpairsOf(const DenseMatrix<double>&);
template SymmetricEigenpairs<long double> SymmetricEigenpairsOf(const DenseMatrix<long double>&);

bool IsPositive(const MatrixXd& matrix, double slack) {
  const MatrixXd raised = matrix + slack * MatrixXd::Identity(matrix.rows(), matrix.cols());
  return raised.llt().info() == Eigen::Success;
}

DenseVector<long double> Solve(const DenseMatrix<long double>& matrix,
                               const DenseVector<long double>& right) {
  return matrix.partialPivLu().solve(right);
}

VectorXcd Solve(const MatrixXcd& matrix, const VectorXcd& right) {
  return matrix.partialPivLu().solve(right);
}

MatrixXcd NearestToZero(const MatrixXcd& matrix, Index count, int steps) {
  const Eigen::PartialPivLU<MatrixXcd> inverse(matrix);
  // Vectors of different frequencies, special to no matrix.
  constexpr double kGoldenAngle = 2.399963229728653;
  MatrixXcd block = MatrixXcd::NullaryExpr(matrix.rows(), count, [](Index i, Index j) {
    return std::polar(1.0, kGoldenAngle * static_cast<double>(i * (2 * j + 1)));
  });
  for (int step = 0; step < steps; ++step) {
    for (Index j = 0; j < count; ++j) {
      const VectorXcd column = block.col(j);
      block.col(j) = inverse.solve(column);
    }
    Orthonormalize(block);
  }
  return block;
}

}  // namespace batchless::analysis
