// What each worker does, in order, over and over.
//
// In cycle c a worker runs its list once; an action with offset o is for micro-batch
// c * microbatches_per_cycle + o. Micro-batches before the first of the run and after its last are
// left out: that is how a pipeline fills and drains.
//
// Workers wait for one another in two places only:
//
//   forward of k at a worker's first stage    for that forward at the last stage of the one before
//   backward of k at a worker's last stage    for that backward at the first stage of the next
//
// Everything else, the reuse of memory above all, follows from these two and the lists' orders:
// RingDepths proves from them how many micro-batches have to be kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "batchless/hwmodel/action.h"
#include "batchless/hwmodel/memory_plan.h"
#include "batchless/hwmodel/steady_state.h"

namespace batchless::training {

struct WorkerProgram {
  int first_stage = 0;
  int end_stage = 0;  // one past the last
  std::vector<hwmodel::SteadyAction> actions;
};

struct Program {
  std::vector<WorkerProgram> workers;
  std::int64_t microbatches_per_cycle = 1;

  int stages() const { return workers.back().end_stage; }
};

// The cycle that a list repeats, by workers whose groups of stages end at `boundaries`: at every stage
// the list's actions in the list's order, so that every pass reads the version that it reads there.
// Stages may be cycles ahead of the list, the same for any number of workers.
Program SteadyProgram(hwmodel::SteadyState steady, const std::vector<int>& boundaries);

// The stages of each of so many processes, which share the workers, equally many each.
std::vector<hwmodel::StageSpan> SpansOfProcesses(const Program& program, std::size_t processes);

// The worker of each stage.
std::vector<int> WorkersOfStages(const std::vector<int>& boundaries);

// Whether every backward is followed at once by its stage's update.
bool UpdatesAtOnce(const Program& program);

// Cycles after the last micro-batch has entered until all have left.
std::int64_t DrainCycles(const Program& program);

// How many updates a stage has made when micro-batch k's forward begins.
std::int64_t UpdatesBeforeForward(const Program& program, int stage, std::int64_t k);

// How many of an action's micro-batches, of `microbatches` in all, `cycles` cycles do.
std::int64_t CountDone(const Program& program, hwmodel::ActionKind kind, int stage,
                       std::int64_t cycles, std::int64_t microbatches);

// For each use the number of slots that a ring of micro-batches needs: when micro-batch k is
// written, k - depth has been released, in every interleaving of the workers.
std::vector<std::int64_t> RingDepths(const Program& program,
                                     const std::vector<hwmodel::MemoryUse>& uses);

}  // namespace batchless::training
