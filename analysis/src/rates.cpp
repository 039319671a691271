#include "batchless/analysis/rates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/limit.h"
#include "linear_solver.h"
#include "not_finite.h"
#include "point_solver.h"
#include "track_group.h"

namespace batchless::analysis {
namespace {

/// Largest element over every window of `width` + 1 neighbours: out[i] covers [i, i + width].
void SlidingMaximum(std::span<const double> values, std::size_t width, std::vector<double>& out) {
  out.assign(values.size() - width, 0);
  std::vector<std::size_t> queue(values.size());
  std::size_t head = 0, tail = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    while (tail > head && values[queue[tail - 1]] <= values[i]) --tail;
    queue[tail++] = i;
    if (queue[head] + width < i) ++head;
    if (i >= width) out[i - width] = values[queue[head]];
  }
}

/// Search for the best (x, m) on rows of certified points, a group of momenta at a time.
///
/// A row holds rates from scale / K up to scale, where scale is a little above the row's critical
/// rate, spaced so that the condition number is a whole number of steps: the worst rate over every
/// spectrum [x / K, x] is then a sliding maximum. The optimum often sits on a cusp or where two
/// branches cross, so the refinement narrows brackets and never fits a curve.
class OptimumSearch {
 public:
  explicit OptimumSearch(const OptimumOptions& options)
      : options_(options), log_condition_(std::log(options.condition)) {
    const SpectrumSteps steps = StepsOfSpectrum(options.condition, kStep);
    window_ = steps.window;
    step_ = steps.step;
    tops_ = static_cast<std::size_t>(std::ceil(kReach / step_)) + 1;
  }

  struct Best {
    double log_radius = kInfinity;
    double rate = 0;
    double momentum = 0;

    bool operator<(const Best& other) const { return log_radius < other.log_radius; }
  };

  Best Run() {
    if (options_.momentum) return BestRates(std::array{*options_.momentum})[0];
    // Coarse: momenta 1 - 10^u over the whole range. Their rates are refined all the same: a row's
    // grid errs by more than neighbouring minima differ.
    std::vector<Best> rows;
    for (std::size_t i = 0; i < kCoarseRows; i += kGroup) {
      std::vector<double> group;
      for (std::size_t j = i; j < std::min(i + kGroup, kCoarseRows); ++j) {
        group.push_back(Momentum(CoarseU(j)));
      }
      const std::vector<Best> best = BestRates(group);
      rows.insert(rows.end(), best.begin(), best.end());
    }
    // The deepest local minima, each refined within its neighbours.
    std::vector<std::size_t> minima;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const bool left = i == 0 || rows[i].log_radius <= rows[i - 1].log_radius;
      const bool right = i + 1 == rows.size() || rows[i].log_radius <= rows[i + 1].log_radius;
      if (left && right && rows[i].log_radius < kInfinity) minima.push_back(i);
    }
    std::sort(minima.begin(), minima.end(),
              [&](std::size_t a, std::size_t b) { return rows[a] < rows[b]; });
    minima.resize(std::min<std::size_t>(minima.size(), kCandidates));
    Best best;
    for (const std::size_t i : minima) {
      const Best refined =
          RefineMomentum(CoarseU(i == 0 ? 0 : i - 1), CoarseU(std::min(i + 1, kCoarseRows - 1)));
      best = std::min({best, rows[i], refined});
    }
    // Where momentum buys nothing the optimum is flat in m; then it is 0, not the last digit's choice.
    const Best without = BestRates(std::array{0.0})[0];
    if (without.log_radius <= best.log_radius * (1 - kFlat)) best = without;
    return best;
  }

  std::size_t evaluations() const { return evaluations_; }

 private:
  static constexpr std::size_t kGroup = TrackGroup::kMaxLanes;
  static constexpr std::size_t kCoarseRows = 64;
  static constexpr std::size_t kCandidates = 3;
  static constexpr double kSmallestU = -9;    // momenta up to 1 - 1e-9
  static constexpr double kStep = 0.08;       // of ln x along a row
  static constexpr double kReach = 8;         // of ln x below the critical rate, for the top
  static constexpr double kAbove = 0.4;       // of ln x above it: stable windows beyond the first
  static constexpr int kMomentumLevels = 10;  // each narrows the bracket 3.5 times
  static constexpr int kRateLevels = 5;       // each narrows the bracket 7.5 times
  static constexpr std::size_t kRatePoints = 16;
  static constexpr double kFlat = 1e-5;  // relative, of ln rho: the resolution of the search

  double CoarseU(std::size_t row) const {
    const double smallest =
        kSmallestU - std::log10(std::max(1.0, static_cast<double>(options_.delay) / 400));
    return smallest * static_cast<double>(row) / static_cast<double>(kCoarseRows - 1);
  }
  static double Momentum(double u) { return 1 - std::pow(10.0, u); }

