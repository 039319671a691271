#include "krylov.h"

#include <Eigen/Jacobi>
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "batchless/analysis/cancellation.h"
#include "decompositions.h"
#include "not_finite.h"

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
// A vector that keeps this share of its length when others have been subtracted once is orthogonal to them
// (Daniel, Gragg, Kaufman and Stewart, Math. Comp. 30 (1976) 772).
constexpr double kMostlyNew = 0.7;
// The residual of a vector itself may be this many times as large as that by its basis.
constexpr double kSlack = 10;
// Where restarts no longer help, a residual may be this large relative to the solution; where so many did not,
// as large as the operator's roundings of it.
constexpr double kStalled = 1e-11;
constexpr int kSlowRestarts = 20;

// apply * basis = basis * hessenberg + (the last row's vector).
struct Krylov {
  MatrixXd basis;
  MatrixXd hessenberg;  // one row more than columns
};

// A basis of one vector.
Krylov KrylovFrom(const VectorXd& start) { return {start.normalized(), MatrixXd(1, 0)}; }

// Up to `most` columns. `done(k)`: whether the first k columns are enough.
Krylov WithColumns(Krylov krylov, const LinearMap& apply, Index most,
                   const std::function<bool(const Krylov&, Index)>& done = {}) {
  const Index size = krylov.basis.rows();
  const Index first = krylov.hessenberg.cols();
  most = std::min(std::clamp(kMostNumbers / size, kFewest, most), size);
  if (most <= first) return krylov;
  krylov.basis.conservativeResize(Eigen::NoChange, most + 1);
  krylov.hessenberg.conservativeResizeLike(MatrixXd::Zero(most + 1, most));
  for (Index j = first; j < most; ++j) {
    CheckCancellation();
    VectorXd next = apply(krylov.basis.col(j));
    const double norm = next.norm();
    // Twice, which is enough, where the first time leaves so little that it has roundings of what it took.
    for (int pass = 0; pass < 2; ++pass) {
      if (pass > 0 && next.norm() > kMostlyNew * norm) break;
      const VectorXd part = krylov.basis.leftCols(j + 1).transpose() * next;
      next -= krylov.basis.leftCols(j + 1) * part;
      krylov.hessenberg.col(j).head(j + 1) += part;
    }
    const double rest = next.norm();
    // If not, the space is invariant: nothing but roundings is left.
    const bool grows = rest > 1e-15 * norm;
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

// The part of a basis that the first eigenvectors in that order span, with a pair of complex ones' plane, and
// its last vector (Wu and Simon, SIAM J. Matrix Anal. Appl. 22 (2000) 602).
Krylov WithFirst(const Krylov& krylov, const Eigenpairs& pairs, const std::vector<Index>& order) {
  const Index size = krylov.hessenberg.cols();
  const Index most = size / 3;
  MatrixXd kept(size, most + 1);
  Index count = 0;
  const auto keep = [&](VectorXd column) {
    const double norm = column.norm();
    for (int pass = 0; pass < 2; ++pass) {
      column -= kept.leftCols(count) * (kept.leftCols(count).transpose() * column);
    }
    // Vectors that lie close to others' span are made of roundings.
    if (column.norm() > 1e-8 * norm) kept.col(count++) = column.normalized();
  };
  for (const Index i : order) {
    if (count >= most) break;
    if (pairs.values(i).imag() < 0) continue;
    keep(pairs.vectors.col(i).real());
    if (pairs.values(i).imag() > 0) keep(pairs.vectors.col(i).imag());
  }
  kept.conservativeResize(Eigen::NoChange, count);
  Krylov restarted{MatrixXd(krylov.basis.rows(), count + 1), MatrixXd(count + 1, count)};
  restarted.basis.leftCols(count) = krylov.basis.leftCols(size) * kept;
  restarted.basis.col(count) = krylov.basis.col(size);
  restarted.hessenberg.topRows(count) = kept.transpose() * (krylov.hessenberg.topRows(size) * kept);
  restarted.hessenberg.row(count) = krylov.hessenberg.row(size) * kept;
  return restarted;
}

}  // namespace

double SpectralRadiusOf(const LinearMap& apply, Index lags, VectorXd start, bool positive,
                        Index basis) {
  const auto from_start = [&] {
    for (Index lag = 0; lag < lags; ++lag) start = apply(start).normalized();
    return KrylovFrom(start);
  };
  Krylov krylov = from_start();
  for (int restart = 0; restart < kRestarts; ++restart) {
    krylov = WithColumns(std::move(krylov), apply, basis);
    const Index size = krylov.hessenberg.cols();
    const Eigenpairs pairs = EigenpairsOf(MatrixXd(krylov.hessenberg.topRows(size)));
    std::vector<Index> order(static_cast<std::size_t>(size));
    std::iota(order.begin(), order.end(), Index(0));
    const auto height = [&](Index i) {
      const std::complex<double> value = pairs.values(i);
      return positive ? value.real() : std::abs(value);
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](Index i, Index j) { return height(i) > height(j); });
    const std::complex<double> value = pairs.values(order[0]);
    const Eigen::VectorXcd vector = pairs.vectors.col(order[0]);
    const double radius = std::abs(value);
    const double least = std::max(kEigenTolerance * radius, kRoundings * krylov.hessenberg.norm());
    const double residual =
        std::abs((krylov.hessenberg.row(size) * vector).value()) / vector.norm();
    if (residual > least) {
      krylov = WithFirst(krylov, pairs, order);
      continue;
    }
    // What restarts have left of the relation between operator and basis is seen on the vector itself.
    const Eigen::VectorXcd found = krylov.basis.leftCols(size) * vector;
    const VectorXd real = found.real(), imaginary = found.imag();
    const double rest = std::hypot(
        (apply(real) - value.real() * real + value.imag() * imaginary).norm(),
        value.imag() == 0
            ? 0
            : (apply(imaginary) - value.imag() * real - value.real() * imaginary).norm());
    if (rest <= kSlack * least * found.norm()) return radius;
    // A pair of complex ones spans the plane that their sum's images lie in.
    start = real + imaginary;
    krylov = from_start();
  }
  throw NotSettled("the growth", kRestarts);
}

