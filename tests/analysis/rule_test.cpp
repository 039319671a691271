#include "batchless/analysis/rule.h"

#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "batchless/analysis/argument.h"
#include "catch.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

using FiftyDigits = boost::multiprecision::cpp_bin_float_50;
using Limits = std::numeric_limits<double>;

// exp and expm1 of d log m: a rounding of the exponent, |d log m| roundings large, and one or two of
// each function. d log m is at most 40 in size where a is larger than 1e-17.
constexpr double kCoefficientTolerance = 1e-14;

template <class Set>
std::string ErrorOf(std::string_view name, Set set) {
  RuleSpec spec = Spec(name);
  set(spec.options);
  return WhyInvalid(spec);
}

TEST_CASE("The table lists every rule once, with all that is known of it") {
  std::set<std::string_view> names;
  std::string order;
  for (const Rule& rule : Rules()) {
    INFO(rule.name);
    CHECK(names.insert(rule.name).second);
    order += std::string(rule.name) + " ";
    CHECK(!rule.title.empty());
    CHECK(rule.equation.find("v' = m v + g") == 0);
    CHECK(!rule.source.empty());
    CHECK(!rule.extra_memory.empty());
    CHECK(!rule.reduces_to.empty());
    CHECK(FindRule(rule.name).title == rule.title);
    CHECK_NOTHROW(Validate(RuleSpec{rule, {}}));
  }
  CHECK(order == "sgdm nesterov sc lwp-v lwp-w lwp-v+sc lwp-w+sc msnag free ");
}

TEST_CASE("An unknown rule is answered with the nearest name and the list") {
  CHECK(test::RefusedName([] { FindRule("lwpv"); }) == "rule");
  CHECK(test::MessageOf([] { FindRule("lwpv"); }) ==
        "rule: got lwpv, accepted: sgdm, nesterov, sc, lwp-v, lwp-w, lwp-v+sc, lwp-w+sc, msnag, "
        "free, linear (did you mean lwp-v?)");
  CHECK_THROWS_AS(FindRule("SGDM"), InvalidArgument);
  CHECK_THROWS_AS(FindRule(""), InvalidArgument);
}

TEST_CASE("An option on a rule that has no use for it is refused by name") {
  CHECK(ErrorOf("sgdm", [](RuleOptions& o) { o.sc_delay = 3; }) ==
        "sc_delay: got 3, accepted: nothing with rule sgdm; rules that take it: sc, lwp-v+sc, "
        "lwp-w+sc");
  CHECK(ErrorOf("sc", [](RuleOptions& o) { o.horizon = 2.5; }) ==
        "horizon: got 2.5, accepted: nothing with rule sc; rules that take it: lwp-v, lwp-w, "
        "lwp-v+sc, lwp-w+sc, msnag, free");
  CHECK(ErrorOf("lwp-w", [](RuleOptions& o) { o.sc_a = 1; }) ==
        "sc_a: got 1, accepted: nothing with rule lwp-w; rules that take it: nesterov, sc, "
        "lwp-v+sc, lwp-w+sc, free");
  CHECK(ErrorOf("lwp-v", [](RuleOptions& o) { o.sc_b = 1; }).find("sc_b: got 1") == 0);
  CHECK(ErrorOf("nesterov", [](RuleOptions& o) { o.sc_delay = 1; }).find("sc_delay") == 0);
  CHECK(ErrorOf("free", [](RuleOptions& o) { o.sc_delay = 1; }).find("sc_delay") == 0);
  CHECK(ErrorOf("sgdm", [](RuleOptions& o) { o.horizon_scale = 2; }).find("horizon_scale") == 0);
  CHECK(ErrorOf("free", [](RuleOptions& o) { o.horizon_scale = 2; }).find("horizon_scale") == 0);
  CHECK(ErrorOf("lwp-v", [](RuleOptions& o) { o.sc_delay_scale = 2; }).find("sc_delay_scale") == 0);
}

