// In the program this definition takes the place of the one that calls MPI.
#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "modules/modules.h"
#include "mpi_group.h"

namespace batchless::training {

std::shared_ptr<ProcessGroup> MakeMpiGroup() {
  // The module stays open; the program's run path says where it lies. Open MPI's own plugins look for its
  // symbols among the global ones.
  void* handle = dlopen("batchless_mpi.so", RTLD_NOW | RTLD_GLOBAL);
  const void* symbol = handle == nullptr ? nullptr : dlsym(handle, "kMpiModule");
  if (symbol == nullptr) throw std::runtime_error(std::string(kNoMpi) + ": " + dlerror());
  return static_cast<const MpiModule*>(symbol)->make_group();
}

}  // namespace batchless::training
