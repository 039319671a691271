// Frequency response of the open loop: what Bode and Nyquist plots draw.
//
//   L(z) = x (kappa + beta u)(1 + gamma u) / (z^n (z - 1)(z - m)),   z = e^{i theta}, u = z - 1
//   L(z) = x N(z) / (z^D D(z))   of the rule `linear`
//
// with the symbols of characteristic.h and rule.h. The closed loop is stable where the Nyquist curve goes round
// -1 as it should; margins are in stability.h.
#pragma once

#include <span>
#include <vector>

#include "batchless/analysis/characteristic.h"

namespace batchless::analysis {

struct FrequencyPoint {
  double frequency = 0;      ///< theta, radians per update
  double magnitude = 0;      ///< |L|
  double phase_radians = 0;  ///< of L, continuous in theta; at theta = 0 -pi / 2, with m = 1 -pi
};

/// L at frequencies in (0, pi]. The phase is summed factor by factor, each continuous, so that no
/// unwrapping is needed at any delay; for the rule `linear` by the roots of N and D, and its momentum is not
/// read. Throws InvalidArgument.
std::vector<FrequencyPoint> FrequencyResponse(const RuleSpec& spec, double momentum, Delay delay,
                                              double rate, std::span<const double> frequencies);

}  // namespace batchless::analysis

// Example
//   const RuleSpec sgdm{FindRule("sgdm"), {}};
//   // L(z) = x / (z - 1).
//   const double momentum = 0, rate = 0.5;
//   const std::vector<double> frequencies = {std::numbers::pi};
//   const auto points = FrequencyResponse(sgdm, momentum, /*delay=*/0, rate, frequencies);
//   CHECK(points[0].magnitude == Approx(rate / 2));
