#include "batchless/analysis/boundary_curve.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <optional>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/stability.h"
#include "not_finite.h"
#include "point_solver.h"

namespace batchless::analysis {
namespace {

using Complex = std::complex<double>;

constexpr double kPi = std::numbers::pi;
// How near the rate of a branch comes to the certified one, in units of it.
constexpr double kAgreement = 1e-8;
// The shortest step in -ln(1 - m): where a branch ends within it is a corner.
constexpr double kShortest = 1e-9;
// Steps of the whole way that none is longer than.
constexpr int kLeastSteps = 16;

// -ln(1 - m), in which steps are even towards 1.
double Place(double momentum) { return -std::log1p(-momentum); }
double MomentumAt(double place) { return -std::expm1(-place); }

// G on the unit circle, and the derivative of ln G by theta.
struct Gain {
  Complex g;
  Complex slope;
};

Gain GainAt(const Characteristic<double>& p, double theta) {
  const double s = std::sin(theta / 2);
  const Complex u(-2 * s * s, std::sin(theta));  // z - 1, without cancellation
  const Complex z = 1.0 + u;
  const Complex i(0, 1);
  const Complex lead = p.kappa + p.beta * u, second = 1.0 + p.gamma * u;
  const Complex pole = u + p.one_minus_momentum;
  const Complex g = lead * second / (u * pole) * std::polar(1.0, -p.n * theta);
  const Complex slope = i * z * (p.beta / lead + p.gamma / second - 1.0 / u - 1.0 / pole) - i * p.n;
  return {g, slope};
}

// The phase of -G, within half a turn of 0.
double PhaseOf(const Gain& gain) { return std::arg(-gain.g); }

// The angle near `theta` at which a root is on the circle; none where there is none near.
std::optional<double> Crossing(const Characteristic<double>& p, double theta) {
  constexpr int kMostSteps = 30;
  for (int step = 0; step < kMostSteps; ++step) {
    const Gain gain = GainAt(p, theta);
    const double change = -PhaseOf(gain) / gain.slope.imag();
    if (!std::isfinite(change)) return std::nullopt;
    theta += change;
    // A root at -1 stays there.
    if (std::abs(theta - kPi) < 1e-9) theta = kPi;
    if (!(theta > 0 && theta <= kPi)) return std::nullopt;
    if (std::abs(change) <= 4 * std::numeric_limits<double>::epsilon() * theta) break;
  }
  return theta;
}

class Tracer {
 public:
  Tracer(const RuleSpec& spec, Delay delay, const BoundaryCurve& curve)
      : spec_(spec), delay_(delay), curve_(curve) {}

  std::vector<BoundaryPoint> Run() {
    double place = Place(curve_.least_momentum);
    const double end = Place(curve_.largest_momentum);
    const double longest = (end - place) / kLeastSteps;
    points_.push_back(Afresh(curve_.least_momentum));
    for (double step = longest; place < end;) {
      step = std::min({step, longest, end - place});
      const bool is_last = place + step >= end;
      const double far = is_last ? curve_.largest_momentum : MomentumAt(place + step);
      const std::optional<BoundaryPoint> middle =
          Follow(MomentumAt(place + step / 2), points_.back());
      const std::optional<BoundaryPoint> next = middle ? Follow(far, *middle) : std::nullopt;
      const double bend = next ? Bend(points_.back(), *middle, *next) : 0;
      if (next && (bend <= curve_.tolerance || step <= kShortest)) {
        points_.push_back(*next);
        place = is_last ? end : place + step;
        step *= bend < curve_.tolerance / 4 ? 2 : 1;
      } else if (step > kShortest) {
        step /= 2;
      } else {
        // Another branch begins here.
        points_.back().is_corner = true;
        points_.push_back(Afresh(far));
        points_.back().is_corner = true;
        place = is_last ? end : place + step;
        step = longest;
      }
    }
    return std::move(points_);
  }

 private:
  // The certified point, whichever branch it is on.
  BoundaryPoint Afresh(double momentum) const {
    BoundaryPoint point{momentum, CriticalRate(spec_, momentum, delay_), kNaN};
    if (!(point.critical_rate > 0) || std::isinf(point.critical_rate)) return point;
    const auto p = MakeCharacteristic<double>(spec_, momentum, delay_);
    double nearest = kInfinity;
    std::vector<double> angles{kPi};
    for (const GainCrossover& crossover : GainCrossovers(p, point.critical_rate)) {
      angles.push_back(Crossing(p, crossover.theta).value_or(crossover.theta));
    }
    for (const double angle : angles) {
      const double distance = std::abs(1.0 + point.critical_rate * GainAt(p, angle).g);
      if (distance < nearest) point.frequency = angle;
      nearest = std::min(nearest, distance);
    }
    return point;
  }

  // The point on the branch of another one; none where the edge is not there.
  std::optional<BoundaryPoint> Follow(double momentum, const BoundaryPoint& from) const {
    BoundaryPoint point{momentum, CriticalRate(spec_, momentum, delay_), kNaN};
    const bool is_rate = point.critical_rate > 0 && std::isfinite(point.critical_rate);
    if (!is_rate || std::isnan(from.frequency)) {
      if (point.critical_rate == from.critical_rate) return point;
      return std::nullopt;
    }
    const auto p = MakeCharacteristic<double>(spec_, momentum, delay_);
    const std::optional<double> theta = Crossing(p, from.frequency);
    if (!theta) return std::nullopt;
    const double rate = 1 / std::abs(GainAt(p, *theta).g);
    if (!(std::abs(rate / point.critical_rate - 1) <= kAgreement)) return std::nullopt;
    point.frequency = *theta;
    return point;
  }

  static double Bend(const BoundaryPoint& a, const BoundaryPoint& middle, const BoundaryPoint& b) {
    if (std::isnan(middle.frequency)) return 0;
    const double straight = (std::log(a.critical_rate) + std::log(b.critical_rate)) / 2;
    return std::abs(std::log(middle.critical_rate) - straight);
  }

  const RuleSpec& spec_;
  Delay delay_;
  BoundaryCurve curve_;
  std::vector<BoundaryPoint> points_;
};

}  // namespace

std::vector<BoundaryPoint> TraceBoundary(const RuleSpec& spec, Delay delay,
                                         const BoundaryCurve& curve) {
  Validate(spec);
  RefuseLinear(spec);
  CheckDelay(delay);
  for (const double momentum : {curve.least_momentum, curve.largest_momentum}) {
    RefuseIf(!(momentum >= 0 && momentum < 1), "momentum", momentum, "a number from 0 to below 1");
  }
  RefuseIf(!(curve.least_momentum < curve.largest_momentum), "momentum", curve.largest_momentum,
           "more than the least one, " + ToText(curve.least_momentum));
  RefuseIf(!(curve.tolerance >= 1e-9 && curve.tolerance <= 1), "tolerance", curve.tolerance,
           "a number from 1e-9 to 1");
  return Tracer(spec, delay, curve).Run();
}

}  // namespace batchless::analysis
