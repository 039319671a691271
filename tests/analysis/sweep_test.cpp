#include "batchless/analysis/sweep.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "batchless/analysis/argument.h"
#include "catch.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

// A grid that is no multiple of any number of lanes or rows to a block, with both ends of the
// momenta and rates far out of the useful range.
SweepOptions Grid(const RuleSpec& spec, Delay delay) {
  SweepOptions options;
  options.rule = spec;
  options.delay = delay;
  options.momenta = {0, 1};
  for (int i = 0; i < 27; ++i) options.momenta.push_back(1 - std::pow(10.0, -0.2 * i));
  for (int i = 0; i < 61; ++i) options.rates.push_back(std::pow(10.0, -7 + 0.15 * i));
  options.rates.push_back(kMinRate);
  options.rates.push_back(kMaxRate);
  options.threads = 1;
  return options;
}

// Bit for bit, so that 0 differs from -0 and infinities compare.
bool IsSame(const std::vector<double>& left, const std::vector<double>& right) {
  return left.size() == right.size() &&
         std::equal(left.begin(), left.end(), right.begin(), [](double a, double b) {
           return a == b && std::signbit(a) == std::signbit(b);
         });
}

bool IsSame(const SweepSummary& left, const SweepSummary& right) {
  return IsSame(left.log_radius, right.log_radius) &&
         IsSame(left.spectral_radius, right.spectral_radius) &&
         IsSame(left.error_bound, right.error_bound);
}

// Two certified values of one number.
bool Agree(double a, double error_a, double b, double error_b) {
  return std::abs(a - b) <= error_a + error_b;
}

