// p(z) = z^n A(z) + x B(z) of a rule that is given by its coefficients, and an exact count of its
// roots outside a circle for a whole interval of rates at once.
//
//   f = z^n A(z),  g = x B(z),  u = z - 1;  A and B in powers of z and of u, x in [x_low, x_high]
//
// Count. The half circle |z| = r, 0 <= theta <= pi, is divided into arcs until each of them proves
// that no p(z) of the interval vanishes on it, in one of three ways:
//
//   f dominates      |f| > x_high |B| all along the arc
//   g dominates      |f| < x_low |B|
//   phases differ    arg f - arg g stays off pi
//
// A and B are known along an arc from their Taylor series at its centre z0: |A(z) - A(z0)| is at most
// sum_k |A_k| h^k for |z - z0| <= h, and log A(z)/A(z0) is its first-order term but for the remainder
// of Counter::Deviation. The turns of arg p over the arcs add up to pi times the number of
// roots inside the circle, for every rate of the interval.
//
// Rounding. Horner's scheme of degree P in complex arithmetic errs by at most kHornerUnits (P + 1)
// epsilon times the sum of its terms' sizes: 4 P roundings of its steps, 4 P of the point, whose own
// error is at most four units in the last place, and one of each coefficient, with a factor of two to
// spare. Logarithms and angles err by kAngleUnits epsilon times the sum of their terms' sizes. A count
// in which any of the three proofs does not hold by more than that is not `clear`.
//
// Source: this project; the argument principle and Rouche's theorem.
#pragma once

#include <algorithm>
#include <boost/math/constants/constants.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "batchless/analysis/rule.h"
#include "outside_count.h"
#include "scalar_lanes.h"

namespace batchless::analysis {

inline constexpr int kHornerUnits = 16;
inline constexpr int kAngleUnits = 16;

/// A complex number of any Real; std::complex is for the built-in ones alone.
template <class Real>
struct ComplexOf {
  Real re{0}, im{0};

  friend ComplexOf operator+(const ComplexOf& a, const ComplexOf& b) {
    return {a.re + b.re, a.im + b.im};
  }
  friend ComplexOf operator-(const ComplexOf& a, const ComplexOf& b) {
    return {a.re - b.re, a.im - b.im};
  }
  friend ComplexOf operator*(const ComplexOf& a, const ComplexOf& b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  friend ComplexOf operator/(const ComplexOf& a, const ComplexOf& b) {
    const Real n = b.re * b.re + b.im * b.im;
    return {(a.re * b.re + a.im * b.im) / n, (a.im * b.re - a.re * b.im) / n};
  }
};

template <class Real>
Real Modulus(const ComplexOf<Real>& z) {
  using std::sqrt;
  return sqrt(z.re * z.re + z.im * z.im);
}
template <class Real>
Real Argument(const ComplexOf<Real>& z) {
  using std::atan2;
  return atan2(z.im, z.re);
}

/// A point of a circle: log z = s + i theta, and z and u = z - 1, each right to a few roundings.
template <class Real>
struct CirclePoint {
  Real s, theta;
  ComplexOf<Real> z, u;
};

template <class Real>
CirclePoint<Real> PointAt(const Real& s, const Real& theta) {
  using std::cos;
  using std::exp;
  using std::expm1;
  using std::sin;
  const Real r = exp(s);
  const Real half = theta / 2;
  const Real sh = sin(half), ch = cos(half);
  // The real axis is met exactly.
  const bool left = theta >= boost::math::constants::pi<Real>();
  const Real sine = left ? Real(0) : Real(2 * sh * ch);
  const Real versine = left ? Real(2) : Real(2 * sh * sh);
  return {s, theta, {Real(r * (1 - versine)), r * sine}, {Real(expm1(s) - r * versine), r * sine}};
}

/// A real polynomial in powers of z and of u, constant terms first.
template <class Real>
struct Polynomial {
  std::vector<Real> in_z, in_u;

  std::size_t degree() const { return in_z.size() - 1; }
};

/// Taylor series at a point, with the error of its constant term.
template <class Real>
struct TaylorSeries {
  std::vector<ComplexOf<Real>> terms;
  Real noise{0};
  Real modulus{0};  ///< of the variable of the basis
};

/// The first `count` terms of the series at `at`, in the basis with the smaller rounding error.
template <class Real>
TaylorSeries<Real> Expand(const Polynomial<Real>& p, const CirclePoint<Real>& at,
                          std::size_t count) {
  const auto size = [](const std::vector<Real>& c, const Real& modulus) {
    using std::abs;
    Real sum = 0;
    for (std::size_t k = c.size(); k-- > 0;) sum = sum * modulus + abs(c[k]);
    return sum;
  };
  const Real size_z = size(p.in_z, Modulus(at.z)), size_u = size(p.in_u, Modulus(at.u));
  const bool by_u = size_u < size_z;
  const ComplexOf<Real>& v = by_u ? at.u : at.z;
  const std::vector<Real>& c = by_u ? p.in_u : p.in_z;
  TaylorSeries<Real> series;
  series.noise = Real(kHornerUnits * static_cast<int>(c.size())) *
                 std::numeric_limits<Real>::epsilon() * (by_u ? size_u : size_z);
  series.modulus = Modulus(v);
  std::vector<ComplexOf<Real>>& t = series.terms;
  t.resize(c.size());
  for (std::size_t k = 0; k < c.size(); ++k) t[k] = {c[k], Real(0)};
  const std::size_t wanted = count < c.size() ? count : c.size();
  for (std::size_t k = 0; k < wanted; ++k) {
    for (std::size_t j = c.size() - 1; j-- > k;) t[j] = t[j] + t[j + 1] * v;
  }
  t.resize(wanted);
  return series;
}

/// p(z) without its rate. Common factors of z are divided out.
template <class Real>
struct LinearPolynomial {
  Real n{0};
  Polynomial<Real> a, b;

  std::size_t degree() const { return static_cast<std::size_t>(n) + a.degree(); }
};

/// The rule has to be valid. The root of A at 1 is exact.
template <class Real>
LinearPolynomial<Real> MakeLinearPolynomial(const RuleSpec& spec, Delay delay);

/// Coefficients of z^n A + x B, constant term first.
template <class Real>
std::vector<Real> DenseCoefficients(const LinearPolynomial<Real>& p, const Real& rate) {
  std::vector<Real> c(p.degree() + 1, Real(0));
  std::copy(p.a.in_z.rbegin(), p.a.in_z.rend(), c.rbegin());
  for (std::size_t k = 0; k < p.b.in_z.size(); ++k) c[k] += rate * p.b.in_z[k];
  return c;
}

/// G = log(-f / g) and its derivative by log z at a point.
template <class Real>
struct LogRatio {
  Real log_size;  ///< log |f / g|
  Real phase;     ///< arg f - arg g - pi, brought to its nearest whole turn
  ComplexOf<Real> slope;
  Real noise;  ///< of both
};
template <class Real>
LogRatio<Real> EvaluateLogRatio(const LinearPolynomial<Real>& p, const Real& log_rate,
                                const CirclePoint<Real>& at);

/// The same for every rate of an interval.
template <class Real>
struct LinearCount : OutsideCount {
  /// Where on the circle a root looks nearest, and the rate for which it does.
  Real near_theta{0};
  double near_rate = 0;
};

/// Roots of z^n A + x B with log |z| > s, for x in [low, high].
template <class Real>
LinearCount<Real> CountOutside(const LinearPolynomial<Real>& p, double low, double high,
                               const Real& s);

}  // namespace batchless::analysis
