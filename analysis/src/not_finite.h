#pragma once

#include <limits>

namespace batchless::analysis {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace batchless::analysis
