// Checks that the schedules of schedule_kinds.h share.
#pragma once

#include <cstdint>
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

}  // namespace batchless::hwmodel
