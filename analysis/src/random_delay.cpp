#include "batchless/analysis/random_delay.h"

#include <algorithm>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/rates.h"
#include "batchless/analysis/stability.h"
#include "delay_operator.h"
#include "impulse_energy-inl.h"

namespace batchless::analysis {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <class Real>
std::vector<Real> Product(const std::vector<Real>& a, const std::vector<Real>& b) {
  std::vector<Real> product(a.size() + b.size() - 1, Real(0));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) product[i + j] += a[i] * b[j];
  }
  return product;
}

// gamma(r), and the variance of the mean's loop. A delay d reads c0_d f[k - d] + c1_d f[k - d - 1] of one
// signal f = -(read / core) g. Polynomials by descending powers.
template <class Real>
class Criterion {
 public:
  Criterion(const VaryingDelay& point, double rate) : rate_(static_cast<Real>(rate)) {
    const RuleSpec& spec = point.rule;
    const DelayCoefficients coefficients = CoefficientsOf(point);
    const Coefficients<double>& first = coefficients.each.front();
    std::vector<Real> core, weight;
    bool difference = false;
    if (spec.is_linear()) {
      core.assign(spec.options.denominator.begin(), spec.options.denominator.end());
      // Numerators may be written with leading zeros.
      const std::vector<double>& n = spec.options.numerator;
      weight.assign(core.size() - 1, Real(0));
      for (std::size_t k = 0; k < std::min(n.size(), weight.size()); ++k) {
        weight[weight.size() - 1 - k] = static_cast<Real>(n[n.size() - 1 - k]);
      }
    } else {
      const Real m = static_cast<Real>(point.momentum);
      core = {Real(1), -1 - m, m};
      weight = {static_cast<Real>(first.a) + static_cast<Real>(first.b),
                -static_cast<Real>(first.b) * m};
      difference =
          spec.rule.prediction == Prediction::kWeight || ReadsDifference(spec, coefficients);
    }
    std::vector<Real> read = weight;
    if (spec.rule.prediction == Prediction::kVelocity && !difference) {
      read[0] += static_cast<Real>(first.horizon);
      read[1] -= static_cast<Real>(first.horizon);
    }
    for (std::size_t i = 0; i < point.delays.delays.size(); ++i) {
      const Real horizon = difference ? static_cast<Real>(coefficients.each[i].horizon) : Real(0);
      reads_.push_back({static_cast<std::size_t>(point.delays.delays[i]),
                        static_cast<Real>(point.delays.shares[i]), 1 + horizon, -horizon});
    }
    const std::size_t lags =
        static_cast<std::size_t>(point.delays.largest()) + (difference ? 1 : 0);
    std::vector<Real> mean(lags + 1, Real(0));
    for (const Read& each : reads_) {
      mean[each.delay] += each.share * each.now;
      if (difference) mean[each.delay + 1] += each.share * each.before;
    }
    mean_ = Product(read, mean);
    loop_ = core;
    loop_.resize(core.size() + lags, Real(0));
    Pad(mean_);
    for (std::size_t i = 0; i < loop_.size(); ++i) loop_[i] += rate_ * mean_[i];
    const auto late = [&](std::vector<Real> polynomial) {
      polynomial.resize(polynomial.size() + lags, Real(0));
      Pad(polynomial);
      return polynomial;
    };
    weight_ = late(weight);
    read_ = late(read);
  }

  // Infinity where a root of the mean's loop is not inside |z| = sqrt r.
  Real Gamma(Real r) const {
    const Real root = std::sqrt(r);
    Real now = 0, before = 0, both = 0;
    for (const Read& each : reads_) {
      const Real weight = each.share * std::pow(r, -static_cast<Real>(each.delay));
      now += weight * each.now * each.now;
      before += weight * each.before * each.before / r;
      both += weight * each.now * each.before / root;
    }
    const std::vector<Real> read = Scaled(read_, root);
    std::vector<std::vector<Real>> numerators = {read, Scaled(mean_, root)};
    // sum (now f_k^2 + before f_{k-1}^2 + 2 both f_k f_{k-1}), of terms that are all positive.
    if (both != 0) {
      std::vector<Real> sum = read;
      for (std::size_t i = 1; i < sum.size(); ++i) sum[i] += both < 0 ? -read[i - 1] : read[i - 1];
      numerators.push_back(std::move(sum));
    }
    const std::vector<Real> energies = ImpulseEnergies(std::move(numerators), Scaled(loop_, root));
    if (std::isnan(energies[0])) return std::numeric_limits<Real>::infinity();
    const Real size = std::abs(both);
    Real square = (now + before - 2 * size) * energies[0] - energies[1];
    if (both != 0) square += size * energies[2];
    return rate_ * rate_ * std::max(square, Real(0));
  }

