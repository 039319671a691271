#include "point_solver.h"

#include <algorithm>
#include <numbers>

#include "root_kernel-inl.h"
#include "scalar_lanes.h"
#include "track_group.h"
#include "track_walk-inl.h"

namespace batchless::analysis {
namespace {

namespace kernel = HWY_NAMESPACE;

template <class Real>
using Kernel = kernel::RootKernel<ScalarLanes<Real>>;

template <class Real>
typename Kernel<Real>::Polynomial ToKernel(const Characteristic<Real>& p, double rate) {
  return {p.n,    p.momentum, p.one_minus_momentum, Real(rate), p.kappa,
          p.beta, p.gamma,    p.kappa_size,         p.beta_size};
}

/// The root in this arithmetic. A bracket that Newton's method could not leave (a double root) is
/// widened until both counts are clear.
template <class Real>
typename Kernel<Real>::Root SolvePoint(const typename Kernel<Real>::Polynomial& k,
                                       RootGuess& guess) {
  using Lanes = ScalarLanes<Real>;
  typename Kernel<Real>::Root root{};
  root.s = Real(guess.s);
  root.theta = guess.theta == std::numbers::pi ? Lanes::Pi() : Real(guess.theta);
  root.certified = false;
  if (k.n == 0) {
    Kernel<Real>::Quadratic(k, root);
    return root;
  }
  Kernel<Real>::Refine(k, root);
  if (!root.certified) Kernel<Real>::Search(k, true, root, 24);
  guess = {static_cast<double>(root.s), static_cast<double>(root.theta)};
  for (int widening = 0; !root.certified && widening < 200; ++widening) {
    root.delta = root.delta * 2 + Lanes::Unit() * Lanes::Abs(root.s);
    root.certified = Kernel<Real>::Certify(k, root.s, root.delta);
  }
  return root;
}

/// Whether both roots of the closed form (n = 0) are 0 as far as Real can tell, by Fujiwara's bound:
/// in powers of z, p = A z^2 + (B - 2 A) z + (A - B + C).
template <class Real>
bool BothRootsVanish(const typename Kernel<Real>::Polynomial& k) {
  using std::abs;
  using std::exp;
  const Real a = 1 + k.x * k.beta * k.gamma;
  const Real b = k.mu + k.x * (k.beta + k.kappa * k.gamma);
  const Real limit = exp(Real(-kLogLimit / 2));
  return abs(b - 2 * a) <= limit * abs(a) && abs(a - b + k.x * k.kappa) <= limit * limit * abs(a);
}

/// False where this arithmetic does not meet the tolerances; `value` then holds what it gave.
template <class Real>
bool SolveIn(Precision precision, const RuleSpec& spec, double momentum, Delay delay, double rate,
             RootGuess& guess, SpectralRadius& value) {
  const auto k = ToKernel(MakeCharacteristic<Real>(spec, momentum, delay), rate);
  auto root = SolvePoint<Real>(k, guess);
  if (precision == Precision::kFiftyDigits && k.n == 0 && BothRootsVanish<Real>(k)) {
    root.s = Real(-kLogLimit - 1);
    root.certified = true;
  }
  if (!root.certified) return false;
  return MeetsTolerances(precision, root.s, root.delta, value);
}

/// One lane, with the loads and stores of the walk.
struct OneLane : ScalarLanes<double> {
  static constexpr std::size_t kLanes = 1;
  static double Load(const double* from) { return *from; }
  static const double* Store(double v, double* to) {
    *to = v;
    return to;
  }
};

void WalkOne(const TrackGroup& group) { kernel::WalkTracks<OneLane>(group); }

}  // namespace

SpectralRadius SolvePoint(const RuleSpec& spec, double momentum, Delay delay, double rate) {
  SpectralRadius value = kNothingProven;
  RootGuess guess;
  if (SolveIn<double>(Precision::kDouble, spec, momentum, delay, rate, guess, value)) return value;
  if (SolveIn<long double>(Precision::kLongDouble, spec, momentum, delay, rate, guess, value)) {
    return value;
  }
  // The last rung: its bound stands even where a root on the unit circle makes ln rho exactly 0.
  SolveIn<FiftyDigits>(Precision::kFiftyDigits, spec, momentum, delay, rate, guess, value);
  return value;
}

template <class Real>
OutsideCount CountOutsideUnitCircle(const Characteristic<Real>& p, double rate) {
  const auto count = Kernel<Real>::CountOutside(ToKernel(p, rate), Real(0));
  // A loop without gain leaves the roots on the circle and inside, and no crossing to count from.
  if (!(count.outside >= 0)) return {};
  return {static_cast<int>(count.outside), count.clear};
}

template OutsideCount CountOutsideUnitCircle(const Characteristic<double>&, double);
template OutsideCount CountOutsideUnitCircle(const Characteristic<long double>&, double);

std::vector<GainCrossover> GainCrossovers(const Characteristic<double>& p, double rate) {
  using Crossings = Kernel<double>;
  const auto k = ToKernel(p, rate);
  const auto circle = Crossings::At(k, 0.0);
  const auto split = Crossings::SplitCircle(k, circle);
  std::vector<GainCrossover> crossovers;
  const auto add = [&](double c) {
    const double theta = 2 * std::atan2(std::sqrt(c), std::sqrt(2 - c));
    const auto sample = Crossings::Evaluate(k, circle, c, std::sqrt(c * (2 - c)), theta);
    // A lag in g raises W; a root is on the circle where W is a whole turn.
    const double turn = 2 * std::numbers::pi;
    const double lag = std::ceil(sample.w / turn) * turn - sample.w;
    crossovers.push_back({theta, lag > 0 ? lag : turn});
  };
  if (split.has_down) add(std::clamp(split.c_down, 0.0, 2.0));
  if (split.has_up) add(std::clamp(split.c_up, 0.0, 2.0));
  return crossovers;
}

Walker ScalarWalker() { return {&WalkOne, OneLane::kLanes, Simd::kScalar}; }

}  // namespace batchless::analysis
