// All that calls MPI. The program loads it when it trains in several processes.
#pragma once

#include <memory>

#include "batchless/training/process_group.h"

namespace batchless::training {

std::shared_ptr<ProcessGroup> MakeMpiGroup();

}  // namespace batchless::training
