#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <utility>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/limit.h"
#include "batchless/analysis/worst_case.h"
#include "golden_section.h"
#include "multiplier_search.h"
#include "not_finite.h"
#include "powers_of_u.h"

namespace batchless::analysis {
namespace {

/// ln of -1 / ln rho, whose least the searches look for; infinite where nothing is certified.
double CostOf(const WorstCasePoint& point, double tolerance) {
  const double log_rate =
      FindMultiplier(point, RadiusAt(point, LowRate(point)), tolerance).log_rate;
  return std::isnan(log_rate) ? kInfinity : -std::log(-log_rate);
}

/// The least ln(half-life) over ln x within ln(1 - m), which is free or fixed: a few values around the
/// quadratic's optimum, then golden sections, which no ridge stops.
class OptimumSearch {
 public:
  OptimumSearch(const OptimumOptions& options, const Optimum& quadratic)
      : options_(options), log_rate_(std::log(quadratic.rate)), quadratic_(quadratic) {}

  struct Best {
    double cost = kInfinity;  ///< of CostOf
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
    double least = kInfinity, at = high;
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
    // The higher one of two rates without a certificate goes.
    GoldenSection(std::max(low, at - step), std::min(high, at + step), tolerance,
                  std::less_equal<>(), [&](double x) {
                    const double value = function(x);
                    least = std::min(least, value);
                    return value;
                  });
    return least;
  }

  double BestRate(double momentum) {
    return Minimise(log_rate_ - kRatesBelow * kStep, log_rate_ + kRatesAbove * kStep,
                    kRateTolerance, [&](double log_rate) {
                      const WorstCasePoint point{options_.rule, momentum, options_.delay,
                                                 std::exp(log_rate), options_.condition};
                      const double cost = CostOf(point, kTolerance);
                      if (cost < best_.cost) best_ = {cost, point};
                      return cost;
                    });
  }

  const OptimumOptions& options_;
  double log_rate_;
  const Optimum& quadratic_;
  Best best_;
};

/// A linear rule in powers of u = z - 1, constant terms first: N, and D / u, which is monic. A pole at
/// z = 0 that stays there is divided out too.
struct FreeRule {
  std::vector<double> numerator, quotient;
  bool pole_at_zero = false;
};

RuleSpec SpecOf(const FreeRule& rule) {
  std::vector<double> denominator = InPowersOfZ(Multiply(std::vector{0.0, 1.0}, rule.quotient));
  if (rule.pole_at_zero) denominator.push_back(0);
  return LinearSpec(InPowersOfZ(rule.numerator), denominator);
}

/// Nelder and Mead's simplices over the coefficients of a rule, relative to those it starts from.
class DesignSearch {
 public:
  DesignSearch(Delay delay, double condition) : delay_(delay), condition_(condition) {}

  struct Place {
    std::vector<double> x;
    double cost = kInfinity;  ///< of CostOf
  };

  WorstCasePoint PointOf(const FreeRule& rule) const {
    return {SpecOf(rule), 0, delay_, 1, condition_};
  }

  struct Best {
    FreeRule rule;
    double cost = kInfinity;
  };

  /// The best rule that simplices of shrinking sizes find.
  Best Run(FreeRule rule) const {
    Best best{std::move(rule), kInfinity};
    best.cost = Cost(best.rule);
    for (const double size : {0.2, 0.05, 0.2, 0.05, 0.01}) {
      const Place place = Descend(best.rule, size);
      if (place.cost < best.cost) best = {At(best.rule, place.x), place.cost};
    }
    return best;
  }

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

  double Cost(const FreeRule& rule) const { return CostOf(PointOf(rule), kTolerance); }

  Place Descend(const FreeRule& start, double size) const {
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
};

}  // namespace

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
  optimum.worst.quadratic = quadratic.worst;
  if (!(quadratic.rate > 0)) return optimum;
  const OptimumSearch::Best best = OptimumSearch(options, quadratic).Run();
  if (!std::isfinite(best.cost)) return optimum;
  optimum.worst = CertifyWorstCase(best.point);
  if (!options.rule.is_linear()) optimum.momentum = best.point.momentum;
  optimum.rate = best.point.rate;
  return optimum;
}

WorstCaseDesign DesignForWorstCase(Delay delay, double condition, int order) {
  const OptimumOptions options{{FindRule("lwp-w+sc"), {}}, delay, condition, {}};
  ValidateWorstCase(options);
  CheckInteger("order", order, kMinDesignOrder, kMaxWorstCaseOrder);
  WorstCaseDesign design;
  const WorstCaseOptimum published = FindWorstCaseOptimum(options);
  RefuseIf(std::isnan(published.worst.rate), "condition", condition,
           "one for which lwp-w+sc has a certificate");
  // z u (u + mu) and x (1 + beta u) (1 + gamma u); factors z that were divided out come back.
  const auto p = MakeCharacteristic<double>(options.rule, published.momentum, delay);
  FreeRule start{
      {published.rate * p.kappa, published.rate * p.beta}, {p.one_minus_momentum, 1}, true};
  if (p.gamma != 0) start.numerator = Multiply(start.numerator, std::vector{1.0, p.gamma});
  while (start.numerator.back() == 0) start.numerator.pop_back();
  while (start.numerator.size() < 3)
    start.numerator = Multiply(start.numerator, std::vector{1.0, 1.0});

  const DesignSearch search(delay, condition);
  DesignSearch::Best best = search.Run(start);
  if (order > kMinDesignOrder) {
    best = search.Run({best.rule.numerator, Multiply(best.rule.quotient, std::vector{1.0, 1.0})});
  }
  for (int more = kMinDesignOrder + 1; more < order; ++more) {
    const FreeRule before = best.rule;
    best.cost = kInfinity;
    for (const double pole : {-0.5, 0.0, 0.5}) {
      const std::vector<double> factor = {1 - pole, 1};
      DesignSearch::Best longer =
          search.Run({Multiply(before.numerator, factor), Multiply(before.quotient, factor)});
      if (longer.cost < best.cost) best = std::move(longer);
    }
  }
  const WorstCasePoint point = search.PointOf(best.rule);
  design.numerator = point.rule.options.numerator;
  design.denominator = point.rule.options.denominator;
  design.worst = CertifyWorstCase(point);
  return design;
}

double TripleMomentumHalfLife(Delay delay, double condition) {
  CheckDelay(delay);
  CheckCondition(condition);
  return -static_cast<double>(delay + 1) * std::numbers::ln2 /
         std::log1p(-1 / std::sqrt(condition));
}

}  // namespace batchless::analysis
