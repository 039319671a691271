#include "optimizers/eigenbasis.h"

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <cmath>
#include <limits>

namespace batchless::training {
namespace {

template <class Real>
using Columns = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic>;

// Makes a basis of its first `count` columns, which are orthonormal.
template <class Real>
void Complete(Eigen::Index count, Columns<Real>& basis) {
  const Eigen::Index size = basis.rows();
  for (; count < size; ++count) {
    // The squares of what is outside the columns' span have this mean over all axes.
    const Real mean = Real(1) - static_cast<Real>(count) / static_cast<Real>(size);
    const auto columns = basis.leftCols(count);
    Eigen::Index axis = 0;
    while (axis < size - 1 && Real(1) - columns.row(axis).squaredNorm() < Real(0.4) * mean) ++axis;
    Eigen::Matrix<Real, Eigen::Dynamic, 1> rest =
        Eigen::Matrix<Real, Eigen::Dynamic, 1>::Unit(size, axis);
    // Once more for what rounding has left.
    for (int pass = 0; pass < 2; ++pass) {
      rest -= (columns * (columns.transpose() * rest).eval()).eval();
    }
    basis.col(count) = rest.normalized();
  }
}

}  // namespace

template <class Real>
void TurnToEigenvectors(std::int64_t size, const Real* matrix, Real* basis) {
  using Rows = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Rows> of(matrix, size, size);
  Eigen::Map<Rows> vectors(basis, size, size);
  const Real least =
      std::sqrt(std::numeric_limits<Real>::epsilon()) * of.trace() / static_cast<Real>(size);
  if (vectors.isZero(0)) {
    const Eigen::SelfAdjointEigenSolver<Columns<Real>> solver(of);
    const Eigen::Index count = (solver.eigenvalues().array() > least).count();
    Columns<Real> all = solver.eigenvectors().rowwise().reverse();
    Complete(count, all);
    vectors = all;
    return;
  }
  const Columns<Real> turned = of * vectors + least * vectors;
  vectors = Eigen::HouseholderQR<Columns<Real>>(turned).householderQ() *
            Columns<Real>::Identity(size, size);
}

template void TurnToEigenvectors(std::int64_t size, const float* matrix, float* basis);
template void TurnToEigenvectors(std::int64_t size, const double* matrix, double* basis);

}  // namespace batchless::training
