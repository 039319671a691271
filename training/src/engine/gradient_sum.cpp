#include "engine/gradient_sum.h"

#include <algorithm>

namespace batchless::training {

int PartialSums::Append(PartialSum sum) {
  int additions = 0;
  // The second half of a tree, whose first half comes before it.
  while (!sums_.empty() && sums_.back().count == sum.count && sum.first / sum.count % 2 == 1) {
    sum = {sums_.back().first, 2 * sum.count};
    sums_.pop_back();
    ++additions;
  }
  sums_.push_back(sum);
  return additions;
}

GradientParts::GradientParts(std::int64_t parts, int replicas, int replica) {
  const std::int64_t share = parts / replicas;
  for (std::int64_t part = 0; part < share; ++part) {
    const auto slot = static_cast<std::int64_t>(left_.sums().size());
    slots_ = std::max(slots_, slot + 1);
    steps_.push_back({slot, left_.Append({replica * share + part, 1})});
  }
}

}  // namespace batchless::training
