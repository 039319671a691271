#include "placement.h"

#include <algorithm>
#include <functional>

#include "usage_error.h"

namespace batchless {

std::vector<int> PlacementEnds(const Argument& placement, int stages) {
  const std::vector<std::int64_t> cuts =
      placement.IntegerList({1, std::max(1, stages - 1)}, Repeats::kKeep);
  if (!std::is_sorted(cuts.begin(), cuts.end(), std::less_equal<>())) {
    throw UsageError(placement.name(), placement.Text(""), "ascending numbers of layers");
  }
  std::vector<int> ends(cuts.begin(), cuts.end());
  ends.push_back(stages);
  return ends;
}

}  // namespace batchless
