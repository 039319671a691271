#include "batchless/analysis/design.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <span>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/noise.h"
#include "batchless/analysis/rates.h"
#include "powers_of_u.h"

namespace batchless::analysis {
namespace {

// Reflection coefficients of slow rules are near 1: long double keeps what is left of them.
using Real = long double;
using Vector = Eigen::Matrix<Real, Eigen::Dynamic, 1>;
using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic>;
using Eigen::Index;

/// Coefficients in powers of u = z - 1, constant term first: D (monic, constant term 0) and N.
struct Candidate {
  Vector denominator, numerator;
  Real log_radius = 0;
  Real cost = 0;
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

/// Mean of x V(x) / 2 over curvatures x of p = of_a + x of_b; z^delay D and N in falling powers, one as
/// long as the other.
Real StationaryLoss(const Vector& of_a, const Vector& of_b, std::span<const Real> curvatures) {
  const auto span = [](const Vector& v) {
    return std::span(v.data(), static_cast<std::size_t>(v.size()));
  };
  Real sum = 0;
  for (const Real x : curvatures) sum += x / 2 * ImpulseEnergy(span(of_b), span(of_a + x * of_b));
  return sum / static_cast<Real>(curvatures.size());
}

/// The search for one delay, condition number and order.
class PathFollowing {
 public:
  PathFollowing(Delay delay, double condition, int order, double noise, int curvatures)
      : noise_(noise),
        degree_(std::max(order, 3)),
        two_leads_(order == 2),
        free_poles_(two_leads_ ? 1 : degree_ - 1),
        variables_(free_poles_ + degree_ + 1) {
    n_ = static_cast<Index>(delay) + degree_;
    // z^delay u^k and u^k in falling powers of z.
    for (Index k = 0; k <= degree_; ++k) {
      Vector power = Vector::Ones(1);
      for (Index i = 0; i < k; ++i) power = Multiply(power, Vector{{1.0L, -1.0L}});
      Vector late = Vector::Zero(n_ + 1), now = Vector::Zero(n_ + 1);
      late.segment(degree_ - k, k + 1) = power;
      now.tail(k + 1) = power;
      late_.push_back(late);
      now_.push_back(now);
    }
    curvatures_ = Curvatures(condition, curvatures);
  }

  /// Moves `c` to a local optimum; its log radius is what the sampled curvatures allow.
  void Run(Candidate& c, Real gap) const {
    Vector v = Pack(c);
    v[variables_ - 1] = StartRadius(v);
    Vector scale = v.cwiseAbs() * Real(1e-3) + Vector::Constant(variables_, Real(1e-6));
    for (Real weight = 10; weight < 1 / gap; weight *= 4) {
      for (int step = 0; step < kNewtonSteps; ++step) {
        if (!NewtonStep(v, weight, scale)) break;
      }
    }
    Unpack(v, c);
    Vector ignored;
    c.cost = Cost(v, scale, ignored);
  }

 private:
  static constexpr int kNewtonSteps = 12;

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
  }

  /// A circle that all roots are inside of, not far from the largest.
  Real StartRadius(Vector v) const {
    Vector gradient;
    Real low = -2, high = 0;
    for (int i = 0; i < 40; ++i) {
      const Real middle = (low + high) / 2;
      v[variables_ - 1] = middle;
      (std::isfinite(Barrier(v, gradient)) ? high : low) = middle;
    }
    return high * Real(0.95);
  }

