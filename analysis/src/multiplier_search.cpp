#include "multiplier_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "batchless/analysis/cancellation.h"
#include "linear_solver.h"
#include "point_solver.h"

namespace batchless::analysis {
namespace {

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

}  // namespace

template <class Real>
LinearPolynomial<Real> PolynomialOf(const WorstCasePoint& point) {
  if (point.rule.is_linear()) return MakeLinearPolynomial<Real>(point.rule, point.delay);
  const bool may_cancel = point.rule.options.sc_a || point.rule.options.sc_b;
  if (may_cancel || std::numeric_limits<Real>::digits > std::numeric_limits<double>::digits) {
    return PolynomialIn<Real, FiftyDigits>(point);
  }
  return PolynomialIn<Real, long double>(point);
}

template LinearPolynomial<double> PolynomialOf(const WorstCasePoint&);
template LinearPolynomial<long double> PolynomialOf(const WorstCasePoint&);

double LowRate(const WorstCasePoint& point) {
  return std::nextafter(point.rate / point.condition, 0.0);
}

SpectralRadius RadiusAt(const WorstCasePoint& point, double rate) {
  return point.rule.is_linear()
             ? SolveLinearPoint(point.rule, point.delay, rate, nullptr, Climb::kWhereNeeded)
             : SolvePoint(point.rule, point.momentum, point.delay, rate);
}

namespace {

constexpr std::size_t kTaps = std::tuple_size_v<Multiplier>;

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
    const auto best =
        std::min_element(frequencies_.begin(), frequencies_.end(),
                         [](const Frequency& a, const Frequency& b) { return a.a0 < b.a0; });
    std::size_t tightest = 0;
    double most = 0;
    for (std::size_t i = 0; i < kTaps; ++i) {
      const double needed = -best->a[i] / first_[i];
      if (needed > most) {
        most = needed;
        tightest = i;
      }
      basis_[i] = kSlack - static_cast<int>(i);
    }
    if (most > 0) basis_[tightest] = kFirst;
    basis_[kTaps] = static_cast<int>(best - frequencies_.begin());
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

}  // namespace

FoundMultiplier FindMultiplier(const WorstCasePoint& point, const SpectralRadius& low,
                               double tolerance) {
  CheckCancellation();
  double least = low.log_radius + low.log_radius_error;
  // The other end of the spectrum saves steps where it is cheap.
  if (!point.rule.is_linear()) least = std::max(least, RadiusAt(point, point.rate).log_radius);
  if (!(least < 0)) return {};
  // The rate is exp(share least): the share is 1 where the worst function is a quadratic.
  double in = 0, out = 1, value_in = 0, value_out = 0;
  MultiplierSearch search(point, least * (1 - tolerance));
  const auto taps = [&](double share) { return FoundMultiplier{least * share, search.Taps()}; };
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

}  // namespace batchless::analysis
