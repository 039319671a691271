#include "linear_polynomial.h"

#include <algorithm>
#include <cmath>

#include "powers_of_u.h"

namespace batchless::analysis {
namespace {

// Functions of double and long double; those of 50 digits are found by their type.
using std::abs;
using std::cos;
using std::exp;
using std::floor;
using std::log;
using std::sin;

// Arcs that a count may take; one that meets a root on its circle would go on for ever.
constexpr int kMaxArcs = 20'000;

/// Distance of an angle from its nearest whole turn, signed.
template <class Real>
Real FromWholeTurn(const Real& angle) {
  const Real turn = 2 * boost::math::constants::pi<Real>();
  return angle - turn * floor(angle / turn + Real(0.5));
}

template <class Real>
Polynomial<Real> Rounded(std::vector<FiftyDigits> c) {
  Polynomial<Real> p;
  for (const FiftyDigits& value : c) p.in_z.push_back(static_cast<Real>(value));
  // Powers of u = z - 1 from powers of z.
  for (std::size_t k = 0; k < c.size(); ++k) {
    for (std::size_t j = c.size() - 1; j-- > k;) c[j] += c[j + 1];
  }
  for (const FiftyDigits& value : c) p.in_u.push_back(static_cast<Real>(value));
  return p;
}

/// What an arc proves.
enum class Proof { kNone, kF, kG, kPhases };

template <class Real>
class Counter {
 public:
  Counter(const LinearPolynomial<Real>& p, double low, double high, const Real& s)
      : p_(p), s_(s), turn_(p.n * s) {
    log_low_ = log(Real(low));
    log_high_ = log(Real(high));
  }

  LinearCount<Real> Run() {
    const Real& pi = boost::math::constants::pi<Real>();
    LinearCount<Real> count;
    before_ = EndAt(Real(0));
    struct Arc {
      Real from, to;
    };
    std::vector<Arc> open = {{Real(0), pi}};
    int arcs = 0;
    while (!open.empty()) {
      const Arc arc = open.back();
      open.pop_back();
      const Proof proof = Prove(arc.from, arc.to, count);
      if (proof == Proof::kNone) {
        const Real middle = (arc.from + arc.to) / 2;
        if (++arcs > kMaxArcs || !(arc.from < middle && middle < arc.to)) return count;
        // The arc with the smaller angles comes first.
        open.push_back({middle, arc.to});
        open.push_back({arc.from, middle});
        continue;
      }
      Advance(arc.to, proof);
    }
    const Real turns = turned_ / pi;
    const Real inside = floor(turns + Real(0.5));
    // The angles add up to a whole number of half turns but for rounding.
    if (!(abs(turns - inside) < Real(0.01))) return count;
    count.outside = static_cast<int>(p_.degree()) - static_cast<int>(inside);
    count.clear = true;
    return count;
  }

 private:
  struct End {
    Real theta;
    ComplexOf<Real> a, b;
  };

  End EndAt(const Real& theta) const {
    const CirclePoint<Real> at = PointAt<Real>(s_, theta);
    return {theta, Expand(p_.a, at, 1).terms[0], Expand(p_.b, at, 1).terms[0]};
  }

