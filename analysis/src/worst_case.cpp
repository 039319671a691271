#include "batchless/analysis/worst_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/limit.h"
#include "linear_polynomial.h"
#include "linear_solver.h"
#include "point_solver.h"

namespace batchless::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kTaps = std::size_t{2} * kMultiplierTaps;

/// j of each tap.
constexpr int Lag(std::size_t tap) {
  const int at = static_cast<int>(tap) - kMultiplierTaps;
  return at < 0 ? at : at + 1;
}

/// p of the point's rule, its coefficients computed in Wide and rounded once.
template <class Real, class Wide>
LinearPolynomial<Real> PolynomialIn(const WorstCasePoint& point) {
  const auto p = MakeCharacteristic<Wide>(point.rule, point.momentum, point.delay);
  const auto both = [](const Wide& c0, const Wide& c1, const Wide& c2) {
    return Polynomial<Real>{{Real(c0 - c1 + c2), Real(c1 - 2 * c2), Real(c2)},
                            {Real(c0), Real(c1), Real(c2)}};
  };
  // A = u (u + 1 - m), B = (kappa + beta u) (1 + gamma u).
  return {Real(p.n), both(Wide(0), p.one_minus_momentum, Wide(1)),
          both(p.kappa, Wide(p.beta + p.kappa * p.gamma), Wide(p.beta * p.gamma))};
}

/// Coefficients to within half a unit in the last place, and a little. Free ones may cancel.
template <class Real>
LinearPolynomial<Real> PolynomialOf(const WorstCasePoint& point) {
  if (point.rule.is_linear()) return MakeLinearPolynomial<Real>(point.rule, point.delay);
  const bool may_cancel = point.rule.options.sc_a || point.rule.options.sc_b;
  if (may_cancel || std::numeric_limits<Real>::digits > std::numeric_limits<double>::digits) {
    return PolynomialIn<Real, FiftyDigits>(point);
  }
  return PolynomialIn<Real, long double>(point);
}

/// eta mu, rounded down: functions of a smaller mu are more.
double LowRate(const WorstCasePoint& point) {
  return std::nextafter(point.rate / point.condition, 0.0);
}

SpectralRadius RadiusAt(const WorstCasePoint& point, double rate) {
  return point.rule.is_linear()
             ? SolveLinearPoint(point.rule, point.delay, rate, nullptr, Climb::kWhereNeeded)
             : SolvePoint(point.rule, point.momentum, point.delay, rate);
}

double UpperBound(const SpectralRadius& radius) {
  return std::nextafter(radius.log_radius + radius.log_radius_error, 1.0);
}

