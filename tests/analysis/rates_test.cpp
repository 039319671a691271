#include "batchless/analysis/rates.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "batchless/analysis/argument.h"
#include "catch.h"
#include "near.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

// What FindOptimum promises, relative, of the half-life.
constexpr double kOptimumTolerance = 1e-3;
// The place of an optimum is looser than its value: near a double root the value goes with the
// square root of the distance at worst and with its square at best.
constexpr double kPlaceTolerance = 5e-3;
// Two searches of kOptimumTolerance each, one beside the other.
constexpr double kMonotoneTolerance = 2 * kOptimumTolerance;

Optimum Find(const RuleSpec& spec, Delay delay, double condition,
             std::optional<double> momentum = {}) {
  return FindOptimum({spec, delay, condition, momentum});
}

// -ln 2 / ln q for q = 1 - gap, where the gap may be far below a rounding of q.
double HalfLife(double gap) { return -std::log(2.0) / std::log1p(-gap); }

TEST_CASE("Without delay the optimum of SGDM is Polyak's heavy ball") {
  const double condition = GENERATE(1.5, 2.0, 10.0, 1e3, 1e6, 1e9, 1e12);
  CAPTURE(condition);
  const Optimum optimum = Find(Spec("sgdm"), 0, condition);
  const double root = std::sqrt(condition);
  const double q = (root - 1) / (root + 1);  // rho = sqrt(m)
  CHECK(IsNear(optimum.half_life_updates, HalfLife(2 / (root + 1)), kOptimumTolerance));
  CHECK(IsNear(1 - optimum.momentum, 1 - q * q, kPlaceTolerance));
  CHECK(IsNear(optimum.rate, (1 + q) * (1 + q), kPlaceTolerance));
  // Never better than the best: the value is certified at a point of the plane.
  CHECK(optimum.half_life_updates >= HalfLife(2 / (root + 1)) * (1 - 1e-9));
}

TEST_CASE("Without delay Nesterov's optimum is 1 - 2 / sqrt(3 K + 1)") {
  const double condition = GENERATE(1.5, 2.0, 10.0, 1e3, 1e6, 1e9, 1e12);
  CAPTURE(condition);
  const Optimum optimum = Find(Spec("nesterov"), 0, condition);
  const double root = std::sqrt(3 * condition + 1);
  CHECK(IsNear(optimum.half_life_updates, HalfLife(2 / root), kOptimumTolerance));
  CHECK(IsNear(1 - optimum.momentum, 4 / (root + 2), kPlaceTolerance));
  CHECK(optimum.half_life_updates >= HalfLife(2 / root) * (1 - 1e-9));
}

TEST_CASE("Momentum held at 0 gives gradient descent's (K - 1) / (K + 1)") {
  const double condition = GENERATE(1.5, 2.0, 10.0, 1e3, 1e6, 1e12);
  CAPTURE(condition);
  const Optimum optimum = Find(Spec("sgdm"), 0, condition, 0);
  CHECK(optimum.momentum == 0);
  CHECK(IsNear(optimum.half_life_updates, HalfLife(2 / (condition + 1)), kOptimumTolerance));
  CHECK(IsNear(optimum.rate, 2 * condition / (condition + 1), kPlaceTolerance));
}

TEST_CASE("On a single eigenvalue without delay one update is enough") {
  // The optimum is rho = 0 at m = 0, x = 1, a double root at 0: any offset 1e-7 leaves its root.
  for (const char* name : {"sgdm", "nesterov"}) {
    const Optimum optimum = Find(Spec(name), 0, 1);
    CHECK(optimum.worst.radius < 1e-6);
    CHECK(optimum.half_life_updates < 0.06);
  }
}

TEST_CASE("On a single eigenvalue SGD's best is the breakaway D / (D + 1)") {
  const Delay delay = GENERATE(1, 2, 5, 30, 400);
  const double d = static_cast<double>(delay);
  CAPTURE(delay);
  const Optimum optimum = Find(Spec("sgdm"), delay, 1, 0);
  CHECK(IsNear(optimum.half_life_updates, HalfLife(1 / (d + 1)), kOptimumTolerance));
  CHECK(IsNear(optimum.rate, std::pow(d / (d + 1), d) / (d + 1), kPlaceTolerance));
}