  bool MeanInside(Real r) const {
    const Real root = std::sqrt(r);
    return !std::isnan(ImpulseEnergies<Real>({Scaled(read_, root)}, Scaled(loop_, root))[0]);
  }

  Real MeanVariance() const { return ImpulseEnergies<Real>({weight_}, loop_)[0]; }

 private:
  struct Read {
    std::size_t delay;
    Real share;
    Real now;     // c0
    Real before;  // c1
  };

  // To the loop's degree.
  void Pad(std::vector<Real>& polynomial) const {
    polynomial.insert(polynomial.begin(), loop_.size() - polynomial.size(), Real(0));
  }

  // In z / root, whose unit circle is |z| = root.
  static std::vector<Real> Scaled(std::vector<Real> polynomial, Real root) {
    Real factor = 1;
    for (Real& coefficient : polynomial) {
      coefficient *= factor;
      factor /= root;
    }
    return polynomial;
  }

  Real rate_;
  std::vector<Read> reads_;
  std::vector<Real> loop_;    // characteristic polynomial of the mean
  std::vector<Real> weight_;  // of the responses over loop_: the weight,
  std::vector<Real> read_;    // f,
  std::vector<Real> mean_;    // and what is read in the mean
};

// The r where a function of ln r rises through 0; 0 where it is positive for every r down to the least.
template <class Rise>
double Crossing(Rise rise) {
  constexpr double kLeast = -600;  // ln r
  double low = 0, high = 0;
  if (rise(0.0) < 0) {
    for (high = 1; rise(high) < 0; high *= 2) low = high;
  } else {
    for (low = -0.125; rise(low) >= 0; low *= 2) {
      if (low < kLeast) return 0;
      high = low;
    }
  }
  std::uintmax_t most = 200;
  const auto [below, above] = boost::math::tools::toms748_solve(
      rise, low, high, boost::math::tools::eps_tolerance<double>(50), most);
  return std::exp((below + above) / 2);
}

// 1/gamma rises from 0 at the mean's radius, without a pole.
template <class Real>
double Rise(Real gamma) {
  return gamma == 0 ? 1e300 : static_cast<double>(1 / gamma - 1);
}

// The radius where it is above `least`, else `least`: the larger of two for one value of the function.
template <class Rise>
double RadiusAbove(double least, Rise rise) {
  if (least > 0 && std::isfinite(least) && rise(2 * std::log(least)) >= 0) return least;
  return std::sqrt(Crossing(rise));
}

template <class Real>
double CriterionRadius(const VaryingDelay& point, double rate, double least = 0) {
  const Criterion<Real> criterion(point, rate);
  return RadiusAbove(least, [&](double log_r) {
    return Rise(criterion.Gamma(std::exp(static_cast<Real>(log_r))));
  });
}

double RenewalRadius(const VaryingDelay& point, double rate, double least = 0) {
  const DelaySystem system(point, rate);
  const DelaySystem::Draws draws = RegimesOf(point.delays).draws.front();
  return RadiusAbove(
      least, [&](double log_r) { return Rise(RenewalGain(system, draws, std::exp(log_r))); });
}

// A trace as the list of its different delays, and each update's place in it.
std::pair<VaryingDelay, std::vector<std::size_t>> ListedTrace(const VaryingDelay& point) {
  std::map<Delay, std::size_t> places;
  for (const Delay delay : point.delays.delays) places.emplace(delay, 0);
  VaryingDelay listed = point;
  listed.delays.delays.clear();
  for (auto& [delay, place] : places) {
    place = listed.delays.delays.size();
    listed.delays.delays.push_back(delay);
  }
  listed.delays.shares.assign(places.size(), 0);
  std::vector<std::size_t> entries;
  for (const Delay delay : point.delays.delays) {
    entries.push_back(places[delay]);
    listed.delays.shares[entries.back()] += point.delays.shares.front();
  }
  return {std::move(listed), std::move(entries)};
}

