// What the two ways of executing a network have in common (throughput.h): the FLOPs and bytes of a
// stage's passes, their times, and what every prediction ends with.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "batchless/hwmodel/action.h"
#include "batchless/hwmodel/core_allotment.h"
#include "batchless/hwmodel/machine.h"
#include "batchless/hwmodel/pipeline_times.h"
#include "batchless/hwmodel/throughput.h"
#include "batchless/hwmodel/workload.h"

namespace batchless::hwmodel {

// FLOPs and bytes of a pass over a micro-batch.
struct Pass {
  double flops = 0;
  double bytes = 0;
};

using Passes = std::array<Pass, kActionKinds.size()>;

// What the passes of stage `s` do with b samples; `split`: the weight gradient is a pass of its own.
Passes PassesOf(const Workload& workload, std::size_t s, double b, bool split);

StageTimes TimesOf(const Passes& passes, double flops_per_second, double bytes_per_second);

double Sum(const StageTimes& times);
void Add(StageTimes& sum, const StageTimes& times);

// Of the network with that many workers; none where it was not measured. Throws InvalidArgument where it
// has another number of stages.
std::optional<MeasuredNetwork> Measured(const Workload& workload, const Machine& machine,
                                        int workers);

// The measured times of a stage, for micro-batches of b samples.
StageTimes MeasuredTimes(const MeasuredNetwork& measured, std::size_t s, double b);

// Of a pipeline: the stages, or the cores where there are fewer.
int MostWorkers(const Workload& workload, const Machine& machine);

// Work of each stage for b samples, on one core in its local memory; measured times where the machine
// has some of the network.
std::vector<CoreWork> WorkOf(const Workload& workload, const Machine& machine, double b,
                             const std::optional<MeasuredNetwork>& measured);

// What a worker with stages first .. end-1 keeps: w for each version, velocity and gradients, what
// the stages keep of the micro-batches in flight, a message in each direction.
double WorkerBytes(const Workload& workload, int first, int end, double b, double weight_versions,
                   double activations_in_flight);

// Everything that both ways of execution count in the same way, per sample.
void Finish(const Workload& workload, const Machine& machine, Throughput& result);

// The two ways, for options that are in range.
Throughput PredictSequential(const Workload& workload, const Machine& machine,
                             const ThroughputOptions& options);
Throughput PredictPipeline(const Workload& workload, const Machine& machine,
                           const ThroughputOptions& options);

}  // namespace batchless::hwmodel
