#include "values.h"

#include <cmath>

#include "catch.h"
#include "usage_error.h"

namespace batchless {

namespace {

constexpr NumberRange kAny{-1e300, 1e300};
constexpr IntegerRange kDelays{0, 1000};

}  // namespace

TEST_CASE("numbers are decimal and end where the text ends") {
  CHECK(ParseNumber("x", "-0.5", kAny) == -0.5);
  CHECK(ParseNumber("x", "1e-3", kAny) == 1e-3);
  CHECK(ParseNumber("x", "1e-400", kAny) == 0);
  CHECK_FALSE(std::signbit(ParseNumber("x", "-0", kAny)));
  CHECK(ParseInteger("x", "1e3", kDelays) == 1000);
  CHECK(ParseInteger("x", "7.0", kDelays) == 7);
  for (const char* text : {"", "+1", "1 ", "0x1", "1e", "nan", "-inf", "1e400", "1,2"}) {
    INFO(text);
    CHECK_THROWS_AS(ParseNumber("x", text, kAny), UsageError);
  }
}

TEST_CASE("spacings meet both ends exactly") {
  for (const char* text : {"lin:0.1:0.7:13", "log:1e-6:10:512", "log:0.7:0.1:9"}) {
    const std::vector<double> values = ParseNumberList("x", text, kAny);
    INFO(text);
    CHECK(values.size() > 8);
    const bool rising = values.front() < values.back();
    for (std::size_t i = 1; i < values.size(); ++i) CHECK((values[i - 1] < values[i]) == rising);
  }
  const std::vector<double> log = ParseNumberList("x", "log:1e-6:10:8", kAny);
  CHECK(log.front() == 1e-6);
  CHECK(log.back() == 10);
  CHECK(log[1] == Approx(1e-5).epsilon(1e-12));
  // A LO that no logarithm can start at is an exponent, as with log1m.
  CHECK(ParseNumberList("x", "log:-6:1:8", kAny).front() == Approx(1e-6).epsilon(1e-15));
  CHECK(ParseNumberList("x", "log:-6:1:8", kAny).back() == 10);
  CHECK(ParseNumberList("x", "log:0:2:3", kAny)[1] == Approx(10).epsilon(1e-14));
  CHECK_THROWS_AS(ParseNumberList("x", "log:-400:1:3", kAny), UsageError);
  const std::vector<double> momenta = ParseNumberList("x", "log1m:-5:0:6", kAny);
  REQUIRE(momenta.size() == 6);
  CHECK(momenta.front() == 1 - 1e-5);
  CHECK(momenta[3] == Approx(0.99).epsilon(1e-14));
  CHECK(momenta.back() == 0);
  CHECK(ParseNumberList("x", "lin:3:9:1", kAny) == std::vector<double>{3});
}

TEST_CASE("a list may mix its forms, and integers repeat only where they may") {
  CHECK(ParseNumberList("x", "5,lin:0:1:3,5", kAny) == std::vector<double>{5, 0, 0.5, 1, 5});
  CHECK(ParseIntegerList("x", "4,0,4,lin:0:2:5", kDelays) == std::vector<std::int64_t>{4, 0, 1, 2});
  CHECK(ParseIntegerList("x", "log:1:100:6", kDelays) ==
        std::vector<std::int64_t>{1, 3, 6, 16, 40, 100});
  CHECK(ParseIntegerList("x", "4,4", kDelays, Repeats::kKeep) == std::vector<std::int64_t>{4, 4});
  CHECK_THROWS_AS(ParseIntegerList("x", "1.5", kDelays), UsageError);
  CHECK_THROWS_AS(ParseIntegerList("x", "lin:0:2000:3", kDelays), UsageError);
}

TEST_CASE("a value of a spacing that is out of range is named with it") {
  CHECK_THROWS_WITH(
      ParseNumberList("--momenta", "lin:0:2:3", NumberRange{0, 1}),
      "--momenta: got 2 in lin:0:2:3, accepted: numbers from 0 to 1 separated by commas, or "
      "lin:LO:HI:N, log:LO:HI:N, log1m:LO:HI:N");
}

}  // namespace batchless
