#include "batchless/analysis/worst_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

#include "batchless/analysis/argument.h"
#include "multiplier_search.h"
#include "not_finite.h"

namespace batchless::analysis {
namespace {

constexpr std::size_t kTaps = std::tuple_size_v<Multiplier>;

/// A complex function of tau in [-1, 1]: c0 + c1 tau + c2 tau^2 to within `rest`.
template <class Real>
struct Arc {
  ComplexOf<Real> c0, c1, c2;
  Real rest{0};

  static Real Size(const ComplexOf<Real>& c) { return std::abs(c.re) + std::abs(c.im); }
  Real size() const { return Size(c0) + Size(c1) + Size(c2); }
};

/// Sums and products err by a few roundings of their terms' sizes; twice that is allowed.
constexpr int kArcUnits = 16;

template <class Real>
Arc<Real> operator*(const Arc<Real>& a, const Arc<Real>& b) {
  Arc<Real> c;
  c.c0 = a.c0 * b.c0;
  c.c1 = a.c0 * b.c1 + a.c1 * b.c0;
  c.c2 = a.c0 * b.c2 + a.c1 * b.c1 + a.c2 * b.c0;
  const Real size_a = a.size(), size_b = b.size();
  const Real unit = kArcUnits * std::numeric_limits<Real>::epsilon();
  c.rest = (Arc<Real>::Size(a.c1) * Arc<Real>::Size(b.c2) +
            Arc<Real>::Size(a.c2) * (Arc<Real>::Size(b.c1) + Arc<Real>::Size(b.c2)) +
            a.rest * (size_b + b.rest) + b.rest * size_a) *
               (1 + unit) +
           unit * size_a * size_b;
  return c;
}

/// a + factor b.
template <class Real>
Arc<Real> Sum(const Arc<Real>& a, const Real& factor, const Arc<Real>& b) {
  const auto add = [&](const ComplexOf<Real>& x, const ComplexOf<Real>& y) {
    return ComplexOf<Real>{x.re + factor * y.re, x.im + factor * y.im};
  };
  const Real unit = kArcUnits * std::numeric_limits<Real>::epsilon();
  return {add(a.c0, b.c0), add(a.c1, b.c1), add(a.c2, b.c2),
          (a.rest + factor * b.rest) * (1 + unit) + unit * (a.size() + factor * b.size())};
}

template <class Real>
Arc<Real> Conjugate(const Arc<Real>& a) {
  const auto conj = [](const ComplexOf<Real>& x) { return ComplexOf<Real>{x.re, -x.im}; };
  return {conj(a.c0), conj(a.c1), conj(a.c2), a.rest};
}

template <class Real>
class PositivityProof {
 public:
  PositivityProof(LinearPolynomial<Real> p, double low, double rate, double log_rate,
                  const Multiplier& taps)
      : p_(std::move(p)), low_(low), rate_(rate), s_(log_rate) {
    for (std::size_t i = 0; i < kTaps; ++i) taps_[i] = Real(taps[i]) * std::exp(-Lag(i) * s_);
  }

  bool Run() const {
    const Real pi = boost::math::constants::pi<Real>();
    std::vector<std::pair<Real, Real>> open = {{Real(0), pi}};
    for (int arcs = 0; !open.empty(); ++arcs) {
      const auto [from, to] = open.back();
      open.pop_back();
      const Real middle = (from + to) / 2;
      const Sign sign = Look(from, to);
      if (sign == Sign::kPositive) continue;
      if (sign == Sign::kNegative || arcs > kMaxArcs) return false;
      if (!(from < middle && middle < to)) return false;
      open.emplace_back(from, middle);
      open.emplace_back(middle, to);
    }
    return true;
  }

 private:
  static constexpr int kMaxArcs = 50'000;
  enum class Sign { kPositive, kNegative, kUnknown };

