#include "modules/modules.h"
#include "mpi_group.h"

namespace batchless::training {

const MpiModule kMpiModule = {MakeMpiGroup};

}  // namespace batchless::training
