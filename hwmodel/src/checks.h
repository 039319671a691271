// Checks of arguments that several functions take.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "batchless/analysis/argument.h"

namespace batchless::hwmodel {

inline void CheckAtLeastOne(const char* name, std::int64_t value) {
  if (value < 1) {
    throw analysis::InvalidArgument(name, std::to_string(value), "an integer >= 1");
  }
}

inline void CheckDivides(const char* name, std::int64_t divisor, std::int64_t number) {
  CheckAtLeastOne(name, divisor);
  if (number % divisor != 0) {
    throw analysis::InvalidArgument(name, std::to_string(divisor),
                                    "a divisor of " + std::to_string(number));
  }
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
    if (end <= before) {
      throw analysis::InvalidArgument("group_ends", std::to_string(end),
                                      "more than the " + std::to_string(before) + " before it");
    }
    before = end;
  }
  if (before != stages) {
    throw analysis::InvalidArgument("group_ends", std::to_string(before),
                                    "the " + std::to_string(stages) + " stages at last");
  }
}

}  // namespace batchless::hwmodel
