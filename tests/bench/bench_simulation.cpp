// The discrete-event simulation: events a second, in a small pipeline and in one of 850,000 cores.
#include <benchmark/benchmark.h>

#include "batchless/hwmodel/core_allotment.h"
#include "batchless/hwmodel/pipeline_simulation.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/workload.h"

namespace batchless::hwmodel {
namespace {

PipelineTimes Times(const Workload& workload) {
  PipelineTimes times;
  for (const StageCost& cost : workload.stages) {
    times.stages.push_back({static_cast<double>(cost.forward_flops),
                            static_cast<double>(cost.input_gradient_flops) +
                                static_cast<double>(cost.weight_gradient_flops),
                            0, static_cast<double>(cost.update_flops)});
  }
  return times;
}

void Simulate(benchmark::State& state, std::int64_t cores, std::int64_t microbatches,
              double jitter) {
  const Workload workload = MakeWorkload("resnet110");
  SimulationOptions options = {.times = Times(workload), .jitter = jitter};
  if (cores > workload.stage_count()) {
    std::vector<std::vector<CoreWork>> works;
    for (const StageTimes& stage : options.times.stages) {
      works.push_back({{.seconds = stage.forward_seconds + stage.backward_seconds}});
    }
    options.cores_of_worker = AllotCores(works, cores);
  }
  const Schedule schedule = PipelinedBackpropagation(workload.stage_count(), microbatches);
  std::int64_t events = 0;
  for (auto _ : state) events += SimulatePipeline(schedule, options).events;
  state.SetItemsProcessed(events);
  state.counters["cores"] = static_cast<double>(cores);
}

void BM_Simulation169Workers(benchmark::State& state) { Simulate(state, 169, 2000, 0); }
void BM_Simulation169WorkersJitter(benchmark::State& state) { Simulate(state, 169, 2000, 0.3); }
void BM_Simulation850000Cores(benchmark::State& state) { Simulate(state, 850'000, 4, 0.3); }

BENCHMARK(BM_Simulation169Workers)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Simulation169WorkersJitter)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Simulation850000Cores)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace batchless::hwmodel
