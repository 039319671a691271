#include "batchless/analysis/frequency.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "batchless/analysis/argument.h"

namespace batchless::analysis {
namespace {

// Modulus and phase of a product, factor by factor.
struct Polar {
  double log_modulus = 0;
  double phase = 0;

  // `sign` is 1 for a factor, -1 for a divisor.
  void Multiply(double real, double imaginary, int sign) {
    log_modulus += sign * std::log(std::hypot(real, imaginary));
    phase += sign * std::atan2(imaginary, real);
  }
};

}  // namespace

std::vector<FrequencyPoint> FrequencyResponse(const RuleSpec& spec, double momentum, Delay delay,
                                              double rate, std::span<const double> frequencies) {
  Validate(spec);
  RefuseLinear(spec);
  CheckMomentum(momentum);
  CheckDelay(delay);
  CheckRate(rate);
  const auto p = MakeCharacteristic<double>(spec, momentum, delay);
  std::vector<FrequencyPoint> points;
  for (const double theta : frequencies) {
    if (!(theta > 0 && theta <= std::numbers::pi)) {
      throw InvalidArgument("frequencies", theta, "numbers above 0, up to pi");
    }
    // u = (cos theta - 1) + i sin theta, its real part without cancellation. Imaginary parts are not
    // negative for theta in (0, pi], so that no factor's phase jumps.
    const double half = std::sin(theta / 2);
    const double real = -2 * half * half;
    const double imaginary = std::max(0.0, std::sin(theta));
    Polar loop;
    loop.Multiply(p.kappa + p.beta * real, p.beta * imaginary, 1);
    loop.Multiply(1 + p.gamma * real, p.gamma * imaginary, 1);
    loop.Multiply(real, imaginary, -1);
    loop.Multiply(p.one_minus_momentum + real, imaginary, -1);
    points.push_back({theta, rate * std::exp(loop.log_modulus), loop.phase - p.n * theta});
  }
  return points;
}

}  // namespace batchless::analysis
