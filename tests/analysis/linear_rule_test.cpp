// Rules given by their coefficients: against the rules of a momentum that they equal, dense
// eigenvalues, the literal difference equation and closed forms.
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/noise.h"
#include "batchless/analysis/rates.h"
#include "batchless/analysis/roots.h"
#include "batchless/analysis/simulation.h"
#include "batchless/analysis/stability.h"
#include "batchless/analysis/sweep.h"
#include "catch.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

// Coefficients are rounded to doubles on the way, and a slow root feels that by 1 / (1 - rho).
constexpr double kQuotientTolerance = 1e-10;

std::string WhyInvalid(std::vector<double> numerator, std::vector<double> denominator) {
  return WhyInvalid(LinearSpec(std::move(numerator), std::move(denominator)));
}

}  // namespace

TEST_CASE("A rule of a momentum and its coefficients have the same spectral radius") {
  std::mt19937_64 engine(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int trial = 0; trial < 200; ++trial) {
    const Rule& rule = Rules()[static_cast<std::size_t>(trial) % 7];
    const Delay delay = std::vector<Delay>{0, 1, 4, 30}[engine() % 4];
    const double m = 1 - std::pow(10.0, -2.5 * uniform(engine));
    const double x = std::pow(10.0, -4 + 4 * uniform(engine));
    const SpectralRadius named = ComputeSpectralRadius(Spec(rule.name), m, delay, x);
    const SpectralRadius linear = ComputeSpectralRadius(AsLinear(rule.name, m, delay), 0, delay, x);
    INFO(rule.name << " D=" << delay << " m=" << m << " x=" << x);
    CHECK(std::abs(named.log_radius - linear.log_radius) <=
          named.log_radius_error + linear.log_radius_error + kQuotientTolerance);
    CHECK(linear.error_bound <= kRadiusTolerance * std::max(1.0, linear.radius));
    CHECK(RootsOutsideUnitCircle(AsLinear(rule.name, m, delay), 0, delay, x) ==
          RootsOutsideUnitCircle(Spec(rule.name), m, delay, x));
  }
}

TEST_CASE("Roots at 0 hide neither one another nor the largest") {
  struct Deadbeat {
    std::vector<double> numerator, denominator;
    double radius;
  };
  const std::vector<Deadbeat> rules = {
      {{1}, {1, -1}, 0},                     // z
      {{1, 0}, {1, -1, 0}, 0},               // z^2
      {{0.5, 0.5}, {1, -0.5, -0.5}, 0},      // z^2
      {{0.25, 0.5}, {1, -0.5, -0.5}, 0.25},  // z (z - 0.25)
      // z^3 (z - 0.25)
      {{0.25, 0.25, 0.125, 0.125}, {1, -0.5, -0.25, -0.125, -0.125}, 0.25},
  };
  for (const Deadbeat& rule : rules) {
    const RuleSpec spec = LinearSpec(rule.numerator, rule.denominator);
    const SpectralRadius value = ComputeSpectralRadius(spec, 0, 0, 1);
    CAPTURE(rule.radius, rule.denominator.size());
    CHECK(std::abs(value.radius - rule.radius) <= value.error_bound);
    CHECK(value.error_bound <= kRadiusTolerance);
    CHECK(value.stable());
  }
}

TEST_CASE("Roots on the unit circle do not hide larger ones") {
  struct Case {
    std::vector<double> numerator, denominator;
    Delay delay;
    double rate;
  };
  // The first has -1 and 1 +- i; in the second, and where A(1) = 0, other roots are on the circle.
  for (const Case& one : {Case{{1}, {1, -1}, 2, 2}, Case{{1, 0}, {1, -1.5, 0.5}, 4, 3},
                          Case{{1, -1}, {1, -1.5, 0.5}, 1, 4}}) {
    const RuleSpec spec = LinearSpec(one.numerator, one.denominator);
    const SpectralRadius value = ComputeSpectralRadius(spec, 0, one.delay, one.rate);
    const double largest = std::abs(AllRoots(spec, 0, one.delay, one.rate).front());
    CAPTURE(one.delay, one.rate, largest);
    CHECK(largest > 1.01);
    CHECK(std::abs(value.radius - largest) < 1e-9);
    CHECK(value.error_bound <= kRadiusTolerance * largest);
  }
}

