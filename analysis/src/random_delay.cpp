#include "batchless/analysis/random_delay.h"

#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <algorithm>
#include <array>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
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

// Whether K(r) is one number.
bool HasOneUpdate(const RuleSpec& spec, const DelayCoefficients& coefficients) {
  return spec.is_linear() ||
         (coefficients.same_update && !SecondSignalOf(spec, coefficients).velocity);
}

bool HasOneUpdate(const VaryingDelay& point) {
  return HasOneUpdate(point.rule, CoefficientsOf(point));
}

// By descending powers.
template <class Real>
using Polynomial = std::vector<Real>;

template <class Real>
Polynomial<Real> Product(const Polynomial<Real>& a, const Polynomial<Real>& b) {
  Polynomial<Real> product(a.size() + b.size() - 1, Real(0));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) product[i + j] += a[i] * b[j];
  }
  return product;
}

// sum += factor * added.
template <class Real>
void Add(Polynomial<Real>& sum, const Polynomial<Real>& added, Real factor = 1) {
  if (sum.size() < added.size()) sum.insert(sum.begin(), added.size() - sum.size(), Real(0));
  const std::size_t ahead = sum.size() - added.size();
  for (std::size_t i = 0; i < added.size(); ++i) sum[ahead + i] += factor * added[i];
}

// K(r) of random_delay.h, and the variance.
//
// A gradient g of delay d adds G_d g to the core, G_d = sum_l in_dl e_l over one or two inputs e_l, and
// g = x sum_s read_ds f_s[k - d] reads one or two signals of the core. Without a loop signal s answers input
// i by y_is / core. With H_ls = x sum_d p_d in_dl read_ds z^(L - d), L the largest delay, and f_s, m_l the
// signals and what the mean adds to input l in the closed loop,
//
//   loop = z^L core - sum_ls H_ls y_ls     f_s = z^L y_is / loop     m_l = sum_s H_ls y_is / loop
//
// where all signals are filters of one: then (y_is) has rank one. Weight and velocity as two signals have
//
//   loop = z^2L core - z^L sum_ls H_ls y_ls + det H
//   f = z^L (z^L y - adj H) / loop         m = (z^L H y - det H) / loop
template <class Real>
class Criterion {
 public:
  Criterion(const VaryingDelay& point, double rate) : rate_(static_cast<Real>(rate)) {
    const RuleSpec& spec = point.rule;
    const DelayCoefficients coefficients = CoefficientsOf(point);
    const Coefficients<double>& first = coefficients.each.front();
    const Real m = static_cast<Real>(point.momentum);
    const bool velocity = spec.rule.prediction == Prediction::kVelocity;
    const auto [difference, both] = SecondSignalOf(spec, coefficients);
    const bool same = coefficients.same_update;
    inputs_ = HasOneUpdate(spec, coefficients) ? 1 : 2;
    signals_ = difference || both ? 2 : 1;
    // Answers of weight and velocity to each input.
    Polynomial<Real> core = {Real(1), -1 - m, m};
    std::vector<Polynomial<Real>> weights, velocities;
    if (spec.is_linear()) {
      core.assign(spec.options.denominator.begin(), spec.options.denominator.end());
      const std::vector<double>& n = spec.options.numerator;
      weights = {Polynomial<Real>(n.begin(), n.end())};
      for (Real& coefficient : weights[0]) coefficient = -coefficient;
      // Numerators may be written with leading zeros.
      if (weights[0].size() >= core.size()) {
        weights[0].erase(weights[0].begin(), weights[0].end() - (core.size() - 1));
      }
    } else if (inputs_ == 1) {
      const Real a = static_cast<Real>(first.a), b = static_cast<Real>(first.b);
      weights = {{-(a + b), b * m}};
      velocities = {{Real(1), Real(-1)}};
    } else {
      weights = {{Real(1), -m}, {same ? -m * static_cast<Real>(first.a) : -m}};
      velocities = {{Real(0)}, {Real(1), Real(-1)}};
    }
    for (std::size_t i = 0; i < point.delays.delays.size(); ++i) {
      const Coefficients<double>& each = coefficients.each[i];
      const Real a = static_cast<Real>(each.a), b = static_cast<Real>(each.b);
      const Real horizon = static_cast<Real>(each.horizon);
      draws_.push_back({static_cast<std::size_t>(point.delays.delays[i]),
                        static_cast<Real>(point.delays.shares[i]),
                        {inputs_ == 1 ? Real(1) : -(a + b), same ? Real(1) : a},
                        {Real(1), both ? -horizon : horizon}});
    }
    const Real horizon = velocity && signals_ == 1 ? static_cast<Real>(first.horizon) : Real(0);
    // y by input, then signal.
    std::vector<Polynomial<Real>> answers;
    for (std::size_t i = 0; i < inputs_; ++i) {
      Polynomial<Real> signal = weights[i];
      if (horizon != 0) Add(signal, velocities[i], -horizon);
      if (both) {
        answers.insert(answers.end(), {weights[i], velocities[i]});
      } else if (difference) {
        answers.push_back(Product<Real>(signal, {Real(1), Real(0)}));
        answers.push_back(Product<Real>(signal, {Real(1), Real(-1)}));
      } else {
        answers.push_back(signal);
      }
    }
    if (difference) core.push_back(Real(0));
    const std::vector<Polynomial<Real>> gains = CloseLoop(core, answers, both);
    for (std::size_t i = 0; i < inputs_; ++i) {
      if (both) {
        weights_.push_back(responses_[i * signals_]);
        continue;
      }
      if (difference) weights[i].push_back(Real(0));
      weights_.push_back(Late(weights[i], 1));
      // What the other input's loop adds where the signal has a part of the velocity.
      if (horizon != 0 && inputs_ == 2) {
        Add(weights_[i], gains[1 - i], i == 0 ? horizon : -horizon);
      }
    }
    for (std::vector<Polynomial<Real>>* polynomials : {&responses_, &means_, &weights_}) {
      for (Polynomial<Real>& polynomial : *polynomials) {
        polynomial.insert(polynomial.begin(), loop_.size() - polynomial.size(), Real(0));
      }
    }
  }

