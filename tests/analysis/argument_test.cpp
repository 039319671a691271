#include "batchless/analysis/argument.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

#include "catch.h"

namespace batchless::analysis {
namespace {

using Limits = std::numeric_limits<double>;

TEST_CASE("The message is one line with argument, value and what is accepted") {
  const InvalidArgument error("--delay", "-1", "an integer from 0 to 10000000");
  CHECK(std::string(error.what()) == "--delay: got -1, accepted: an integer from 0 to 10000000");
  CHECK(error.name() == "--delay");
  CHECK(std::string(InvalidArgument("--rate", 0.1, "more").what()) ==
        "--rate: got 0.1, accepted: more");
  CHECK(std::string(InvalidArgument("--rate", Limits::quiet_NaN(), "more").what()) ==
        "--rate: got nan, accepted: more");
  CHECK(std::string(InvalidArgument("--rate", -Limits::infinity(), "more").what()) ==
        "--rate: got -inf, accepted: more");
  CHECK(std::string(InvalidArgument("--rule", "", "a rule").what()) ==
        "--rule: got an empty string, accepted: a rule");
}

TEST_CASE("A value can not break the line or flood it") {
  const std::string line = InvalidArgument("--rule", "a\nb\tc\x7f", "a rule").what();
  CHECK(line == "--rule: got a?b?c?, accepted: a rule");
  const std::string cut = InvalidArgument("--rule", std::string(5000, 'x'), "a rule").what();
  CHECK(cut.size() < 120);
  CHECK(cut.find("xxx..., accepted: a rule") != std::string::npos);
}

TEST_CASE("ToText is short and reads back exactly") {
  CHECK(ToText(0) == "0");
  CHECK(ToText(-1) == "-1");
  CHECK(ToText(0.1) == "0.1");
  CHECK(ToText(1e-100) == "1e-100");
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-300, 300);
  for (int i = 0; i < 1000; ++i) {
    const double value = (i % 2 == 0 ? 1 : -1) * std::pow(10.0, exponent(random));
    const std::string text = ToText(value);
    INFO(text);
    CHECK(std::strtod(text.c_str(), nullptr) == value);
    CHECK(text.size() <= 24);
  }
  for (const double value : {Limits::max(), Limits::min(), Limits::denorm_min()}) {
    CHECK(std::strtod(ToText(value).c_str(), nullptr) == value);
  }
}

TEST_CASE("Nearest counts insertions, deletions, substitutions and swaps") {
  constexpr std::array<std::string_view, 5> kWords = {"sgdm", "nesterov", "sc", "lwp-v", "lwp-w"};
  CHECK(Nearest("sgdm", kWords) == "sgdm");
  CHECK(Nearest("sgd", kWords) == "sgdm");      // insertion
  CHECK(Nearest("lwp--w", kWords) == "lwp-w");  // deletion
  CHECK(Nearest("lwp_w", kWords) == "lwp-w");   // substitution
  CHECK(Nearest("netserov", kWords) == "nesterov");
  CHECK(Nearest("lwp-", kWords) == "lwp-v");  // a tie: the first
  CHECK(Nearest("", kWords) == "sc");         // the shortest
  // A swap is one edit, two substitutions are two: without swaps both would be 2 and `xx` first.
  constexpr std::array<std::string_view, 2> kSwap = {"axxd", "acbd"};
  CHECK(Nearest("abcd", kSwap) == "acbd");
  CHECK(Nearest("abc", {}).empty());
}

TEST_CASE("A name is suggested where it comes near") {
  constexpr std::array<std::string_view, 4> kOptions = {"--help", "--json", "--rule", "--rate"};
  CHECK(DidYouMean("--rul", kOptions) == " (did you mean --rule?)");
  CHECK(DidYouMean("--rtae", kOptions) == " (did you mean --rate?)");
  CHECK(DidYouMean("--RATE", kOptions) == " (did you mean --rate?)");
  CHECK(DidYouMean("--lr", kOptions).empty());  // nearest to --help, by three edits
  CHECK(DidYouMean("--", kOptions).empty());
  CHECK(DidYouMean("", kOptions).empty());
  CHECK(DidYouMean("--rate", {}).empty());
  constexpr std::array<std::string_view, 2> kCommands = {"roots", "train"};
  CHECK(DidYouMean("foo", kCommands).empty());
  CHECK(DidYouMean("trane", kCommands) == " (did you mean train?)");  // two of five
}

}  // namespace
}  // namespace batchless::analysis
