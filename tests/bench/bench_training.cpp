// Samples a second of the trainer, and how near that is to the peak of the cores that it uses.
//
// Work is counted as the nominal multiply-adds of convolutions and linear layers, two FLOPs each, in
// forward, input gradient and weight gradient; Winograd's kernels do fewer. Of an attention all pairs of
// tokens count, as published formulas have it: causal kernels do a little more than half of them.
// The peak is measured around
// every repetition, because other programs and the processor's clock change it.
//
//   Train, TrainDirect        mini-batches on one core, by Winograd's kernels or direct sums alone;
//                             arguments: network, batch, micro-batch
//   OneWorker, TwoWorkers     pipelined backpropagation at batch one with prediction and compensation
//                             (lwp-v+sc), wall-clock time, stages shared by their measured times;
//                             argument: network
//   TwoWorkersDirect          the same by direct sums
//   OneWorker, TwoWorkers/gpt-L-D    the same of a gpt of L blocks and width D, 128 tokens a sample
//   Train/microgpt-D-T        a gpt of one block, width D and 4 heads, T tokens a sample of 27 characters,
//                             by AdamW at batch one: the shape that small ports of GPT compare
//   OPTIMIZER/pb              pipelined backpropagation at batch one by each optimizer, one worker

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "batchless/hwmodel/core_speed.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/training/dataset.h"
#include "batchless/training/random.h"
#include "batchless/training/token_dataset.h"
#include "batchless/training/trainer.h"
#include "effort.h"
#include "stage_timing.h"