bool IsTrace(const VaryingDelay& point) { return point.delays.kind == DelayModel::Kind::kTrace; }

double TraceRadius(const VaryingDelay& point, double rate) {
  const auto [listed, entries] = ListedTrace(point);
  return TraceRadius(DelaySystem(listed, rate), entries);
}

void CheckVaryingRate(double rate) {
  if (rate >= kMinVaryingRate && rate <= kMaxRate) return;
  throw InvalidArgument("rate", rate,
                        "a number from " + ToText(kMinVaryingRate) + " to " + ToText(kMaxRate) +
                            " where delays vary");
}

double Radius(const VaryingDelay& point, double rate, MeanSquareMethod method) {
  if (IsTrace(point)) return TraceRadius(point, rate);
  if (method == MeanSquareMethod::kCriterion) return CriterionRadius<long double>(point, rate);
  if (method == MeanSquareMethod::kRenewal) return RenewalRadius(point, rate);
  return OperatorRadius(DelaySystem(point, rate), RegimesOf(point.delays));
}

// One where the other search is made for: a root would be more than a verdict needs.
bool IsStable(const VaryingDelay& point, double rate) {
  switch (MethodOf(point)) {
    case MeanSquareMethod::kCriterion:
      return Criterion<long double>(point, rate).Gamma(1) < 1;
    case MeanSquareMethod::kRenewal:
      return RenewalGain(DelaySystem(point, rate), RegimesOf(point.delays).draws.front(), 1) < 1;
    case MeanSquareMethod::kOperator:
      break;
  }
  return Radius(point, rate, MeanSquareMethod::kOperator) < 1;
}

// The least value of a function with one minimum in [low, high], and where.
template <class Value>
std::pair<double, double> Golden(double low, double high, double tolerance, Value value) {
  constexpr double kRatio = 0.6180339887498949;
  double a = high - kRatio * (high - low), b = low + kRatio * (high - low);
  double at_a = value(a), at_b = value(b);
  while (high - low > tolerance) {
    if (at_a <= at_b) {
      high = std::exchange(b, a);
      at_b = at_a;
      a = high - kRatio * (high - low);
      at_a = value(a);
    } else {
      low = std::exchange(a, b);
      at_a = at_b;
      b = low + kRatio * (high - low);
      at_b = value(b);
    }
  }
  return at_a <= at_b ? std::pair(a, at_a) : std::pair(b, at_b);
}

// Search for the best momentum and rate: a line of rates for each momentum.
class Search {
 public:
  Search(VaryingDelay point, double condition)
      : point_(std::move(point)), log_condition_(std::log(condition)) {
    curvatures_ = {0};
    if (log_condition_ == 0) return;
    curvatures_.push_back(-log_condition_);
    // Enough to see where the middle is the worst; Add brings in what they miss.
    for (const double part : {0.05, 0.15, 0.4}) curvatures_.push_back(-part * log_condition_);
  }

  // The larger one of the radius and `least`.
  double RadiusAt(double momentum, double log_rate, double least) const {
    VaryingDelay point = point_;
    point.momentum = momentum;
    const double rate = std::clamp(std::exp(log_rate), kMinVaryingRate, kMaxRate);
    switch (const MeanSquareMethod method = MethodOf(point); method) {
      case MeanSquareMethod::kCriterion:
        return CriterionRadius<double>(point, rate, least);
      case MeanSquareMethod::kRenewal:
        return RenewalRadius(point, rate, least);
      case MeanSquareMethod::kOperator:
        return std::max(least, Radius(point, rate, method));
    }
    return least;
  }

  double Worst(double momentum, double log_rate) const {
    double worst = 0;
    for (const double shift : curvatures_) worst = RadiusAt(momentum, log_rate + shift, worst);
    return worst;
  }

  // ln rate and worst radius of the best rate between two.
  std::pair<double, double> BestRate(double momentum, double low, double high,
                                     double tolerance) const {
    return Golden(low, high, tolerance, [&](double log_rate) { return Worst(momentum, log_rate); });
  }

