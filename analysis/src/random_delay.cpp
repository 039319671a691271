#include "batchless/analysis/random_delay.h"

#include <algorithm>
#include <array>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/noise.h"
#include "batchless/analysis/rates.h"
#include "batchless/analysis/spectral_radius.h"
#include "batchless/analysis/stability.h"
#include "chain_moments.h"
#include "covariance_criterion.h"
#include "delay_operator.h"
#include "golden_section.h"
#include "largest_stable.h"
#include "not_finite.h"

namespace batchless::analysis {
namespace {

// ln r where a function of it rises through 0, looked for from a guess on; -infinity where it is positive for
// every r down to the least. Below the radius of the mean the function is kNoRise and says nothing; right
// above that it mostly is a straight line, steep where the two radii are close. Known within `tolerance`
// times ln r and at least within `known_at`; the first step from a guess of 0 is `first`.
constexpr double kNoRise = -1;

template <class Rise>
double Crossing(Rise rise, double guess, double tolerance, double known_at = 0,
                double first = 0.125) {
  constexpr double kLeast = -600;
  constexpr double kShare = 0.02;  // of the guess: the first step from it
  struct Place {
    double at, value;
  };
  const auto look = [&](double at) { return Place{at, rise(at)}; };
  Place low = look(guess), high = low, higher = low;
  double step = guess == 0 ? first : kShare * std::abs(guess);
  if (low.value < 0) {
    for (high = look(guess + step); high.value < 0; high = look(high.at + (step *= 2))) low = high;
    higher = high;
  } else {
    for (low = look(guess - step); low.value >= 0; low = look(low.at - (step *= 2))) {
      if (low.at < kLeast) return -kInfinity;
      higher = std::exchange(high, low);
    }
  }
  // From above along the line, not all of the way: what is below says nothing.
  constexpr double kWay = 0.9;
  const auto known = [&](double distance) {
    return distance <= std::max(tolerance * std::abs(high.at), known_at);
  };
  bool halve = false;
  while (low.value == kNoRise && high.value != 0 && !known(high.at - low.at)) {
    const double way = high.value * (higher.at - high.at) / (higher.value - high.value);
    const bool leads = !halve && way > 0 && high.at - way > low.at;
    const bool ends = leads && known(way);
    const double at = !leads ? low.at + (high.at - low.at) / 2
                      : ends ? high.at - way - tolerance * std::abs(high.at)
                             : high.at - kWay * way;
    const Place next = look(at);
    if (ends && next.value < 0) return high.at - way;
    if (next.at <= low.at || next.at >= high.at) break;
    // No line, and no end.
    halve = ends;
    if (next.value < 0) {
      low = next;
    } else {
      higher = std::exchange(high, next);
    }
  }
  if (low.value == kNoRise) return high.at;
  std::uintmax_t most = 200;
  const auto close = [&](double a, double b) { return known(std::abs(b - a)); };
  const auto [below, above] =
      boost::math::tools::toms748_solve(rise, low.at, high.at, low.value, high.value, close, most);
  return (below + above) / 2;
}

// ln of the mean square's growth where that is above `least`, else `least`: the larger of two for one value
// of the function.
template <class Real>
double CriterionLogGrowth(const VaryingDelay& point, double rate, double least = -kInfinity,
                          double guess = 0) {
  constexpr double kTolerance = std::is_same_v<Real, double> ? 1e-11 : 1e-15;
  const CovarianceCriterion<Real> criterion(point, rate);
  const auto rise = [&](double log_r) {
    const Real gamma = criterion.Gamma(std::exp(static_cast<Real>(log_r)));
    return gamma == 0 ? 1e300 : static_cast<double>(1 / gamma - 1);
  };
  if (std::isfinite(least)) {
    if (rise(least) >= 0) return least;
    guess = least;
  }
  return Crossing(rise, guess, kTolerance);
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
bool IsChain(const VaryingDelay& point) { return point.delays.kind == DelayModel::Kind::kMarkov; }

// As CriterionLogGrowth, for a chain.
double ChainLogGrowth(const VaryingDelay& point, double rate, double least = -kInfinity) {
  const DelaySystem system(point, rate);
  const Regimes regimes = RegimesOf(point.delays);
  // What one look has found is near what the next one will.
  Eigen::VectorXd moments;
  const auto margin = [&](double log_r) {
    return ChainMargin(system, regimes, std::exp(log_r), moments);
  };
  if (std::isfinite(least) && margin(least) >= 0) return least;
  // Where r^M is far from 1 the moments of the longest delays are made of others' roundings.
  const double first = 1 / static_cast<double>(point.delays.largest() + 2);
  return Crossing(margin, std::isfinite(least) ? least : 0, 0, 1e-12, first);
}

double TraceRadius(const VaryingDelay& point, double rate) {
  const auto [listed, entries] = ListedTrace(point);
  return TraceRadius(DelaySystem(listed, rate), entries);
}

// What a chain or a trace may take, in numbers that a radius steps through: some seconds.
struct Task {
  const char* name;
  double chain, trace;
};
constexpr Task kPoint = {"one point", 3e5, 2e9};
constexpr Task kCriticalRate = {"a critical rate", 3e5, 1e8};
constexpr Task kOptimum = {"an optimum", 1e3, 6e5};

void CheckWork(const VaryingDelay& point, const Task& task) {
  const DelayModel& model = point.delays;
  if (model.kind == DelayModel::Kind::kIndependent) return;
  const bool trace = IsTrace(point);
  const double most = trace ? task.trace : task.chain;
  // The radius of a product over a trace takes as long as some hundred of its factors.
  const double length = static_cast<double>(model.delays.size()) + (trace ? 100 : 0);
  const double rows = static_cast<double>(model.largest() + 2);
  if (length * rows * rows <= most) return;
  const std::string what = trace ? "trace" : "chain";
  throw InvalidArgument("delays",
                        "a " + what + " of " + std::to_string(model.delays.size()) +
                            " delays up to " + std::to_string(model.largest()),
                        "for " + std::string(task.name) + " " + what +
                            "s of L delays up to M with " + (trace ? "(L + 100)" : "L") +
                            " (M + 2)^2 up to " + ToText(most));
}

constexpr std::string_view kWhereDelaysVary = " where delays vary";

void Validate(const VaryingDelay& point, double rate) {
  Validate(point);
  CheckNumber("rate", rate, kMinVaryingRate, kMaxRate, kWhereDelaysVary);
}

// The least value of a function with one minimum in [low, high], and where.
template <class Value>
std::pair<double, double> Least(double low, double high, double tolerance, Value value) {
  const GoldenBracket left = GoldenSection(low, high, tolerance, std::less_equal<>(), value);
  return left.at_a <= left.at_b ? std::pair(left.a, left.at_a) : std::pair(left.b, left.at_b);
}

// Search for the best momentum and rate: a line of rates for each momentum.
class Search {
 public:
  Search(VaryingDelay point, double condition)
      : point_(std::move(point)), log_condition_(std::log(condition)) {
    curvatures_ = {0};
    if (log_condition_ == 0) return;
    curvatures_.push_back(-log_condition_);
    // Enough to see where the middle is the worst; OverAll brings in what they miss.
    for (const double part : {0.05, 0.15, 0.4}) curvatures_.push_back(-part * log_condition_);
  }

  // ln of the mean square's growth at the worst curvature. The one that was the worst before comes first:
  // of the others it is mostly enough to see that they are not.
  double Worst(double momentum, double log_rate) {
    double worst = -kInfinity;
    std::size_t at = 0;
    for (std::size_t i = 0; i < curvatures_.size(); ++i) {
      const double growth = LogGrowth(momentum, log_rate + curvatures_[i], worst);
      if (!(growth > worst)) continue;
      worst = growth;
      at = i;
    }
    std::swap(curvatures_[0], curvatures_[at]);
    if (std::isfinite(worst)) guess_ = worst;
    return worst;
  }

  // The worst over a fine grid of other curvatures too. Peaks that tell are worked with from then on.
  struct Seen {
    double growth;
    bool adds;
  };
  Seen OverAll(double momentum, double log_rate) {
    constexpr int kGrid = 100;
    constexpr double kTells = 1e-4;  // of the growth
    const double worst = Worst(momentum, log_rate);
    if (log_condition_ == 0) return {worst, false};
    std::array<double, kGrid + 1> growth;
    growth.fill(worst);
    for (int i = 1; i < kGrid; ++i) {
      growth[i] = LogGrowth(momentum, log_rate - log_condition_ * i / kGrid, worst);
    }
    Seen seen{worst, false};
    for (int i = 1; i < kGrid; ++i) {
      seen.growth = std::max(seen.growth, growth[i]);
      const bool tells = growth[i] - worst > kTells * std::min(std::abs(worst), 1.0);
      if (!tells || growth[i] < growth[i - 1] || growth[i] < growth[i + 1]) continue;
      curvatures_.push_back(-log_condition_ * i / kGrid);
      seen.adds = true;
    }
    return seen;
  }

 private:
  // Where it is above `least`, else `least`; 0 where roundings leave nothing of it or it does not settle.
  double LogGrowth(double momentum, double log_rate, double least) const {
    VaryingDelay point = point_;
    point.momentum = momentum;
    const double rate = std::min(std::exp(log_rate), kMaxRate);
    if (IsChain(point)) {
      try {
        return std::max(least, ChainLogGrowth(point, std::max(rate, kMinVaryingRate), least));
      } catch (const NotSettled&) {
        return std::max(least, 0.0);
      }
    }
    if (IsTrace(point)) {
      return std::max(least, 2 * std::log(TraceRadius(point, std::max(rate, kMinVaryingRate))));
    }
    // Two roots near 1 lie about as far apart as 1 - m and the rate over that: a rounding, over their product.
    const double apart = rate * (point.rule.is_linear() ? 1 : 1 - momentum);
    if (apart < kLeastApart) return std::max(least, 0.0);
    return apart < kLeastApartInDouble ? CriterionLogGrowth<long double>(point, rate, least, guess_)
                                       : CriterionLogGrowth<double>(point, rate, least, guess_);
  }

  static constexpr double kLeastApartInDouble = 1e-11, kLeastApart = 1e-17;

  VaryingDelay point_;
  double log_condition_;
  std::vector<double> curvatures_;  // ln of curvature / largest
  double guess_ = 0;                // the last worst growth
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
  RefuseIf(point.rule.rule.predicts_by_schedule(), "rule", point.rule.rule.name,
           "a rule of one delay");
  if (!point.rule.is_linear()) {
    CheckNumber("momentum", point.momentum, 0, kMaxVaryingMomentum, kWhereDelaysVary);
  }
  CheckWork(point, kPoint);
  const bool chain = IsChain(point);
  const Delay most = chain ? kMaxMarkovDelay : kMaxOwnDelay;
  if (point.delays.largest() <= most) return;
  if (!chain && !IsTrace(point) && HasOneUpdate(point)) return;
  throw InvalidArgument("delays", std::to_string(point.delays.largest()),
                        "delays up to " + std::to_string(most) +
                            (chain            ? " of a chain"
                             : IsTrace(point) ? " in a trace"
                                              : " where each gradient is compensated by its own"));
}

std::optional<SpectralRadius> ConstantDelayRadius(const VaryingDelay& point, double rate) {
  Validate(point, rate);
  const std::optional<Delay> delay = point.delays.only();
  if (!delay) return std::nullopt;
  return ComputeSpectralRadius(point.rule, point.momentum, *delay, rate);
}

double MeanSquareRadius(const VaryingDelay& point, double rate) {
  if (const auto constant = ConstantDelayRadius(point, rate)) return constant->radius;
  if (IsTrace(point)) return TraceRadius(point, rate);
  return std::exp((IsChain(point) ? ChainLogGrowth(point, rate)
                                  : CriterionLogGrowth<long double>(point, rate)) /
                  2);
}

double MeanRadius(const VaryingDelay& point, double rate) {
  if (const auto constant = ConstantDelayRadius(point, rate)) return constant->radius;
  if (IsTrace(point)) return TraceRadius(point, rate);
  if (!IsChain(point)) {
    const CovarianceCriterion<long double> criterion(point, rate);
    const auto inside = [&](double log_r) {
      return criterion.MeanInside(std::exp(static_cast<long double>(log_r))) ? 1.0 : kNoRise;
    };
    return std::exp(Crossing(inside, 0, 1e-15) / 2);
  }
  return OperatorMeanRadius(DelaySystem(point, rate), RegimesOf(point.delays));
}

double WeightVariance(const VaryingDelay& point, double rate) {
  Validate(point, rate);
  if (const auto delay = point.delays.only()) {
    return WeightVariance(point.rule, point.momentum, *delay, rate);
  }
  if (IsChain(point)) {
    return ChainVariance(DelaySystem(point, rate), RegimesOf(point.delays)).value_or(kNaN);
  }
  if (IsTrace(point)) {
    if (!(TraceRadius(point, rate) < 1)) return kNaN;
    const auto [listed, entries] = ListedTrace(point);
    return TraceVariance(DelaySystem(listed, rate), entries);
  }
  const CovarianceCriterion<long double> criterion(point, rate);
  return criterion.Gamma(1) < 1 ? static_cast<double>(criterion.Variance()) : kNaN;
}

LogRate SimulateLogRate(const VaryingDelay& point, double rate, std::uint64_t seed,
                        std::size_t updates) {
  if (const auto constant = ConstantDelayRadius(point, rate)) return {constant->log_radius, 0};
  if (IsTrace(point)) return {std::log(TraceRadius(point, rate)), 0};
  return SimulateLogRate(DelaySystem(point, rate), RegimesOf(point.delays), seed, updates);
}

double CriticalRate(const VaryingDelay& point) {
  Validate(point);
  CheckWork(point, kCriticalRate);
  if (const auto delay = point.delays.only()) {
    return CriticalRate(point.rule, point.momentum, *delay);
  }
  // One where the other search is made for: a root would be more than a verdict needs.
  const auto stable = [&](double rate) {
    if (IsChain(point)) {
      Eigen::VectorXd moments;
      return ChainMargin(DelaySystem(point, rate), RegimesOf(point.delays), 1, moments) > 0;
    }
    if (IsTrace(point)) return TraceRadius(point, rate) < 1;
    return CovarianceCriterion<long double>(point, rate).Gamma(1) < 1;
  };
  return LargestStable(kMinVaryingRate, kMaxRate, 1.25, 1e-10, stable, stable);
}

VaryingOptimum FindOptimum(const VaryingDelay& point, double condition,
                           std::optional<double> momentum) {
  VaryingDelay checked = point;
  if (momentum) checked.momentum = *momentum;
  Validate(checked);
  CheckNumber("condition", condition, 1, kMaxVaryingCondition, kWhereDelaysVary);
  CheckWork(point, kOptimum);
  // What takes seconds: some 30,000 radii, of which slow rules need most in long double.
  const bool slow = condition > 1e4, has_one_update = HasOneUpdate(point);
  const Delay largest = has_one_update ? (slow ? 64 : 128) : slow ? 40 : 64;
  RefuseIf(point.delays.largest() > largest, "delays", std::to_string(point.delays.largest()),
           "delays up to " + std::to_string(largest) + " for an optimum " +
               (has_one_update ? "" : "with coefficients of their own ") +
               "at a condition number of " + ToText(condition));
  OptimumOptions constant{point.rule, std::llround(point.delays.mean()), condition, momentum};
  const Optimum start = FindOptimum(constant);
  if (point.delays.only()) {
    if (std::isnan(start.half_life_updates)) return {.momentum = start.momentum, .rate = kNaN};
    return {start.half_life_updates, start.momentum, start.rate, start.worst.radius};
  }
  const double start_rate = std::isnan(start.half_life_updates) ? 1 : start.rate;
  Search search(point, condition);
  const bool fixed = momentum.has_value() || point.rule.is_linear();
  // u = ln(1 - m).
  const auto momentum_of = [&](double u) {
    return fixed ? checked.momentum : std::clamp(1 - std::exp(u), 0.0, kMaxVaryingMomentum);
  };
  constexpr double kFar = 3, kNear = 1, kStep = 0.25;  // of ln rate
  constexpr double kSpan = 0.5;                        // of u
  constexpr double kCoarse = 1e-2, kFine = 3e-5;
  constexpr int kRounds = 10;
  double u = fixed ? 0 : std::log1p(-std::min(start.momentum, kMaxVaryingMomentum));
  double log_rate = std::log(start_rate);
  Search::Seen seen{.growth = 0, .adds = true};
  for (int round = 0; seen.adds && round < kRounds; ++round) {
    // ln rate and worst growth of the best rate, which goes with 1 - m. Few curvatures make wells beside one
    // another, of which the deepest of a row of points is taken.
    const auto line = [&](double at, double reach, double tolerance) {
      const auto worst = [&](double other) { return search.Worst(momentum_of(at), other); };
      const auto points = static_cast<int>(2 * reach / kStep);
      const double lowest = log_rate + at - u - reach;
      std::pair deepest(lowest, kInfinity);
      for (int i = 0; i <= points; ++i) {
        const double other = lowest + kStep * i;
        if (const double here = worst(other); here < deepest.second) deepest = {other, here};
      }
      return Least(deepest.first - kStep, deepest.first + kStep, tolerance, worst);
    };
    if (fixed) {
      log_rate = line(u, kFar, kFine).first;
      seen = search.OverAll(momentum_of(u), log_rate);
      continue;
    }
    // The lowest of a coarse row, and then what is lowest about each of its minima.
    struct Place {
      double u, log_rate, growth;
    };
    std::vector<Place> row;
    for (int i = -4; i <= 4; ++i) {
      const double at = std::min(u + kSpan * i, 0.0);
      const auto [rate, found] = line(at, kFar, kCoarse);
      row.push_back({at, rate, found});
      if (at == 0) break;
    }
    Place best{u, log_rate, kInfinity};
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0 && row[i - 1].growth < row[i].growth) continue;
      if (i + 1 < row.size() && row[i + 1].growth < row[i].growth) continue;
      u = row[i].u;
      log_rate = row[i].log_rate;
      const auto near = [&](double at) { return line(at, kNear, kFine); };
      const double high = std::min(u + kSpan, 0.0);
      auto [at, growth] =
          Least(u - kSpan, high, kFine, [&](double other) { return near(other).second; });
      // No momentum at all is an end, to which sections only come near, by growths that lines know so far.
      if (high == 0 && near(0).second <= growth + kFine * std::min(std::abs(growth), 1.0)) at = 0;
      const auto [rate, found] = near(at);
      if (found < best.growth) best = {at, rate, found};
    }
    u = best.u;
    log_rate = best.log_rate;
    seen = search.OverAll(momentum_of(u), log_rate);
  }
  const double best = point.rule.is_linear() ? kNaN : momentum_of(u);
  if (!(seen.growth < 0)) return {.momentum = best, .rate = kNaN};
  return {-2 * std::log(2.0) / seen.growth, best, std::exp(log_rate), std::exp(seen.growth / 2)};
}

}  // namespace batchless::analysis