  // The radius of K(r), which falls with r; infinity where a root of the mean's loop is not inside
  // |z| = sqrt r.
  Real Gamma(Real r) const {
    const Matrix map = Map(r);
    if (map.size() == 0) return std::numeric_limits<Real>::infinity();
    if (map.size() == 1) return std::max(map(0, 0), Real(0));
    return Eigen::EigenSolver<Matrix>(map, false).eigenvalues().cwiseAbs().maxCoeff();
  }

  bool MeanInside(Real r) const {
    const Real root = std::sqrt(r);
    return !ImpulseProducts<Real>({Scaled(responses_[0], root)}, Scaled(loop_, root)).empty();
  }

  // E[w^2] under unit noise in the gradient; the mean square has to be stable.
  Real Variance() const {
    const Matrix map = Map(1);
    Vector noise = Vector::Zero(map.rows());
    for (const Draw& draw : draws_) {
      ForPairs([&](std::size_t pair, std::size_t i, std::size_t j) {
        noise(Index(pair)) += draw.share * draw.inputs[i] * draw.inputs[j];
      });
    }
    const Vector deviations =
        (Matrix::Identity(map.rows(), map.cols()) - map).partialPivLu().solve(noise);
    const auto products = ImpulseProducts<Real>(weights_, loop_);
    Real variance = 0;
    ForPairs([&](std::size_t pair, std::size_t i, std::size_t j) {
      variance += deviations(Index(pair)) * (i == j ? 1 : 2) * products[i][j];
    });
    return variance;
  }

 private:
  using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic>;
  using Vector = Eigen::Matrix<Real, Eigen::Dynamic, 1>;

  struct Draw {
    std::size_t delay;
    Real share;
    std::array<Real, 2> inputs;
    std::array<Real, 2> reads;  // times the rate
  };

  static Eigen::Index Index(std::size_t value) { return static_cast<Eigen::Index>(value); }

  // Every pair i <= j of inputs, in order.
  template <class Function>
  void ForPairs(Function function) const {
    std::size_t pair = 0;
    for (std::size_t j = 0; j < inputs_; ++j) {
      for (std::size_t i = 0; i <= j; ++i) function(pair++, i, j);
    }
  }

  // Multiplied by z^(L times).
  Polynomial<Real> Late(Polynomial<Real> polynomial, std::size_t times) const {
    polynomial.resize(polynomial.size() + times * draws_.back().delay, Real(0));
    return polynomial;
  }

