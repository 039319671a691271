#include "krylov.h"

#include <Eigen/Jacobi>
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "batchless/analysis/cancellation.h"
#include "decompositions.h"

namespace batchless::analysis {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// A basis has fewer vectors than asked for, but this many, where they were more numbers than kMostNumbers.
constexpr Index kFewest = 40;
constexpr Index kMostNumbers = Index(1) << 26;
constexpr int kRestarts = 400;
// Residuals are small enough at this size relative to the result, and at what roundings leave relative to
// the operator's norm or the solution's.
constexpr double kEigenTolerance = 1e-13;
constexpr double kRoundings = 1e-15;
// Where restarts no longer help, a residual may be this large relative to the solution.
constexpr double kStalled = 1e-11;

// apply * basis = basis * hessenberg + (the last row's vector).
struct Krylov {
  MatrixXd basis;
  MatrixXd hessenberg;  // one row more than columns
};

// `done(k)`: whether the first k columns are enough.
Krylov MakeKrylov(const LinearMap& apply, const VectorXd& start, Index most,
                  const std::function<bool(const Krylov&, Index)>& done = {}) {
  most = std::min(std::clamp(kMostNumbers / start.size(), kFewest, most), start.size());
  Krylov krylov{MatrixXd(start.size(), most + 1), MatrixXd::Zero(most + 1, most)};
  krylov.basis.col(0) = start.normalized();
  for (Index j = 0; j < most; ++j) {
    CheckCancellation();
    VectorXd next = apply(krylov.basis.col(j));
    const double size = next.norm();
    // Twice, which is enough.
    for (int pass = 0; pass < 2; ++pass) {
      const VectorXd part = krylov.basis.leftCols(j + 1).transpose() * next;
      next -= krylov.basis.leftCols(j + 1) * part;
      krylov.hessenberg.col(j).head(j + 1) += part;
    }
    const double rest = next.norm();
    // If not, the space is invariant: nothing but roundings is left.
    const bool grows = rest > 1e-15 * size;
    krylov.hessenberg(j + 1, j) = grows ? rest : 0;
    if (grows) {
      krylov.basis.col(j + 1) = next / rest;
    } else {
      krylov.basis.col(j + 1).setZero();
    }
    if ((done && done(krylov, j + 1)) || !grows) {
      krylov.hessenberg.conservativeResize(j + 2, j + 1);
      krylov.basis.conservativeResize(Eigen::NoChange, j + 2);
      break;
    }
  }
  return krylov;
}

}  // namespace

double SpectralRadiusOf(const LinearMap& apply, Index lags, VectorXd start, bool positive,
                        Index basis) {
  for (int restart = 0; restart < kRestarts; ++restart) {
    for (Index lag = 0; lag < lags; ++lag) start = apply(start).normalized();
    const Krylov krylov = MakeKrylov(apply, start, basis);
    const Index size = krylov.hessenberg.cols();
    const Eigenpairs pairs = EigenpairsOf(MatrixXd(krylov.hessenberg.topRows(size)));
    Index best = 0;
    const auto order = [&](Index i) {
      const std::complex<double> value = pairs.values(i);
      return positive ? value.real() : std::abs(value);
    };
    for (Index i = 1; i < size; ++i) {
      if (order(i) > order(best)) best = i;
    }
    const double radius = std::abs(pairs.values(best));
    const Eigen::VectorXcd vector = pairs.vectors.col(best);
    const double residual =
        krylov.hessenberg(size, size - 1) * std::abs(vector(size - 1)) / vector.norm();
    const double least = kRoundings * krylov.hessenberg.norm();
    if (residual <= std::max(kEigenTolerance * radius, least)) return radius;
    // A pair of complex ones spans the plane that their sum's images lie in.
    start = krylov.basis.leftCols(size) * (vector.real() + vector.imag());
  }
  throw std::runtime_error("the growth under these delays did not settle in " +
                           std::to_string(kRestarts) + " restarts on its operator");
}

VectorXd FixedPoint(const LinearMap& apply, const VectorXd& constant, Index lags, Index basis,
                    double tolerance) {
  VectorXd x = VectorXd::Zero(constant.size());
  VectorXd residual = constant;
  double last = std::numeric_limits<double>::infinity();
  for (int restart = 0; restart < kRestarts; ++restart) {
    const double size = residual.norm();
    const auto least = [&](double solution) {
      return std::max(tolerance * constant.norm(), 10 * kRoundings * solution);
    };
    if (size <= least(x.norm()) || (size > last / 2 && size <= kStalled * x.norm())) return x;
    last = size;
    // |(1 - hessenberg) y - size e_0| is least: rotations of neighbouring rows leave a triangle.
    MatrixXd triangle;
    VectorXd right = VectorXd::Constant(1, size);
    std::vector<Eigen::JacobiRotation<double>> rotations;
    VectorXd y;
    const Krylov krylov = MakeKrylov(apply, residual, basis, [&](const Krylov& now, Index columns) {
      const Index k = columns - 1;
      VectorXd column = -now.hessenberg.col(k).head(columns + 1);
      column(k) += 1;
      for (Index i = 0; i < k; ++i) {
        column.applyOnTheLeft(i, i + 1, rotations[static_cast<std::size_t>(i)].adjoint());
      }
      rotations.emplace_back().makeGivens(column(k), column(k + 1));
      column.applyOnTheLeft(k, k + 1, rotations.back().adjoint());
      right.conservativeResize(columns + 1);
      right(columns) = 0;
      right.applyOnTheLeft(k, k + 1, rotations.back().adjoint());
      triangle.conservativeResize(columns, columns);
      triangle.row(k).setZero();
      triangle.col(k) = column.head(columns);
      y = triangle.triangularView<Eigen::Upper>().solve(right.head(columns));
      return std::abs(right(columns)) <= least(y.norm());
    });
    x += krylov.basis.leftCols(y.size()) * y;
    for (Index i = 0; i < lags; ++i) x = apply(x) + constant;
    residual = constant + apply(x) - x;
  }
  throw std::runtime_error("the variance under these delays did not settle in " +
                           std::to_string(kRestarts) + " restarts on its operator");
}

}  // namespace batchless::analysis
