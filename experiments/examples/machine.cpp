// A network and a machine: samples a second of pipelined backpropagation against whole batches.
#include "batchless/hwmodel/machine.h"

#include <cstdio>

#include "batchless/hwmodel/network.h"
#include "batchless/hwmodel/throughput.h"
#include "batchless/hwmodel/workload.h"

using namespace batchless::hwmodel;

int main() {
  Machine machine;
  machine.name = "a mesh of 1024 cores";
  machine.cores = 1024;
  machine.peak_flops_per_second = 1e13;
  machine.local_memory_bytes = 1e9;  // of all cores together, as the other numbers are
  machine.local_bytes_per_second = 5e13;
  machine.fabric_bytes_per_second = 1e13;
  machine.fabric_latency_seconds = 1e-9;
  Validate(machine);

  const Network network = MakeNetwork({.name = "resnet20"});
  const Workload workload = MakeWorkload(network);
  std::printf("%s: %d stages, %lld parameters, %.1f MFLOP a sample\n", network.name.c_str(),
              workload.stage_count(), static_cast<long long>(workload.parameters()),
              1e-6 * static_cast<double>(workload.training_flops()));
  for (const ThroughputOptions& options :
       {ThroughputOptions{.schedule = "pb"}, ThroughputOptions{.schedule = "1f1b"},
        ThroughputOptions{.schedule = kSequential.data(), .microbatch = 128}}) {
    const Throughput result = PredictThroughput(workload, machine, options);
    std::printf("%-10s on %s: %.0f samples a second, %.0f %% of the peak, %.1f MB, by %s\n",
                options.schedule.c_str(), machine.name.c_str(), result.samples_per_second,
                100 * result.peak_share, 1e-6 * result.memory_bytes, result.bottleneck.c_str());
  }
}