  /// -sum log(1 - k^2) over the reflection coefficients k of p(e^s zeta) at every curvature, and its
  /// gradient by the same recursion backwards; infinite where a root is outside.
  Real Barrier(const Vector& v, Vector& gradient) const {
    gradient = Vector::Zero(variables_);
    Vector of_a, of_b;
    Terms(v, of_a, of_b);
    Vector powers(n_ + 1);
    const Real shrink = std::exp(-v[variables_ - 1]);
    powers[0] = 1;
    for (Index i = 1; i <= n_; ++i) powers[i] = powers[i - 1] * shrink;
    Real sum = 0;
    Vector by_a = Vector::Zero(n_ + 1), by_b = Vector::Zero(n_ + 1);
    std::vector<Vector> stage(static_cast<std::size_t>(n_) + 1);
    for (const Real x : curvatures_) {
      const Vector start = ((of_a + x * of_b).array() * powers.array()).matrix();
      stage[static_cast<std::size_t>(n_)] = start;
      for (Index m = n_; m > 0; --m) {
        const Vector& a = stage[static_cast<std::size_t>(m)];
        const Real k = a[m], rest = 1 - k * k;
        if (!(rest > 0)) return std::numeric_limits<Real>::infinity();
        sum -= std::log(rest);
        stage[static_cast<std::size_t>(m) - 1] = (a.head(m) - k * a.tail(m).reverse()) / rest;
      }
      Vector adjoint = Vector::Zero(1);
      for (Index m = 1; m <= n_; ++m) {
        const Vector& a = stage[static_cast<std::size_t>(m)];
        const Vector& b = stage[static_cast<std::size_t>(m) - 1];
        const Real k = a[m], rest = 1 - k * k;
        Vector next = Vector::Zero(m + 1);
        next.head(m) += adjoint / rest;
        next.tail(m) -= (k / rest) * adjoint.reverse();
        next[m] += (2 * k + (2 * k * b - a.tail(m).reverse()).dot(adjoint)) / rest;
        adjoint = next;
      }
      adjoint[0] = 0;
      for (Index i = 1; i <= n_; ++i) {
        gradient[variables_ - 1] -= static_cast<Real>(i) * start[i] * adjoint[i];
      }
      adjoint.array() *= powers.array();
      by_a += adjoint;
      by_b += x * adjoint;
    }
    if (two_leads_) {
      gradient[0] = by_a.dot(late_[1] + late_[2]);
    } else {
      for (Index k = 0; k < free_poles_; ++k) {
        gradient[k] = by_a.dot(late_[static_cast<std::size_t>(k + 1)]);
      }
    }
    for (Index k = 0; k < degree_; ++k) {
      gradient[free_poles_ + k] = by_b.dot(now_[static_cast<std::size_t>(k)]);
    }
    const auto count = static_cast<Real>(curvatures_.size());
    gradient /= count;
    return sum / count;
  }

  /// z^delay D and N, in falling powers of z.
  void Terms(const Vector& v, Vector& of_a, Vector& of_b) const {
    of_a = late_[static_cast<std::size_t>(degree_)];
    if (two_leads_) {
      of_a += v[0] * late_[1] + (1 + v[0]) * late_[2];
    } else {
      for (Index k = 0; k < free_poles_; ++k) of_a += v[k] * late_[static_cast<std::size_t>(k + 1)];
    }
    of_b = Vector::Zero(n_ + 1);
    for (Index k = 0; k < degree_; ++k) {
      of_b += v[free_poles_ + k] * now_[static_cast<std::size_t>(k)];
    }
  }

  /// Logarithm of the stationary loss.
  Real LogLoss(const Vector& v) const {
    Vector of_a, of_b;
    Terms(v, of_a, of_b);
    return std::log(StationaryLoss(of_a, of_b, curvatures_));
  }

  /// ln(half-life) but for a constant, and the loss's share; its gradient by differences.
  Real Cost(const Vector& v, const Vector& scale, Vector& gradient) const {
    gradient = Vector::Zero(variables_);
    const Real s = v[variables_ - 1];
    gradient[variables_ - 1] = -1 / s;
    if (noise_ == 0) return -std::log(-s);
    const Real log_loss = LogLoss(v);
    for (Index i = 0; i + 1 < variables_; ++i) {
      Vector moved = v;
      const Real h = scale[i] * Real(1e-6);
      moved[i] += h;
      gradient[i] = noise_ * (LogLoss(moved) - log_loss) / h;
    }
    return -std::log(-s) + noise_ * log_loss;
  }

  /// One step on unit * cost + barrier; false at the end of the way. The Hessian is the difference of
  /// gradients over steps that are small against `scale`, and is made positive definite.
  bool NewtonStep(Vector& v, Real unit, Vector& scale) const {
    const auto evaluate = [&](const Vector& at, Vector& gradient) {
      const Real barrier = Barrier(at, gradient);
      if (!std::isfinite(barrier) || !(at[variables_ - 1] < 0)) {
        return std::numeric_limits<Real>::infinity();
      }
      Vector of_cost;
      const Real cost = Cost(at, scale, of_cost);
      gradient += unit * of_cost;
      return std::isfinite(cost) ? barrier + unit * cost : std::numeric_limits<Real>::infinity();
    };
    Vector gradient;
    const Real before = evaluate(v, gradient);
    Matrix hessian(variables_, variables_);
    for (Index i = 0; i < variables_; ++i) {
      Vector moved = v, there;
      Real h = scale[i] * Real(1e-4);
      moved[i] += h;
      if (!std::isfinite(evaluate(moved, there))) {
        h = -h;
        moved[i] = v[i] + h;
        if (!std::isfinite(evaluate(moved, there))) return false;
      }
      hessian.col(i) = (there - gradient) / h;
    }
    hessian = (hessian + hessian.transpose()).eval() / 2;
    const Vector sizes = hessian.diagonal().cwiseAbs().cwiseMax(Real(1e-30)).cwiseSqrt();
    const Vector inverse = sizes.cwiseInverse();
    Matrix scaled = inverse.asDiagonal() * hessian * inverse.asDiagonal();
    const Vector slope = (gradient.array() * inverse.array()).matrix();
    for (Real shift = 0; shift < 1e6; shift = shift == 0 ? Real(1e-6) : shift * 10) {
      const Eigen::LLT<Matrix> factors(scaled + shift * Matrix::Identity(variables_, variables_));
      if (factors.info() != Eigen::Success) continue;
      const Vector step = factors.solve(slope);
      const Real decrement = slope.dot(step);
      if (!(decrement > Real(1e-9))) return false;
      for (Real length = 1; length > 1e-6; length /= 2) {
        const Vector moved = v - length * (step.array() * inverse.array()).matrix();
        Vector ignored;
        if (!(evaluate(moved, ignored) < before - Real(1e-4) * length * decrement)) continue;
        v = moved;
        scale = inverse;
        return true;
      }
      return false;
    }
    return false;
  }

