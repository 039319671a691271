// Agreement of AllRoots with the program MPSolve (Bini, Fiorentino and Robol), called as a program.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "batchless/analysis/roots.h"
#include "catch.h"
#include "temporary_folder.h"
#include "test_rules.h"

namespace batchless::analysis {
namespace {

using Extended = std::complex<long double>;

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
// Both programs see the same coefficients to 21 digits. A simple root then agrees to the one
// rounding to double; ill-conditioned neighbours cost up to two digits of the 21, none of the 16.
constexpr double kSimpleTolerance = 2 * kEpsilon;
// Two roots sqrt(double rounding) = 1e-8 apart: a long double's rounding over that, 1e-11, and a
// factor of about ten that the rounding of p near its zero takes.
constexpr double kNearDoubleTolerance = 2e-10;

bool HaveMpsolve() {
  static const bool have = std::system("command -v mpsolve >/dev/null 2>&1") == 0;
  return have;
}

std::vector<Extended> Mpsolve(const std::vector<long double>& coefficients) {
  const test::TemporaryFolder folder;
  const std::string input = folder / "polynomial", output = folder / "roots";
  {
    std::ofstream file(input);
    file << "Monomial;\nDegree=" << coefficients.size() - 1 << ";\nReal;\nFloatingPoint;\n\n";
    file << std::setprecision(std::numeric_limits<long double>::max_digits10);
    for (const long double c : coefficients) file << c << "\n";
  }
  const std::string command = "mpsolve -au -Ga -o 30 -Ob '" + input + "' >'" + output + "'";
  REQUIRE(std::system(command.c_str()) == 0);
  std::ifstream file(output);
  std::vector<Extended> roots;
  long double real = 0;
  long double imaginary = 0;
  while (file >> real >> imaginary) roots.emplace_back(real, imaginary);
  REQUIRE(file.eof());
  return roots;
}

// Largest distance of a root to its counterpart, relative to the counterpart; every counterpart is
// used once.
double WorstDisagreement(const RuleSpec& spec, double momentum, Delay delay, double rate) {
  const auto roots = AllRoots(spec, momentum, delay, rate);
  auto expected =
      Mpsolve(DenseCoefficients(MakeCharacteristic<long double>(spec, momentum, delay), rate));
  REQUIRE(roots.size() == expected.size());
  long double worst = 0;
  for (const Extended root : roots) {
    const auto nearest = std::min_element(expected.begin(), expected.end(),
                                          [&](const Extended& left, const Extended& right) {
                                            return std::norm(left - root) < std::norm(right - root);
                                          });
    worst = std::max(worst, std::abs(root - *nearest) / std::abs(*nearest));
    expected.erase(nearest);
  }
  return static_cast<double>(worst);
}

TEST_CASE("All roots agree with MPSolve") {
  if (!HaveMpsolve()) {
    WARN("skipped: the program mpsolve is not installed");
    return;
  }
  std::mt19937_64 random(40);
  std::uniform_real_distribution<double> unit(0, 1);
  for (const Rule& rule : Rules()) {
    for (const Delay delay : {1, 2, 4, 16, 64, 150}) {
      const double momentum = 1 - std::pow(10.0, -4 * unit(random));
      const double rate = std::pow(10.0, -5 + 6 * unit(random));
      CAPTURE(rule.name, momentum, rate, delay);
      CHECK(WorstDisagreement(Spec(rule.name), momentum, delay, rate) <= kSimpleTolerance);
    }
  }
}

TEST_CASE("Near-double roots agree with MPSolve to what their distance allows") {
  if (!HaveMpsolve()) {
    WARN("skipped: the program mpsolve is not installed");
    return;
  }
  // The breakaway of SGD, at the nearest double.
  for (const Delay delay : {2, 3, 8, 31}) {
    const double d = static_cast<double>(delay);
    const double rate = std::pow(d / (d + 1), d) / (d + 1);
    CAPTURE(delay, rate);
    CHECK(WorstDisagreement(Spec("sgdm"), 0, delay, rate) <= kNearDoubleTolerance);
  }
}

}  // namespace
}  // namespace batchless::analysis