TEST_CASE("Critical rate and margins are those of the rule of a momentum") {
  for (const std::string name : {"sgdm", "nesterov", "sc", "lwp-v", "lwp-v+sc", "lwp-w+sc"}) {
    const RuleSpec linear = AsLinear(name, 0.9, 4);
    INFO(name);
    CHECK(CriticalRate(linear, 0, 4) == Approx(CriticalRate(Spec(name), 0.9, 4)).epsilon(1e-11));
    const Margins named = ComputeMargins(Spec(name), 0.9, 4, 0.003);
    const Margins margins = ComputeMargins(linear, 0, 4, 0.003);
    CHECK(margins.stable == named.stable);
    CHECK(margins.gain_margin == Approx(named.gain_margin).epsilon(1e-11));
    CHECK(margins.phase_margin_radians == Approx(named.phase_margin_radians).epsilon(1e-10));
    CHECK(margins.delay_margin_updates == Approx(named.delay_margin_updates).epsilon(1e-10));
    CHECK(margins.largest_stable_delay == named.largest_stable_delay);
  }
  // SGD, whose limit has a closed form.
  for (const Delay delay : {0, 1, 4, 100}) {
    CHECK(CriticalRate(LinearSpec({1}, {1, -1}), 0, delay) ==
          Approx(2 * std::sin(M_PI / (4.0 * static_cast<double>(delay) + 2))).epsilon(1e-14));
  }
  // A small gain is crossed at an angle as small.
  for (const double rate : {1e-9, 1e-13, 1e-30, kMinRate}) {
    CAPTURE(rate);
    const Margins margins = ComputeMargins(LinearSpec({1}, {1, -1}), 0, 1, rate);
    CHECK(margins.gain_crossover_radians == Approx(rate).epsilon(1e-14));
    CHECK(margins.delay_margin_updates == Approx(M_PI / 2 / rate).epsilon(1e-8));
  }
}

