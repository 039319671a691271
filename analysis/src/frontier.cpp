#include "batchless/analysis/frontier.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/limit.h"
#include "batchless/analysis/rates.h"
#include "golden_section.h"
#include "not_finite.h"

namespace batchless::analysis {
namespace {

// Momenta 1 - 10^u of the grid, and on with the same steps for half-lives beyond 10^-kSmallestU updates.
constexpr int kMomenta = 25;
constexpr double kSmallestU = -6;
// How near the search for a momentum ends, relative to the interval that it begins with.
constexpr double kMomentumResolution = 1e-3;
// Where the search for a rate starts, relative to the fastest one, or by that factor again and again until it
// is too slow; how near it ends, and its most steps.
constexpr double kSlowest = 1e-10;
constexpr double kRateResolution = 1e-4;
constexpr int kRateSteps = 40;
// Points of [x / K, x] at which the search for a rate looks.
constexpr int kProbes = 12;
// Mini-batches 1, 4, 16, ..., 1024.
constexpr double kBatchRatio = 4;
constexpr double kMaxBatch = 1024;

// ln of the largest rho at curvatures of [1 / K, 1].
double ProbedLogRadius(const FrontierOptions& options, double momentum, double rate) {
  if (options.rule.is_linear()) {
    return WorstSpectralRadius(options.rule, momentum, options.delay, rate, options.condition)
        .log_radius;
  }
  std::vector<double> rates(kProbes), log_radius(kProbes), error(kProbes);
  for (int k = 0; k < kProbes; ++k) {
    rates[static_cast<std::size_t>(k)] =
        rate * std::pow(options.condition, -static_cast<double>(k) / (kProbes - 1));
  }
  const Track track{MakeCharacteristic<double>(options.rule, momentum, options.delay),
                    &options.rule, momentum, options.delay, rates};
  EvaluateTracks({&track, 1}, {log_radius, error, {}, {}, {}});
  return *std::max_element(log_radius.begin(), log_radius.end());
}

// What a momentum can do: its best rate and the ln rho there. The rule `linear` has none, NaN.
struct Row {
  double momentum;
  double best_rate;
  double best_log_radius;
};

Row BestOf(const FrontierOptions& options, double momentum) {
  OptimumOptions fixed{options.rule, options.delay, options.condition, {}};
  if (!options.rule.is_linear()) fixed.momentum = momentum;
  const Optimum optimum = FindOptimum(fixed);
  const bool stable = std::isfinite(optimum.half_life_updates);
  return {momentum, optimum.rate, stable ? optimum.worst.log_radius : kInfinity};
}

// The smallest rate with ln rho <= target, and its loss.
FrontierPoint AtMomentum(const FrontierOptions& options, const Row& row, double log_radius,
                         double average) {
  FrontierPoint point{.loss = kInfinity,
                      .momentum = row.momentum,
                      .gradients_per_update = options.gradients_per_update};
  if (!(row.best_log_radius <= log_radius)) return point;
  double fast = row.best_rate;
  double slow = fast * kSlowest;
  while (ProbedLogRadius(options, row.momentum, slow) <= log_radius) slow *= kSlowest;
  for (int step = 0; step < kRateSteps; ++step) {
    const double middle = std::sqrt(slow * fast);
    (ProbedLogRadius(options, row.momentum, middle) <= log_radius ? fast : slow) = middle;
    if (fast / slow < 1 + kRateResolution) break;
  }
  point.rate = fast;
  point.loss =
      StationaryLoss(options.rule, row.momentum, options.delay, fast, options.condition, average) /
      options.gradients_per_update;
  if (std::isnan(point.loss)) point.loss = kInfinity;
  return point;
}

// Every momentum of the grid, and that of the fastest point, which lies between two of them.
std::vector<Row> Rows(const FrontierOptions& options) {
  if (options.rule.is_linear()) return {BestOf(options, kNaN)};
  double longest = 0;
  for (const double half_life : options.half_lives) longest = std::max(longest, half_life);
  longest /= options.steps_per_update;
  const auto distance = [](int k) { return std::pow(10.0, kSmallestU * k / (kMomenta - 1)); };
  std::vector<Row> rows;
  // A momentum's slowest curvature has at best a half-life of 2 ln 2 / (1 - m) updates: the last one is too
  // slow for the longest half-life.
  for (int k = 0; k < kMomenta || distance(k - 1) * longest > 1; ++k) {
    rows.push_back(BestOf(options, 1 - distance(k)));
  }
  const Optimum optimum = FindOptimum({options.rule, options.delay, options.condition, {}});
  rows.push_back({optimum.momentum, optimum.rate, optimum.worst.log_radius});
  std::sort(rows.begin(), rows.end(),
            [](const Row& a, const Row& b) { return a.momentum < b.momentum; });
  // A row's neighbours are to have other momenta.
  rows.erase(std::unique(rows.begin(), rows.end(),
                         [](const Row& a, const Row& b) { return a.momentum == b.momentum; }),
             rows.end());
  return rows;
}

FrontierPoint Best(const FrontierOptions& options, const std::vector<Row>& rows, double half_life) {
  const double updates = half_life / options.steps_per_update;
  const double log_radius = -std::numbers::ln2 / updates;
  const double average = options.average ? -1 / std::expm1(log_radius) : kMinAverage;
  FrontierPoint best{.loss = kInfinity, .gradients_per_update = options.gradients_per_update};
  std::size_t at = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const FrontierPoint point = AtMomentum(options, rows[i], log_radius, average);
    if (point.loss < best.loss) {
      best = point;
      at = i;
    }
  }
  best.half_life = half_life;
  if (best.loss == kInfinity) {
    best.loss = best.momentum = best.rate = kNaN;
    return best;
  }
  if (options.rule.is_linear()) return best;
  // Between the neighbours, in the logarithm of 1 - m, by the golden section. The best momentum is
  // often the largest that is fast enough: what is not has an infinite loss.
  const auto at_u = [&](double u) {
    FrontierPoint point = AtMomentum(options, BestOf(options, -std::expm1(u)), log_radius, average);
    point.half_life = half_life;
    if (point.loss < best.loss) best = point;
    return point.loss;
  };
  const double low = std::log1p(-rows[std::min(at + 1, rows.size() - 1)].momentum);
  const double high = std::log1p(-rows[at == 0 ? 0 : at - 1].momentum);
  GoldenSection(low, high, kMomentumResolution * (high - low), std::less<>(), at_u);
  return best;
}

}  // namespace