  Real noise_;
  Index degree_;
  bool two_leads_;
  Index free_poles_, variables_, n_ = 0;
  std::vector<Vector> late_, now_;
  std::vector<Real> curvatures_;
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

/// The best few of the starts after a short search, then the best of those after a long one.
Candidate BestOf(const PathFollowing& search, std::vector<Candidate> starts) {
  constexpr Real kTrialGap = 1e-3L, kGap = 1e-6L;
  constexpr std::size_t kKept = 3;
  if (starts.size() > kKept) {
    for (Candidate& c : starts) search.Run(c, kTrialGap);
    std::stable_sort(starts.begin(), starts.end(), IsBetter);
    starts.resize(kKept);
  }
  for (Candidate& c : starts) search.Run(c, kGap);
  return *std::min_element(starts.begin(), starts.end(), IsBetter);
}

}  // namespace

void Validate(const DesignOptions& options) {
  const auto check = [](std::string_view name, double value, double low, double high) {
    if (value >= low && value <= high) return;
    throw InvalidArgument(name, value, "a number from " + ToText(low) + " to " + ToText(high));
  };
  check("delay", static_cast<double>(options.delay), 0, static_cast<double>(kMaxDesignDelay));
  check("condition", options.condition, kMinDesignCondition, kMaxDesignCondition);
  check("order", options.order, kMinDesignOrder, kMaxDesignOrder);
  check("noise", options.noise, 0, kMaxDesignNoise);
}

namespace {

/// The best candidate of each order from 2 up to the one that is asked for.
std::vector<Candidate> CandidatesOf(const DesignOptions& options, int curvatures) {
  const auto search = [&](int order) {
    return PathFollowing(options.delay, options.condition, order, options.noise, curvatures);
  };
  std::vector<Candidate> best = {
      BestOf(search(2), {PublishedRule(options.delay, options.condition)})};
  for (int order = 3; order <= options.order; ++order) {
    std::vector<Candidate> starts;
    if (order == 3) {
      starts.push_back(best.back());
    } else {
      for (const double a : {-0.9, -0.6, -0.3, 0.0, 0.3, 0.6, 0.9}) {
        starts.push_back(WithFactor(best.back(), PoleAt(a)));
      }
      if (order > 4) {
        const Candidate& before = best[best.size() - 2];
        for (const double angle : {0.3, 0.8, 1.3, 1.8, 2.3, 2.8}) {
          starts.push_back(WithFactor(before, PairAt(0.8, angle)));
        }
      }
    }
    best.push_back(BestOf(search(order), std::move(starts)));
  }
  return best;
}

/// What the candidate does at every curvature, and at its worst.
Design Certified(const DesignOptions& options, const Candidate& candidate, bool has_pole_at_zero) {
  Design design;
  design.numerator = InPowersOfZ(candidate.numerator);
  design.denominator = InPowersOfZ(candidate.denominator);
  // Shifting powers leaves a rounding of the pole at 0.
  if (has_pole_at_zero) design.denominator.back() = 0;
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
  Vector late = Vector::Zero(std::ssize(denominator) + static_cast<Index>(delay)), now = late;
  std::copy(denominator.begin(), denominator.end(), late.begin());
  std::copy(numerator.rbegin(), numerator.rend(), now.reverse().begin());
  return static_cast<double>(StationaryLoss(late, now, Curvatures(condition, kCurvatures)));
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
  // A search sees the curvatures that it samples, and each sampling leads to an optimum of its own.
  // What counts is what is certified over all of them; a lower order may do better.
  std::optional<Design> best;
  double least = std::numeric_limits<double>::infinity();
  for (const int curvatures : {33, 97}) {
    const std::vector<Candidate> candidates = CandidatesOf(options, curvatures);
    for (std::size_t k = 0; k < candidates.size(); ++k) {
      Design design = Certified(options, candidates[k], k == 0);
      const double cost =
          std::log(design.half_life_updates) +
          (options.noise > 0 ? options.noise * std::log(design.stationary_loss) : 0.0);
      if (best && !(cost < least)) continue;
      least = cost;
      best = std::move(design);
    }
  }
  return *best;
}

}  // namespace batchless::analysis