TEST_CASE("A pole outside the unit circle leaves no stable rates next to 0") {
  // Stable from about 1e-8 on.
  const RuleSpec outside = LinearSpec({1, -0.9}, {1, -2.00000001, 1.00000001});
  CHECK_FALSE(ComputeSpectralRadius(outside, 0, 0, 1e-9).stable());
  CHECK(ComputeSpectralRadius(outside, 0, 0, 0.5).stable());
  CHECK(CriticalRate(outside, 0, 0) == 0);
  CHECK(ComputeMargins(outside, 0, 0, 1e-9).gain_margin == 0);
  CHECK(FindOptimum({outside, 0, 10, {}}).half_life_updates > 0);
  // Poles on it, but for a rounding: z^5 in place of z.
  const double m = 0.3;
  const RuleSpec on =
      LinearSpec({1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {1, 0, 0, 0, 0, -(1 + m), 0, 0, 0, 0, m});
  CHECK(CriticalRate(on, 0, 4) > 1);
}

TEST_CASE("A rule that is stable with its delay alone bears that delay") {
  // Five interleaved heavy balls.
  const RuleSpec spec =
      LinearSpec({1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {1, 0, 0, 0, 0, -1.3, 0, 0, 0, 0, 0.3});
  CHECK_FALSE(ComputeMargins(spec, 0, 3, 1).stable);
  CHECK_FALSE(ComputeMargins(spec, 0, 5, 1).stable);
  CHECK(ComputeMargins(spec, 0, 3, 1).largest_stable_delay == -1);
  const Margins margins = ComputeMargins(spec, 0, 4, 1);
  CHECK(margins.stable);
  CHECK(margins.largest_stable_delay == 4);
}

TEST_CASE("The best rate over a spectrum is that of the rule at its best momentum") {
  for (const std::string name : {"sgdm", "lwp-w+sc"}) {
    const Optimum named = FindOptimum({Spec(name), 1, 100, {}});
    const Optimum linear = FindOptimum({AsLinear(name, named.momentum, 1), 1, 100, {}});
    // Both searches promise 0.1 %.
    CHECK(linear.half_life_updates == Approx(named.half_life_updates).epsilon(1e-3));
    CHECK(std::isnan(linear.momentum));
  }
}

TEST_CASE(
    "All roots of a rule by coefficients are its eigenvalues, the largest the certified one") {
  const RuleSpec spec =
      LinearSpec({1.092803, -1.707838, 0.696482}, {1, -1.903855, 0.826380, 0.077475});
  for (const double x : {0.001, 0.1, 1.0}) {
    const auto roots = AllRoots(spec, 0, 4, x);
    CHECK(roots.size() == 7);
    const SpectralRadius radius = ComputeSpectralRadius(spec, 0, 4, x);
    CHECK(std::abs(roots[0]) == Approx(radius.radius).epsilon(1e-13));
    for (const auto& z : roots) {
      const auto value = std::pow(z, 4) * (((z - 1.903855) * z + 0.826380) * z + 0.077475) +
                         x * ((1.092803 * z - 1.707838) * z + 0.696482);
      CHECK(std::abs(value) < 1e-13);
    }
  }
}

TEST_CASE("The difference equation is the rule of a momentum, update by update") {
  for (const std::string name : {"sgdm", "nesterov", "sc"}) {
    const SimulationOptions named{
        .rule = Spec(name), .momentum = 0.8, .delay = 3, .learning_rate = 0.02, .updates = 200};
    SimulationOptions linear = named;
    linear.rule = AsLinear(name, 0.8, 3);
    const auto a = SimulateQuadratic(named), b = SimulateQuadratic(linear);
    const auto c = ImpulseResponse(named), d = ImpulseResponse(linear);
    for (std::size_t i = 0; i < a.size(); ++i) {
      CHECK(a[i].weight == Approx(b[i].weight).margin(1e-13));
      CHECK(c[i].weight == Approx(d[i].weight).margin(1e-13));
    }
  }
}

TEST_CASE("Noise of a rule by coefficients is that of the rule of a momentum") {
  for (const std::string name : {"sgdm", "sc"}) {
    CHECK(WeightVariance(AsLinear(name, 0.9, 4), 0, 4, 0.003) ==
          Approx(WeightVariance(Spec(name), 0.9, 4, 0.003)).epsilon(1e-9));
  }
}

TEST_CASE("A sweep of a rule by coefficients has one row") {
  SweepOptions options;
  options.rule = LinearSpec({1}, {1, -1});
  options.delay = 4;
  options.momenta = {std::nan("")};
  options.rates = {0.01, 0.1, 0.3, 0.4};
  const SweepSummary summary = RunSweep(options);
  for (std::size_t i = 0; i < options.rates.size(); ++i) {
    CHECK(summary.log_radius[i] ==
          Approx(ComputeSpectralRadius(Spec("sgdm"), 0, 4, options.rates[i]).log_radius)
              .epsilon(1e-11));
  }
  options.momenta = {0.1, 0.2};
  CHECK_FALSE(WhyInvalid(options).empty());
}

TEST_CASE("Improper and acausal rules are refused by the coefficients that make them so") {
  const auto names = [](const std::string& refusal, const std::string& part) {
    return refusal.find(part) != std::string::npos;
  };
  CHECK(names(WhyInvalid({}, {1, -1}), "numerator: got"));
  CHECK(names(WhyInvalid({1}, {}), "denominator: got"));
  CHECK(names(WhyInvalid({1, 0}, {1, -1}), "numerator: got"));
  CHECK(names(WhyInvalid({1, 0}, {1, -1}), "improper"));
  CHECK(names(WhyInvalid({0}, {1, -1}), "numerator: got"));
  CHECK(names(WhyInvalid({1}, {1}), "denominator: got"));
  CHECK(names(WhyInvalid({1}, {2, -2}), "denominator: got"));
  CHECK(names(WhyInvalid({1}, {1, -0.9}), "denominator: got"));
  CHECK(names(WhyInvalid({1}, {1, -0.9}), "root at 1"));
  CHECK(names(WhyInvalid({1e9}, {1, -1}), "numerator: got"));
  CHECK(WhyInvalid({0, 1}, {1, -1}).empty());
  RuleSpec mixed = Spec("sgdm");
  mixed.options.numerator = {1};
  CHECK_THROWS_AS(Validate(mixed), InvalidArgument);
}

}  // namespace batchless::analysis
