// Plans a second of the sweeps, partition and layers' times included, and PipeDream's program.
#include <benchmark/benchmark.h>

#include "batchless/hwmodel/fine_grained_planner.h"
#include "batchless/hwmodel/planner.h"

namespace batchless::hwmodel {
namespace {

Machine Gpu() {
  Machine machine;
  machine.name = "gpu";
  machine.cores = 80;
  machine.peak_flops_per_second = 1.57e13;
  machine.shared_memory_bytes = 16e9;
  machine.shared_bytes_per_second = 9e11;
  machine.network_bytes_per_second = 1e10;
  machine.launch_seconds = 5e-6;
  return machine;
}

void Sweep(benchmark::State& state, const char* scheme) {
  const Workload workload = MakeWorkload("gpt2-medium", 2);
  const Machine machine = Gpu();
  // A batch with many divisors, so that few combinations drop out.
  const PlanOptions options = {.scheme = scheme, .machines = 32, .batch = 27720 * 2};
  std::int64_t plans = 0;
  for (auto _ : state) plans += MakePlan(workload, machine, options).plans;
  state.SetItemsProcessed(plans);
}

void BM_Plan2bw(benchmark::State& state) { Sweep(state, "2bw"); }
void BM_PlanGpipe(benchmark::State& state) { Sweep(state, "gpipe"); }

void BM_PlanPipeDream(benchmark::State& state) {
  const std::vector<LayerTimes> layers = TimeLayers(MakeWorkload("gpt2-medium", 2), Gpu(), 8);
  for (auto _ : state) benchmark::DoNotOptimize(PlanPipeDream(layers, 32, 1e10));
}

// Layouts a second, of ResNet-110 on a wafer's cores.
void BM_PlanFineGrained(benchmark::State& state) {
  const Workload workload = MakeWorkload("resnet110", 2);
  Machine machine;
  machine.name = "wafer";
  machine.cores = 850'000;
  machine.peak_flops_per_second = 7.5e15;
  machine.local_memory_bytes = 4e10;
  machine.local_bytes_per_second = 2e16;
  machine.fabric_bytes_per_second = 2.75e16;
  const auto workers = static_cast<int>(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(PlanFineGrained(workload, machine, {.workers = {workers}}));
  }
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(BM_Plan2bw);
BENCHMARK(BM_PlanGpipe);
BENCHMARK(BM_PlanPipeDream);
BENCHMARK(BM_PlanFineGrained)->Arg(16)->Arg(85)->Arg(168)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace batchless::hwmodel
