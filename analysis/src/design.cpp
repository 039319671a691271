#include "batchless/analysis/design.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/cancellation.h"
#include "batchless/analysis/noise.h"
#include "batchless/analysis/rates.h"
#include "decompositions.h"
#include "not_finite.h"
#include "powers_of_u.h"
#include "step_down.h"

namespace batchless::analysis {
namespace {

using Real = StepDown::Real;
using Vector = StepDown::Vector;
using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic>;
using Eigen::Index;

/// Coefficients in powers of u = z - 1, constant term first: D (monic, constant term 0) and N.
struct Candidate {
  Vector denominator, numerator;
  Real log_radius = 0;
  Real cost = 0;
  bool two_leads = false;  // with a pole at 0
};

/// Both with the factor, which cancels.
Candidate WithFactor(const Candidate& c, const Vector& factor) {
  return {Multiply(c.denominator, factor), Multiply(c.numerator, factor), c.log_radius};
}

/// z - a, in u.
Vector PoleAt(double a) { return Vector{{1 - Real(a), Real(1)}}; }
/// z^2 - 2 r cos(angle) z + r^2, in u.
Vector PairAt(double r, double angle) {
  const Real c = 2 * Real(r) * std::cos(Real(angle));
  return Vector{{1 - c + Real(r) * Real(r), 2 - c, Real(1)}};
}

/// `count` of [1/K, 1], evenly spaced in their logarithm.
std::vector<Real> Curvatures(double condition, int count) {
  std::vector<Real> curvatures(static_cast<std::size_t>(count));
  Real j = 0;
  for (Real& x : curvatures) x = std::pow(Real(condition), -(j++) / (count - 1));
  return curvatures;
}

/// Operations, n P for each curvature, of all searches for one design. What is left is a matter of
/// counting, so that a search ends at the same place on every machine.
struct Effort {
  static constexpr std::size_t kMost = 150'000'000;  // 3 s of a core of 2024

  void Count(std::size_t operations) {
    CheckCancellation();
    ++evaluations;
    spent += operations;
  }
  bool remains() const { return spent < kMost; }

  std::size_t spent = 0, evaluations = 0;
};

/// The search for one delay, condition number and order.
class PathFollowing {
 public:
  PathFollowing(const DesignOptions& options, int order, int curvatures, Effort& effort)
      : effort_(effort),
        noise_(options.noise),
        degree_(std::max(order, 3)),
        two_leads_(order == 2),
        free_poles_(two_leads_ ? 1 : degree_ - 1),
        variables_(free_poles_ + degree_ + 1),
        curvatures_(Curvatures(options.condition, curvatures)),
        steps_(static_cast<Index>(options.delay), degree_) {
    n_ = static_cast<Index>(options.delay) + degree_;
    // u^k in falling powers of z.
    in_z_ = Matrix::Zero(degree_ + 1, degree_ + 1);
    Vector power = Vector::Ones(1);
    for (Index k = 0; k <= degree_; ++k) {
      in_z_.col(k).tail(k + 1) = power;
      power = Multiply(power, Vector{{1.0L, -1.0L}});
    }
  }

  /// Moves `c` to a local optimum, as far as weights from `first` to `last` lead; its log radius is what
  /// the sampled curvatures allow.
  void Run(Candidate& c, Real first, Real last) {
    Vector v = Pack(c);
    v[variables_ - 1] = StartRadius(v);
    Vector scale = v.cwiseAbs() * Real(1e-3) + Vector::Constant(variables_, Real(1e-6));
    for (Real weight = first; weight < last && effort_.remains(); weight *= kGrowth) {
      for (int step = 0; step < kNewtonSteps; ++step) {
        if (!NewtonStep(v, weight, scale)) break;
      }
    }
    Unpack(v, c);
    c.cost = Cost(v, nullptr);
  }

 private:
  static constexpr int kNewtonSteps = 24;
  static constexpr Real kGrowth = 4, kFlat = 1e-9L, kDecrement = 1e-2L, kShortest = 1e-4L;

  Vector Pack(const Candidate& c) const {
    Vector v = Vector::Zero(variables_);
    v.head(free_poles_) = c.denominator.segment(1, free_poles_);
    v.segment(free_poles_, degree_) = c.numerator;
    return v;
  }

