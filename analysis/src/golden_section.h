// The least value of a function with one minimum, by golden sections.
#pragma once

#include <utility>

namespace batchless::analysis {

/// What is left of an interval: its ends, and two points a < b between them with their values.
struct GoldenBracket {
  double low, high, a, b, at_a, at_b;
};

/// Narrows [low, high] to at most `tolerance`. `keeps_lower(at_a, at_b)`, std::less or std::less_equal, says
/// which part is left where the two values are equal.
template <class KeepsLower, class Value>
GoldenBracket GoldenSection(double low, double high, double tolerance, KeepsLower keeps_lower,
                            const Value& value) {
  constexpr double kRatio = 0.6180339887498949;
  double a = high - kRatio * (high - low), b = low + kRatio * (high - low);
  double at_a = value(a), at_b = value(b);
  while (high - low > tolerance) {
    if (keeps_lower(at_a, at_b)) {
      high = std::exchange(b, a);
      at_b = at_a;
      a = high - kRatio * (high - low);
      at_a = value(a);
    } else {
      low = std::exchange(a, b);
      at_a = at_b;
      b = low + kRatio * (high - low);
      at_b = value(b);
    }
  }
  return {low, high, a, b, at_a, at_b};
}

}  // namespace batchless::analysis
