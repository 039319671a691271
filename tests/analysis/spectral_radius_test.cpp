// Certified values against 100-digit references: generic points and the hard ones.

#include "batchless/analysis/spectral_radius.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "batchless/analysis/stability.h"
#include "catch.h"
#include "reference_radius.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

using reference::Real;

struct Setting {
  const char* kind;
  double momentum;
  Delay delay;
  double rate;
};

std::vector<RuleSpec> AllSpecs() {
  std::vector<RuleSpec> specs;
  for (const Rule& rule : Rules()) specs.push_back({rule, {}});
  // Free coefficients: of one sign; LWP written as SC (a = 1 + T - T/m for T = 2, m = 0.5); a + b
  // and a + b (1 - m) with cancellation.
  specs.push_back(FreeSpec(0.75, 2.5, 1.25));
  specs.push_back(FreeSpec(-1, 4, 0));
  specs.push_back(FreeSpec(1.0001, -1, 0.5));
  RuleOptions twice;
  twice.sc_delay_scale = 2;
  for (const char* name : {"sc", "lwp-v+sc"}) specs.push_back(Spec(name, twice));
  return specs;
}

/// The rate of a double root on the real axis between m and 1, where x(z) = -z^n A / B peaks.
double CuspRate(const RuleSpec& spec, double momentum, Delay delay) {
  const Characteristic<double> p = MakeCharacteristic<double>(spec, momentum, delay);
  const auto rate = [&](double z) {
    const double u = z - 1;
    const double late = (p.kappa + p.beta * u) * (1 + p.gamma * u);
    return late > 0 ? -std::pow(z, p.n) * u * (u + p.one_minus_momentum) / late : 0;
  };
  double lo = momentum, hi = 1;
  for (int i = 0; i < 200; ++i) {
    const double a = lo + (hi - lo) * 0.382, b = lo + (hi - lo) * 0.618;
    (rate(a) < rate(b) ? lo : hi) = rate(a) < rate(b) ? a : b;
  }
  return rate(lo);
}

std::vector<Setting> Points(const RuleSpec& spec, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto log_uniform = [&](double lo, double hi) {
    return std::pow(10.0, lo + (hi - lo) * uniform(engine));
  };
  const std::vector<Delay> delays = {0, 1, 2, 3, 4, 6, 8};
  const auto any_delay = [&] { return delays[engine() % delays.size()]; };
  const auto any_momentum = [&] {
    return uniform(engine) < 0.3 ? uniform(engine) : 1 - log_uniform(-6, 0);
  };
  std::vector<Setting> points;
  for (int i = 0; i < 120; ++i) {
    const double m = any_momentum();
    const Delay delay = any_delay();
    const double cusp = CuspRate(spec, m, delay);
    if (!(cusp > kMinRate && cusp < 100)) continue;
    const double off = std::vector<double>{0, 1e-14, 1e-9, 1e-5, 1e-2, -1e-9, -1e-4}[engine() % 7];
    points.push_back({"cusp", m, delay, cusp * (1 + off)});
  }
  for (int i = 0; i < 120; ++i) {
    const double m = any_momentum();
    const Delay delay = any_delay();
    const double critical = CriticalRate(spec, m, delay);
    if (critical <= 0 || critical > kMaxRate) continue;
    const double off = std::vector<double>{0, 1e-15, 1e-12, 1e-8, -1e-15, -1e-6}[engine() % 6];
    points.push_back({"stability boundary", m, delay, critical * (1 + off)});
  }
  for (int i = 0; i < 120; ++i) {
    points.push_back({"tiny rate", any_momentum(), any_delay(), log_uniform(-50, -6)});
  }
  for (int i = 0; i < 120; ++i) {
    const double m = i % 4 == 0 ? 1.0 : 1 - log_uniform(-15.9, -6);
    points.push_back({"momentum near 1", m, any_delay(), log_uniform(-12, 0)});
  }
  for (int i = 0; i < 60; ++i) {
    points.push_back({"no momentum", 0, any_delay(), log_uniform(-6, 0.6)});
  }
  for (int i = 0; i < 90; ++i) {
    points.push_back({"no delay", any_momentum(), 0, log_uniform(-6, 0.6)});
  }
  while (points.size() < 1050) {
    points.push_back({"generic", any_momentum(), any_delay(), log_uniform(-6, 0.6)});
  }
  return points;
}