  void Unpack(const Vector& v, Candidate& c) const {
    c.denominator = Vector::Zero(degree_ + 1);
    c.denominator[degree_] = 1;
    if (two_leads_) {
      // z u (u + mu) = mu u + (1 + mu) u^2 + u^3
      c.denominator[1] = v[0];
      c.denominator[2] = 1 + v[0];
    } else {
      c.denominator.segment(1, free_poles_) = v.head(free_poles_);
    }
    c.numerator = v.segment(free_poles_, degree_);
    c.log_radius = v[variables_ - 1];
    c.two_leads = two_leads_;
  }

  /// A circle that all roots are inside of, not far from the largest.
  Real StartRadius(Vector v) {
    Real low = -2, high = 0;
    for (int i = 0; i < 40; ++i) {
      const Real middle = (low + high) / 2;
      v[variables_ - 1] = middle;
      (std::isfinite(Barrier(v, nullptr)) ? high : low) = middle;
    }
    return high * Real(0.95);
  }

  /// D and N in falling powers of z.
  void InZ(const Vector& v, Vector& d, Vector& n) const {
    Candidate c;
    Unpack(v, c);
    d = in_z_ * c.denominator;
    n = in_z_.bottomLeftCorner(degree_, degree_) * c.numerator;
  }

  /// The derivatives by D and N as those by the variables but for the radius.
  void AddTo(Vector& gradient, const Vector& by_d, const Vector& by_n) const {
    const Vector by_denominator = in_z_.transpose() * by_d;
    if (two_leads_) {
      gradient[0] += by_denominator[1] + by_denominator[2];
    } else {
      gradient.head(free_poles_) += by_denominator.segment(1, free_poles_);
    }
    gradient.segment(free_poles_, degree_) +=
        in_z_.bottomLeftCorner(degree_, degree_).transpose() * by_n;
  }

  /// -sum log(1 - k^2) over the reflection coefficients k of p(e^s zeta), a mean over curvatures, and its
  /// gradient where asked for; infinite where a root is outside.
  Real Barrier(const Vector& v, Vector* gradient) {
    effort_.Count(curvatures_.size() * static_cast<std::size_t>(n_ * degree_));
    Vector d, n;
    InZ(v, d, n);
    const Real s = v[variables_ - 1];
    const Index last = degree_ - 1;
    // e^(-s i) at the powers of z of D and N.
    const Vector power_d = Vector::LinSpaced(degree_ + 1, 0, degree_),
                 power_n = Vector::LinSpaced(degree_, n_ - last, n_),
                 shrink_d = (-s * power_d).array().exp(), shrink_n = (-s * power_n).array().exp();
    const Vector a = d.cwiseProduct(shrink_d), b = n.cwiseProduct(shrink_n);
    const auto count = static_cast<Real>(curvatures_.size());
    Real sum = 0;
    Vector by_d = Vector::Zero(degree_ + 1), by_n = Vector::Zero(degree_);
    for (const Real x : curvatures_) {
      if (!steps_.Down(a, x * b, {})) return std::numeric_limits<Real>::infinity();
      sum += steps_.log_barrier();
      if (!gradient) continue;
      const StepDown::Gradient by = steps_.Up(1 / count, 0);
      by_d += by.a;
      by_n += x * by.b;
    }
    if (gradient) {
      by_d[0] = 0;
      by_d.array() *= shrink_d.array();
      by_n.array() *= shrink_n.array();
      AddTo(*gradient, by_d, by_n);
      (*gradient)[variables_ - 1] -=
          power_d.dot(d.cwiseProduct(by_d)) + power_n.dot(n.cwiseProduct(by_n));
    }
    return sum / count;
  }