/// Whether all roots at the least curvature are inside the circle.
bool IsInside(const WorstCasePoint& point, double log_rate) {
  const double low = LowRate(point);
  if (!point.rule.is_linear()) return UpperBound(RadiusAt(point, low)) < log_rate;
  const auto inside = [&]<class Real>(Real s) {
    const auto count =
        CountOutside(MakeLinearPolynomial<Real>(point.rule, point.delay), low, low, s);
    return count.clear && count.outside == 0;
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

WorstCase NothingCertified() {
  WorstCase worst;
  worst.rate = worst.half_life_updates = worst.log_rate = kNaN;
  return worst;
}

// ---- proof ----

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
      switch (Look(from, to)) {
        case Sign::kPositive:
          continue;
        case Sign::kNegative:
          return false;
        case Sign::kUnknown:
          break;
      }
      if (arcs > kMaxArcs || !(from < middle && middle < to)) return false;
      open.push_back({from, middle});
      open.push_back({middle, to});
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

// ---- search ----

/// The best taps for a rate, by the simplex method on the dual of
///
///   maximise t:   a_0(w) - sum_i y_i a_i(w) >= t for all w,   y >= 0,
///                 sum_i y_i first_i <= 1,   sum_i y_i second_i <= 1,
///
/// theta_j = y_j min(1, rho^(2 j)), which keeps every number at most 1: a_i(w) = rho^|j| cos(phi(w) -
/// j w), a_0 = cos phi, phi the phase of the quotient. Columns of the dual are frequencies, two
/// bounds and sixteen slacks. A frequency stays once it is known.
class MultiplierSearch {
 public:
  MultiplierSearch(const WorstCasePoint& point, double log_rate)
      : p_(PolynomialOf<double>(point)), low_(LowRate(point)), rate_(point.rate) {
    Move(log_rate);
    const int cells = kCells + 4 * static_cast<int>(p_.n);
    std::size_t before = Add(0);
    for (int k = 1; k <= cells; ++k) {
      const std::size_t now = Add(std::numbers::pi * k / cells);
      Fill(before, now, 40);
      before = now;
    }
  }

  /// The sign of the largest t and an estimate of it. Zero steps of the simplex method as a rule where
  /// the rate is near the last one.
  double Solve(double log_rate) {
    Move(log_rate);
    for (Frequency& f : frequencies_) Evaluate(f);
    if (!Restore()) Start();
    double t = 0;
    for (int round = 0; round < kRounds; ++round) {
      Simplex();
      t = y_[kTaps];
      const double least = Exchange();
      // Below zero on the frequencies that are known: below zero. Above it at all minima: above it.
      if (t <= 0) return t;
      if (t + least > t / 2) return t + least;
    }
    return -kTiny;
  }

  Multiplier Taps() const {
    Multiplier taps{};
    double first = 0, second = 0;
    for (std::size_t i = 0; i < kTaps; ++i) {
      taps[i] = std::max(y_[i], 0.0) * first_[i];
      first += taps[i];
      second += std::max(y_[i], 0.0) * second_[i];
    }
    // Room for rounding.
    const double scale = (1 - kRoom) / std::max({first, second, 1.0});
    for (double& tap : taps) tap *= scale;
    return taps;
  }

 private:
  static constexpr std::size_t kRows = kTaps + 1;
  static constexpr int kCells = 48;
  static constexpr double kPhaseStep = 0.3;  // between neighbouring frequencies
  static constexpr int kRounds = 12;
  static constexpr int kParabolas = 5;
  static constexpr double kSettled = 1e-3;
  static constexpr int kMaxPivots = 400;
  static constexpr double kTiny = 1e-12;
  static constexpr double kRoom = 1e-14;
  // Columns of the dual that are no frequencies: slacks, then the two bounds.
  static constexpr int kSlack = -1;
  static constexpr int kFirst = -1 - static_cast<int>(kTaps);
  static constexpr int kSecond = kFirst - 1;

  struct Frequency {
    double w;
    std::array<double, kMultiplierTaps> cosine, sine;  // of j w
    double a0;
    std::array<double, kTaps> a;
  };
  using Row = std::array<double, kRows>;

  void Move(double log_rate) {
    s_ = log_rate;
    for (std::size_t i = 0; i < kTaps; ++i) {
      const double twice = std::exp(-2 * std::abs(Lag(i)) * -s_);
      first_[i] = Lag(i) > 0 ? twice : 1;
      second_[i] = Lag(i) > 0 ? 1 : twice;
      damp_[i] = std::exp(std::abs(Lag(i)) * s_);
    }
  }

  static ComplexOf<double> Horner(const Polynomial<double>& c, const CirclePoint<double>& at) {
    const bool by_u = Modulus(at.u) < 1;
    const std::vector<double>& terms = by_u ? c.in_u : c.in_z;
    const ComplexOf<double>& v = by_u ? at.u : at.z;
    ComplexOf<double> sum;
    for (std::size_t k = terms.size(); k-- > 0;) {
      sum = sum * v;
      sum.re += terms[k];
    }
    return sum;
  }

  /// p(z; x) times the conjugate of p(z; x / K), of size 1.
  ComplexOf<double> Phase(double w) const {
    const CirclePoint<double> at = PointAt<double>(s_, w);
    const double size = std::exp(p_.n * s_);
    const ComplexOf<double> turn = {size * std::cos(p_.n * w), size * std::sin(p_.n * w)};
    const ComplexOf<double> f = turn * Horner(p_.a, at), b = Horner(p_.b, at);
    const ComplexOf<double> high = {f.re + rate_ * b.re, f.im + rate_ * b.im};
    const ComplexOf<double> low = {f.re + low_ * b.re, -(f.im + low_ * b.im)};
    const ComplexOf<double> q = high * low;
    const double modulus = Modulus(q);
    return modulus > 0 ? ComplexOf<double>{q.re / modulus, q.im / modulus} : ComplexOf<double>{};
  }

  void Evaluate(Frequency& f) const {
    const ComplexOf<double> e = Phase(f.w);
    f.a0 = e.re;
    for (int j = 1; j <= kMultiplierTaps; ++j) {
      const auto at = static_cast<std::size_t>(j - 1);
      const auto after = static_cast<std::size_t>(kMultiplierTaps + j - 1);
      const auto before = static_cast<std::size_t>(kMultiplierTaps - j);
      const double c = e.re * f.cosine[at], s = e.im * f.sine[at];
      f.a[after] = damp_[after] * (c + s);
      f.a[before] = damp_[before] * (c - s);
    }
  }

  static void Place(Frequency& f, double w) {
    f.w = w;
    const double c = std::cos(w), s = std::sin(w);
    f.cosine[0] = c;
    f.sine[0] = s;
    for (std::size_t j = 1; j < f.cosine.size(); ++j) {
      f.cosine[j] = c * f.cosine[j - 1] - s * f.sine[j - 1];
      f.sine[j] = s * f.cosine[j - 1] + c * f.sine[j - 1];
    }
  }

  std::size_t Add(double w) {
    Frequency& f = frequencies_.emplace_back();
    Place(f, w);
    Evaluate(f);
    return frequencies_.size() - 1;
  }

  /// Frequencies in between until the phase moves little from one to the next.
  void Fill(std::size_t from, std::size_t to, int depth) {
    const double lo = frequencies_[from].w, hi = frequencies_[to].w;
    const ComplexOf<double> p = Phase(lo), q = Phase(hi);
    const double turn = std::abs(std::atan2(p.re * q.im - p.im * q.re, p.re * q.re + p.im * q.im));
    if (depth == 0 || turn < kPhaseStep || !(hi - lo > 1e-14)) return;
    const std::size_t middle = Add((lo + hi) / 2);
    Fill(from, middle, depth - 1);
    Fill(middle, to, depth - 1);
  }

  double Reduced(const Frequency& f) const {
    double sum = f.a0 - y_[kTaps];
    for (std::size_t i = 0; i < kTaps; ++i) sum -= y_[i] * f.a[i];
    return sum;
  }

  /// Adds the minima between known frequencies; the least value there, at most 0.
  double Exchange() {
    const std::size_t count = frequencies_.size();
    order_.resize(count);
    for (std::size_t k = 0; k < count; ++k) order_[k] = k;
    std::sort(order_.begin(), order_.end(),
              [&](std::size_t a, std::size_t b) { return frequencies_[a].w < frequencies_[b].w; });
    reduced_.resize(count);
    for (std::size_t k = 0; k < count; ++k) reduced_[k] = Reduced(frequencies_[order_[k]]);
    double least = 0;
    for (std::size_t k = 1; k + 1 < count; ++k) {
      if (reduced_[k] > reduced_[k - 1] || reduced_[k] > reduced_[k + 1]) continue;
      const auto at = [&](std::size_t i) { return Value{frequencies_[order_[i]].w, reduced_[i]}; };
      const Value bottom = Bottom({at(k - 1), at(k), at(k + 1)});
      if (!(bottom.reduced < -kTiny)) continue;
      Add(bottom.w);
      least = std::min(least, bottom.reduced);
    }
    return least;
  }

  struct Value {
    double w, reduced;
  };

  /// The minimum between the outer two, by parabolas.
  Value Bottom(std::array<Value, 3> three) const {
    for (int step = 0; step < kParabolas; ++step) {
      auto& [left, middle, right] = three;
      const double to_left = left.w - middle.w, to_right = right.w - middle.w;
      const double slope_left = (left.reduced - middle.reduced) / to_left;
      const double slope_right = (right.reduced - middle.reduced) / to_right;
      const double bend = (slope_right - slope_left) / (to_right - to_left);
      const double move = -(slope_left - bend * to_left) / (2 * bend);
      if (!(bend > 0 && move > to_left && move < to_right)) break;
      // A parabola that comes back to the same place says nothing new.
      if (std::abs(move) < kSettled * std::min(-to_left, to_right)) break;
      const Value now = {middle.w + move, ReducedAt(middle.w + move)};
      Value& outer = move < 0 ? left : right;
      if (now.reduced < middle.reduced) {
        (move < 0 ? right : left) = middle;
        middle = now;
      } else {
        outer = now;
      }
    }
    return three[1];
  }

  double ReducedAt(double w) const {
    Frequency f;
    Place(f, w);
    Evaluate(f);
    return Reduced(f);
  }

  void Column(int id, Row& column, double& cost) const {
    column.fill(0);
    cost = 0;
    if (id >= 0) {
      const Frequency& f = frequencies_[static_cast<std::size_t>(id)];
      std::copy(f.a.begin(), f.a.end(), column.begin());
      column[kTaps] = 1;
      cost = f.a0;
    } else if (id > kFirst) {
      column[static_cast<std::size_t>(kSlack - id)] = -1;
    } else {
      const std::array<double, kTaps>& bound = id == kFirst ? first_ : second_;
      std::copy(bound.begin(), bound.end(), column.begin());
      cost = 1;
    }
  }

  /// Inverse, solution and prices of the basis; whether it is one, and feasible.
  bool Restore() {
    if (basis_[0] == kNone) return false;
    std::array<Row, kRows> matrix;
    for (std::size_t c = 0; c < kRows; ++c) {
      Row column;
      Column(basis_[c], column, cost_[c]);
      for (std::size_t r = 0; r < kRows; ++r) matrix[r][c] = column[r];
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      inverse_[r].fill(0);
      inverse_[r][r] = 1;
    }
    for (std::size_t c = 0; c < kRows; ++c) {
      std::size_t pivot = c;
      for (std::size_t r = c + 1; r < kRows; ++r) {
        if (std::abs(matrix[r][c]) > std::abs(matrix[pivot][c])) pivot = r;
      }
      if (!(std::abs(matrix[pivot][c]) > 1e-13)) return false;
      std::swap(matrix[c], matrix[pivot]);
      std::swap(inverse_[c], inverse_[pivot]);
      const double scale = 1 / matrix[c][c];
      for (std::size_t k = 0; k < kRows; ++k) {
        matrix[c][k] *= scale;
        inverse_[c][k] *= scale;
      }
      for (std::size_t r = 0; r < kRows; ++r) {
        const double factor = matrix[r][c];
        if (r == c || factor == 0) continue;
        for (std::size_t k = 0; k < kRows; ++k) {
          matrix[r][k] -= factor * matrix[c][k];
          inverse_[r][k] -= factor * inverse_[c][k];
        }
      }
    }
    bool feasible = true;
    for (std::size_t r = 0; r < kRows; ++r) {
      x_[r] = inverse_[r][kTaps];
      feasible = feasible && x_[r] > -1e-9;
    }
    return feasible;
  }

  /// A feasible basis: one frequency, and the first bound where that needs it.
  void Start() {
    std::size_t best = 0;
    for (std::size_t k = 1; k < frequencies_.size(); ++k) {
      if (frequencies_[k].a0 < frequencies_[best].a0) best = k;
    }
    std::size_t tightest = 0;
    double most = 0;
    for (std::size_t i = 0; i < kTaps; ++i) {
      const double needed = -frequencies_[best].a[i] / first_[i];
      if (needed > most) {
        most = needed;
        tightest = i;
      }
      basis_[i] = kSlack - static_cast<int>(i);
    }
    if (most > 0) basis_[tightest] = kFirst;
    basis_[kTaps] = static_cast<int>(best);
    Restore();
  }

  void Simplex() {
    for (int pivot = 0; pivot < kMaxPivots; ++pivot) {
      y_.fill(0);
      for (std::size_t r = 0; r < kRows; ++r) {
        if (cost_[r] == 0) continue;
        for (std::size_t k = 0; k < kRows; ++k) y_[k] += cost_[r] * inverse_[r][k];
      }
      double least = -kTiny;
      int entering = kNone;
      const auto offer = [&](double reduced, int id) {
        if (reduced < least) {
          least = reduced;
          entering = id;
        }
      };
      double first = 1, second = 1;
      for (std::size_t i = 0; i < kTaps; ++i) {
        offer(y_[i], kSlack - static_cast<int>(i));
        first -= y_[i] * first_[i];
        second -= y_[i] * second_[i];
      }
      offer(first, kFirst);
      offer(second, kSecond);
      for (std::size_t k = 0; k < frequencies_.size(); ++k) {
        offer(Reduced(frequencies_[k]), static_cast<int>(k));
      }
      if (entering == kNone) return;
      Row column, d;
      double cost = 0;
      Column(entering, column, cost);
      std::size_t leaving = kRows;
      double ratio = 0;
      for (std::size_t r = 0; r < kRows; ++r) {
        d[r] = 0;
        for (std::size_t k = 0; k < kRows; ++k) d[r] += inverse_[r][k] * column[k];
        if (!(d[r] > 1e-10)) continue;
        const double now = std::max(x_[r], 0.0) / d[r];
        if (leaving == kRows || now < ratio || (now == ratio && d[r] > d[leaving])) {
          leaving = r;
          ratio = now;
        }
      }
      if (leaving == kRows) return;
      const double scale = 1 / d[leaving];
      for (double& value : inverse_[leaving]) value *= scale;
      x_[leaving] = ratio;
      for (std::size_t r = 0; r < kRows; ++r) {
        if (r == leaving || d[r] == 0) continue;
        for (std::size_t k = 0; k < kRows; ++k) inverse_[r][k] -= d[r] * inverse_[leaving][k];
        x_[r] -= d[r] * ratio;
      }
      basis_[leaving] = entering;
      cost_[leaving] = cost;
    }
  }

  static constexpr int kNone = std::numeric_limits<int>::min();

  LinearPolynomial<double> p_;
  double low_, rate_, s_ = 0;
  std::array<double, kTaps> first_{}, second_{}, damp_{};
  std::vector<Frequency> frequencies_;
  std::vector<std::size_t> order_;
  std::vector<double> reduced_;
  std::array<int, kRows> basis_{kNone};
  std::array<Row, kRows> inverse_{};
  Row x_{}, y_{}, cost_{};
};

/// ln rho and the taps, not yet proven; NaN where there are none. `tolerance` is relative.
struct Found {
  double log_rate = kNaN;
  Multiplier taps{};
};

/// `low` is the radius at the least curvature.
Found Search(const WorstCasePoint& point, const SpectralRadius& low, double tolerance) {
  double least = UpperBound(low);
  // The other end of the spectrum saves steps where it is cheap.
  if (!point.rule.is_linear()) least = std::max(least, UpperBound(RadiusAt(point, point.rate)));
  if (!(least < 0)) return {};
  // The rate is exp(share least): the share is 1 where the worst function is a quadratic.
  double in = 0, out = 1, value_in = 0, value_out = 0;
  MultiplierSearch search(point, least * (1 - tolerance));
  const auto taps = [&](double share) { return Found{least * share, search.Taps()}; };
  for (const double share : {1 - tolerance, 0.7, 0.4, 0.15, 0.04, 0.01}) {
    const double value = search.Solve(least * share);
    if (value > 0) {
      if (share == 1 - tolerance) return taps(share);
      in = share;
      value_in = value;
      break;
    }
    out = share;
    value_out = value;
  }
  if (in == 0) return {};
  for (int step = 0; out - in > tolerance * in && step < 60; ++step) {
    double share = in + (out - in) * value_in / (value_in - value_out);
    const double margin = std::max(0.1 * tolerance * in, 0.02 * (out - in));
    share = step % 3 == 2 ? (in + out) / 2 : std::clamp(share, in + margin, out - margin);
    const double value = search.Solve(least * share);
    (value > 0 ? in : out) = share;
    (value > 0 ? value_in : value_out) = value;
  }
  // A little slower, so that the least is well above 0.
  const double share = in * (1 - tolerance);
  search.Solve(least * share);
  return taps(share);
}

/// The least ln(half-life) over ln x within ln(1 - m), which is free or fixed: a few values around the
/// quadratic's optimum, then golden sections, which no ridge stops.
class OptimumSearch {
 public:
  OptimumSearch(const OptimumOptions& options, const Optimum& quadratic)
      : options_(options), log_rate_(std::log(quadratic.rate)), quadratic_(quadratic) {}

  struct Best {
    double cost = std::numeric_limits<double>::infinity();  ///< ln of -1 / ln rho
    WorstCasePoint point;
  };

  Best Run() {
    const bool fixed = options_.momentum || options_.rule.is_linear();
    if (fixed) {
      BestRate(options_.momentum.value_or(0));
      return best_;
    }
    const double centre = std::log(1 - quadratic_.momentum);
    Minimise(centre - kGapsBelow * kStep, std::min(0.0, centre + kGapsAbove * kStep), kGapTolerance,
             [&](double log_gap) { return BestRate(std::max(0.0, 1 - std::exp(log_gap))); });
    return best_;
  }

  std::size_t evaluations() const { return evaluations_; }

 private:
  static constexpr double kStep = 0.4;
  static constexpr double kGapsBelow = 1, kGapsAbove = 7;
  static constexpr double kRatesBelow = 7, kRatesAbove = 1;
  static constexpr double kRateTolerance = 3e-4, kGapTolerance = 3e-3;
  static constexpr double kTolerance = 1e-5;  // of one certificate

  /// The least value between, at steps of kStep and then between the neighbours of the best.
  template <class Function>
  static double Minimise(double low, double high, double tolerance, Function&& function) {
    const int steps = std::max(1, static_cast<int>(std::ceil((high - low) / kStep)));
    double least = std::numeric_limits<double>::infinity(), at = high;
    for (int k = 0; k <= steps; ++k) {
      const double x = high - (high - low) * k / steps;
      const double value = function(x);
      if (value < least) {
        least = value;
        at = x;
      }
    }
    if (!std::isfinite(least)) return least;
    const double step = (high - low) / steps;
    double a = std::max(low, at - step), b = std::min(high, at + step);
    constexpr double kGolden = 0.6180339887498949;
    double c = b - kGolden * (b - a), d = a + kGolden * (b - a);
    double value_c = function(c), value_d = function(d);
    while (b - a > tolerance) {
      // Of two rates without a certificate the higher one goes.
      if (value_c <= value_d) {
        b = d;
        d = c;
        value_d = value_c;
        c = b - kGolden * (b - a);
        value_c = function(c);
      } else {
        a = c;
        c = d;
        value_c = value_d;
        d = a + kGolden * (b - a);
        value_d = function(d);
      }
      least = std::min({least, value_c, value_d});
    }
    return least;
  }

  double BestRate(double momentum) {
    return Minimise(log_rate_ - kRatesBelow * kStep, log_rate_ + kRatesAbove * kStep,
                    kRateTolerance, [&](double log_rate) {
                      const WorstCasePoint point{options_.rule, momentum, options_.delay,
                                                 std::exp(log_rate), options_.condition};
                      ++evaluations_;
                      const double log_rho =
                          Search(point, RadiusAt(point, LowRate(point)), kTolerance).log_rate;
                      const double cost = std::isnan(log_rho)
                                              ? std::numeric_limits<double>::infinity()
                                              : -std::log(-log_rho);
                      if (cost < best_.cost) best_ = {cost, point};
                      return cost;
                    });
  }

  const OptimumOptions& options_;
  double log_rate_;
  const Optimum& quadratic_;
  std::size_t evaluations_ = 0;
  Best best_;
};

/// A linear rule in powers of u = z - 1, constant terms first: N, and D / u, which is monic.
struct FreeRule {
  std::vector<double> numerator, quotient;
};

std::vector<double> Multiply(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> c(a.size() + b.size() - 1, 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) c[i + j] += a[i] * b[j];
  }
  return c;
}

/// Powers of z, highest first, from powers of u.
std::vector<double> InPowersOfZ(std::vector<double> c) {
  for (std::size_t k = 0; k < c.size(); ++k) {
    for (std::size_t j = c.size() - 1; j-- > k;) c[j] -= c[j + 1];
  }
  std::reverse(c.begin(), c.end());
  return c;
}

RuleSpec SpecOf(const FreeRule& rule) {
  return LinearSpec(InPowersOfZ(rule.numerator), InPowersOfZ(Multiply({0, 1}, rule.quotient)));
}

/// Nelder and Mead's simplices over the coefficients of a rule, relative to those it starts from.
class DesignSearch {
 public:
  DesignSearch(Delay delay, double condition) : delay_(delay), condition_(condition) {}

  struct Place {
    std::vector<double> x;
    double cost = std::numeric_limits<double>::infinity();  ///< ln of -1 / ln rho
  };

  WorstCasePoint PointOf(const FreeRule& rule) const {
    return {SpecOf(rule), 0, delay_, 1, condition_};
  }

  /// The best rule that simplices of shrinking sizes find.
  std::pair<FreeRule, double> Run(FreeRule rule) {
    double cost = Cost(rule);
    for (const double size : {0.2, 0.05, 0.2, 0.05, 0.01}) {
      const FreeRule start = rule;
      const Place best = Descend(start, size);
      if (!(best.cost < cost)) continue;
      cost = best.cost;
      rule = At(start, best.x);
    }
    return {rule, cost};
  }

  std::size_t evaluations() const { return evaluations_; }

 private:
  static constexpr int kMovesPerCoefficient = 40;
  static constexpr double kFlat = 1e-6, kTolerance = 1e-6;
  /// What a coefficient that is near 0 is relative to.
  static constexpr double kLeastScale = 0.1;

  static FreeRule At(FreeRule rule, const std::vector<double>& x) {
    std::size_t k = 0;
    const double gain = std::exp(x[k++]);
    rule.quotient[0] *= std::exp(x[k++]);
    const double first = rule.numerator[0];
    rule.numerator[0] *= gain;
    for (std::size_t i = 1; i < rule.numerator.size(); ++i) {
      const double scale = std::max(std::abs(rule.numerator[i]), kLeastScale * std::abs(first));
      rule.numerator[i] = gain * (rule.numerator[i] + scale * x[k++]);
    }
    for (std::size_t i = 1; i + 1 < rule.quotient.size(); ++i) {
      const double scale = std::max(std::abs(rule.quotient[i]), kLeastScale);
      rule.quotient[i] += scale * x[k++];
    }
    return rule;
  }

  double Cost(const FreeRule& rule) {
    ++evaluations_;
    const WorstCasePoint point = PointOf(rule);
    const double log_rho = Search(point, RadiusAt(point, LowRate(point)), kTolerance).log_rate;
    return std::isnan(log_rho) ? std::numeric_limits<double>::infinity() : -std::log(-log_rho);
  }

  Place Descend(const FreeRule& start, double size) {
    const std::size_t count = start.numerator.size() + start.quotient.size() - 1;
    const auto less = [](const Place& a, const Place& b) { return a.cost < b.cost; };
    const auto place = [&](std::vector<double> x) {
      const double cost = Cost(At(start, x));
      return Place{std::move(x), cost};
    };
    std::vector<Place> simplex = {place(std::vector<double>(count, 0))};
    for (std::size_t k = 0; k < count; ++k) {
      std::vector<double> x(count, 0);
      x[k] = k % 2 == 0 ? size : -size;
      simplex.push_back(place(std::move(x)));
    }
    for (std::size_t move = 0; move < kMovesPerCoefficient * count; ++move) {
      std::stable_sort(simplex.begin(), simplex.end(), less);
      Place& last = simplex.back();
      if (last.cost - simplex[0].cost < kFlat) break;
      std::vector<double> centre(count, 0);
      for (std::size_t k = 0; k < count; ++k) {
        for (std::size_t i = 0; i < count; ++i) {
          centre[i] += simplex[k].x[i] / static_cast<double>(count);
        }
      }
      const auto along = [&](double t) {
        std::vector<double> x(count);
        for (std::size_t i = 0; i < count; ++i) x[i] = centre[i] + t * (last.x[i] - centre[i]);
        return place(std::move(x));
      };
      Place reflected = along(-1);
      if (reflected.cost < simplex[0].cost) {
        last = std::min(reflected, along(-2), less);
        continue;
      }
      if (reflected.cost < simplex[count - 1].cost) {
        last = std::move(reflected);
        continue;
      }
      Place inner = along(reflected.cost < last.cost ? -0.5 : 0.5);
      if (inner.cost < std::min(reflected.cost, last.cost)) {
        last = std::move(inner);
        continue;
      }
      for (std::size_t k = 1; k <= count; ++k) {
        std::vector<double> x(count);
        for (std::size_t i = 0; i < count; ++i) x[i] = (simplex[0].x[i] + simplex[k].x[i]) / 2;
        simplex[k] = place(std::move(x));
      }
    }
    return *std::min_element(simplex.begin(), simplex.end(), less);
  }

  Delay delay_;
  double condition_;
  std::size_t evaluations_ = 0;
};

}  // namespace