  // Whether some other curvature of a fine grid is worse, which is worked with from then on.
  bool Add(double momentum, double log_rate) {
    constexpr int kGrid = 100;
    if (log_condition_ == 0) return false;
    double worst = Worst(momentum, log_rate) * (1 + 1e-7);
    double shift = 1;
    for (int i = 1; i < kGrid; ++i) {
      const double other = -log_condition_ * i / kGrid;
      const double radius = RadiusAt(momentum, log_rate + other, worst);
      if (radius > worst) {
        worst = radius;
        shift = other;
      }
    }
    if (shift > 0) return false;
    curvatures_.push_back(shift);
    return true;
  }

 private:
  VaryingDelay point_;
  double log_condition_;
  std::vector<double> curvatures_;  // ln of curvature / largest
};

}  // namespace

RuleSpec AtMeanDelay(const RuleSpec& spec, double mean) {
  RuleSpec held = spec;
  RuleOptions& options = held.options;
  if (spec.rule.compensation == Compensation::kSpike && !options.sc_delay) {
    options.sc_delay = options.sc_delay_scale * mean;
  }
  const bool predicts =
      spec.rule.prediction != Prediction::kNone && spec.rule.compensation != Compensation::kFree;
  if (predicts && !options.horizon) options.horizon = options.horizon_scale * mean;
  return held;
}

void Validate(const VaryingDelay& point) {
  Validate(point.rule);
  if (point.rule.rule.predicts_by_schedule()) {
    throw InvalidArgument("rule", point.rule.rule.name, "a rule of one delay");
  }
  if (!point.rule.is_linear() && !(point.momentum >= 0 && point.momentum <= kMaxVaryingMomentum)) {
    throw InvalidArgument(
        "momentum", point.momentum,
        "a number from 0 to " + ToText(kMaxVaryingMomentum) + " where delays vary");
  }
  const bool chain = point.delays.kind == DelayModel::Kind::kMarkov;
  const Delay most = chain ? kMaxMarkovDelay : kMaxOperatorDelay;
  if (point.delays.largest() <= most) return;
  if (!chain && MethodOf(point) == MeanSquareMethod::kCriterion) return;
  throw InvalidArgument("delays", std::to_string(point.delays.largest()),
                        "delays up to " + std::to_string(most) +
                            (chain            ? " of a chain"
                             : IsTrace(point) ? " in a trace"
                                              : " where each gradient is compensated by its own"));
}

MeanSquareMethod MethodOf(const VaryingDelay& point) {
  if (point.delays.kind != DelayModel::Kind::kIndependent) return MeanSquareMethod::kOperator;
  if (point.rule.is_linear()) return MeanSquareMethod::kCriterion;
  const DelayCoefficients coefficients = CoefficientsOf(point);
  const bool one_signal = point.rule.rule.prediction != Prediction::kVelocity ||
                          coefficients.same_horizon || ReadsDifference(point.rule, coefficients);
  return coefficients.same_update && one_signal ? MeanSquareMethod::kCriterion
                                                : MeanSquareMethod::kRenewal;
}

double MeanSquareRadius(const VaryingDelay& point, double rate) {
  return MeanSquareRadius(point, rate, MethodOf(point));
}

double MeanSquareRadius(const VaryingDelay& point, double rate, MeanSquareMethod method) {
  Validate(point);
  CheckVaryingRate(rate);
  return Radius(point, rate, method);
}

double MeanRadius(const VaryingDelay& point, double rate) {
  Validate(point);
  CheckVaryingRate(rate);
  if (IsTrace(point)) return TraceRadius(point, rate);
  if (MethodOf(point) == MeanSquareMethod::kCriterion) {
    const Criterion<long double> criterion(point, rate);
    return std::sqrt(Crossing([&](double log_r) {
      return criterion.MeanInside(std::exp(static_cast<long double>(log_r))) ? 1.0 : -1.0;
    }));
  }
  return OperatorMeanRadius(DelaySystem(point, rate), RegimesOf(point.delays));
}

double WeightVariance(const VaryingDelay& point, double rate) {
  return WeightVariance(point, rate, MethodOf(point));
}