  /// Logarithm of the stationary loss; adds `noise` times its gradient.
  Real LogLoss(const Vector& v, Vector* gradient, Real noise) {
    effort_.Count(2 * curvatures_.size() * static_cast<std::size_t>(n_ * degree_));
    Vector d, n;
    InZ(v, d, n);
    const auto count = static_cast<Real>(curvatures_.size());
    Real loss = 0;
    Vector by_d = Vector::Zero(degree_ + 1), by_n = Vector::Zero(degree_);
    for (const Real x : curvatures_) {
      if (!steps_.Down(d, x * n, n)) return std::numeric_limits<Real>::infinity();
      loss += x / 2 * steps_.energy() / count;
      if (!gradient) continue;
      const StepDown::Gradient by = steps_.Up(0, x / 2 / count);
      by_d += by.a;
      by_n += x * by.b + by.response;
    }
    if (gradient) AddTo(*gradient, by_d * (noise / loss), by_n * (noise / loss));
    return std::log(loss);
  }

  /// ln(half-life) but for a constant, and the loss's share; its gradient times `unit` is added.
  Real Cost(const Vector& v, Vector* gradient, Real unit = 1) {
    const Real s = v[variables_ - 1];
    if (gradient) (*gradient)[variables_ - 1] -= unit / s;
    if (noise_ == 0) return -std::log(-s);
    return -std::log(-s) + noise_ * LogLoss(v, gradient, unit * noise_);
  }

  Real Objective(const Vector& v, Real unit, Vector* gradient) {
    if (gradient) *gradient = Vector::Zero(variables_);
    constexpr Real kOutside = std::numeric_limits<Real>::infinity();
    if (!(v[variables_ - 1] < 0)) return kOutside;
    const Real barrier = Barrier(v, gradient);
    return std::isfinite(barrier) ? barrier + unit * Cost(v, gradient, unit) : kOutside;
  }

  /// One step on unit * cost + barrier; false at the end of the way. The Hessian is the difference of
  /// gradients over steps that are small against `scale`; along its eigenvectors their curvatures' sizes
  /// count, so that every step leads down and away from saddles.
  bool NewtonStep(Vector& v, Real unit, Vector& scale) {
    Vector gradient;
    const Real before = Objective(v, unit, &gradient);
    Matrix hessian(variables_, variables_);
    for (Index i = 0; i < variables_; ++i) {
      Vector moved = v, there;
      Real h = scale[i] * Real(1e-4);
      moved[i] += h;
      if (!std::isfinite(Objective(moved, unit, &there))) {
        h = -h;
        moved[i] = v[i] + h;
        if (!std::isfinite(Objective(moved, unit, &there))) return false;
      }
      hessian.col(i) = (there - gradient) / h;
    }
    hessian = (hessian + hessian.transpose()).eval() / 2;
    const Vector inverse =
        hessian.diagonal().cwiseAbs().cwiseMax(Real(1e-30)).cwiseSqrt().cwiseInverse();
    const Matrix scaled = inverse.asDiagonal() * hessian * inverse.asDiagonal();
    const auto [values, vectors] = SymmetricEigenpairsOf(scaled);
    const Vector slope = vectors.transpose() * inverse.cwiseProduct(gradient);
    const Vector steps = slope.cwiseQuotient(values.cwiseAbs().cwiseMax(kFlat));
    const Real decrement = slope.dot(steps);
    if (!(decrement > kDecrement)) return false;
    const Vector step = inverse.cwiseProduct(vectors * steps);
    for (Real length = 1; length > kShortest; length /= 2) {
      const Vector moved = v - length * step;
      if (!(Objective(moved, unit, nullptr) < before - Real(1e-4) * length * decrement)) continue;
      v = moved;
      scale = inverse;
      return true;
    }
    return false;
  }

