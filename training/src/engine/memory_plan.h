// Which values and gradients a process keeps, and between which actions.
//
// A process holds the stages [first, end). Of a value it keeps a copy where one of its stages makes or
// reads it, and where it is on its way to a later process; the copy is written by the stage that makes
// it, or as it comes in with the forward of the process's first stage. It is kept until the process's
// stages and, where it goes on, the forward of the next process's first stage are done with it.
// Gradients go the other way likewise.
//
// Inputs of a sum share the gradient of its output: one ring for all of them, named by gradient_of.
#pragma once

#include <optional>
#include <vector>

#include "batchless/hwmodel/network.h"
#include "batchless/training/stage.h"
#include "engine/program.h"

namespace batchless::training {

struct StageSpan {
  int first = 0;
  int end = 0;  // one past the last

  bool Holds(int stage) const { return first <= stage && stage < end; }
};

class MemoryPlan {
 public:
  // `layouts` by stage. Both have to outlive this object.
  MemoryPlan(const hwmodel::Network& network, std::vector<const StageLayout*> layouts);

  // The value whose ring holds the gradient of value v; -1: none is wanted.
  int gradient_of(int v) const { return gradient_of_[v]; }

  // None where a process with these stages keeps no copy.
  std::optional<RingUse> ValueUse(int v, const StageSpan& span) const;
  std::optional<RingUse> GradientUse(int ring, const StageSpan& span) const;

  // What passes from stage `stage` - 1 to `stage` with a forward, and back with a backward.
  std::vector<int> CrossingValues(int stage) const;
  std::vector<int> CrossingGradients(int stage) const;

 private:
  int Producer(int v) const;
  int LastConsumer(int v) const;  // -1 where there is none

  const hwmodel::Network* network_;
  std::vector<const StageLayout*> layouts_;
  std::vector<int> gradient_of_;
};

}  // namespace batchless::training