void Validate(const FrontierOptions& options) {
  Validate(options.rule);
  CheckInteger("delay", options.delay, 0, kMaxFrontierDelay);
  CheckCondition(options.condition);
  for (const double half_life : options.half_lives) {
    RefuseIf(!(half_life > 0 && half_life <= kMaxFrontierHalfLife), "half_lives", half_life,
             "a number above 0, up to " + ToText(kMaxFrontierHalfLife));
  }
  RefuseIf(!(options.steps_per_update >= 1), "steps per update", options.steps_per_update,
           "a number from 1");
  RefuseIf(!(options.gradients_per_update >= 1), "gradients per update",
           options.gradients_per_update, "a number from 1");
}

double StationaryLoss(const RuleSpec& spec, double momentum, Delay delay, double rate,
                      double condition, double average) {
  double sum = 0;
  for (int k = 0; k < kSpectrumPoints; ++k) {
    const double curvature = std::pow(condition, -static_cast<double>(k) / (kSpectrumPoints - 1));
    sum += curvature * WeightVariance(spec, momentum, delay, rate * curvature, average);
  }
  const double loss = rate * rate / 2 * sum / kSpectrumPoints;
  return std::isfinite(loss) ? loss : kNaN;
}

std::vector<FrontierPoint> Frontier(const FrontierOptions& options) {
  Validate(options);
  const std::vector<Row> rows = Rows(options);
  std::vector<FrontierPoint> points;
  for (const double half_life : options.half_lives) {
    points.push_back(Best(options, rows, half_life));
  }
  return points;
}

std::vector<FrontierPoint> MiniBatchFrontier(const FrontierOptions& options) {
  Validate(options);
  FrontierOptions undelayed = options;
  undelayed.delay = 0;
  const std::vector<Row> rows = Rows(undelayed);
  std::vector<FrontierPoint> points;
  for (const double half_life : options.half_lives) {
    FrontierPoint best{half_life, kNaN, kNaN, kNaN, kNaN};
    for (double batch = 1; batch <= kMaxBatch; batch *= kBatchRatio) {
      undelayed.steps_per_update = batch + static_cast<double>(options.delay);
      undelayed.gradients_per_update = batch;
      const FrontierPoint point = Best(undelayed, rows, half_life);
      if (!(point.loss >= best.loss) && !std::isnan(point.loss)) best = point;
    }
    points.push_back(best);
  }
  return points;
}

}  // namespace batchless::analysis