  Proof Prove(const Real& from, const Real& to, LinearCount<Real>& count) {
    const Real& pi = boost::math::constants::pi<Real>();
    const Real epsilon = std::numeric_limits<Real>::epsilon();
    const Real unit = Real(kAngleUnits) * epsilon;
    const Real theta = (from + to) / 2;
    const CirclePoint<Real> at = PointAt<Real>(s_, theta);
    // Both ends are as exact as pi is.
    const Real half = (to - from) / 2 + unit * to;
    const Real h = exp(s_) * half * (1 + unit);
    const TaylorSeries<Real> a = Expand(p_.a, at, p_.a.in_z.size());
    const TaylorSeries<Real> b = Expand(p_.b, at, p_.b.in_z.size());
    const Real size_a = Modulus(a.terms[0]), size_b = Modulus(b.terms[0]);
    const Range range_a = RangeOf(a, at, half, h), range_b = RangeOf(b, at, half, h);
    const Real infinity = std::numeric_limits<Real>::infinity();
    const auto log_of = [&](const Real& size) { return size > 0 ? Real(log(size)) : -infinity; };
    const Real log_a = log_of(size_a), log_b = log_of(size_b);
    if (range_a.small && range_b.small) {
      const ComplexOf<Real> slope = range_a.slope - range_b.slope;
      const Real rest = range_a.rest + range_b.rest +
                        unit * (1 + abs(turn_) + abs(log_a) + abs(log_b) + abs(log_low_) +
                                abs(log_high_) + p_.n * theta + 4 * pi);
      const Real ratio = turn_ + log_a - log_b;
      const Real spread = abs(slope.im) * half + rest;
      if (ratio - spread > log_high_) return Proof::kF;
      if (ratio + spread < log_low_) return Proof::kG;
      const Real angle = p_.n * theta + Argument(a.terms[0]) - Argument(b.terms[0]);
      const Real distance = abs(FromWholeTurn<Real>(angle - pi));
      Note(slope, ratio, at, distance, count);
      return distance > abs(p_.n + slope.re) * half + rest ? Proof::kPhases : Proof::kNone;
    }
    const auto slack = [&](const Real& x, const Real& y) {
      return unit * (1 + abs(turn_) + abs(x) + abs(y) + abs(log_low_) + abs(log_high_));
    };
    // Near a zero of the one the other may still dominate.
    const Real high_a = log_of(size_a + range_a.off), high_b = log_of(size_b + range_b.off);
    const Real low_a = log_of(size_a - range_a.off), low_b = log_of(size_b - range_b.off);
    if (low_a > -infinity && turn_ + low_a > log_high_ + high_b + slack(low_a, high_b)) {
      return Proof::kF;
    }
    if (low_b > -infinity && turn_ + high_a < log_low_ + low_b - slack(high_a, low_b)) {
      return Proof::kG;
    }
    return Proof::kNone;
  }

  /// What a term does along an arc.
  struct Range {
    Real off;  ///< largest |A(z) - A(z0)|, the error of A(z0) with it
    bool small = false;
    /// Where small: log A(z)/A(z0) = i slope phi to within `rest`, phi the angle from the centre.
    ComplexOf<Real> slope;
    Real rest;
  };

  static Range RangeOf(const TaylorSeries<Real>& series, const CirclePoint<Real>& at,
                       const Real& half, const Real& h) {
    const std::vector<ComplexOf<Real>>& t = series.terms;
    const Real up = 1 + Real(kAngleUnits) * std::numeric_limits<Real>::epsilon();
    Real higher = 0;
    for (std::size_t k = t.size(); k-- > 2;) higher = (higher + Modulus(t[k])) * h;
    higher = higher * h * up;
    const Real first = t.size() > 1 ? Real(Modulus(t[1]) * h * up) : Real(0);
    Range range;
    range.off = higher + first + series.noise;
    const Real size = Modulus(t[0]);
    if (!(2 * range.off < size)) return range;
    range.small = true;
    // log(1 + e) is e to within |e|^2 / (2 - 2 |e|), and z - z0 is i phi z0 to within |z0| phi^2 / 2.
    // The first derivative errs by P / |v| times what the value errs by.
    const Real e = range.off / size;
    const Real of_slope = Real(static_cast<double>(t.size())) * series.noise * h / series.modulus;
    range.rest =
        (e * e / (2 - 2 * e) + (higher + series.noise + of_slope + first * half) / size) * up;
    if (t.size() > 1) range.slope = at.z * t[1] / t[0];
    return range;
  }

  /// Remembers the place that is nearest to a root in log z, to first order.
  void Note(const ComplexOf<Real>& off_slope, const Real& log_rate, const CirclePoint<Real>& at,
            const Real& distance, LinearCount<Real>& count) {
    const Real inside = std::min(std::max(log_rate, log_low_), log_high_);
    const Real off = log_rate - inside;
    const ComplexOf<Real> slope = {p_.n + off_slope.re, off_slope.im};
    const Real measure =
        (off * off + distance * distance) / (slope.re * slope.re + slope.im * slope.im);
    if (noted_ && !(measure < nearest_)) return;
    noted_ = true;
    nearest_ = measure;
    count.near_theta = at.theta;
    count.near_rate = static_cast<double>(Real(exp(inside)));
  }

  /// Adds what arg p turns by from the last end to this one, at the highest rate.
  void Advance(const Real& to, Proof proof) {
    const End now = EndAt(to);
    const bool by_g = proof == Proof::kG;
    // arg p is that of the dominating term and of 1 + the ratio of the other to it.
    const auto rest = [&](const End& end) {
      const Real sign = by_g ? Real(-1) : Real(1);
      const Real size = exp(sign * (log_high_ + log(Modulus(end.b)) - turn_ - log(Modulus(end.a))));
      const Real angle = sign * (Argument(end.b) - Argument(end.a) - p_.n * end.theta);
      return Argument(ComplexOf<Real>{Real(1 + size * cos(angle)), Real(size * sin(angle))});
    };
    const Real own = by_g ? Real(Argument(now.b / before_.b))
                          : Real(p_.n * (now.theta - before_.theta) + Argument(now.a / before_.a));
    turned_ += own + rest(now) - rest(before_);
    before_ = now;
  }