  Effort& effort_;
  Real noise_;
  Index degree_;
  bool two_leads_;
  Index free_poles_, variables_, n_ = 0;
  Matrix in_z_;
  std::vector<Real> curvatures_;
  StepDown steps_;
};

/// Prediction and compensation at their best: the start of everything.
Candidate PublishedRule(Delay delay, double condition) {
  const Optimum optimum = FindOptimum({{FindRule("lwp-w+sc"), {}}, delay, condition, std::nullopt});
  const auto k = ComputeCoefficients<double>({FindRule("lwp-w+sc"), {}}, optimum.momentum, delay);
  const Real mu = 1 - Real(optimum.momentum);
  Candidate c;
  // z u (u + mu) and x (1 + beta u)(1 + gamma u)
  c.denominator = Vector{{Real(0), mu, 1 + mu, Real(1)}};
  c.numerator = Real(optimum.rate) * Multiply(Vector{{Real(1), Real(k.a) + Real(k.b)}},
                                              Vector{{Real(1), 1 + Real(k.horizon)}});
  return c;
}

bool IsBetter(const Candidate& x, const Candidate& y) { return x.cost < y.cost; }

/// Weights of the cost at which a short search ends and a long one does.
constexpr Real kTrialWeight = 1e3L, kLastWeight = 1e6L;

/// The best few of the starts after a short search, then the best of those after a long one.
Candidate BestOf(PathFollowing search, std::vector<Candidate> starts, Real weight) {
  constexpr std::size_t kKept = 2;
  if (starts.size() > 1) {
    for (Candidate& c : starts) search.Run(c, weight, std::max(kTrialWeight, 4 * weight));
    std::stable_sort(starts.begin(), starts.end(), IsBetter);
    if (starts.size() > kKept) starts.resize(kKept);
  }
  for (Candidate& c : starts) search.Run(c, weight, kLastWeight);
  return *std::min_element(starts.begin(), starts.end(), IsBetter);
}

}  // namespace

void Validate(const DesignOptions& options) {
  CheckNumber("delay", static_cast<double>(options.delay), 0, static_cast<double>(kMaxDesignDelay));
  CheckNumber("condition", options.condition, kMinDesignCondition, kMaxDesignCondition);
  CheckNumber("order", options.order, kMinDesignOrder, kMaxDesignOrder);
  CheckNumber("noise", options.noise, 0, kMaxDesignNoise, kWhyMaxDesignNoise);
}

namespace {

/// Starts for an order from the best of each order below; fewer where an evaluation is long.
std::vector<Candidate> StartsOf(int order, Delay delay, const std::vector<Candidate>& best) {
  if (order == 3) return {best.back()};
  std::vector<Candidate> starts;
  for (const double a : {0.0, 0.6, -0.6, 0.9, -0.9, 0.3, -0.3}) {
    starts.push_back(WithFactor(best.back(), PoleAt(a)));
  }
  if (order > 4) {
    const Candidate& before = best[best.size() - 2];
    for (const double angle : {0.3, 1.3, 2.3, 0.8, 1.8, 2.8}) {
      starts.push_back(WithFactor(before, PairAt(0.8, angle)));
    }
  }
  constexpr Delay kOperations = 600;
  const auto count = static_cast<std::size_t>(kOperations / ((delay + order) * order) + 1);
  if (starts.size() > count) starts.resize(count);
  return starts;
}

/// The best of each order from 2 up to the one that is asked for, and what more curvatures make of the last,
/// of several searches. These differ by the first weight of their costs, which leads to optima of their own.
/// All of them come to order 3 before one goes on: there may not be the effort for more.
std::vector<Candidate> FindCandidates(const DesignOptions& options, Effort& effort) {
  constexpr int kCurvatures = 33, kMoreCurvatures = 97, kFirstOrders = 3;
  constexpr std::array<Real, 4> kFirstWeights = {20, 100, 10, 1000};
  std::array<std::vector<Candidate>, kFirstWeights.size()> best;
  const auto run = [&](std::size_t i, int last) {
    for (int order = kMinDesignOrder + static_cast<int>(best[i].size()); order <= last; ++order) {
      const std::vector<Candidate> starts =
          order == kMinDesignOrder
              ? std::vector<Candidate>{PublishedRule(options.delay, options.condition)}
              : StartsOf(order, options.delay, best[i]);
      best[i].push_back(BestOf({options, order, kCurvatures, effort}, starts, kFirstWeights[i]));
    }
  };
  for (std::size_t i = 0; i < best.size(); ++i) run(i, std::min(options.order, kFirstOrders));
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < best.size(); ++i) {
    run(i, options.order);
    candidates.insert(candidates.end(), best[i].begin(), best[i].end());
    candidates.push_back(best[i].back());
    PathFollowing(options, options.order, kMoreCurvatures, effort)
        .Run(candidates.back(), kTrialWeight, kLastWeight);
  }
  return candidates;
}

/// Whether a hundredth more than its half-life is left of a candidate whose coefficients are doubles.
bool SurvivesRounding(const DesignOptions& options, const Candidate& candidate) {
  const auto order = static_cast<Index>(candidate.numerator.size());
  const auto falling = [&](const Vector& in_u, Index first) {
    const std::vector<double> in_z = InPowersOfZ(in_u);
    Vector v(static_cast<Index>(in_z.size()));
    for (Index i = 0; i < v.size(); ++i) {
      v[i] = Real(in_z[static_cast<std::size_t>(i)]) *
             std::exp(-candidate.log_radius * Real(0.99) * static_cast<Real>(first + i));
    }
    return v;
  };
  const Vector d = falling(candidate.denominator, 0),
               n = falling(candidate.numerator, static_cast<Index>(options.delay) + 1);
  StepDown steps(static_cast<Index>(options.delay), order);
  const std::vector<Real> curvatures = Curvatures(options.condition, 33);
  return std::all_of(curvatures.begin(), curvatures.end(),
                     [&](Real x) { return steps.Down(d, x * n, {}); });
}

/// What the candidate does at every curvature, and at its worst.
Design Certified(const DesignOptions& options, const Candidate& candidate) {
  Design design;
  design.numerator = InPowersOfZ(candidate.numerator);
  design.denominator = InPowersOfZ(candidate.denominator);
  // Shifting powers leaves a rounding of the pole at 0.
  if (candidate.two_leads) design.denominator.back() = 0;
  const RuleSpec spec = LinearSpec(design.numerator, design.denominator);
  Validate(spec);
  design.worst = WorstSpectralRadius(spec, 0, options.delay, 1, options.condition);
  design.half_life_updates = design.worst.half_life_updates();
  design.stationary_loss =
      MeanStationaryLoss(design.numerator, design.denominator, options.delay, options.condition);
  design.half_life_error_updates = design.half_life_updates * design.worst.log_radius_error /
                                   -(design.worst.log_radius + design.worst.log_radius_error);
  return design;
}

}  // namespace