  Best RefineMomentum(double lo, double hi) {
    if (lo > hi) std::swap(lo, hi);
    Best best;
    for (int level = 0; level < kMomentumLevels; ++level) {
      std::vector<double> momenta;
      // Both ends belong to it: the best momentum may be 0.
      const double width = (hi - lo) / static_cast<double>(kGroup - 1);
      for (std::size_t i = 0; i < kGroup; ++i) {
        momenta.push_back(Momentum(lo + width * static_cast<double>(i)));
      }
      const std::vector<Best> rows = BestRates(momenta);
      const auto least = std::min_element(rows.begin(), rows.end());
      best = std::min(best, *least);
      const double centre = lo + width * static_cast<double>(least - rows.begin());
      lo = std::max(lo, centre - width);
      hi = std::min(hi, centre + width);
    }
    return best;
  }

  /// The rate above which the smallest rates stop being stable, to one row step; from a neighbour's.
  double RoughCriticalRate(const Characteristic<double>& p) {
    const auto stable = [&](double rate) { return CountOutsideUnitCircle(p, rate).all_inside(); };
    double rate = critical_guess_;
    const bool up = stable(rate);
    for (double factor = 1.5; rate > 1e-50 && rate < kMaxRate / 8; factor *= 1.5) {
      rate = up ? rate * factor : rate / factor;
      if (stable(rate) != up) {
        double in = up ? rate / factor : rate, out = up ? rate : rate * factor;
        while (out > in * 1.1) (stable(std::sqrt(in * out)) ? in : out) = std::sqrt(in * out);
        critical_guess_ = in;
        return in;
      }
    }
    return up ? rate : 0;
  }

  void Evaluate(std::span<const Track> tracks, std::vector<double>& log_radius) {
    const std::size_t size = tracks.size() * tracks.front().rates.size();
    log_radius.resize(size);
    errors_.resize(size);
    evaluations_ += size;
    EvaluateTracksInDouble(tracks, log_radius, errors_);
  }

  /// The best rate for each of at most kGroup momenta: from the row's grid, then refined.
  std::vector<Best> BestRates(std::span<const double> momenta) {
    std::vector<Best> best(momenta.size());
    const std::size_t points = tops_ + window_;
    std::vector<Track> tracks;
    std::vector<std::vector<double>> rates(momenta.size(), std::vector<double>(points));
    std::vector<std::size_t> owner;
    for (std::size_t i = 0; i < momenta.size(); ++i) {
      best[i].momentum = momenta[i];
      const auto p = MakeCharacteristic<double>(options_.rule, momenta[i], options_.delay);
      const double critical = RoughCriticalRate(p);
      if (critical <= 0) continue;
      const double top = std::log(critical) + kAbove;
      for (std::size_t j = 0; j < points; ++j) {
        rates[i][j] = std::clamp(std::exp(top - step_ * static_cast<double>(points - 1 - j)),
                                 kMinRate, kMaxRate);
      }
      tracks.push_back({p, &options_.rule, momenta[i], options_.delay, rates[i]});
      owner.push_back(i);
    }
    if (tracks.empty()) return best;

    Evaluate(tracks, row_);
    std::vector<double> worst;
    std::vector<std::size_t> at(tracks.size());
    for (std::size_t t = 0; t < tracks.size(); ++t) {
      const std::span<const double> row = std::span(row_).subspan(t * points, points);
      SlidingMaximum(row, window_, worst);
      at[t] =
          static_cast<std::size_t>(std::min_element(worst.begin(), worst.end()) - worst.begin());
      Best& b = best[owner[t]];
      b.log_radius = worst[at[t]];
      b.rate = rates[owner[t]][at[t] + window_];
    }
    RefineRates(tracks, owner, at, best);
    return best;
  }

  /// Narrows the rate around the best grid point of every track, all tracks side by side.
  void RefineRates(std::vector<Track> tracks, const std::vector<std::size_t>& owner,
                   const std::vector<std::size_t>& at, std::vector<Best>& best) {
    const std::size_t points = tops_ + window_;
    struct Bracket {
      double lo, hi, inside;
    };
    std::vector<Bracket> brackets(tracks.size());
    for (std::size_t t = 0; t < tracks.size(); ++t) {
      const double centre = std::log(best[owner[t]].rate);
      // A point of the grid that stands for a whole spectrum is its bottom or its top, and too good.
      const double above = window_ == 0 ? log_condition_ : 0;
      if (above > 0) best[owner[t]].log_radius = kInfinity;
      brackets[t] = {centre - step_, centre + step_ + above, -kInfinity};
      // Grid points that every spectrum of the bracket contains; its two ends are taken exactly.
      for (std::size_t j = at[t] + 1; j + 1 <= at[t] + window_; ++j) {
        brackets[t].inside = std::max(brackets[t].inside, row_[t * points + j]);
      }
    }
    const bool two_ends = options_.condition > 1;
    const std::size_t columns = two_ends ? 2 * kRatePoints : kRatePoints;
    std::vector<std::vector<double>> trial(tracks.size(), std::vector<double>(columns));
    for (int level = 0; level < kRateLevels; ++level) {
      for (std::size_t t = 0; t < tracks.size(); ++t) {
        const double width = (brackets[t].hi - brackets[t].lo) / (kRatePoints - 1);
        for (std::size_t j = 0; j < kRatePoints; ++j) {
          const double log_rate = brackets[t].lo + width * static_cast<double>(j);
          trial[t][j] = std::clamp(std::exp(log_rate), kMinRate, kMaxRate);
          // The lower ends in falling order: each point starts from its neighbour's root.
          if (two_ends) {
            trial[t][columns - 1 - j] = std::max(trial[t][j] / options_.condition, kMinRate);
          }
        }
        tracks[t].rates = trial[t];
      }
      Evaluate(tracks, trial_);
      for (std::size_t t = 0; t < tracks.size(); ++t) {
        const double* values = trial_.data() + t * columns;
        Best& b = best[owner[t]];
        std::size_t least = 0;
        double least_value = kInfinity;
        for (std::size_t j = 0; j < kRatePoints; ++j) {
          double value = std::max(values[j], brackets[t].inside);
          if (two_ends) value = std::max(value, values[columns - 1 - j]);
          if (value < least_value) {
            least_value = value;
            least = j;
          }
        }
        if (least_value < b.log_radius) {
          b.log_radius = least_value;
          b.rate = trial[t][least];
        }
        const double width = (brackets[t].hi - brackets[t].lo) / (kRatePoints - 1);
        const double centre = brackets[t].lo + width * static_cast<double>(least);
        brackets[t].lo = centre - width;
        brackets[t].hi = centre + width;
      }
    }
  }

