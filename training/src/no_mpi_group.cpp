#include <stdexcept>

#include "mpi_group.h"

namespace batchless::training {

std::shared_ptr<ProcessGroup> MakeMpiGroup() { throw std::runtime_error(kNoMpi); }

}  // namespace batchless::training
