#include "batchless/analysis/frequency.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

#include "batchless/analysis/argument.h"
#include "decompositions.h"
#include "linear_polynomial.h"

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

constexpr double kPi = std::numbers::pi;

// Phase of a real polynomial at e^{i theta}, without jumps: that of each root's factor z - r is
// theta + arg(1 - r/z) or, outside the circle, arg(-r) + arg(1 - z/r), neither of which meets the cut.
class ContinuousPhase {
 public:
  explicit ContinuousPhase(const std::vector<double>& in_z) : leads_below_zero_(in_z.back() < 0) {
    const auto degree = static_cast<Eigen::Index>(in_z.size()) - 1;
    Eigen::MatrixXd companion = Eigen::MatrixXd::Zero(degree, degree);
    companion.diagonal(-1).setOnes();
    for (Eigen::Index k = 0; k < degree; ++k) {
      companion(k, degree - 1) = -in_z[static_cast<std::size_t>(k)] / in_z.back();
    }
    if (degree > 0) roots_ = EigenpairsOf(companion).values;
  }

  double At(double theta) const {
    const std::complex<double> z = std::polar(1.0, theta);
    double phase = leads_below_zero_ ? kPi : 0;
    for (const std::complex<double>& r : roots_) {
      // A sum has no negative zero as its imaginary part.
      const double outside = std::arg(-r + std::complex<double>(0)) + std::arg(1.0 - z / r);
      phase += std::abs(r) <= 1 ? theta + std::arg(1.0 - r / z) : outside;
    }
    return phase;
  }

 private:
  bool leads_below_zero_;
  Eigen::VectorXcd roots_;
};

std::vector<FrequencyPoint> LinearResponse(const RuleSpec& spec, Delay delay, double rate,
                                           std::span<const double> frequencies) {
  const auto p = MakeLinearPolynomial<double>(spec, delay);
  const ContinuousPhase a(p.a.in_z), b(p.b.in_z);
  std::vector<FrequencyPoint> points;
  for (const double theta : frequencies) {
    const auto g = EvaluateLogRatio(p, std::log(rate), PointAt(0.0, theta));
    // The roots say which turn it is on, and are no better than that where they are close to each other.
    const double phase = -(g.phase + kPi);
    const double near = b.At(theta) - a.At(theta) - p.n * theta;
    const double turns = std::round((near - phase) / (2 * kPi));
    points.push_back({theta, std::exp(-g.log_size), phase + 2 * kPi * turns});
  }
  return points;
}

}  // namespace

std::vector<FrequencyPoint> FrequencyResponse(const RuleSpec& spec, double momentum, Delay delay,
                                              double rate, std::span<const double> frequencies) {
  Validate(spec, momentum, delay, rate);
  for (const double theta : frequencies) {
    RefuseIf(!(theta > 0 && theta <= kPi), "frequencies", theta, "numbers above 0, up to pi");
  }
  if (spec.is_linear()) return LinearResponse(spec, delay, rate, frequencies);
  const auto p = MakeCharacteristic<double>(spec, momentum, delay);
  std::vector<FrequencyPoint> points;
  for (const double theta : frequencies) {
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
