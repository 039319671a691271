// All that calls MPI. The program loads it when it trains in several processes.
#pragma once

#include <memory>

#include "batchless/training/process_group.h"

namespace batchless::training {

// Throws where there is no MPI.
std::shared_ptr<ProcessGroup> MakeMpiGroup();
inline constexpr const char* kNoMpi = "built without MPI (Debian: libopenmpi-dev)";

}  // namespace batchless::training