VectorXd FixedPoint(const LinearMap& apply, const VectorXd& constant, Index lags, Index basis,
                    double tolerance, const VectorXd& start) {
  VectorXd x = VectorXd::Zero(constant.size());
  VectorXd residual = constant;
  if (start.size() == constant.size() && start.allFinite()) {
    x = start;
    residual += apply(x) - x;
  }
  double last = kInfinity, norm = 0;
  int slow = 0;
  for (int restart = 0; restart < kRestarts; ++restart) {
    const double size = residual.norm();
    if (!std::isfinite(size)) return VectorXd::Constant(x.size(), kNaN);
    const auto least = [&](double solution) {
      return std::max(tolerance * constant.norm(), 10 * kRoundings * solution);
    };
    slow = size > last / 2 ? slow + 1 : 0;
    const double stalled =
        slow < kSlowRestarts ? kStalled : std::max(kStalled, 10 * kRoundings * norm);
    if (size <= least(x.norm()) || (slow > 0 && size <= stalled * x.norm())) return x;
    last = size;
    // |(1 - hessenberg) y - size e_0| is least: rotations of neighbouring rows leave a triangle.
    MatrixXd triangle;
    VectorXd right = VectorXd::Constant(1, size);
    std::vector<Eigen::JacobiRotation<double>> rotations;
    VectorXd y;
    const Krylov krylov =
        WithColumns(KrylovFrom(residual), apply, basis, [&](const Krylov& now, Index columns) {
          const Index k = columns - 1;
          VectorXd column = -now.hessenberg.col(k).head(columns + 1);
          column(k) += 1;
          for (Index i = 0; i < k; ++i) {
            column.applyOnTheLeft(i, i + 1, rotations[static_cast<std::size_t>(i)].adjoint());
          }
          rotations.emplace_back().makeGivens(column(k), column(k + 1));
          column.applyOnTheLeft(k, k + 1, rotations.back().adjoint());
          // Where 1 is an eigenvalue to the last bit the solution is as large as roundings leave one.
          if (column(k) == 0) column(k) = std::numeric_limits<double>::epsilon();
          right.conservativeResize(columns + 1);
          right(columns) = 0;
          right.applyOnTheLeft(k, k + 1, rotations.back().adjoint());
          triangle.conservativeResize(columns, columns);
          triangle.row(k).setZero();
          triangle.col(k) = column.head(columns);
          y = triangle.triangularView<Eigen::Upper>().solve(right.head(columns));
          return std::abs(right(columns)) <= least(y.norm());
        });
    norm = krylov.hessenberg.norm();
    x += krylov.basis.leftCols(y.size()) * y;
    for (Index i = 0; i < lags; ++i) x = apply(x) + constant;
    residual = constant + apply(x) - x;
  }
  throw NotSettled("the moments", kRestarts);
}

}  // namespace batchless::analysis
