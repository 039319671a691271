// Every command of the program, one file each.
#pragma once

#include "command.h"

namespace batchless {

// In the order in which the help lists them: DO(NAME) of each, whose maker is kNAMECommand.
#define BATCHLESS_COMMANDS(DO) \
  DO(Rules)                    \
  DO(Stability)                \
  DO(Sweep)                    \
  DO(Optimum)                  \
  DO(Limit)                    \
  DO(Design)                   \
  DO(Boundary)                 \
  DO(Margin)                   \
  DO(WorstCase)                \
  DO(Noise)                    \
  DO(Frontier)                 \
  DO(Frequency)                \
  DO(Inconsistency)            \
  DO(Continuous)               \
  DO(CriticalDelay)            \
  DO(Roots)                    \
  DO(Simulate)                 \
  DO(PipelineStability)        \
  DO(Advise)                   \
  DO(Schedule)                 \
  DO(Network)                  \
  DO(Costs)                    \
  DO(Throughput)               \
  DO(Plan)                     \
  DO(Layout)                   \
  DO(Memory)                   \
  DO(Stragglers)               \
  DO(Calibrate)                \
  DO(Validate)                 \
  DO(Train)                    \
  DO(Generate)                 \
  DO(Compare)                  \
  DO(Report)                   \
  DO(Optimizers)               \
  DO(Data)                     \
  DO(Version)

#define BATCHLESS_DECLARE(name) extern const CommandMaker k##name##Command;
BATCHLESS_COMMANDS(BATCHLESS_DECLARE)
#undef BATCHLESS_DECLARE

}  // namespace batchless