  /// The polynomial along an arc about `at` of half the angle h.
  static Arc<Real> Along(const Polynomial<Real>& c, const CirclePoint<Real>& at, const Real& h) {
    const TaylorSeries<Real> series = Expand(c, at, c.in_z.size());
    const std::vector<ComplexOf<Real>>& t = series.terms;
    const Real unit = kArcUnits * std::numeric_limits<Real>::epsilon();
    const Real r = Modulus(at.z) * (1 + unit);
    // z - z0 = z0 (i phi - phi^2 / 2 + R), |R| <= phi^3 / 6; its square is z0^2 (-phi^2 + R), |R| <=
    // 5 phi^3 / 3; |z - z0| <= r phi.
    Arc<Real> arc;
    arc.c0 = t[0];
    arc.rest = series.noise;
    if (t.size() > 1) {
      const ComplexOf<Real> a = at.z * t[1];
      arc.c1 = {-a.im * h, a.re * h};
      arc.c2 = {-a.re * h * h / 2, -a.im * h * h / 2};
      arc.rest += Modulus(a) * h * h * h / 6;
      // Terms of the series err by P / |v| each against the one before.
      const Real worse = Real(static_cast<double>(t.size())) * r * h / series.modulus;
      arc.rest += series.noise * worse * (1 + worse);
    }
    if (t.size() > 2) {
      const ComplexOf<Real> b = at.z * at.z * t[2];
      arc.c2 = {arc.c2.re - b.re * h * h, arc.c2.im - b.im * h * h};
      arc.rest += Modulus(b) * h * h * (h * 5 / 3 + unit);
    }
    Real higher = 0;
    for (std::size_t k = t.size(); k-- > 3;) higher = (higher + Modulus(t[k])) * r * h;
    arc.rest += higher * r * h * r * h;
    arc.rest = arc.rest * (1 + unit) + unit * arc.size();
    return arc;
  }

  /// size e^{i k (w + h tau)}.
  static Arc<Real> Turning(const Real& size, const Real& k, const Real& w, const Real& h) {
    const Real step = std::abs(k) * h;
    const ComplexOf<Real> e = {size * std::cos(k * w), size * std::sin(k * w)};
    const Real kh = k * h;
    const Real unit = kArcUnits * std::numeric_limits<Real>::epsilon();
    Arc<Real> arc{e, {-e.im * kh, e.re * kh}, {-e.re * kh * kh / 2, -e.im * kh * kh / 2}, Real(0)};
    arc.rest = std::abs(size) * (step * step * step / 6 +
                                 unit * (1 + std::abs(k) * (w + h)) * (1 + step + step * step));
    return arc;
  }

  /// 1 - sum_j theta_j rho^-j e^{-i j w}. The powers by repeated products err by a few j epsilon.
  Arc<Real> MultiplierAlong(const Real& w, const Real& h) const {
    const ComplexOf<Real> e = {std::cos(w), std::sin(w)};
    Arc<Real> arc{{Real(1), Real(0)}, {}, {}, Real(0)};
    ComplexOf<Real> power = e;
    Real size = 1;
    for (int j = 1; j <= kMultiplierTaps; ++j, power = power * e) {
      const Real before = taps_[static_cast<std::size_t>(kMultiplierTaps - j)];
      const Real after = taps_[static_cast<std::size_t>(kMultiplierTaps + j - 1)];
      // after e^{-i j w} + before e^{i j w}.
      const ComplexOf<Real> value = {(after + before) * power.re, (before - after) * power.im};
      const ComplexOf<Real> turned = {(after + before) * power.im, (after - before) * power.re};
      const Real jh = j * h;
      arc.c0 = arc.c0 - value;
      arc.c1 = {arc.c1.re + turned.re * jh, arc.c1.im + turned.im * jh};
      arc.c2 = {arc.c2.re + value.re * jh * jh / 2, arc.c2.im + value.im * jh * jh / 2};
      arc.rest += (after + before) * jh * jh * jh / 6;
      size += (after + before) * (1 + j) * (1 + jh + jh * jh);
    }
    arc.rest += kArcUnits * std::numeric_limits<Real>::epsilon() * (size + arc.rest);
    return arc;
  }

  Sign Look(const Real& from, const Real& to) const {
    const Real epsilon = std::numeric_limits<Real>::epsilon();
    const Real w = (from + to) / 2;
    // Both ends are as exact as pi is.
    const Real h = ((to - from) / 2 + kAngleUnits * epsilon * to) * (1 + kAngleUnits * epsilon);
    const CirclePoint<Real> at = PointAt<Real>(s_, w);
    const Real turn = p_.n * s_;
    Arc<Real> power = Turning(Real(std::exp(turn)), p_.n, w, h);
    power.rest += kArcUnits * epsilon * power.size() * std::abs(turn);
    const Arc<Real> f = power * Along(p_.a, at, h);
    const Arc<Real> b = Along(p_.b, at, h);
    const Arc<Real> t = MultiplierAlong(w, h) * (Sum(f, rate_, b) * Conjugate(Sum(f, low_, b)));
    if (t.c0.re + t.rest < 0 && h < 1e-3) return Sign::kNegative;
    // Least over [-1, 1] of the quadratic.
    Real least = t.c0.re - std::abs(t.c1.re) + std::min(t.c2.re, Real(0));
    const Real vertex = -t.c1.re / (2 * t.c2.re);
    if (t.c2.re > 0) {
      least = std::abs(vertex) < 1 ? t.c0.re - t.c1.re * t.c1.re / (4 * t.c2.re)
                                   : t.c0.re - std::abs(t.c1.re) + t.c2.re;
    }
    return least - t.rest - kArcUnits * epsilon * t.size() > 0 ? Sign::kPositive : Sign::kUnknown;
  }

