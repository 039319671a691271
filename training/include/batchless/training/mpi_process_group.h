// Processes that a launcher of MPI started (mpirun, srun): training/process_group.h over MPI.
#pragma once

#include <memory>

#include "batchless/training/process_group.h"

namespace batchless::training {

/// The processes that were started together with this one; null where no launcher started it, or it
/// started it alone. Initializes MPI, which ends with the last copy of what is returned; once in a
/// process. Throws std::runtime_error where there are several processes and this library was built
/// without MPI, or MPI cannot serve several threads.
std::shared_ptr<ProcessGroup> JoinMpiProcesses();

}  // namespace batchless::training

// Example
//   // Null where this process was started alone: the trainer then has all stages.
//   const std::shared_ptr<ProcessGroup> processes = JoinMpiProcesses();
//   TrainerOptions options;
//   options.processes = processes;
//   CHECK((processes == nullptr || processes->size() > 1));
