#include "modules/modules.h"
#include "mpi_group.h"

namespace batchless::training {

void batchless_make_mpi_group(std::shared_ptr<ProcessGroup>& group) { group = MakeMpiGroup(); }

}  // namespace batchless::training
