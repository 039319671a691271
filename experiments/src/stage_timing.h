// Times of a network's stages on one core of this machine, by the trainer's own kernels.
#pragma once

#include "batchless/hwmodel/machine.h"
#include "batchless/hwmodel/network.h"

namespace batchless {

// Runs all stages forwards, backwards and their updates, in turn as one worker does, `rounds` times
// after one that does not count, and gives the median time of each. The images are noise and the
// weights as at the start of a run. Sums pass gradients on without a copy: their backwards take no
// time.
hwmodel::MeasuredNetwork MeasureStages(const hwmodel::Network& network, int microbatch, int rounds);

}  // namespace batchless