void Validate(const WorstCasePoint& point) {
  Validate(point.rule);
  if (!point.rule.is_linear()) CheckMomentum(point.momentum);
  if (point.delay < 0 || point.delay > kMaxWorstCaseDelay) {
    throw InvalidArgument("delay", std::to_string(point.delay),
                          "an integer from 0 to " + std::to_string(kMaxWorstCaseDelay));
  }
  if (!(point.rate >= kMinWorstCaseRate && point.rate <= kMaxRate)) {
    throw InvalidArgument("rate", point.rate,
                          "a number from " + ToText(kMinWorstCaseRate) + " to " + ToText(kMaxRate));
  }
  if (!(point.condition >= 1 && point.condition <= kMaxWorstCaseCondition)) {
    throw InvalidArgument("condition", point.condition,
                          "a number from 1 to " + ToText(kMaxWorstCaseCondition));
  }
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
  WorstCase worst = NothingCertified();
  const SpectralRadius low = RadiusAt(point, LowRate(point));
  for (const double tolerance : {kWorstCaseTolerance / 4, 1e-5, 1e-3}) {
    const Found found = Search(point, low, tolerance);
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

void ValidateWorstCase(const OptimumOptions& options) {
  Validate(options);
  Validate(WorstCasePoint{options.rule, options.momentum.value_or(0), options.delay, 1,
                          options.condition});
}

WorstCaseOptimum FindWorstCaseOptimum(const OptimumOptions& options) {
  ValidateWorstCase(options);
  return FindWorstCaseOptimum(options, FindOptimum(options));
}

WorstCaseOptimum FindWorstCaseOptimum(const OptimumOptions& options, const Optimum& quadratic) {
  ValidateWorstCase(options);
  WorstCaseOptimum optimum;
  optimum.momentum = optimum.rate = kNaN;
  optimum.worst = NothingCertified();
  optimum.worst.quadratic = quadratic.worst;
  if (!(quadratic.rate > 0)) return optimum;
  OptimumSearch search(options, quadratic);
  const OptimumSearch::Best best = search.Run();
  optimum.evaluations = search.evaluations();
  if (!std::isfinite(best.cost)) return optimum;
  optimum.worst = CertifyWorstCase(best.point);
  if (!options.rule.is_linear()) optimum.momentum = best.point.momentum;
  optimum.rate = best.point.rate;
  return optimum;
}

WorstCaseDesign DesignForWorstCase(Delay delay, double condition, int order) {
  const OptimumOptions options{{FindRule("lwp-w+sc"), {}}, delay, condition, {}};
  ValidateWorstCase(options);
  if (order < kMinWorstCaseOrder || order > kMaxWorstCaseOrder) {
    throw InvalidArgument("order", std::to_string(order),
                          "an integer from " + std::to_string(kMinWorstCaseOrder) + " to " +
                              std::to_string(kMaxWorstCaseOrder));
  }
  WorstCaseDesign design;
  design.worst = NothingCertified();
  const WorstCaseOptimum published = FindWorstCaseOptimum(options);
  if (std::isnan(published.worst.rate)) return design;
  // z u (u + mu) and x (1 + beta u) (1 + gamma u).
  const auto p = MakeCharacteristic<double>(options.rule, published.momentum, delay);
  FreeRule rule;
  rule.quotient = Multiply({1, 1}, {p.one_minus_momentum, 1});
  rule.numerator = Multiply({published.rate * p.kappa, published.rate * p.beta}, {1, p.gamma});
  DesignSearch search(delay, condition);
  double cost = 0;
  std::tie(rule, cost) = search.Run(rule);
  for (int more = kMinWorstCaseOrder; more < order; ++more) {
    const FreeRule before = rule;
    for (const double pole : {-0.5, 0.0, 0.5}) {
      const std::vector<double> factor = {1 - pole, 1};
      const auto [longer, longer_cost] =
          search.Run({Multiply(before.numerator, factor), Multiply(before.quotient, factor)});
      if (rule.quotient.size() > before.quotient.size() && !(longer_cost < cost)) continue;
      rule = longer;
      cost = longer_cost;
    }
  }
  const WorstCasePoint best = search.PointOf(rule);
  design.numerator = best.rule.options.numerator;
  design.denominator = best.rule.options.denominator;
  design.worst = CertifyWorstCase(best);
  design.evaluations = search.evaluations();
  return design;
}

double TripleMomentumHalfLife(Delay delay, double condition) {
  CheckDelay(delay);
  CheckCondition(condition);
  return -static_cast<double>(delay + 1) * std::numbers::ln2 /
         std::log1p(-1 / std::sqrt(condition));
}

}  // namespace batchless::analysis
