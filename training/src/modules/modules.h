// The program's module for MPI: a shared object with the one source that calls it. The program opens it at
// its first use, so whatever trains in one process starts without MPI and the many libraries that come with
// it. Programs that link the static library need no module.
#pragma once

#include <memory>

#include "batchless/training/process_group.h"

namespace batchless::training {

struct MpiModule {
  std::shared_ptr<ProcessGroup> (*make_group)();
};

// What batchless_mpi.so exports.
extern "C" {
extern __attribute__((visibility("default"))) const MpiModule kMpiModule;
}

}  // namespace batchless::training