  // Returns H by input, then signal.
  std::vector<Polynomial<Real>> CloseLoop(const Polynomial<Real>& core,
                                          const std::vector<Polynomial<Real>>& answers, bool both) {
    const std::size_t length = Late({Real(1)}, 1).size();
    std::vector<Polynomial<Real>> gains(inputs_ * signals_, Polynomial<Real>(length, Real(0)));
    for (const Draw& draw : draws_) {
      for (std::size_t l = 0; l < inputs_; ++l) {
        for (std::size_t s = 0; s < signals_; ++s) {
          gains[l * signals_ + s][draw.delay] +=
              rate_ * draw.share * draw.inputs[l] * draw.reads[s];
        }
      }
    }
    Polynomial<Real> determinant;
    if (both) {
      determinant = Product(gains[0], gains[3]);
      Add(determinant, Product(gains[1], gains[2]), Real(-1));
    }
    const std::size_t late = both ? 1 : 0;
    loop_ = Late(core, 1 + late);
    for (std::size_t i = 0; i < inputs_; ++i) {
      for (std::size_t s = 0; s < signals_; ++s) {
        const std::size_t at = i * signals_ + s;
        Add(loop_, Late(Product(gains[at], answers[at]), late), Real(-1));
        Polynomial<Real> response = Late(answers[at], 1);
        // adj H by signal, then input.
        if (both) Add(response, gains[i == s ? 3 - at : s * 2 + i], Real(i == s ? -1 : 1));
        responses_.push_back(Late(response, late));
      }
      for (std::size_t l = 0; l < inputs_; ++l) {
        Polynomial<Real> mean(1, Real(0));
        for (std::size_t s = 0; s < signals_; ++s) {
          Add(mean, Late(Product(gains[l * signals_ + s], answers[i * signals_ + s]), late));
        }
        if (both && l == i) Add(mean, determinant, Real(-1));
        means_.push_back(mean);
      }
    }
    if (both) Add(loop_, determinant);
    return gains;
  }

  // K(r) over the upper triangles of symmetric matrices; empty where the loop is not stable.
  Matrix Map(Real r) const {
    const Real root = std::sqrt(r);
    std::vector<Polynomial<Real>> numerators;
    for (const auto* polynomials : {&responses_, &means_}) {
      for (const Polynomial<Real>& each : *polynomials) numerators.push_back(Scaled(each, root));
    }
    const auto products = ImpulseProducts<Real>(std::move(numerators), Scaled(loop_, root));
    if (products.empty()) return {};
    const std::size_t pairs = inputs_ * (inputs_ + 1) / 2;
    Matrix map = Matrix::Zero(Index(pairs), Index(pairs));
    ForPairs([&](std::size_t column, std::size_t i, std::size_t j) {
      // A pair stands for e_i e_j' + e_j e_i', once where they are one.
      const Real twice = i == j ? 1 : 2;
      // sum_d p_d in_dl in_dk E[g_d^2]
      for (const Draw& draw : draws_) {
        Real square = 0;
        for (std::size_t s = 0; s < signals_; ++s) {
          for (std::size_t t = 0; t < signals_; ++t) {
            square += draw.reads[s] * draw.reads[t] * products[i * signals_ + s][j * signals_ + t];
          }
        }
        square *= twice * rate_ * rate_ * draw.share * std::pow(r, -static_cast<Real>(draw.delay));
        ForPairs([&](std::size_t row, std::size_t l, std::size_t k) {
          map(Index(row), Index(column)) += square * draw.inputs[l] * draw.inputs[k];
        });
      }
      // and without what the mean adds
      const std::size_t means = responses_.size();
      ForPairs([&](std::size_t row, std::size_t l, std::size_t k) {
        const Real product = products[means + i * inputs_ + l][means + j * inputs_ + k] +
                             products[means + j * inputs_ + l][means + i * inputs_ + k];
        map(Index(row), Index(column)) -= twice * product / 2;
      });
    });
    return map;
  }

  // In z / root, whose unit circle is |z| = root.
  static Polynomial<Real> Scaled(Polynomial<Real> polynomial, Real root) {
    Real factor = 1;
    for (Real& coefficient : polynomial) {
      coefficient *= factor;
      factor /= root;
    }
    return polynomial;
  }

  Real rate_;
  std::size_t inputs_, signals_;
  std::vector<Draw> draws_;
  // These describe the closed loop, all of them as long as its polynomial.
  Polynomial<Real> loop_;
  std::vector<Polynomial<Real>> responses_;  // by input, then signal,
  std::vector<Polynomial<Real>> means_;      // by input, then input that is added to,
  std::vector<Polynomial<Real>> weights_;    // by input.
};

