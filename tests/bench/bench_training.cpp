// Samples a second of the trainer, on one core, and how near that is to the core's peak.
//
// Work is counted as the nominal multiply-adds of convolutions and linear layers, two FLOPs each, in
// forward, input gradient and weight gradient. The peak is measured around every repetition, because
// other programs and the processor's clock change it. Arguments: network, batch, micro-batch.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>

#include "batchless/hwmodel/fma_peak.h"
#include "batchless/training/dataset.h"
#include "batchless/training/trainer.h"

namespace batchless::training {
namespace {

double NominalFlops(const hwmodel::Network& network) {
  double flops = 0;
  bool first = true;
  for (const hwmodel::StageCost& cost : hwmodel::ComputeCosts(network)) {
    const auto products = static_cast<double>(cost.weight_gradient_flops);
    // Forward and weight gradient cost the same; so does the input's gradient, where there is one.
    flops += (first ? 2 : 3) * products;
    first = false;
  }
  return flops;
}

struct Case {
  std::string network;
  std::int64_t batch = 1;
  std::int64_t microbatch = 1;
};

void Train(benchmark::State& state, const Case& c) {
  TrainerOptions options;
  options.network = hwmodel::MakeNetwork({.name = c.network});
  options.batch = c.batch;
  options.microbatch = c.microbatch;
  // Too small to lead anywhere: the numbers stay ordinary.
  options.learning_rate.base = 1e-5;
  options.weight_decay = 1e-4;
  static const std::shared_ptr<const Dataset> kData = MakeSynthetic(1, Split::kTrain, 512, 1);
  const SampleSource source(kData, {.seed = 1, .order = Order::kShuffled, .augment = true});
  const auto trainer = MakeTrainer(options);
  std::vector<SampleResult> results;
  const std::int64_t samples = std::max<std::int64_t>(c.batch, 64);
  trainer->Advance(source, samples, results);
  double peak = hwmodel::MeasureFmaPeak();
  for ([[maybe_unused]] auto _ : state) {
    results.clear();
    trainer->Advance(source, trainer->samples_done() + samples, results);
  }
  peak = std::max(peak, hwmodel::MeasureFmaPeak());
  state.SetItemsProcessed(state.iterations() * samples);
  const double flops = NominalFlops(options.network) * static_cast<double>(samples) *
                       static_cast<double>(state.iterations());
  using benchmark::Counter;
  state.counters["peak_gflops"] = peak / 1e9;
  state.counters["gflops"] = Counter(flops / 1e9, Counter::kIsRate);
  // Time relative to that of the same FLOPs at the peak.
  state.counters["of_peak_time"] = Counter(flops / peak, Counter::kIsRate | Counter::kInvert);
  if (c.network == "resnet20") state.counters["bar_of_peak_time"] = 1 / 0.75;
}

const bool kRegistered = [] {
  for (const Case& c : {Case{"resnet20", 1, 1}, Case{"resnet20", 128, 1}, Case{"resnet20", 128, 8},
                        Case{"resnet56", 1, 1}, Case{"vgg11", 1, 1}}) {
    benchmark::RegisterBenchmark(("Train/" + c.network + "/batch:" + std::to_string(c.batch) +
                                  "/microbatch:" + std::to_string(c.microbatch))
                                     .c_str(),
                                 [=](benchmark::State& state) { Train(state, c); })
        ->MinTime(0.5)
        ->Repetitions(5)
        ->DisplayAggregatesOnly(true)
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace batchless::training