TEST_CASE("Every value of a sweep is that of its point, within the bounds of both") {
  const char* name = GENERATE("sgdm", "nesterov", "sc", "lwp-v", "lwp-w", "lwp-v+sc", "lwp-w+sc");
  const Delay delay = GENERATE(0, 1, 5, 336, 100'000);
  CAPTURE(name, delay);
  const SweepOptions options = Grid(Spec(name), delay);
  const SweepSummary sweep = RunSweep(options);
  const std::size_t points = options.rates.size();
  REQUIRE(sweep.spectral_radius.size() == options.momenta.size() * points);
  REQUIRE(sweep.rows_done == options.momenta.size());
  int apart = 0;
  double largest_bound = 0;
  for (std::size_t i = 0; i < options.momenta.size(); ++i) {
    for (std::size_t j = 0; j < points; ++j) {
      const std::size_t at = i * points + j;
      const SpectralRadius point =
          ComputeSpectralRadius(options.rule, options.momenta[i], delay, options.rates[j]);
      apart +=
          Agree(sweep.spectral_radius[at], sweep.error_bound[at], point.radius, point.error_bound)
              ? 0
              : 1;
      // Where every root is 0, or nearly, ln rho has no bound that the sweep hands out.
      if (std::isfinite(point.log_radius)) {
        apart += Agree(sweep.log_radius[at], kLogRadiusTolerance * std::abs(point.log_radius),
                       point.log_radius, point.log_radius_error)
                     ? 0
                     : 1;
      }
      // The bound is absolute where rho is of order 1 and relative to rho where it is larger.
      largest_bound =
          std::max(largest_bound, sweep.error_bound[at] / std::max(1.0, sweep.spectral_radius[at]));
      REQUIRE(sweep.error_bound[at] >= 0);
    }
  }
  CHECK(apart == 0);
  CHECK(largest_bound <= kRadiusTolerance);
}

TEST_CASE("The bound is at most 1e-13 at every point of the default grid") {
  const char* name = GENERATE("sgdm", "sc", "lwp-w+sc");
  const Delay delay = GENERATE(0, 1, 4, 66, 400);
  CAPTURE(name, delay);
  SweepOptions options;
  options.rule = Spec(name);
  options.delay = delay;
  for (int i = 0; i < 64; ++i) options.momenta.push_back(1 - std::pow(10.0, -5.0 * i / 63));
  for (int i = 0; i < 256; ++i) options.rates.push_back(std::pow(10.0, -6 + 7.0 * i / 255));
  const SweepSummary sweep = RunSweep(options);
  CHECK(*std::max_element(sweep.error_bound.begin(), sweep.error_bound.end()) <= kRadiusTolerance);
}

TEST_CASE("EvaluateTracks gives the very bits of the sweep") {
  const Simd simd = GENERATE(Simd::kBest, Simd::kAvx512, Simd::kAvx2, Simd::kScalar);
  if (!IsAvailable(simd)) return;
  CAPTURE(Name(simd));
  SweepOptions options = Grid(Spec("lwp-v+sc"), 9);
  options.simd = simd;
  const SweepSummary sweep = RunSweep(options);
  const std::size_t points = options.rates.size();
  // One track at a time, and so with no neighbours in its vectors.
  for (std::size_t i = 0; i < options.momenta.size(); ++i) {
    const double m = options.momenta[i];
    const Track track{MakeCharacteristic<double>(options.rule, m, 9), &options.rule, m, 9,
                      options.rates};
    std::vector<double> log_radius(points), log_error(points), radius(points), error(points);
    EvaluateTracks({&track, 1}, {log_radius, log_error, radius, error, {}}, simd);
    const auto row = static_cast<std::ptrdiff_t>(i * points);
    CHECK(std::equal(radius.begin(), radius.end(), sweep.spectral_radius.begin() + row));
    CHECK(std::equal(log_radius.begin(), log_radius.end(), sweep.log_radius.begin() + row));
    CHECK(std::equal(error.begin(), error.end(), sweep.error_bound.begin() + row));
  }
}

TEST_CASE("The number of threads changes no bit") {
  const char* name = GENERATE("sgdm", "sc", "lwp-w+sc");
  const Delay delay = GENERATE(0, 4, 336);
  CAPTURE(name, delay);
  SweepOptions options = Grid(Spec(name), delay);
  const SweepSummary one = RunSweep(options);
  CHECK(one.threads == 1);
  for (const int threads : {2, 3, 8}) {
    options.threads = threads;
    const SweepSummary many = RunSweep(options);
    // Never more than there are blocks of rows.
    CHECK(many.threads <= threads);
    CHECK(many.threads > 1);
    CHECK(IsSame(many, one));
    CHECK(many.refined_long_double == one.refined_long_double);
    CHECK(many.refined_fifty_digits == one.refined_fifty_digits);
  }
  options.threads = 0;
  CHECK(IsSame(RunSweep(options), one));
}

TEST_CASE("AVX2 and AVX-512 give the same bits, and scalar code the same values") {
  const char* name = GENERATE("sgdm", "sc", "lwp-v+sc", "lwp-w+sc");
  const Delay delay = GENERATE(0, 4, 336);
  CAPTURE(name, delay);
  SweepOptions options = Grid(Spec(name), delay);
  options.simd = Simd::kScalar;
  const SweepSummary scalar = RunSweep(options);
  CHECK(scalar.simd == Simd::kScalar);
  std::vector<SweepSummary> wide;
  for (const Simd simd : {Simd::kAvx2, Simd::kAvx512}) {
    if (!IsAvailable(simd)) continue;
    options.simd = simd;
    wide.push_back(RunSweep(options));
    CHECK(wide.back().simd == simd);
    int apart = 0;
    for (std::size_t at = 0; at < scalar.spectral_radius.size(); ++at) {
      apart += Agree(wide.back().spectral_radius[at], wide.back().error_bound[at],
                     scalar.spectral_radius[at], scalar.error_bound[at])
                   ? 0
                   : 1;
    }
    CHECK(apart == 0);
  }
  if (wide.size() == 2) CHECK(IsSame(wide[0], wide[1]));
}

TEST_CASE("Momenta 0 and 1 give what is known of them") {
  const SweepSummary sweep =
      RunSweep({.rule = Spec("sgdm"), .momenta = {0, 1}, .rates = {0.25, 1, 1.75}, .progress = {}});
  // 1 - x, then the pair on the unit circle. At x = 1 the only root is 0.
  const double expected[] = {0.75, 0, 0.75, 1, 1, 1};
  for (std::size_t at = 0; at < 6; ++at) {
    CAPTURE(at);
    CHECK(std::abs(sweep.spectral_radius[at] - expected[at]) <= sweep.error_bound[at] + 1e-16);
  }
}

TEST_CASE("Progress reaches the caller, in order and to the end") {
  SweepOptions options = Grid(Spec("sc"), 7);
  options.threads = 2;
  std::vector<std::size_t> done;
  options.progress = [&](std::size_t rows_done, std::size_t rows) {
    CHECK(rows == options.momenta.size());
    done.push_back(rows_done);
    return true;
  };
  const SweepSummary sweep = RunSweep(options);
  CHECK(sweep.rows_done == options.momenta.size());
  REQUIRE_FALSE(done.empty());
  CHECK(std::is_sorted(done.begin(), done.end()));
  CHECK(done.back() == options.momenta.size());
  options.progress = nullptr;
  CHECK(IsSame(RunSweep(options), sweep));
}

TEST_CASE("Progress that answers false stops the sweep, and what is done stands") {
  // A double root at every point, which takes 50 digits and milliseconds: two threads could not
  // finish before they are told to stop.
  SweepOptions options;
  options.rule = Spec("sgdm");
  options.delay = 3;
  options.momenta.assign(800, 0);
  options.rates = {27.0 / 256};
  options.threads = 2;
  int calls = 0;
  options.progress = [&](std::size_t, std::size_t) { return ++calls < 3; };
  const SweepSummary stopped = RunSweep(options);
  CHECK(calls == 3);
  REQUIRE(stopped.rows_done > 0);
  CHECK(stopped.rows_done < options.momenta.size());
  // The rows that are done are the first ones.
  CHECK(stopped.refined_fifty_digits == stopped.rows_done);
  for (std::size_t at = 0; at < stopped.rows_done; ++at) {
    CHECK(std::abs(stopped.spectral_radius[at] - 0.75) <= stopped.error_bound[at]);
  }
}

TEST_CASE("Points finished in higher precision are counted") {
  // The double root of SGD at its breakaway, x = D^D / (D + 1)^(D + 1), and beside it.
  const SweepSummary sweep = RunSweep({.rule = Spec("sgdm"),
                                       .delay = 3,
                                       .momenta = {0},
                                       .rates = {0.05, 27.0 / 256, 0.2},
                                       .progress = {}});
  CHECK(sweep.refined_long_double + sweep.refined_fifty_digits == 1);
  CHECK(std::abs(sweep.spectral_radius[1] - 0.75) <= sweep.error_bound[1]);
  const std::string report = sweep.BriefReport();
  CAPTURE(report);
  CHECK(report.rfind("3 points in ", 0) == 0);
  CHECK(report.find("1 threads") != std::string::npos);
}

TEST_CASE("The memory that a sweep announces is what its results hold") {
  const SweepOptions options = Grid(Spec("sgdm"), 2);
  const SweepSummary sweep = RunSweep(options);
  const std::size_t numbers =
      sweep.log_radius.size() + sweep.spectral_radius.size() + sweep.error_bound.size();
  CHECK(SweepBytes(options.momenta.size(), options.rates.size()) ==
        static_cast<double>(numbers * sizeof(double)));
}

TEST_CASE("Sweep options out of range are refused by name") {
  const SweepOptions good = Grid(Spec("sc"), 4);
  CHECK(WhyInvalid(good).empty());
  const auto refused = [&](auto change, const std::string& beginning) {
    SweepOptions options = good;
    change(options);
    const std::string why = WhyInvalid(options);
    CAPTURE(why);
    CHECK(why.rfind(beginning, 0) == 0);
    CHECK(why.find(", accepted: ") != std::string::npos);
    CHECK_THROWS_WITH(RunSweep(options), why);
    CHECK_THROWS_AS(RunSweep(options), InvalidArgument);
  };
  refused([](auto& o) { o.momenta = {0.5, 1.25}; }, "momentum: got 1.25");
  refused([](auto& o) { o.momenta = {std::numeric_limits<double>::quiet_NaN()}; },
          "momentum: got nan");
  refused([](auto& o) { o.momenta = {}; }, "momenta: got none");
  refused([](auto& o) { o.rates = {0.1, 0}; }, "rate: got 0");
  refused([](auto& o) { o.rates = {}; }, "rates: got none");
  refused([](auto& o) { o.threads = -1; }, "threads: got -1");
  refused([](auto& o) { o.delay = kMaxDelay + 1; }, "delay: got 10000001");
  refused([](auto& o) { o.rule.options.horizon = 3; }, "horizon: got 3");
}

}  // namespace
}  // namespace batchless::analysis
