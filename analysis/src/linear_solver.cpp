#include "linear_solver.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "golden_section.h"
#include "linear_polynomial.h"
#include "not_finite.h"

namespace batchless::analysis {
namespace {

using boost::math::constants::pi;
using Extended = long double;

constexpr double kSmallestPower = 200;  // |s| >= 2^-200 / (n + 2) at the start of the search
constexpr double kLargestPower = 24;

template <class Real>
struct LinearRoot {
  Real s{0}, theta{9}, delta{0};
  bool certified = false;
};

/// Newton's method on G = log(-f/g) in log z. On the real axis the phase is 0 and stays so.
template <class Real>
bool Newton(const LinearPolynomial<Real>& p, const Real& log_rate, LinearRoot<Real>& root) {
  using std::abs;
  const Real epsilon = std::numeric_limits<Real>::epsilon();
  for (int step = 0; step < 40; ++step) {
    const bool on_axis = root.theta <= 0 || root.theta >= pi<Real>();
    if (on_axis) root.theta = root.theta <= 0 ? Real(0) : pi<Real>();
    const LogRatio<Real> g = EvaluateLogRatio<Real>(p, log_rate, PointAt<Real>(root.s, root.theta));
    if (on_axis && abs(g.phase) > 1) return false;
    const ComplexOf<Real> value = {g.log_size, on_axis ? Real(0) : g.phase};
    const ComplexOf<Real> slope = {g.slope.re, on_axis ? Real(0) : g.slope.im};
    ComplexOf<Real> move = value / slope;
    const Real size = Modulus(move);
    if (!(size < Real(1e6))) return false;
    const Real most = Real(0.5);
    if (size > most) move = {move.re * most / size, move.im * most / size};
    root.s -= move.re;
    root.theta = abs(root.theta - (on_axis ? Real(0) : move.im));
    if (root.theta > pi<Real>()) root.theta = 2 * pi<Real>() - root.theta;
    if (!(abs(root.s) < 110)) return false;
    const Real scale = abs(root.s) + root.theta;
    if (!on_axis && root.theta < Real(1e-7) * scale) root.theta = 0;
    if (!on_axis && pi<Real>() - root.theta < Real(1e-9)) root.theta = pi<Real>();
    root.delta = 4 * g.noise / Modulus(g.slope) + 4 * epsilon * abs(root.s);
    const bool now_on_axis = root.theta <= 0 || root.theta >= pi<Real>();
    if (now_on_axis == on_axis && size <= root.delta) return true;
  }
  return true;
}

template <class Real>
bool Certify(const LinearPolynomial<Real>& p, double rate, const LinearRoot<Real>& root,
             bool* not_dominant) {
  const LinearCount<Real> above = CountOutside<Real>(p, rate, rate, Real(root.s + root.delta));
  *not_dominant = above.clear && above.outside > 0;
  if (!above.clear || above.outside > 0) return false;
  const LinearCount<Real> below = CountOutside<Real>(p, rate, rate, Real(root.s - root.delta));
  return below.clear && below.outside > 0;
}

/// Newton's method and the certificate, its width widened where rounding is in the way.
template <class Real>
bool Refine(const LinearPolynomial<Real>& p, double rate, LinearRoot<Real>& root) {
  using std::log;
  if (!Newton<Real>(p, Real(log(Real(rate))), root)) return false;
  for (int widening = 0; widening < 12; ++widening) {
    bool not_dominant = false;
    root.certified = Certify(p, rate, root, &not_dominant);
    if (root.certified || not_dominant) return root.certified;
    root.delta *= 8;
  }
  return false;
}

template <class Real>
Real SearchPoint(const LinearPolynomial<Real>& p, double index) {
  using std::exp;
  if (std::abs(index) < 0.5) return Real(0);
  const Real size = exp(Real(std::abs(index) - kSmallestPower) * ScalarLanes<Real>::Ln2()) /
                    (p.n + Real(static_cast<double>(p.a.degree())));
  const Real held = std::min<Real>(size, Real(100));
  return index < 0 ? Real(-held) : held;
}

/// Whether there are roots outside; a circle that a root lies on is left for one beside it, the unit circle
/// for one outside, where other roots may be. Where none is clear there are roots about, and inside the unit
/// circle the search goes on outwards from them.
template <class Real>
bool HasRootsOutside(const LinearPolynomial<Real>& p, double rate, Real& s,
                     LinearCount<Real>& count) {
  for (int i = 0; i < 4; ++i) {
    count = CountOutside<Real>(p, rate, rate, s);
    if (count.clear || s == 0) break;
    s *= Real(1 + 1e-3 * (i + 1));
  }
  if (!count.clear && s == 0) {
    for (const double beside : {1e-12, 1e-9, 1e-6, 1e-3}) {
      s = Real(beside);
      count = CountOutside<Real>(p, rate, rate, s);
      if (count.clear) break;
    }
  }
  return count.clear ? count.outside > 0 : s < 0;
}

/// The dominant root from nothing: bisection on the count, Newton's method as soon as it takes.
template <class Real>
LinearRoot<Real> Search(const LinearPolynomial<Real>& p, double rate) {
  double lo = -(kSmallestPower + kLargestPower), hi = -lo;
  LinearCount<Real> count;
  for (int i = 0; i < 9; ++i) {
    const double mid = std::floor((lo + hi) / 2);
    Real s = SearchPoint(p, mid);
    (HasRootsOutside(p, rate, s, count) ? lo : hi) = mid;
  }
  Real s_lo = SearchPoint(p, lo), s_hi = SearchPoint(p, hi);
  LinearRoot<Real> root;
  for (int round = 0; round < 12; ++round) {
    for (int i = 0; i < 4; ++i) {
      const Real mid = (s_lo + s_hi) / 2;
      Real s = mid;
      (HasRootsOutside(p, rate, s, count) ? s_lo : s_hi) = mid;
    }
    root.s = (s_lo + s_hi) / 2;
    root.theta = count.near_theta;
    if (Refine(p, rate, root)) return root;
  }
  // A multiple root: the bracket itself, opened until both counts are clear.
  root.s = (s_lo + s_hi) / 2;
  root.delta = (s_hi - s_lo) / 2;
  for (int widening = 0; !root.certified && widening < 60; ++widening) {
    using std::abs;
    root.delta = 2 * root.delta + std::numeric_limits<Real>::epsilon() * abs(root.s);
    bool not_dominant = false;
    root.certified = Certify(p, rate, root, &not_dominant);
  }
  return root;
}

/// The root in one arithmetic, from near the guess where a coarser one has left it.
template <class Real>
bool SolveIn(Precision precision, const RuleSpec& spec, Delay delay, double rate, RootGuess& guess,
             SpectralRadius& value) {
  const auto p = MakeLinearPolynomial<Real>(spec, delay);
  LinearRoot<Real> root;
  if (guess.theta < 4) {
    root.s = Real(guess.s);
    root.theta = guess.theta >= 3.14159265358979 ? pi<Real>() : Real(guess.theta);
  }
  if (!(guess.theta < 4 && Refine(p, rate, root))) root = Search(p, rate);
  if (!root.certified) return false;
  guess = {static_cast<double>(root.s), static_cast<double>(root.theta)};
  return MeetsTolerances(precision, root.s, root.delta, value);
}

/// Whether every root is 0: all coefficients but the first cancel, which fifty digits tell exactly and
/// no count does.
bool EveryRootIsZero(const RuleSpec& spec, Delay delay, double rate) {
  // Where the delay is longer than N the last coefficient of z^n A stays.
  if (static_cast<std::size_t>(delay) >= spec.options.numerator.size()) return false;
  auto c = DenseCoefficients(MakeLinearPolynomial<FiftyDigits>(spec, delay), FiftyDigits(rate));
  c.pop_back();
  return std::all_of(c.begin(), c.end(), [](const FiftyDigits& value) { return value == 0; });
}

bool StableOver(const LinearPolynomial<Extended>& p, double low, double high) {
  return CountOutside<Extended>(p, low, high, Extended(0)).all_inside();
}

}  // namespace

SpectralRadius SolveLinearPoint(const RuleSpec& spec, Delay delay, double rate, RootGuess* guess,
                                Climb climb) {
  if (EveryRootIsZero(spec, delay, rate)) return NoRoot(Precision::kFiftyDigits);
  RootGuess near = guess != nullptr ? *guess : RootGuess{};
  SpectralRadius value = kNothingProven;
  const bool met = SolveIn<Extended>(Precision::kLongDouble, spec, delay, rate, near, value);
  if (!met && (climb == Climb::kAlways || !std::isfinite(value.log_radius_error))) {
    SpectralRadius finer = value;
    SolveIn<FiftyDigits>(Precision::kFiftyDigits, spec, delay, rate, near, finer);
    if (std::isfinite(finer.log_radius_error)) value = finer;
  }
  if (guess != nullptr) *guess = near;
  return value;
}

SpectralRadius SolveLinearSpectrum(const RuleSpec& spec, Delay delay, double low, double high) {
  // Bounds of 1e-6 in the end have no use for the last digits of the points.
  const auto solve = [&](double rate) {
    return SolveLinearPoint(spec, delay, rate, nullptr, Climb::kWhereNeeded);
  };
  SpectralRadius best = low == high ? SolveLinearPoint(spec, delay, high) : solve(high);
  if (low == high) return best;
  const auto take = [&](double rate) {
    const SpectralRadius there = solve(std::clamp(rate, low, high));
    if (there.log_radius > best.log_radius) best = there;
  };
  take(low);
  if (!std::isfinite(best.log_radius_error)) return best;
  const auto p = MakeLinearPolynomial<Extended>(spec, delay);
  // A root on the unit circle, whose logarithm is 0, leaves nothing to be relative to.
  double unit = kSpectrumTolerance * std::abs(best.log_radius);
  if (best.log_radius_error >= unit) {
    unit = std::max(best.log_radius_error, std::numeric_limits<double>::epsilon());
  }
  // Upwards in growing steps to a circle that no rate has a root outside of. A circle that is not
  // shows a rate whose root is out there, or all but.
  double above = best.log_radius + unit;
  for (double step = unit; above < kLogLimit; step *= 4) {
    const auto count = CountOutside<Extended>(p, low, high, Extended(above));
    if (count.all_inside()) break;
    take(count.near_rate);
    above = std::max(above, best.log_radius) + step;
  }
  for (int i = 0; i < 60 && above - best.log_radius > 2 * unit; ++i) {
    const double middle = best.log_radius + (above - best.log_radius) / 2;
    const auto count = CountOutside<Extended>(p, low, high, Extended(middle));
    if (count.all_inside()) {
      above = middle;
      continue;
    }
    const double before = best.log_radius;
    take(count.near_rate);
    if (best.log_radius <= before) break;  // the bracket is as narrow as it gets
  }
  const double half = (above - best.log_radius) / 2;
  best.log_radius += half;
  best.log_radius_error += half;
  best.radius = std::exp(best.log_radius);
  best.error_bound =
      best.radius * (std::expm1(best.log_radius_error) + std::numeric_limits<double>::epsilon());
  return best;
}

OutsideCount CountLinearOutsideUnitCircle(const RuleSpec& spec, Delay delay, double rate) {
  const auto p = MakeLinearPolynomial<Extended>(spec, delay);
  const auto count = CountOutside<Extended>(p, rate, rate, Extended(0));
  return {count.outside, count.clear};
}

namespace {

/// The end of the stable rates that begin at the least one that is told from 0; 0 where none do.
double EndOfStableRates(const LinearPolynomial<Extended>& p) {
  // Poles on the unit circle besides 1 can be told from roots only above some rate.
  double least = 0;
  for (const double rate : {kMinRate, 1e-40, 1e-25, 1e-15, 1e-12, 1e-9, 1e-6}) {
    if (!StableOver(p, rate, rate)) continue;
    least = rate;
    break;
  }
  if (least == 0) return 0;
  double stable = std::log(least), unstable = std::log(kMaxRate);
  if (StableOver(p, least, kMaxRate)) return kInfinity;
  for (double middle;
       middle = stable + (unstable - stable) / 2, stable < middle && middle < unstable;) {
    (StableOver(p, least, std::exp(middle)) ? stable : unstable) = middle;
  }
  return std::exp(stable);
}

}  // namespace

double LinearCriticalRate(const RuleSpec& spec, Delay delay) {
  const auto p = MakeLinearPolynomial<Extended>(spec, delay);
  // Where the rate vanishes roots are poles, and one outside leaves no stable rates next to 0. Those on
  // the unit circle are as far from it as the rounding of coefficients moves them.
  constexpr double kOnCircle = 1e-10;
  const auto poles = CountOutside<Extended>(p, kMinRate, kMinRate, Extended(kOnCircle));
  if (poles.clear && poles.outside > 0) return 0;
  return EndOfStableRates(p);
}

std::vector<GainCrossover> LinearGainCrossovers(const RuleSpec& spec, Delay delay, double rate) {
  const auto p = MakeLinearPolynomial<Extended>(spec, delay);
  const Extended log_rate = std::log(Extended(rate));
  const auto at = [&](Extended theta) {
    return EvaluateLogRatio<Extended>(p, log_rate, PointAt<Extended>(0, theta));
  };
  // Angles crowd towards 0, where the slow modes are. Below the first of them the gain is an integrator's,
  // down to where the least rates cross.
  constexpr int kAngles = 4000;
  constexpr double kDecades = 12;
  constexpr Extended kLeastAngle = 1e-90L;
  std::vector<GainCrossover> crossovers;
  Extended before = kLeastAngle;
  Extended size_before = at(before).log_size;
  for (int i = 0; i <= kAngles; ++i) {
    const Extended power = Extended(kDecades) * (Extended(i) / kAngles - 1);
    const Extended now = pi<Extended>() * std::pow(Extended(10), power);
    const Extended size_now = at(now).log_size;
    if ((size_before < 0) != (size_now < 0)) {
      Extended lo = before, hi = now;
      for (Extended middle; middle = (lo + hi) / 2, lo < middle && middle < hi;) {
        ((at(middle).log_size < 0) == (size_before < 0) ? lo : hi) = middle;
      }
      // A lag in g raises the phase; a root is on the circle where that is a whole turn.
      const Extended phase = at(lo).phase;
      const Extended lag = phase < 0 ? -phase : 2 * pi<Extended>() - phase;
      crossovers.push_back({static_cast<double>(lo), static_cast<double>(lag)});
    }
    before = now;
    size_before = size_now;
  }
  return crossovers;
}

SpectrumSteps StepsOfSpectrum(double condition, double most) {
  constexpr double kNarrow = 0.5;  // of the most
  const double log_condition = std::log(condition);
  if (log_condition < kNarrow * most) return {0, most};
  const double window = std::ceil(log_condition / most);
  return {static_cast<std::size_t>(window), log_condition / window};
}

double BestLinearRate(const RuleSpec& spec, Delay delay, double condition,
                      std::size_t* evaluations) {
  constexpr double kStep = 0.1;   // of ln x along the row
  constexpr double kReach = 8;    // of ln x below the critical rate
  constexpr double kAbove = 0.2;  // of ln x above it
  constexpr double kResolution =
      1e-11;  // of ln x: an optimum at a double root feels the root of it
  const double critical = EndOfStableRates(MakeLinearPolynomial<Extended>(spec, delay));
  if (!(critical > 0)) return 0;
  const SpectrumSteps steps = StepsOfSpectrum(condition, kStep);
  const std::size_t window = steps.window;
  const double step = steps.step;
  const auto tops = static_cast<std::size_t>(std::ceil(kReach / step)) + 1;
  const double top = std::log(std::min(critical, kMaxRate / 2)) + kAbove;
  const auto log_rate = [&](std::size_t i) {
    return top - step * static_cast<double>(tops + window - 1 - i);
  };
  std::vector<double> row;
  RootGuess guess;
  for (std::size_t i = 0; i < tops + window; ++i) {
    row.push_back(SolveLinearPoint(spec, delay, std::exp(log_rate(i)), &guess, Climb::kWhereNeeded)
                      .log_radius);
  }
  const auto largest = [&](std::size_t from, std::size_t to) {
    return *std::max_element(row.begin() + static_cast<std::ptrdiff_t>(from),
                             row.begin() + static_cast<std::ptrdiff_t>(to) + 1);
  };
  *evaluations += row.size();
  double least = 0;
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < tops; ++i) {
    const double worst = largest(i, i + window);
    if (worst >= least) continue;
    least = worst;
    best = i;
  }
  if (!best) return 0;
  // Both ends of the spectrum move with the rate; the points between are those of the row.
  const double inside = window > 2 ? largest(*best + 1, *best + window - 1) : -kInfinity;
  RootGuess at_top, at_bottom;
  const auto worst_at = [&](double log_x) {
    *evaluations += 2;
    const double x = std::exp(log_x);
    const auto at = [&](double rate, RootGuess& near) {
      return SolveLinearPoint(spec, delay, rate, &near, Climb::kWhereNeeded).log_radius;
    };
    return std::max({inside, at(x, at_top), at(x / condition, at_bottom)});
  };
  const double above = window == 0 ? std::log(condition) : 0;
  const double near = log_rate(*best + window);
  const GoldenBracket left =
      GoldenSection(near - step, near + step + above, kResolution, std::less<>(), worst_at);
  return std::exp((left.low + left.high) / 2);
}

}  // namespace batchless::analysis