  LinearPolynomial<Real> p_;
  Real low_, rate_, s_;
  std::array<Real, kTaps> taps_{};
};

template <class Real>
bool Proves(const WorstCasePoint& point, double log_rate, const Multiplier& taps) {
  return PositivityProof<Real>(PolynomialOf<Real>(point), LowRate(point), point.rate, log_rate,
                               taps)
      .Run();
}

/// Whether the certificate of the radius leaves it below exp(log_rate).
bool IsBelow(const SpectralRadius& radius, double log_rate) {
  return std::nextafter(radius.log_radius + radius.log_radius_error, 1.0) < log_rate;
}

/// Whether all roots at the least curvature are inside the circle.
bool IsInside(const WorstCasePoint& point, double log_rate) {
  const double low = LowRate(point);
  if (!point.rule.is_linear()) return IsBelow(RadiusAt(point, low), log_rate);
  const auto inside = [&]<class Real>(Real s) {
    return CountOutside(MakeLinearPolynomial<Real>(point.rule, point.delay), low, low, s)
        .all_inside();
  };
  return inside(log_rate) || inside(static_cast<long double>(log_rate));
}

/// The worst quadratic. Where the certificate leaves nothing between itself and the least curvature's,
/// it is that.
SpectralRadius WorstQuadratic(const WorstCasePoint& point, const SpectralRadius& low,
                              double log_rate) {
  if (log_rate <= low.log_radius * (1 - kWorstCaseTolerance)) return low;
  return WorstSpectralRadius(point.rule, point.momentum, point.delay, point.rate, point.condition);
}

}  // namespace

void Validate(const WorstCasePoint& point) {
  Validate(point.rule, point.momentum);
  CheckInteger("delay", point.delay, 0, kMaxWorstCaseDelay);
  CheckNumber("rate", point.rate, kMinWorstCaseRate, kMaxRate);
  CheckNumber("condition", point.condition, 1, kMaxWorstCaseCondition);
}

bool IsCertificate(const WorstCasePoint& point, double log_rate, const Multiplier& taps) {
  if (!(log_rate < 0 && IsInside(point, log_rate))) return false;
  long double first = 0, second = 0;
  for (std::size_t i = 0; i < kTaps; ++i) {
    if (!(taps[i] >= 0)) return false;
    first += taps[i];
    second += taps[i] * std::exp(-2.0L * Lag(i) * static_cast<long double>(log_rate));
  }
  constexpr long double kRounded = 1 + 64 * std::numeric_limits<long double>::epsilon();
  if (!(first * kRounded <= 1 && second * kRounded <= 1)) return false;
  return Proves<double>(point, log_rate, taps) || Proves<long double>(point, log_rate, taps);
}

WorstCase CertifyWorstCase(const WorstCasePoint& point) {
  Validate(point);
  WorstCase worst;
  // One curvature makes a quadratic, which a rule may end at once: a rate for which there is no multiplier.
  if (point.condition == 1) {
    const SpectralRadius only = RadiusAt(point, point.rate);
    if (only.radius == 0 && only.log_radius == -kInfinity) return {0, 0, -kInfinity, {}, only};
  }
  const SpectralRadius low = RadiusAt(point, LowRate(point));
  for (const double tolerance : {kWorstCaseTolerance / 4, 1e-5, 1e-3}) {
    const FoundMultiplier found = FindMultiplier(point, low, tolerance);
    if (std::isnan(found.log_rate)) break;
    if (!IsCertificate(point, found.log_rate, found.taps)) continue;
    worst.log_rate = found.log_rate;
    worst.taps = found.taps;
    worst.rate = std::nextafter(std::exp(found.log_rate), 1.0);
    worst.half_life_updates = -std::numbers::ln2 / found.log_rate;
    break;
  }
  worst.quadratic = WorstQuadratic(point, low, worst.log_rate);
  return worst;
}

}  // namespace batchless::analysis