TEST_CASE("Close to a single eigenvalue the best is close to its, and no more work") {
  const auto check = [](const RuleSpec& spec, Delay delay, double above) {
    const auto d = static_cast<double>(delay);
    CAPTURE(spec.rule.name, delay, above);
    const Optimum optimum = Find(spec, delay, 1 + above);
    // Near the double root one of the two moves by the rate's change times about 1 / (D + 1).
    CHECK(optimum.worst.radius == Approx(d / (d + 1)).epsilon(1e-5 + above));
    CHECK(optimum.evaluations < 250'000);
  };
  for (const double above : {0.0, 1e-9, 1e-6, 1e-3, 0.03}) check(Spec("sgdm"), 3, above);
  check(Spec("sgdm"), 30, 1e-4);
  check(LinearSpec({1, -0.5}, {1, -1.5, 0.5}), 3, 1e-6);
}

TEST_CASE("Overcompensation by either means and the combination come close to each other") {
  // Their lead coefficients at D are (1 - m^{2D+1}) / (1 - m), 1 + 2 D and
  // (1 - m^{D+1}) / (1 - m) + D: equal as m goes to 1, apart by about D^2 (1 - m) before.
  RuleOptions compensation, horizon;
  compensation.sc_delay_scale = 2;
  horizon.horizon_scale = 2;
  const Delay delay = GENERATE(1, 4, 20);
  const double condition = GENERATE(1e3, 1e5);
  CAPTURE(delay, condition);
  const Optimum both = Find(Spec("lwp-v+sc"), delay, condition);
  const double apart = static_cast<double>(delay * delay) * (1 - both.momentum) + 1e-3;
  const double tolerance = std::min(apart, 0.05);
  for (const RuleSpec& spec :
       {Spec("sc", compensation), Spec("lwp-v", horizon), Spec("lwp-w", horizon)}) {
    const Optimum other = Find(spec, delay, condition);
    CAPTURE(spec.rule.name, other.half_life_updates, both.half_life_updates, tolerance);
    CHECK(IsNear(other.half_life_updates, both.half_life_updates, tolerance));
  }
}

TEST_CASE("The half-life never falls with the condition number") {
  const char* name = GENERATE("sgdm", "nesterov", "sc", "lwp-w+sc");
  const Delay delay = GENERATE(0, 7, 66);
  double last = 0;
  for (const double condition : {1.0, 1.3, 3.0, 10.0, 31.0, 100.0, 1e3, 1e4, 1e6}) {
    CAPTURE(name, delay, condition, last);
    const double half_life = Find(Spec(name), delay, condition).half_life_updates;
    CHECK(half_life >= last * (1 - kMonotoneTolerance));
    last = half_life;
  }
}

TEST_CASE("The half-life never falls with the delay") {
  const char* name = GENERATE("sgdm", "sc", "lwp-v", "lwp-v+sc", "lwp-w+sc");
  const double condition = GENERATE(10.0, 1e3, 1e6);
  double last = 0;
  for (const Delay delay : {0, 1, 2, 3, 5, 10, 40, 160, 400, 3000}) {
    CAPTURE(name, delay, condition, last);
    const double half_life = Find(Spec(name), delay, condition).half_life_updates;
    CHECK(half_life >= last * (1 - kMonotoneTolerance));
    last = half_life;
  }
}

TEST_CASE("Both forms of prediction alone have one optimum") {
  const Delay delay = GENERATE(1, 9, 100);
  const Optimum velocity = Find(Spec("lwp-v"), delay, 500),
                weight = Find(Spec("lwp-w"), delay, 500);
  CHECK(velocity.half_life_updates == weight.half_life_updates);
  CHECK(velocity.momentum == weight.momentum);
  CHECK(velocity.rate == weight.rate);
}

TEST_CASE("A momentum held fixed is kept, and at the free optimum costs nothing") {
  const char* name = GENERATE("sgdm", "sc", "lwp-w+sc");
  const Delay delay = GENERATE(0, 3, 66);
  CAPTURE(name, delay);
  const Optimum free = Find(Spec(name), delay, 300);
  const Optimum held = Find(Spec(name), delay, 300, free.momentum);
  CHECK(held.momentum == free.momentum);
  CHECK(IsNear(held.half_life_updates, free.half_life_updates, kOptimumTolerance));
  for (const double m : {0.0, 0.5, 0.9, 0.99, 0.9999}) {
    const Optimum other = Find(Spec(name), delay, 300, m);
    CAPTURE(m);
    CHECK(other.momentum == m);
    CHECK(other.half_life_updates >= free.half_life_updates * (1 - kOptimumTolerance));
  }
}

TEST_CASE("Momentum 1 has no rate that converges without a lead") {
  const Optimum optimum = Find(Spec("sgdm"), 3, 10, 1);
  CHECK(std::isnan(optimum.half_life_updates));
  CHECK(optimum.rate == 0);
}

// An optimiser that shares nothing with the one under test but the spectral radius: golden sections
// nested, over the rate inside and the momentum outside, each from the best of a coarse scan.
class NestedSearch {
 public:
  NestedSearch(const RuleSpec& spec, Delay delay, double condition)
      : spec_(spec), delay_(delay), condition_(condition) {}

  double HalfLifeUpdates() {
    const auto outside = [&](double u) { return BestOverRates(1 - std::pow(10.0, u)); };
    return -std::log(2.0) / Minimum(outside, -6, 0, 44, 26);
  }

 private:
  template <class Function>
  static double Minimum(Function f, double lo, double hi, int scans, int sections) {
    double best = std::numeric_limits<double>::infinity();
    int at = 0;
    for (int i = 0; i <= scans; ++i) {
      const double value = f(lo + (hi - lo) * i / scans);
      if (value < best) {
        best = value;
        at = i;
      }
    }
    constexpr double kGolden = 0.6180339887498949;
    const double width = (hi - lo) / scans;
    double a = std::max(lo, lo + width * (at - 1)), b = std::min(hi, lo + width * (at + 1));
    double c = b - kGolden * (b - a), d = a + kGolden * (b - a);
    double at_c = f(c), at_d = f(d);
    for (int i = 0; i < sections; ++i) {
      if (at_c < at_d) {
        b = d;
        d = c;
        at_d = at_c;
        at_c = f(c = b - kGolden * (b - a));
      } else {
        a = c;
        c = d;
        at_c = at_d;
        at_d = f(d = a + kGolden * (b - a));
      }
    }
    return std::min({best, at_c, at_d});
  }

  double BestOverRates(double momentum) {
    const auto inside = [&](double log_rate) { return Worst(momentum, std::exp(log_rate)); };
    return Minimum(inside, std::log(1e-8), std::log(4.0), 24, 26);
  }

  // ln of the worst rho over samples of [rate / K, rate], both ends among them.
  double Worst(double momentum, double rate) {
    constexpr std::size_t kSamples = 48;
    rates_.resize(kSamples);
    for (std::size_t i = 0; i < kSamples; ++i) {
      rates_[i] = rate * std::pow(condition_, -static_cast<double>(i) / (kSamples - 1));
    }
    values_.resize(kSamples);
    errors_.resize(kSamples);
    const Track track{MakeCharacteristic<double>(spec_, momentum, delay_), &spec_, momentum, delay_,
                      rates_};
    EvaluateTracks({&track, 1}, {values_, errors_, {}, {}, {}}, Simd::kScalar);
    return *std::max_element(values_.begin(), values_.end());
  }

  RuleSpec spec_;
  Delay delay_;
  double condition_;
  std::vector<double> rates_, values_, errors_;
};

TEST_CASE("An independent search finds the same optimum") {
  struct Case {
    const char* rule;
    Delay delay;
    double condition;
  };
  // Cusps, flat valleys, and two whose second-best minimum is 1.3 % and 0.6 % away.
  const auto [rule, delay, condition] =
      GENERATE(Case{"sgdm", 0, 100}, Case{"sgdm", 1, 10}, Case{"sc", 1, 1000}, Case{"sc", 66, 30},
               Case{"sc", 61, 4.90594}, Case{"nesterov", 3, 896'970}, Case{"lwp-v", 4, 1000},
               Case{"lwp-v+sc", 4, 1000}, Case{"lwp-v+sc", 400, 1000}, Case{"lwp-w+sc", 4, 1e4},
               Case{"lwp-w+sc", 66, 10}, Case{"lwp-w+sc", 400, 1000});
  CAPTURE(rule, delay, condition);
  const double found = Find(Spec(rule), delay, condition).half_life_updates;
  const double nested = NestedSearch(Spec(rule), delay, condition).HalfLifeUpdates();
  CHECK(IsNear(found, nested, kOptimumTolerance));
}

TEST_CASE("WorstSpectralRadius is the largest of a dense sampling") {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> unit(0, 1);
  constexpr int kSamples = 4000;
  for (int trial = 0; trial < 40; ++trial) {
    const RuleSpec spec = Spec(Rules()[static_cast<std::size_t>(trial) % Rules().size()].name);
    const double momentum = 1 - std::pow(10.0, -4 * unit(random));
    const auto delay = static_cast<Delay>(std::pow(10.0, 3 * unit(random)) - 1);
    const double rate = std::pow(10.0, -5 + 6 * unit(random));
    const double condition = std::pow(10.0, 6 * unit(random));
    CAPTURE(spec.rule.name, momentum, delay, rate, condition);
    const SpectralRadius worst = WorstSpectralRadius(spec, momentum, delay, rate, condition);
    double largest = -std::numeric_limits<double>::infinity();
    for (int i = 0; i <= kSamples; ++i) {
      const double x = rate * std::pow(condition, -i / static_cast<double>(kSamples));
      largest = std::max(largest, ComputeSpectralRadius(spec, momentum, delay, x).log_radius);
    }
    // Above every sample, and not above the true maximum: a peak between neighbours d apart in
    // ln x is a corner at worst, so the samples miss at most d times the slope of ln rho, which is
    // below 1/2 for a pair and 1 for a single root.
    const double spacing = std::log(condition) / kSamples;
    CHECK(worst.log_radius >= largest - kLogRadiusTolerance * std::abs(largest));
    CHECK(worst.log_radius <= largest + spacing + kLogRadiusTolerance * std::abs(largest));
  }
}

TEST_CASE("Along the rates rho falls and then rises, so the worst is at an end") {
  std::mt19937_64 random(19);
  std::uniform_real_distribution<double> unit(0, 1);
  for (int trial = 0; trial < 200; ++trial) {
    const RuleSpec spec = Spec(Rules()[static_cast<std::size_t>(trial) % Rules().size()].name);
    const double momentum = 1 - std::pow(10.0, -3 * unit(random));
    const auto delay = static_cast<Delay>(std::pow(10.0, 3 * unit(random)) - 1);
    const double rate = std::pow(10.0, -4 + 5 * unit(random));
    const double condition = std::pow(10.0, 6 * unit(random));
    CAPTURE(spec.rule.name, momentum, delay, rate, condition);
    const double worst = WorstSpectralRadius(spec, momentum, delay, rate, condition).log_radius;
    const double ends =
        std::max(ComputeSpectralRadius(spec, momentum, delay, rate).log_radius,
                 ComputeSpectralRadius(spec, momentum, delay, rate / condition).log_radius);
    // The lower end is rounded twice: a relative rounding of the rate, times a slope that a double
    // root may make steep.
    CHECK(std::abs(worst - ends) <= 1e-10 * std::abs(ends) + 1e-13);
  }
}

TEST_CASE("With K = 1 the worst rate is that of the one point") {
  const SpectralRadius worst = WorstSpectralRadius(Spec("sc"), 0.9, 12, 0.01, 1);
  CHECK(worst.radius == ComputeSpectralRadius(Spec("sc"), 0.9, 12, 0.01).radius);
}

TEST_CASE("Options out of range are refused by name") {
  const auto why = [](Delay delay, double condition, std::optional<double> momentum) {
    const OptimumOptions options{Spec("sc"), delay, condition, momentum};
    std::string text = WhyInvalid(options);
    if (!text.empty()) CHECK_THROWS_WITH(FindOptimum(options), text);
    return text;
  };
  CHECK(why(0, 1000, {}).empty());
  CHECK(why(0, 0.5, {}) == "condition: got 0.5, accepted: a number from 1 to 1e12");
  CHECK_FALSE(why(0, std::nan(""), {}).empty());
  CHECK(why(-1, 10, {}).starts_with("delay: got -1"));
  CHECK(why(1, 10, 1.5).starts_with("momentum: got 1.5"));
  CHECK_THROWS_AS(WorstSpectralRadius(Spec("sc"), 0.9, 1, 0.1, 0), InvalidArgument);
  CHECK_THROWS_AS(WorstSpectralRadius(Spec("sc"), 0.9, 1, -0.1, 10), InvalidArgument);
}

}  // namespace
}  // namespace batchless::analysis