// Checks each `every`th point of every kind.
void CheckPoints(std::size_t every) {
  std::uint64_t seed = 1;
  for (const RuleSpec& spec : AllSpecs()) {
    double worst_radius = 0, worst_log = 0, worst_of_bound = 0;
    std::size_t checked = 0, failures = 0;
    const std::vector<Setting> points = Points(spec, seed++);
    for (std::size_t i = 0; i < points.size(); i += every) {
      const Setting& at = points[i];
      const Real exact = reference::LogRadius(spec, at.momentum, at.delay, Real(at.rate));
      const SpectralRadius value = ComputeSpectralRadius(spec, at.momentum, at.delay, at.rate);
      ++checked;
      const Real exact_radius = exp(exact);
      const auto radius_error = static_cast<double>(abs(exact_radius - Real(value.radius)));
      const auto log_error = static_cast<double>(abs(exact - Real(value.log_radius)));
      const double log_size = std::abs(static_cast<double>(exact));
      // Where ln rho is 0 (roots on the circle) a relative error has no meaning.
      const double relative = log_size > 1e-40 ? log_error / log_size : log_error;
      const bool certified =
          log_error <= value.log_radius_error && radius_error <= value.error_bound;
      const bool accurate = radius_error <= kRadiusTolerance && relative <= kLogRadiusTolerance;
      worst_radius = std::max(worst_radius, radius_error);
      worst_log = std::max(worst_log, relative);
      if (value.log_radius_error > 0 && log_size > 1e-40) {
        worst_of_bound = std::max(worst_of_bound, log_error / value.log_radius_error);
      }
      if (certified && accurate) continue;
      ++failures;
      UNSCOPED_INFO(spec.rule.name << " " << at.kind << " m=" << at.momentum << " D=" << at.delay
                                   << " x=" << at.rate << ": ln rho off by " << log_error << " of "
                                   << exact.str(20) << ", bound " << value.log_radius_error
                                   << ", rho off by " << radius_error);
    }
    INFO(spec.rule.name << ": worst error of rho " << worst_radius << ", relative of ln rho "
                        << worst_log << ", worst share of the bound " << worst_of_bound);
    CHECK(failures == 0);
    CHECK(checked >= 1000 / every);
  }
}

void CheckTracks(std::size_t every) {
  std::mt19937_64 engine(7);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (const Simd simd : {Simd::kScalar, Simd::kAvx2, Simd::kAvx512}) {
    if (!IsAvailable(simd)) {
      WARN("this machine lacks " << Name(simd));
      continue;
    }
    for (const RuleSpec& spec : AllSpecs()) {
      std::vector<double> rates(40);
      for (std::size_t j = 0; j < rates.size(); ++j) {
        rates[j] = std::pow(10.0, -5 + 5.5 * static_cast<double>(j) / 39);
      }
      std::vector<Track> tracks;
      for (const Delay delay : {0, 1, 4, 5}) {
        for (int i = 0; i < 3; ++i) {
          const double m = i == 0 && delay == 1 ? 0.0 : 1 - std::pow(10.0, -4 * uniform(engine));
          tracks.push_back({MakeCharacteristic<double>(spec, m, delay), &spec, m, delay, rates});
        }
      }
      const std::size_t size = tracks.size() * rates.size();
      std::vector<double> log_radius(size), log_error(size), radius(size), error(size);
      std::vector<Precision> precision(size);
      EvaluateTracks(tracks, {log_radius, log_error, radius, error, precision}, simd);
      std::size_t failures = 0;
      for (std::size_t at = engine() % every; at < size; at += every) {
        const Track& track = tracks[at / rates.size()];
        const Real exact =
            reference::LogRadius(spec, track.momentum, track.delay, Real(rates[at % rates.size()]));
        const auto off = static_cast<double>(abs(exact - Real(log_radius[at])));
        const auto radius_off = static_cast<double>(abs(Real(exp(exact)) - Real(radius[at])));
        const double size_of_log = std::abs(static_cast<double>(exact));
        if (off <= log_error[at] && radius_off <= error[at] && error[at] <= kRadiusTolerance &&
            (size_of_log < 1e-40 || log_error[at] <= kLogRadiusTolerance * size_of_log)) {
          continue;
        }
        ++failures;
        UNSCOPED_INFO(Name(simd) << " " << spec.rule.name << " m=" << track.momentum
                                 << " D=" << track.delay << " x=" << rates[at % rates.size()]
                                 << " off by " << off << ", bound " << log_error[at]);
      }
      CHECK(failures == 0);
    }
  }
}

}  // namespace

