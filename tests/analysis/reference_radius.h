// Reference spectral radius in 100 digits: the polynomials of the literal update equations,
// expanded in powers of u = z - 1 and solved as eigenvalues of a companion matrix (Eigen). Shares no
// formula with the library.
#pragma once

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <boost/multiprecision/eigen.hpp>
#include <vector>

#include "batchless/analysis/rule.h"
#include "polynomial.h"

namespace batchless::analysis::reference {

using Real = boost::multiprecision::number<boost::multiprecision::cpp_bin_float<100>,
                                           boost::multiprecision::et_off>;
using Polynomial = std::vector<Real>;  // constant term first

inline Polynomial Add(Polynomial a, const Polynomial& b) {
  a.resize(std::max(a.size(), b.size()), Real(0));
  for (std::size_t i = 0; i < b.size(); ++i) a[i] += b[i];
  return a;
}

inline Polynomial Scale(Polynomial a, const Real& by) {
  for (Real& c : a) c *= by;
  return a;
}

/// p of the update equations, in powers of u; factors of z are left in.
///   SC, LWPv:  z^D (z-1)(z-m) + x T (z-1) + x ((a+b) z - b m)
///   SC, LWPw:  z^{D+1} (z-1)(z-m) + x ((a+b) z - b m)((1+T) z - T)
inline Polynomial InPowersOfU(const RuleSpec& spec, double momentum, Delay delay,
                              const Real& rate) {
  const Real m = momentum;
  const auto k = ComputeCoefficients<Real>(spec, m, delay);
  const bool weight_form = spec.rule.prediction == Prediction::kWeight;
  const Polynomial z = {Real(1), Real(1)};
  Polynomial p = Multiply<Real>({Real(0), Real(1)}, {1 - m, Real(1)});
  for (Delay i = 0; i < delay + (weight_form ? 1 : 0); ++i) p = Multiply(p, z);
  // (a+b) z - b m and (1+T) z - T in u
  const Polynomial update = {k.a + k.b - k.b * m, k.a + k.b};
  Polynomial late = update;
  if (weight_form) {
    late = Multiply(update, {Real(1), 1 + k.horizon});
  } else {
    late = Add(late, {Real(0), k.horizon});
  }
  return Add(p, Scale(late, rate));
}

/// ln of the largest |1 + u| over the roots.
inline Real LogRadius(const RuleSpec& spec, double momentum, Delay delay, const Real& rate) {
  Polynomial p = InPowersOfU(spec, momentum, delay, rate);
  // Rescaling u so that the constant term is of the size of the leading one keeps tiny roots as
  // accurate as large ones.
  const auto degree = static_cast<Eigen::Index>(p.size() - 1);
  Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic> companion(degree, degree);
  companion.setZero();
  for (Eigen::Index i = 1; i < degree; ++i) companion(i, i - 1) = 1;
  for (Eigen::Index i = 0; i < degree; ++i) {
    companion(i, degree - 1) =
        -p[static_cast<std::size_t>(i)] / p[static_cast<std::size_t>(degree)];
  }
  const Eigen::EigenSolver<decltype(companion)> solver(companion, false);
  Real best = 0;
  bool first = true;
  for (Eigen::Index i = 0; i < degree; ++i) {
    const Real re = solver.eigenvalues()(i).real(), im = solver.eigenvalues()(i).imag();
    // |1 + u|^2 - 1, without losing a small u.
    const Real excess = 2 * re + re * re + im * im;
    if (first || excess > best) best = excess;
    first = false;
  }
  return best <= -1 ? Real(-1e6) : Real(log1p(best) / 2);
}

}  // namespace batchless::analysis::reference
