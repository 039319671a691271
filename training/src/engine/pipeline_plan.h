// What a schedule comes to for a pipeline: the workers' programs, and each stage's delay, versions and
// horizons.
#pragma once

#include <cstdint>
#include <vector>

#include "batchless/hwmodel/memory_plan.h"
#include "batchless/hwmodel/schedule.h"
#include "engine/program.h"
#include "optimizers/definition.h"

namespace batchless::training {

// Everything that follows from the schedule and its workers: derived once, taken whole.
struct PipelinePlan {
  hwmodel::Schedule schedule;  // of the run's start; its rule of versions is the run's
  Program program;
  // What completes a micro-batch's gradient at a stage: its weight gradient where backwards are split.
  hwmodel::ActionKind completes = hwmodel::ActionKind::kBackward;
  std::vector<std::int64_t> delays;  // by stage, updates; the largest where they are random
  // Whether each update's a and b are made for its own delay.
  bool compensates_each = false;
  // By stage: updates between the newest version and the oldest one that a pass reads.
  std::vector<std::int64_t> version_ages;
  // By stage: how many versions before the newest a forward reads. Double-buffered forwards read what
  // their micro-batches' numbers say instead.
  std::vector<std::int64_t> forward_lags;
  // Whether forwards read predicted weights, and backwards weights that are neither the newest nor their
  // forwards'.
  bool predicts_forward = false;
  bool predicts_backward = false;
  // By stage: from a pass to its micro-batch's last backward; where backwards read their forwards'
  // weights again, from the forward to its gradient's update. With the rule xpipe that rule's.
  std::vector<Horizons> horizons;
  // By stage: whether it hands on its input's gradient shrunk.
  std::vector<bool> shrinks;
  // Groups of stages that make their values again for their backwards; empty: values are kept.
  std::vector<hwmodel::StageSpan> recomputed;
  // Whether every call of Run fills the pipeline and drains it. With the versions of kDoubleBuffered,
  // which follow from the micro-batches' numbers, that changes no result.
  bool drains = false;
};

}  // namespace batchless::training