TEST_CASE("Spectral radii agree with 100-digit references within the promised tolerances") {
  CheckPoints(11);
}

TEST_CASE("A thousand spectral radii a rule agree with 100-digit references", "[.long]") {
  CheckPoints(1);
}

TEST_CASE("Values along tracks agree with 100-digit references on every instruction set") {
  CheckTracks(37);
}

TEST_CASE("Every fifth value along tracks agrees with 100-digit references", "[.long]") {
  CheckTracks(5);
}

TEST_CASE("A point is stable where the whole bound is") {
  CHECK(SpectralRadius{.log_radius = -1e-9, .log_radius_error = 9e-10}.stable());
  const SpectralRadius unknown{.log_radius = -1e-9, .log_radius_error = 2e-9};
  CHECK_FALSE(unknown.stable());
  CHECK(std::isnan(unknown.half_life_updates()));
}

TEST_CASE("Of two roots next to 1 the larger one decides") {
  RuleSpec spec{FindRule("sc"), {}};
  spec.options.sc_a = -1;
  spec.options.sc_b = 0;
  // u^2 = x, on both sides of 1.
  for (const double rate : {1e-60, 1e-40, 1e-20}) {
    const SpectralRadius value = ComputeSpectralRadius(spec, 1, 0, rate);
    CAPTURE(rate);
    CHECK_FALSE(value.stable());
    CHECK(value.log_radius == Approx(std::sqrt(rate)).epsilon(1e-9));
  }
}

TEST_CASE("A rule whose gain cancels keeps a root at 1, and its bounds hold") {
  RuleSpec spec{FindRule("sc"), {}};
  spec.options.sc_a = -1;
  spec.options.sc_b = 2;
  // (z - 1) (z - 0.5 + x)
  for (const double rate : {0.1, 1.5, 2.0, 21.0, 1000.0}) {
    const SpectralRadius value = ComputeSpectralRadius(spec, 0.5, 0, rate);
    CAPTURE(rate);
    CHECK(std::abs(value.radius - std::max(1.0, rate - 0.5)) <= value.error_bound);
    CHECK(value.error_bound <= kRadiusTolerance * value.radius);
    CHECK_FALSE(value.stable());
  }
  // Nothing is left of p but the double root of its momentum.
  spec.options.sc_a = spec.options.sc_b = 0;
  const SpectralRadius nothing = ComputeSpectralRadius(spec, 1, 0, 1);
  CHECK(std::abs(nothing.radius - 1) <= nothing.error_bound);
  CHECK_FALSE(nothing.stable());
}

TEST_CASE("Where every root is 0 the error is gone after one update") {
  for (const char* name : {"sgdm", "sc", "lwp-v", "lwp-w+sc"}) {
    const RuleSpec spec{FindRule(name), {}};
    const SpectralRadius value = ComputeSpectralRadius(spec, 0, 0, 1);
    INFO(name);
    CHECK(value.radius == 0);
    CHECK(value.log_radius == -std::numeric_limits<double>::infinity());
    CHECK(value.stable());
    CHECK(value.half_life_updates() == 0);
    // A rate one rounding away leaves a root of that size.
    const double near = std::nextafter(1.0, 0.0);
    CHECK(ComputeSpectralRadius(spec, 0, 0, near).radius == Approx(1 - near).epsilon(1e-10));
  }
}

}  // namespace batchless::analysis