  const LinearPolynomial<Real>& p_;
  Real s_, turn_, log_low_{0}, log_high_{0};
  End before_{};
  Real turned_{0}, nearest_{0};
  bool noted_ = false;
};

}  // namespace

template <class Real>
LinearPolynomial<Real> MakeLinearPolynomial(const RuleSpec& spec, Delay delay) {
  // The root at 1 is divided out and multiplied in again, which leaves no remainder.
  std::vector<FiftyDigits> quotient;
  FiftyDigits carried = 0;
  for (std::size_t k = 0; k + 1 < spec.options.denominator.size(); ++k) {
    carried += spec.options.denominator[k];
    quotient.push_back(carried);
  }
  std::reverse(quotient.begin(), quotient.end());
  auto a = Multiply(quotient, std::vector<FiftyDigits>{-1, 1});
  std::vector<FiftyDigits> b(spec.options.numerator.rbegin(), spec.options.numerator.rend());
  while (b.size() > 1 && b.back() == 0) b.pop_back();

  double n = static_cast<double>(delay);
  while (a.front() == 0) {
    a.erase(a.begin());
    n += 1;
  }
  while (n > 0 && b.size() > 1 && b.front() == 0) {
    b.erase(b.begin());
    n -= 1;
  }
  return {Real(n), Rounded<Real>(a), Rounded<Real>(b)};
}

template <class Real>
LogRatio<Real> EvaluateLogRatio(const LinearPolynomial<Real>& p, const Real& log_rate,
                                const CirclePoint<Real>& at) {
  const TaylorSeries<Real> a = Expand(p.a, at, 2), b = Expand(p.b, at, 2);
  const Real size_a = Modulus(a.terms[0]), size_b = Modulus(b.terms[0]);
  const Real log_a = log(size_a), log_b = log(size_b);
  const Real turns = p.n * at.theta;
  LogRatio<Real> g;
  g.log_size = p.n * at.s + log_a - log_b - log_rate;
  g.phase = FromWholeTurn<Real>(turns + Argument(a.terms[0]) - Argument(b.terms[0]) -
                                boost::math::constants::pi<Real>());
  g.slope = {p.n, Real(0)};
  if (a.terms.size() > 1) g.slope = g.slope + at.z * a.terms[1] / a.terms[0];
  if (b.terms.size() > 1) g.slope = g.slope - at.z * b.terms[1] / b.terms[0];
  g.noise = a.noise / size_a + b.noise / size_b +
            std::numeric_limits<Real>::epsilon() *
                (abs(p.n * at.s) + abs(log_a) + abs(log_b) + abs(log_rate) + turns + 4);
  return g;
}

template <class Real>
LinearCount<Real> CountOutside(const LinearPolynomial<Real>& p, double low, double high,
                               const Real& s) {
  return Counter<Real>(p, low, high, s).Run();
}

template LinearPolynomial<double> MakeLinearPolynomial(const RuleSpec&, Delay);
template LinearPolynomial<long double> MakeLinearPolynomial(const RuleSpec&, Delay);
template LinearPolynomial<FiftyDigits> MakeLinearPolynomial(const RuleSpec&, Delay);
template LogRatio<double> EvaluateLogRatio(const LinearPolynomial<double>&, const double&,
                                           const CirclePoint<double>&);
template LogRatio<long double> EvaluateLogRatio(const LinearPolynomial<long double>&,
                                                const long double&,
                                                const CirclePoint<long double>&);
template LogRatio<FiftyDigits> EvaluateLogRatio(const LinearPolynomial<FiftyDigits>&,
                                                const FiftyDigits&,
                                                const CirclePoint<FiftyDigits>&);
template LinearCount<double> CountOutside(const LinearPolynomial<double>&, double, double,
                                          const double&);
template LinearCount<long double> CountOutside(const LinearPolynomial<long double>&, double, double,
                                               const long double&);
template LinearCount<FiftyDigits> CountOutside(const LinearPolynomial<FiftyDigits>&, double, double,
                                               const FiftyDigits&);

}  // namespace batchless::analysis