TEST_CASE("Nothing is left for a compensation's delay where both coefficients are given") {
  CHECK(ErrorOf("sc", [](RuleOptions& o) {
          o.sc_a = o.sc_b = 1;
          o.sc_delay = 3;
        }).find("sc_delay: got 3, accepted: nothing together with both") == 0);
  CHECK(ErrorOf("sc", [](RuleOptions& o) {
          o.sc_a = o.sc_b = 1;
          o.sc_delay_scale = 2;
        }).find("sc_delay_scale: got 2") == 0);
  CHECK(ErrorOf("sc", [](RuleOptions& o) {
          o.sc_a = 1;
          o.sc_delay = 3;
        }).empty());
}

TEST_CASE("An option where it belongs is accepted") {
  CHECK(ErrorOf("sc", [](RuleOptions& o) { o.sc_delay = 0.5; }).empty());
  CHECK(ErrorOf("sc", [](RuleOptions& o) { o.sc_delay_scale = 2; }).empty());
  CHECK(ErrorOf("lwp-w", [](RuleOptions& o) { o.horizon = 0; }).empty());
  CHECK(ErrorOf("lwp-v+sc", [](RuleOptions& o) { o.horizon_scale = kMaxScale; }).empty());
  CHECK(ErrorOf("nesterov", [](RuleOptions& o) { o.sc_a = kMaxCoefficient; }).empty());
  CHECK(WhyInvalid(FreeSpec(0.5, 2, 7)).empty());
}

TEST_CASE("Coefficients of either sign are finite and bounded") {
  CHECK(WhyInvalid(FreeSpec(-0.5, -2, 7)).empty());
  const double bad = GENERATE(-1.1e8, 1.1e8, Limits::infinity(), Limits::quiet_NaN());
  CAPTURE(bad);
  const std::string got = ": got " + ToText(bad) + ", accepted: a number from -1e+08 to 1e+08";
  CHECK(ErrorOf("lwp-v+sc", [&](RuleOptions& o) { o.sc_a = bad; }) == "sc_a" + got);
  CHECK(ErrorOf("lwp-v+sc", [&](RuleOptions& o) { o.sc_b = bad; }) == "sc_b" + got);
}

TEST_CASE("Every other option is finite, not negative and bounded") {
  const double bad = GENERATE(-1.0, -1e-300, 1.1e8, Limits::infinity(), Limits::quiet_NaN());
  CAPTURE(bad);
  const std::string got = ": got " + ToText(bad) + ", accepted: a number from 0 to 1e+08";
  CHECK(ErrorOf("lwp-v+sc", [&](RuleOptions& o) { o.sc_delay = bad; }) == "sc_delay" + got);
  CHECK(ErrorOf("lwp-v+sc", [&](RuleOptions& o) { o.horizon = bad; }) == "horizon" + got);
  const std::string got_scale = ": got " + ToText(bad) + ", accepted: a number from 0 to 10";
  CHECK(ErrorOf("lwp-v+sc", [&](RuleOptions& o) { o.sc_delay_scale = bad; }) ==
        "sc_delay_scale" + got_scale);
  CHECK(ErrorOf("lwp-v+sc", [&](RuleOptions& o) { o.horizon_scale = bad; }) ==
        "horizon_scale" + got_scale);
}

TEST_CASE("Spike coefficients agree with 50 digits for every momentum and delay") {
  const double m = GENERATE(1e-300, 0.1, 0.5, 0.75, 0.9, 0.99, 0.999999, 1 - 1e-12, 1 - 0x1p-53);
  const double d = GENERATE(1.0, 2.0, 3.5, 16.0, 336.0, 1e4, 1e7);
  CAPTURE(m, d);
  double a = 0;
  double b = 0;
  SpikeCoefficients(m, d, a, b);
  const FiftyDigits exact_m = m;
  const FiftyDigits exact_a = pow(exact_m, FiftyDigits(d));
  const FiftyDigits exact_b = (1 - exact_a) / (1 - exact_m);
  CHECK(std::abs(static_cast<double>(b / exact_b - 1)) < kCoefficientTolerance);
  // Relative to the exponent's size, and as 0 where it leaves the range of a double.
  const double exponent = std::abs(d * std::log(m));
  if (exponent < 700) {
    CHECK(std::abs(static_cast<double>(a / exact_a - 1)) <
          kCoefficientTolerance * std::max(1.0, exponent));
  } else {
    CHECK(a == 0);
  }
}

