// Relative distance.
#pragma once

#include <cmath>

namespace batchless::analysis {

inline bool IsNear(double value, double expected, double tolerance) {
  return std::abs(value - expected) <= tolerance * std::abs(expected);
}

}  // namespace batchless::analysis
