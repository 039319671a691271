#include "batchless/training/mpi_process_group.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "mpi_group.h"

namespace batchless::training {
namespace {

// How many processes a launcher says that it started; 1 where there is none. MPI itself is not asked
// before that: it takes a tenth of a second to say that a process is alone.
int LaunchedProcesses() {
  // Open MPI, MPICH and its relatives, Slurm.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"}) {
    if (const char* value = std::getenv(name)) return std::atoi(value);
  }
  // A step of Slurm knows its tasks, but so does the script around it, which is no task.
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  if (tasks != nullptr && std::getenv("PMIX_RANK") != nullptr) return std::atoi(tasks);
  return 1;
}

}  // namespace

std::shared_ptr<ProcessGroup> JoinMpiProcesses() {
  const int processes = LaunchedProcesses();
  if (processes <= 1) return nullptr;
  try {
    return MakeMpiGroup();
  } catch (const std::runtime_error& error) {
    throw std::runtime_error("started as one of " + std::to_string(processes) +
                             " processes: " + error.what());
  }
}

}  // namespace batchless::training
