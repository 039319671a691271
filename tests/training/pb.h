// The list of pipelined backpropagation over a network's stages, long enough for a trainer.
#pragma once

#include "batchless/hwmodel/network.h"
#include "batchless/hwmodel/schedule_kinds.h"

namespace batchless::training {

inline hwmodel::Schedule PbOf(const hwmodel::Network& network) {
  const int stages = network.stage_count();
  return hwmodel::PipelinedBackpropagation(stages, hwmodel::EnoughMicrobatches(stages, 1));
}

}  // namespace batchless::training