TEST_CASE("Spike coefficients at the ends are exact") {
  double a = -1;
  double b = -1;
  SpikeCoefficients(0.9, 0.0, a, b);
  CHECK((a == 1 && b == 0));
  SpikeCoefficients(0.9, 1.0, a, b);
  CHECK((a == 0.9 && b == 1));
  SpikeCoefficients(1.0, 7.5, a, b);
  CHECK((a == 1 && b == 7.5));
  SpikeCoefficients(0.0, 3.0, a, b);
  CHECK((a == 0 && b == 1));
}

TEST_CASE("Defaults come from the delay") {
  constexpr double kM = 0.9;
  constexpr Delay kD = 4;
  const auto coefficients = [&](const RuleSpec& spec) {
    return ComputeCoefficients<double>(spec, kM, kD);
  };
  const double a_4 = 0.6561;  // 0.9^4
  const double b_4 = 3.439;   // 1 + 0.9 + 0.81 + 0.729
  const double a_8 = 0.43046721;
  const double b_8 = 5.6953279;

  SECTION("no compensation, no prediction") {
    const auto c = coefficients(Spec("sgdm"));
    CHECK((c.a == 1 && c.b == 0 && c.horizon == 0));
  }
  SECTION("Nesterov whatever the delay") {
    const auto c = coefficients(Spec("nesterov"));
    CHECK((c.a == kM && c.b == 1 && c.horizon == 0));
  }
  SECTION("compensation") {
    for (const char* name : {"sc", "lwp-v+sc", "lwp-w+sc"}) {
      const auto c = coefficients(Spec(name));
      CHECK(c.a == Approx(a_4).epsilon(kCoefficientTolerance));
      CHECK(c.b == Approx(b_4).epsilon(kCoefficientTolerance));
    }
  }
  SECTION("prediction") {
    for (const char* name : {"lwp-v", "lwp-w", "lwp-v+sc", "lwp-w+sc"}) {
      CHECK(coefficients(Spec(name)).horizon == 4);
    }
  }
  SECTION("what is left of the velocity after n updates") {
    CHECK(coefficients(Spec("msnag")).horizon == Approx(kM * b_4).epsilon(kCoefficientTolerance));
    RuleOptions twice;
    twice.horizon_scale = 2;
    CHECK(coefficients(Spec("msnag", twice)).horizon ==
          Approx(kM * b_8).epsilon(kCoefficientTolerance));
    RuleOptions given;
    given.horizon = 4;
    CHECK(ComputeCoefficients<double>(Spec("msnag", given), kM, 100).horizon ==
          coefficients(Spec("msnag")).horizon);
  }
  SECTION("overcompensation") {
    RuleOptions twice;
    twice.sc_delay_scale = 2;
    twice.horizon_scale = 2;
    const auto c = coefficients(Spec("lwp-w+sc", twice));
    CHECK(c.a == Approx(a_8).epsilon(kCoefficientTolerance));
    CHECK(c.b == Approx(b_8).epsilon(kCoefficientTolerance));
    CHECK(c.horizon == 8);
  }
  SECTION("values of their own go before scales") {
    RuleOptions own;
    own.sc_delay = 8;
    own.horizon = 1.5;
    own.sc_delay_scale = 3;
    own.horizon_scale = 3;
    own.sc_b = 0.25;
    const auto c = coefficients(Spec("lwp-v+sc", own));
    CHECK(c.a == Approx(a_8).epsilon(kCoefficientTolerance));
    CHECK(c.b == 0.25);
    CHECK(c.horizon == 1.5);
  }
  SECTION("free: SGDM until told otherwise, at every delay") {
    const auto c = coefficients(Spec("free"));
    CHECK((c.a == 1 && c.b == 0 && c.horizon == 0));
    const auto given = coefficients(FreeSpec(0.5, 2, 7));
    CHECK((given.a == 0.5 && given.b == 2 && given.horizon == 7));
  }
}

}  // namespace
}  // namespace batchless::analysis