double WeightVariance(const VaryingDelay& point, double rate, MeanSquareMethod method) {
  Validate(point);
  CheckVaryingRate(rate);
  if (method == MeanSquareMethod::kCriterion && !IsTrace(point)) {
    const Criterion<long double> criterion(point, rate);
    const long double gamma = criterion.Gamma(1);
    return gamma < 1 ? static_cast<double>(criterion.MeanVariance() / (1 - gamma)) : kNaN;
  }
  if (!(Radius(point, rate, method) < 1)) return kNaN;
  if (IsTrace(point)) {
    const auto [listed, entries] = ListedTrace(point);
    return TraceVariance(DelaySystem(listed, rate), entries);
  }
  const DelaySystem system(point, rate);
  const Regimes regimes = RegimesOf(point.delays);
  return method == MeanSquareMethod::kRenewal ? RenewalVariance(system, regimes.draws.front())
                                              : OperatorVariance(system, regimes);
}

LogRate SimulateLogRate(const VaryingDelay& point, double rate, std::uint64_t seed,
                        std::size_t updates) {
  Validate(point);
  CheckVaryingRate(rate);
  if (IsTrace(point)) return {std::log(TraceRadius(point, rate)), 0};
  return SimulateLogRate(DelaySystem(point, rate), RegimesOf(point.delays), seed, updates);
}

double CriticalRate(const VaryingDelay& point) {
  Validate(point);
  constexpr double kStep = 1.25;
  constexpr double kDigits = 1e-10;
  if (!IsStable(point, kMinVaryingRate)) return 0;
  double stable = kMinVaryingRate, unstable = kMinVaryingRate * kStep;
  while (IsStable(point, unstable)) {
    stable = unstable;
    if (stable >= kMaxRate) return kInfinity;
    unstable = std::min(unstable * kStep, kMaxRate);
  }
  while (unstable - stable > kDigits * stable) {
    const double middle = stable + (unstable - stable) / 2;
    (IsStable(point, middle) ? stable : unstable) = middle;
  }
  return stable;
}

VaryingOptimum FindOptimum(const VaryingDelay& point, double condition,
                           std::optional<double> momentum) {
  VaryingDelay checked = point;
  if (momentum) checked.momentum = *momentum;
  Validate(checked);
  if (!(condition >= 1 && condition <= kMaxVaryingCondition)) {
    throw InvalidArgument(
        "condition", condition,
        "a number from 1 to " + ToText(kMaxVaryingCondition) + " where delays vary");
  }
  OptimumOptions constant{point.rule, std::llround(point.delays.mean()), condition, momentum};
  const Optimum start = FindOptimum(constant);
  const double start_rate = std::isnan(start.half_life_updates) ? 1 : start.rate;
  Search search(point, condition);
  const bool fixed = momentum.has_value() || point.rule.is_linear();
  // u = ln(1 - m).
  const auto momentum_of = [&](double u) {
    return fixed ? checked.momentum : std::clamp(1 - std::exp(u), 0.0, kMaxVaryingMomentum);
  };
  constexpr double kReach = 3.0;  // of ln rate
  constexpr double kSpan = 0.5;   // of u
  constexpr double kCoarse = 1e-2, kFine = 3e-5, kMomentumTolerance = 1e-3;
  double u = fixed ? 0 : std::log1p(-std::min(start.momentum, kMaxVaryingMomentum));
  double log_rate = std::log(start_rate);
  double radius = 0;
  do {
    const auto line = [&](double at, double tolerance) {
      // The best rate goes with 1 - m.
      const double middle = log_rate + at - u;
      return search.BestRate(momentum_of(at), middle - kReach, middle + kReach, tolerance);
    };
    if (fixed) {
      std::tie(log_rate, radius) = line(u, kFine);
      continue;
    }
    double best = u;
    radius = kInfinity;
    for (int i = -4; i <= 4; ++i) {
      const double at = std::min(u + kSpan * i, 0.0);
      if (const double found = line(at, kCoarse).second; found < radius) {
        radius = found;
        best = at;
      }
    }
    const double refined =
        Golden(best - kSpan, std::min(best + kSpan, 0.0), kMomentumTolerance, [&](double at) {
          return line(at, kFine).second;
        }).first;
    std::tie(log_rate, radius) = line(refined, kFine);
    u = refined;
  } while (search.Add(momentum_of(u), log_rate));
  VaryingOptimum optimum;
  optimum.momentum = point.rule.is_linear() ? kNaN : momentum_of(u);
  if (!(radius < 1)) {
    optimum.rate = kNaN;
    return optimum;
  }
  optimum.rate = std::exp(log_rate);
  optimum.radius = radius;
  optimum.half_life_updates = HalfLife(radius);
  return optimum;
}

}  // namespace batchless::analysis
