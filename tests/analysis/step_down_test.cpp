// The recursion between the ends of a polynomial against that over all coefficients, and differences.
#include "../../analysis/src/step_down.h"

#include <cmath>
#include <random>
#include <span>

#include "batchless/analysis/noise.h"
#include "catch.h"

namespace batchless::analysis {
namespace {

using Real = StepDown::Real;
using Vector = StepDown::Vector;

// Sums in another order, of up to 45 terms near 1.
constexpr double kRoundings = 1e-16;
// Central differences over 1e-7.
constexpr double kDifferences = 1e-9;

Vector Uniform(Eigen::Index size, double most, std::mt19937& random) {
  std::uniform_real_distribution<double> uniform(-most, most);
  Vector v(size);
  for (Real& x : v) x = uniform(random);
  return v;
}

}  // namespace

TEST_CASE(
    "Barrier and energy of the ends are those of all coefficients, gradients of differences") {
  std::mt19937 random(1);
  for (const int delay : {0, 1, 3, 5, 40}) {
    for (const int order : {2, 3, 5}) {
      INFO("delay " << delay << ", order " << order);
      Vector x(3 * order + 1);
      x << 1, Uniform(order, 0.1, random), Uniform(order, 0.05, random), Uniform(order, 1, random);
      StepDown steps(delay, order);
      const auto value = [&](const Vector& at) {
        REQUIRE(steps.Down(at.head(order + 1), at.segment(order + 1, order), at.tail(order)));
        return 2 * steps.log_barrier() + 3 * steps.energy();
      };
      value(x);
      Vector p = Vector::Zero(delay + order + 1), response = p, one = p;
      p.head(order + 1) = x.head(order + 1);
      p.tail(order) += x.segment(order + 1, order);
      response.tail(order) = x.tail(order);
      one[0] = 1;
      const auto energy = [&](const Vector& of) {
        const auto size = static_cast<std::size_t>(p.size());
        return static_cast<double>(ImpulseEnergy(std::span<const Real>(of.data(), size),
                                                 std::span<const Real>(p.data(), size)));
      };
      CHECK(static_cast<double>(steps.energy()) == Approx(energy(response)).epsilon(kRoundings));
      CHECK(static_cast<double>(steps.log_barrier()) ==
            Approx(std::log(energy(one))).margin(kRoundings));
      const StepDown::Gradient by = steps.Up(2, 3);
      Vector gradient(x.size());
      gradient << by.a, by.b, by.response;
      constexpr Real kStep = 1e-7L;
      for (Eigen::Index i = 1; i < x.size(); ++i) {
        Vector high = x, low = x;
        high[i] += kStep;
        low[i] -= kStep;
        CHECK(static_cast<double>((value(high) - value(low)) / (2 * kStep)) ==
              Approx(static_cast<double>(gradient[i])).margin(kDifferences));
      }
    }
  }
}

TEST_CASE("The recursion tells roots inside the unit circle from those on it and outside") {
  // z^5 (z - 1) + x is stable below 2 sin(pi / 22).
  const double critical = 2 * std::sin(std::acos(-1.0) / 22);
  StepDown steps(5, 1);
  const auto stable = [&](double x) {
    return steps.Down(Vector{{1.0L, -1.0L}}, Vector::Constant(1, x), {});
  };
  CHECK(stable(critical * (1 - 1e-12)));
  CHECK_FALSE(stable(critical * (1 + 1e-12)));
  CHECK_FALSE(stable(-1e-12));
}

}  // namespace batchless::analysis