  const OptimumOptions& options_;
  double log_condition_;
  std::size_t window_ = 0;  // steps from the smallest to the largest eigenvalue
  double step_ = kStep;
  std::size_t tops_ = 0;
  double critical_guess_ = 1;
  std::size_t evaluations_ = 0;
  std::vector<double> errors_, row_, trial_;
};

}  // namespace

void Validate(const OptimumOptions& options) {
  Validate(options.rule);
  CheckDelay(options.delay);
  CheckCondition(options.condition);
  RefuseIf(options.momentum && options.rule.is_linear(), "momentum", options.momentum.value_or(0),
           "nothing with rule linear, which has no momentum");
  if (options.momentum) CheckMomentum(*options.momentum);
}

SpectralRadius WorstSpectralRadius(const RuleSpec& spec, double momentum, Delay delay, double rate,
                                   double condition) {
  Validate(spec, momentum, delay, rate);
  CheckCondition(condition);
  const double lowest = std::max(rate / condition, kMinRate);
  if (spec.is_linear()) return SolveLinearSpectrum(spec, delay, lowest, rate);
  constexpr std::size_t kPoints = 512;
  std::vector<double> rates(kPoints), values(kPoints), errors(kPoints);
  for (std::size_t j = 0; j < kPoints; ++j) {
    const double t = static_cast<double>(j) / (kPoints - 1);
    rates[j] = lowest * std::pow(rate / lowest, t);
  }
  rates.back() = rate;
  const Track track{MakeCharacteristic<double>(spec, momentum, delay), &spec, momentum, delay,
                    rates};
  EvaluateTracks({&track, 1}, {values, errors, {}, {}, {}});
  const auto value_at = [&](double log_rate) {
    return SolvePoint(spec, momentum, delay, std::exp(log_rate));
  };
  const auto worst =
      static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
  SpectralRadius best = SolvePoint(spec, momentum, delay, rates[worst]);
  if (worst > 0 && worst + 1 < kPoints) {
    // A peak inside the spectrum: golden section between its neighbours.
    constexpr double kGolden = 0.6180339887498949;
    double lo = std::log(rates[worst - 1]), hi = std::log(rates[worst + 1]);
    for (int i = 0; i < 40; ++i) {
      const double a = hi - kGolden * (hi - lo), b = lo + kGolden * (hi - lo);
      const SpectralRadius at_a = value_at(a), at_b = value_at(b);
      for (const SpectralRadius& r : {at_a, at_b}) {
        if (r.log_radius > best.log_radius) best = r;
      }
      (at_a.log_radius < at_b.log_radius ? lo : hi) = at_a.log_radius < at_b.log_radius ? a : b;
    }
  }
  return best;
}

Optimum FindOptimum(const OptimumOptions& options) {
  Validate(options);
  Optimum optimum;
  if (options.rule.is_linear()) {
    optimum.momentum = kNaN;
    optimum.rate =
        BestLinearRate(options.rule, options.delay, options.condition, &optimum.evaluations);
  } else {
    OptimumSearch search(options);
    const OptimumSearch::Best best = search.Run();
    optimum.momentum = best.momentum;
    optimum.rate = best.rate;
    optimum.evaluations = search.evaluations();
  }
  optimum.half_life_updates = optimum.worst.radius = optimum.worst.error_bound = kNaN;
  if (optimum.rate > 0) {
    optimum.worst = WorstSpectralRadius(options.rule, optimum.momentum, options.delay, optimum.rate,
                                        options.condition);
    optimum.half_life_updates = optimum.worst.half_life_updates();
  }
  return optimum;
}

}  // namespace batchless::analysis