double MeanStationaryLoss(std::span<const double> numerator, std::span<const double> denominator,
                          Delay delay, double condition) {
  constexpr int kCurvatures = 33;
  const auto size = denominator.size() + static_cast<std::size_t>(delay);
  std::vector<Real> late(size, 0), now(size, 0), sum(size);
  std::copy(denominator.begin(), denominator.end(), late.begin());
  std::copy(numerator.rbegin(), numerator.rend(), now.rbegin());
  Real loss = 0;
  for (const Real x : Curvatures(condition, kCurvatures)) {
    for (std::size_t i = 0; i < size; ++i) sum[i] = late[i] + x * now[i];
    loss += x / 2 * ImpulseEnergy(now, sum);
  }
  return static_cast<double>(loss / kCurvatures);
}

double Design::drift() const {
  double slope = 0;
  for (std::size_t k = 0; k + 1 < denominator.size(); ++k) {
    slope += static_cast<double>(denominator.size() - 1 - k) * denominator[k];
  }
  return std::accumulate(numerator.begin(), numerator.end(), 0.0) / slope;
}

Design DesignRule(const DesignOptions& options) {
  Validate(options);
  Effort effort;
  std::vector<Candidate> candidates = FindCandidates(options, effort);
  std::stable_sort(candidates.begin(), candidates.end(), IsBetter);
  // A search sees the curvatures that it samples, which never cost more than all of them; what counts is
  // what is certified.
  std::optional<Design> best;
  double least = kInfinity;
  for (const Candidate& candidate : candidates) {
    if (best && static_cast<double>(candidate.cost) + std::log(std::log(2.0)) >= least) break;
    if (!SurvivesRounding(options, candidate)) continue;
    Design design = Certified(options, candidate);
    const double cost =
        std::log(design.half_life_updates) +
        (options.noise > 0 ? options.noise * std::log(design.stationary_loss) : 0.0);
    if (!(cost < least)) continue;
    least = cost;
    best = std::move(design);
  }
  if (!best) best = Certified(options, PublishedRule(options.delay, options.condition));
  best->evaluations = effort.evaluations;
  return *best;
}

}  // namespace batchless::analysis
