// Roots of a characteristic polynomial outside a circle about 0, and whether their number is beyond doubt.
#pragma once

namespace batchless::analysis {

struct OutsideCount {
  int outside = 0;
  bool clear = false;  ///< no root is within rounding of the circle

  bool all_inside() const { return clear && outside == 0; }
};

}  // namespace batchless::analysis