// ln r where a function of it rises through 0, looked for from a guess on; -infinity where it is positive for
// every r down to the least. Below the radius of the mean the function is kNoRise and says nothing; right
// above that it mostly is a straight line, steep where the two radii are close.
constexpr double kNoRise = -1;

template <class Rise>
double Crossing(Rise rise, double guess, double tolerance) {
  constexpr double kLeast = -600;
  constexpr double kShare = 0.02;  // of the guess: the first step from it
  struct Place {
    double at, value;
  };
  const auto look = [&](double at) { return Place{at, rise(at)}; };
  Place low = look(guess), high = low, higher = low;
  double step = guess == 0 ? 0.125 : kShare * std::abs(guess);
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
  const auto known = [&](double distance) { return distance <= tolerance * std::abs(high.at); };
  bool halve = false;
  while (low.value == kNoRise && !known(high.at - low.at)) {
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

// 1/gamma - 1.
template <class Real>
double Rise(Real gamma) {
  return gamma == 0 ? 1e300 : static_cast<double>(1 / gamma - 1);
}

// ln of the mean square's growth where that is above `least`, else `least`: the larger of two for one value
// of the function.
template <class Real>
double CriterionLogGrowth(const VaryingDelay& point, double rate, double least = -kInfinity,
                          double guess = 0) {
  constexpr double kTolerance = std::is_same_v<Real, double> ? 1e-11 : 1e-15;
  const Criterion<Real> criterion(point, rate);
  const auto rise = [&](double log_r) {
    return Rise(criterion.Gamma(std::exp(static_cast<Real>(log_r))));
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

double TraceRadius(const VaryingDelay& point, double rate) {
  const auto [listed, entries] = ListedTrace(point);
  return TraceRadius(DelaySystem(listed, rate), entries);
}

// What a chain or a trace may take, in numbers that a radius steps through: some seconds.
struct Task {
  const char* name;
  double chain, trace;
};
constexpr Task kPoint = {"one point", 1.5e5, 2e9};
constexpr Task kCriticalRate = {"a critical rate", 6e3, 1e8};
constexpr Task kOptimum = {"an optimum", 600, 6e5};

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

// What takes seconds: some 30,000 radii, of which slow rules need most in long double.
Delay LargestOfOptimum(const VaryingDelay& point, double condition) {
  const bool slow = condition > 1e4;
  if (HasOneUpdate(point)) return slow ? 64 : 128;
  return slow ? 40 : 64;
}

void CheckVaryingRate(double rate) {
  if (rate >= kMinVaryingRate && rate <= kMaxRate) return;
  throw InvalidArgument("rate", rate,
                        "a number from " + ToText(kMinVaryingRate) + " to " + ToText(kMaxRate) +
                            " where delays vary");
}

double Radius(const VaryingDelay& point, double rate, MeanSquareMethod method) {
  if (IsTrace(point)) return TraceRadius(point, rate);
  if (method == MeanSquareMethod::kCriterion) {
    return std::exp(CriterionLogGrowth<long double>(point, rate) / 2);
  }
  return OperatorRadius(DelaySystem(point, rate), RegimesOf(point.delays));
}

// One where the other search is made for: a root would be more than a verdict needs.
bool IsStable(const VaryingDelay& point, double rate) {
  if (MethodOf(point) == MeanSquareMethod::kCriterion) {
    return Criterion<long double>(point, rate).Gamma(1) < 1;
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

  // ln rate and worst growth of the best rate between two.
  std::pair<double, double> BestRate(double momentum, double low, double high, double tolerance) {
    return Golden(low, high, tolerance, [&](double log_rate) { return Worst(momentum, log_rate); });
  }

  // Whether some other curvature of a fine grid is worse, which is worked with from then on.
  bool Add(double momentum, double log_rate) {
    constexpr int kGrid = 100;
    if (log_condition_ == 0) return false;
    // Roundings make none worse.
    double worst = Worst(momentum, log_rate);
    worst += 1e-7 * std::min(std::abs(worst), 1.0);
    double shift = 1;
    for (int i = 1; i < kGrid; ++i) {
      const double other = -log_condition_ * i / kGrid;
      const double growth = LogGrowth(momentum, log_rate + other, worst);
      if (growth > worst) {
        worst = growth;
        shift = other;
      }
    }
    if (shift > 0) return false;
    curvatures_.push_back(shift);
    return true;
  }

 private:
  // Where it is above `least`, else `least`; 0 where roundings leave nothing of it.
  double LogGrowth(double momentum, double log_rate, double least) const {
    VaryingDelay point = point_;
    point.momentum = momentum;
    const double rate = std::min(std::exp(log_rate), kMaxRate);
    const MeanSquareMethod method = MethodOf(point);
    if (method != MeanSquareMethod::kCriterion) {
      return std::max(least, 2 * std::log(Radius(point, std::max(rate, kMinVaryingRate), method)));
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
  if (point.rule.rule.predicts_by_schedule()) {
    throw InvalidArgument("rule", point.rule.rule.name, "a rule of one delay");
  }
  if (!point.rule.is_linear() && !(point.momentum >= 0 && point.momentum <= kMaxVaryingMomentum)) {
    throw InvalidArgument(
        "momentum", point.momentum,
        "a number from 0 to " + ToText(kMaxVaryingMomentum) + " where delays vary");
  }
  CheckWork(point, kPoint);
  const bool chain = point.delays.kind == DelayModel::Kind::kMarkov;
  const Delay most = chain ? kMaxMarkovDelay : kMaxOwnDelay;
  if (point.delays.largest() <= most) return;
  if (!chain && !IsTrace(point) && HasOneUpdate(point)) return;
  throw InvalidArgument("delays", std::to_string(point.delays.largest()),
                        "delays up to " + std::to_string(most) +
                            (chain            ? " of a chain"
                             : IsTrace(point) ? " in a trace"
                                              : " where each gradient is compensated by its own"));
}

MeanSquareMethod MethodOf(const VaryingDelay& point) {
  return point.delays.kind == DelayModel::Kind::kIndependent ? MeanSquareMethod::kCriterion
                                                             : MeanSquareMethod::kOperator;
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
    const auto inside = [&](double log_r) {
      return criterion.MeanInside(std::exp(static_cast<long double>(log_r))) ? 1.0 : kNoRise;
    };
    return std::exp(Crossing(inside, 0, 1e-15) / 2);
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
    return criterion.Gamma(1) < 1 ? static_cast<double>(criterion.Variance()) : kNaN;
  }
  if (!(Radius(point, rate, method) < 1)) return kNaN;
  if (IsTrace(point)) {
    const auto [listed, entries] = ListedTrace(point);
    return TraceVariance(DelaySystem(listed, rate), entries);
  }
  return OperatorVariance(DelaySystem(point, rate), RegimesOf(point.delays));
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
  CheckWork(point, kCriticalRate);
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
  CheckWork(point, kOptimum);
  const Delay largest = LargestOfOptimum(point, condition);
  if (point.delays.largest() > largest) {
    throw InvalidArgument("delays", std::to_string(point.delays.largest()),
                          "delays up to " + std::to_string(largest) + " for an optimum " +
                              (HasOneUpdate(point) ? "" : "with coefficients of their own ") +
                              "at a condition number of " + ToText(condition));
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
  double growth = 0;
  do {
    const auto line = [&](double at, double tolerance) {
      // The best rate goes with 1 - m.
      const double middle = log_rate + at - u;
      return search.BestRate(momentum_of(at), middle - kReach, middle + kReach, tolerance);
    };
    if (fixed) {
      std::tie(log_rate, growth) = line(u, kFine);
      continue;
    }
    double best = u;
    growth = kInfinity;
    for (int i = -4; i <= 4; ++i) {
      const double at = std::min(u + kSpan * i, 0.0);
      if (const double found = line(at, kCoarse).second; found < growth) {
        growth = found;
        best = at;
      }
    }
    const double refined =
        Golden(best - kSpan, std::min(best + kSpan, 0.0), kMomentumTolerance, [&](double at) {
          return line(at, kFine).second;
        }).first;
    std::tie(log_rate, growth) = line(refined, kFine);
    u = refined;
  } while (search.Add(momentum_of(u), log_rate));
  VaryingOptimum optimum;
  optimum.momentum = point.rule.is_linear() ? kNaN : momentum_of(u);
  if (!(growth < 0)) {
    optimum.rate = kNaN;
    return optimum;
  }
  optimum.rate = std::exp(log_rate);
  optimum.radius = std::exp(growth / 2);
  optimum.half_life_updates = -2 * std::log(2.0) / growth;
  return optimum;
}

}  // namespace batchless::analysis