namespace batchless::training {
namespace {

// microgpt-D-T, gpt-L-D, or a built-in network's name.
hwmodel::Network NetworkNamed(const std::string& name) {
  int layers = 0;
  int width = 0;
  int tokens = 0;
  if (std::sscanf(name.c_str(), "microgpt-%d-%d", &width, &tokens) == 2) {
    return hwmodel::MakeNetwork({.name = "gpt",
                                 .input = {1, tokens, 1},
                                 .classes = 27,
                                 .layers = 1,
                                 .width = width,
                                 .heads = 4});
  }
  if (std::sscanf(name.c_str(), "gpt-%d-%d", &layers, &width) != 2) {
    return hwmodel::MakeNetwork({.name = name});
  }
  return hwmodel::MakeNetwork({.name = "gpt", .layers = layers, .width = width});
}

double NominalFlops(const hwmodel::Network& network) {
  double flops = 0;
  bool first = true;
  for (const hwmodel::Stage& stage : network.stages) {
    for (const hwmodel::Layer& layer : stage.layers) {
      // And twice as many for the gradients.
      flops += 3 * static_cast<double>(hwmodel::TraitsOf(layer.kind).product_flops(layer));
    }
  }
  for (const hwmodel::StageCost& cost : hwmodel::ComputeCosts(network)) {
    const auto products = static_cast<double>(cost.weight_gradient_flops);
    // Forward and weight gradient cost the same; so does the input's gradient, where there is one.
    flops += (first ? 2 : 3) * products;
    first = false;
  }
  return flops;
}

// Windows of random characters, some hundred.
std::shared_ptr<const Dataset> Characters(int tokens, int vocabulary) {
  CounterRandom random(1, RandomStream::kSynthetic, 0);
  std::vector<std::int64_t> text(std::int64_t{600} * tokens);
  for (std::int64_t& token : text) token = random.Below(static_cast<std::uint32_t>(vocabulary));
  return MakeTokens("characters", "", text, Split::kTrain, tokens, vocabulary);
}

struct Case {
  std::string name;
  std::string network;
  std::int64_t batch = 1;
  std::int64_t microbatch = 1;
  int workers = 0;  // of pipelined backpropagation; 0: mini-batches
  ConvolutionMethod method = ConvolutionMethod::kWinograd;
  std::string rule = "lwp-v+sc";
  std::string optimizer = "sgdm";
};

void Train(benchmark::State& state, const Case& c) {
  TrainerOptions options;
  options.network = NetworkNamed(c.network);
  options.batch = c.batch;
  options.microbatch = c.microbatch;
  // Too small to lead anywhere: the numbers stay ordinary.
  options.learning_rate.base = 1e-5;
  options.weight_decay = 1e-4;
  options.convolution = c.method;
  options.optimizer.optimizer = FindOptimizer(c.optimizer);
  if (c.workers > 0) {
    const int stages = options.network.stage_count();
    options.schedule = hwmodel::PipelinedBackpropagation(stages, std::int64_t{4} * stages);
    options.rule.rule = analysis::FindRule(c.rule);
    options.workers = c.workers;
    options.samples = std::int64_t{1} << 40;  // never drained
  }
  static const std::shared_ptr<const Dataset> kData = MakeSynthetic(1, Split::kTrain, 512, 1);
  static const std::shared_ptr<const Dataset> kTokens =
      MakeMarkov(1, Split::kTrain, 128, 512 * 128 + 1);
  const int tokens = hwmodel::LabelsOf(options.network);
  const bool is_short = tokens > 1 && tokens < 128;
  const DatasetSource source(is_short     ? Characters(tokens, options.network.classes)
                             : tokens > 1 ? kTokens
                                          : kData,
                             {.seed = 1, .order = Order::kShuffled, .augment = true});
  if (c.workers > 1) {
    TrainerOptions alone = options;
    alone.workers = 1;
    options.stage_costs =
        StageCosts(MeasureStages(alone, source, options.network.stage_count()), alone);
  }
  const auto trainer = MakeTrainer(options);
  std::vector<SampleResult> results;
  // Long enough for threads to start and end without weight.
  const std::int64_t samples = std::max<std::int64_t>(c.batch, c.workers > 0 ? 256 : 64);
  // Fills the pipeline too.
  trainer->Advance(source, 2 * options.network.stage_count() + samples, results);
  double peak = hwmodel::MeasureFmaPeak();
  for ([[maybe_unused]] auto _ : state) {
    results.clear();
    trainer->Advance(source, trainer->samples_done() + samples, results);
  }
  peak = std::max(peak, hwmodel::MeasureFmaPeak()) * std::max(c.workers, 1);
  state.SetItemsProcessed(state.iterations() * samples);
  const double flops = NominalFlops(options.network) * static_cast<double>(samples) *
                       static_cast<double>(state.iterations());
  CountFlops(state, flops, peak);
  if (c.network == "resnet20") state.counters["bar_of_peak_time"] = 1 / 0.75;
  if (c.network == "microgpt-64-16") state.counters["bar_of_peak_time"] = 1 / 0.4;
  if (c.network.starts_with("gpt")) {
    state.counters["bar_of_peak_time"] = 1 / 0.6;
    double busy = 0;
    double waiting = 0;
    for (const WorkerTimes& times : trainer->worker_times()) {
      busy += times.busy_seconds;
      waiting += times.waiting_seconds;
    }
    state.counters["idle"] = waiting / (busy + waiting);
  }
}

const bool kRegistered = [] {
  constexpr ConvolutionMethod kDirect = ConvolutionMethod::kDirect;
  std::vector<Case> cases = {Case{"TrainDirect", "resnet20", 1, 1, 0, kDirect},
                             Case{"Train", "resnet20", 1, 1},
                             Case{"Train", "resnet20", 128, 1},
                             Case{"Train", "resnet20", 128, 8},
                             Case{"Train", "resnet56", 1, 1},
                             Case{"Train", "resnet110", 1, 1},
                             Case{"Train", "vgg11", 1, 1},
                             Case{"OneWorker", "resnet20", 1, 1, 1},
                             Case{"TwoWorkers", "resnet20", 1, 1, 2},
                             Case{"TwoWorkersDirect", "resnet20", 1, 1, 2, kDirect},
                             Case{"OneWorker", "resnet56", 1, 1, 1},
                             Case{"TwoWorkers", "resnet56", 1, 1, 2},
                             Case{"OneWorker", "resnet110", 1, 1, 1},
                             Case{"TwoWorkers", "resnet110", 1, 1, 2},
                             Case{"OneWorker", "vgg16", 1, 1, 1},
                             Case{"TwoWorkers", "vgg16", 1, 1, 2},
                             Case{"OneWorker", "gpt-6-128", 1, 1, 1},
                             Case{"TwoWorkers", "gpt-6-128", 1, 1, 2},
                             Case{"OneWorker", "gpt-8-256", 1, 1, 1},
                             Case{"TwoWorkers", "gpt-8-256", 1, 1, 2}};
  for (const char* shape : {"microgpt-16-8", "microgpt-16-16", "microgpt-64-16"}) {
    cases.push_back({.name = "Train", .network = shape, .optimizer = "adamw"});
  }
  for (const Optimizer& optimizer : Optimizers()) {
    // Its updates take quotients for each delay, which are a design's.
    if (optimizer.takes_quotients) continue;
    cases.push_back({.name = std::string(optimizer.name),
                     .network = "resnet20",
                     .workers = 1,
                     .rule = "sgdm",
                     .optimizer = std::string(optimizer.name)});
  }
  for (const Case& c : cases) {
    std::string name = c.name + (c.rule == "sgdm" ? "/pb" : "/" + c.network);
    if (c.workers == 0) {
      name += "/batch:" + std::to_string(c.batch) + "/microbatch:" + std::to_string(c.microbatch);
    }
    auto* registered = benchmark::RegisterBenchmark(
        name.c_str(), [=](benchmark::State& state) { Train(state, c); });
    ForSeconds(registered, 0.5, 5)->Unit(benchmark::kMillisecond);
    if (c.workers > 0) registered->UseRealTime();
  }
  return true;
}();

}  // namespace
}  // namespace batchless::training
