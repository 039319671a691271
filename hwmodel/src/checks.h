// Checks of arguments that several functions take.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "batchless/analysis/argument.h"

namespace batchless::hwmodel {

using analysis::RefuseIf;

inline void CheckAtLeastOne(std::string_view name, std::int64_t value) {
  RefuseIf(value < 1, name, value, "an integer >= 1");
}

inline void CheckNotNegative(std::string_view name, double value) {
  RefuseIf(!(value >= 0 && std::isfinite(value)), name, value,
           "finite numbers that are not negative");
}

inline void CheckDivides(std::string_view name, std::int64_t divisor, std::int64_t number) {
  CheckAtLeastOne(name, divisor);
  RefuseIf(number % divisor != 0, name, divisor, "a divisor of " + std::to_string(number));
}

inline void CheckSizes(int stages, std::int64_t microbatches,
                       std::int64_t microbatches_per_update) {
  CheckAtLeastOne("stages", stages);
  CheckAtLeastOne("microbatches", microbatches);
  CheckDivides("microbatches_per_update", microbatches_per_update, microbatches);
}

// One past each group's last stage: ascending, and the last one past all stages.
inline void CheckGroupEnds(std::span<const int> group_ends, int stages) {
  int before = 0;
  for (const int end : group_ends) {
    RefuseIf(end <= before, "group_ends", end,
             "more than the " + std::to_string(before) + " before it");
    before = end;
  }
  RefuseIf(before != stages, "group_ends", before,
           "the " + std::to_string(stages) + " stages at last");
}

}  // namespace batchless::hwmodel
