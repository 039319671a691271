// Times of a network's stages as they are in a running pipeline: the trainer's workers run them in
// turn, so that activations wait in their rings, updates stream parameters through the caches, every
// stage finds there what the others have left, and workers have the memory's bandwidth in common.
//
//   time of a pass    median over the last `rounds` micro-batches, after the pipeline has filled
//   cost of a stage   forward + backward + update / micro-batches of an update, seconds
//
// Medians, because other programs hold a pass up now and then, by any length. What slows everything
// down for a while lengthens all stages alike: they take turns within milliseconds.
#pragma once

#include <cstdint>
#include <vector>

#include "batchless/hwmodel/machine.h"
#include "batchless/training/sample_source.h"
#include "batchless/training/trainer.h"

namespace batchless {

// Micro-batches after which every stage of the options' schedule does everything.
std::int64_t FillMicrobatches(const training::TrainerOptions& options);

// Trains on the first FillMicrobatches + rounds micro-batches of `source`, rounded up to whole updates,
// by the workers of one replica of `all`, in this process alone; the length of its run is not
// read. Throws what reading a sample throws.
hwmodel::MeasuredNetwork MeasureStages(const training::TrainerOptions& all,
                                       const training::SampleSource& source, std::int64_t rounds);

// Costs by stage, from measured times, for micro-batches of `options`: passes over more samples take
// longer in proportion.
std::vector<double> StageCosts(const hwmodel::MeasuredNetwork& measured,
                               const training::TrainerOptions& options);

}  // namespace batchless
