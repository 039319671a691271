// Where --placement cuts a network into groups of stages.
#pragma once

#include <vector>

#include "argument.h"

namespace batchless {

// One past the last stage of each group, `stages` for the last one. Throws UsageError unless the
// cuts are ascending and leave stages on both sides.
std::vector<int> PlacementEnds(const Argument& placement, int stages);

}  // namespace batchless
