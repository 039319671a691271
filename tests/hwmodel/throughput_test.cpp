#include "batchless/hwmodel/throughput.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/pipeline_simulation.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "catch.h"

namespace batchless::hwmodel {
namespace {

// Fast enough in everything but FLOPs that these alone count.
Machine Fine(double cores) {
  return {.name = "fine",
          .cores = cores,
          .peak_flops_per_second = 1e9 * cores,
          .local_memory_bytes = 1e15,
          .local_bytes_per_second = 1e18 * cores,
          .fabric_bytes_per_second = 1e18 * cores};
}

Machine Gpu() {
  return {.name = "gpu",
          .cores = 80,
          .peak_flops_per_second = 1.5e13,
          .shared_memory_bytes = 32e9,
          .shared_bytes_per_second = 9e11,
          .launch_seconds = 5e-6};
}

// Stages of equal work, without boundaries.
Workload Equal(int stages, std::int64_t flops) {
  Workload workload;
  workload.name = "equal";
  for (int s = 0; s < stages; ++s) {
    StageCost cost;
    cost.parameters = 10;
    cost.parameter_bytes = 40;
    cost.forward_flops = flops;
    cost.input_gradient_flops = flops;
    cost.weight_gradient_flops = flops;
    workload.stages.push_back(cost);
    workload.stage_names.push_back(std::to_string(s));
  }
  return workload;
}

TEST_CASE("A machine that computes layer by layer has no bubble", "[throughput]") {
  CHECK(PredictThroughput(Equal(4, 1'000'000), Fine(4), {.schedule = "sequential"}).utilisation ==
        1);
}

TEST_CASE("Pipelined backpropagation of equal stages works all the time", "[throughput]") {
  for (const int stages : {1, 4, 34}) {
    const Throughput result =
        PredictThroughput(Equal(stages, 1'000'000), Fine(stages), {.schedule = "pb"});
    // 3e6 FLOPs a stage and sample on cores of 1e9 a second.
    CHECK(result.samples_per_second == Approx(1e9 / 3e6).epsilon(1e-9));
    CHECK(result.utilisation == 1);
    CHECK(result.busy == Approx(1).epsilon(1e-9));
    CHECK(result.peak_share == Approx(1).epsilon(1e-9));
  }
}

TEST_CASE("Fill and drain work N / (N + 2S - 2) of the time", "[throughput]") {
  for (const int stages : {2, 34}) {
    for (const std::int64_t n : {1, 32, 128}) {
      const Throughput result =
          PredictThroughput(Equal(stages, 1'000'000), Fine(stages),
                            {.schedule = "fill-drain", .microbatches_per_update = n});
      CHECK(result.utilisation ==
            Approx(static_cast<double>(n) / (static_cast<double>(n) + 2 * stages - 2)));
    }
  }
  // A whole run of PB fills and drains once.
  const Throughput run =
      PredictThroughput(Equal(5, 1'000'000), Fine(5), {.schedule = "pb", .samples = 1000});
  CHECK(run.utilisation == Approx(1000.0 / (1000 + 2 * 5 - 2)).epsilon(1e-12));
  // Without waiting for the end of steps, S - 1 times a stage's work is lost.
  CHECK(run.samples_per_second == Approx(1e9 / 3e6 * 1000 / (1000 + 5 - 1)).epsilon(1e-9));
}

TEST_CASE("Recomputation costs a forward, and keeps inputs in place of activations",
          "[throughput]") {
  ThroughputOptions options = {.schedule = "2bw", .microbatches_per_update = 8};
  Workload workload = Equal(4, 1'000'000);
  for (StageCost& cost : workload.stages) {
    cost.activation_bytes = 1000;
    cost.boundary_bytes = 100;
  }
  const Throughput kept = PredictThroughput(workload, Fine(4), options);
  options.recompute = true;
  const Throughput again = PredictThroughput(workload, Fine(4), options);
  CHECK(again.samples_per_second == Approx(kept.samples_per_second * 3 / 4).epsilon(1e-9));
  // The first worker has four micro-batches in flight and no input, the second three.
  CHECK(kept.workers[0].memory_bytes - again.workers[0].memory_bytes == 3 * 1000);
  CHECK(kept.workers[1].memory_bytes - again.workers[1].memory_bytes == 2 * 1000 - 3 * 100);
  // Nominal FLOPs are those of training, however often forwards are done.
  CHECK(again.flops_per_sample == kept.flops_per_sample);
  // Three quarters of what comes to the second worker are for the fourth.
  workload.stages[0].passing = {{75, 3}};
  const Throughput passing = PredictThroughput(workload, Fine(4), options);
  CHECK(again.workers[1].memory_bytes - passing.workers[1].memory_bytes == 3 * 75);
  options.schedule = "1f1b";
  options.microbatches_per_update = 0;
  CHECK_THROWS_AS(PredictThroughput(workload, Fine(4), options), analysis::InvalidArgument);
  options.weight_stashing = true;
  CHECK_NOTHROW(PredictThroughput(workload, Fine(4), options));
}

TEST_CASE("A long run approaches the steady state", "[throughput]") {
  const Workload workload = MakeWorkload("resnet20");
  for (const std::string kind : {"pb", "1f1b", "2bw", "gpipe", "zb-h1"}) {
    ThroughputOptions options = {.schedule = kind};
    const Throughput steady = PredictThroughput(workload, Fine(1000), options);
    options.samples = 136'000'000;
    const Throughput run = PredictThroughput(workload, Fine(1000), options);
    CAPTURE(kind);
    CHECK(run.samples_per_second == Approx(steady.samples_per_second).epsilon(1e-5));
    CHECK(run.utilisation == Approx(steady.utilisation).epsilon(1e-5));
  }
}

TEST_CASE("A run of any length takes what its simulation takes", "[throughput]") {
  const Workload workload = MakeWorkload("lenet5");
  // Workers that wait for one another's messages: circuits of several cycles, which leave a phase. And
  // workers of almost equal speed, which settle late.
  Machine waiting = Fine(12);
  waiting.fabric_latency_seconds = 1e-4;
  Machine close = Fine(150);
  close.fabric_latency_seconds = 1e-7;
  const auto check = [&](const Machine& machine, const std::string& kind, int workers,
                         std::int64_t samples) {
    const Throughput run = PredictThroughput(
        workload, machine, {.schedule = kind, .workers = workers, .samples = samples});
    const Schedule schedule = MakeSchedule(
        kind, {.stages = static_cast<int>(run.workers.size()), .microbatches = samples});
    const double seconds = SimulatePipeline(schedule, {.times = run.times()}).seconds;
    CAPTURE(kind, workers, samples);
    CHECK(static_cast<double>(samples) / run.samples_per_second == Approx(seconds).epsilon(1e-9));
    CHECK(run.seconds_per_update == Approx(1 / run.samples_per_second).epsilon(1e-12));
  };
  for (const std::string kind : {"pb", "1f1b"}) {
    for (const std::int64_t samples : {1, 24, 25, 26, 27, 1000, 1001}) {
      check(waiting, kind, 2, samples);
      check(waiting, kind, 5, samples);
    }
    for (const std::int64_t samples : {105, 106, 1000}) check(close, kind, 0, samples);
  }
}

TEST_CASE("Fill and drain count where shared memory is what a pipeline waits for", "[throughput]") {
  Machine machine = Fine(4);
  machine.local_memory_bytes = machine.local_bytes_per_second = 0;
  machine.shared_memory_bytes = 1e15;
  machine.shared_bytes_per_second = 1e6;
  const Workload workload = Equal(4, 1'000);
  const auto seconds = [&](std::int64_t samples) {
    return static_cast<double>(samples) /
           PredictThroughput(workload, machine, {.schedule = "pb", .samples = samples})
               .samples_per_second;
  };
  const Throughput steady = PredictThroughput(workload, machine, {.schedule = "pb"});
  CHECK(steady.bottleneck == "shared memory");
  CHECK(steady.shared_seconds_per_sample * steady.samples_per_second == Approx(1));
  // Every further sample takes what it takes in the steady state; the first ones more.
  CHECK(seconds(2000) - seconds(1000) == Approx(1000 / steady.samples_per_second).epsilon(1e-9));
  CHECK(seconds(100) > 100 / steady.samples_per_second * (1 + 1e-4));
}

TEST_CASE("An update's work counts once in each update", "[throughput]") {
  // Everything but FLOPs is free and every core can share everything, so that all work all the time.
  Workload workload = Equal(3, 1'000'000);
  for (StageCost& cost : workload.stages) {
    cost.largest_output = 1'000'000;
    cost.update_flops = 50'000'000;
  }
  for (const std::string kind : {"gpipe", "fill-drain", "zb-h1"}) {
    for (const std::int64_t m : {1, 10, 100}) {
      const Throughput result = PredictThroughput(
          workload, Fine(8), {.schedule = kind, .microbatches_per_update = m, .workers = 1});
      CAPTURE(kind, m);
      CHECK(result.peak_share == Approx(1).epsilon(1e-9));
      CHECK(result.busy == Approx(1).epsilon(1e-9));
    }
  }
  // The first stage's update is for one core alone.
  workload.stages[0] = {};
  workload.stages[0].parameters = 1;
  workload.stages[0].update_flops = 80'000'000;
  workload.stages[0].largest_output = 1;
  const Throughput result = PredictThroughput(
      workload, Fine(8), {.schedule = "gpipe", .microbatches_per_update = 10, .workers = 1});
  CHECK(result.busy == Approx(result.peak_share).epsilon(1e-9));
  CHECK(result.busy < 0.8);
}

TEST_CASE("Stages and cores are shared by what an update takes of a micro-batch", "[throughput]") {
  // Three million FLOPs a stage, and with the update's tenth six at the second.
  Workload workload = Equal(2, 1'000'000);
  for (StageCost& cost : workload.stages) cost.largest_output = 1'000'000;
  workload.stages[1].update_flops = 30'000'000;
  const ThroughputOptions options = {.schedule = "gpipe", .microbatches_per_update = 10};
  const Throughput cores = PredictThroughput(workload, Fine(30), options);
  CHECK(cores.workers[0].cores == 10);
  CHECK(cores.workers[1].cores == 20);
  // 3, 3, 3 and 4 seconds of a micro-batch, and 13 of one that updates.
  Machine machine = Fine(2);
  machine.measured.push_back({"equal", 1, {1, 1, 1, 1}, {2, 2, 2, 2}, {0, 0, 0, 10}});
  CHECK(PredictThroughput(Equal(4, 100), machine, options).workers[0].end_stage == 2);
}

TEST_CASE("Cores beyond what a stage can share are idle", "[throughput]") {
  // The first stage is for 2 cores, the second for 10, of 10: 3 seconds on two and 0.6 on all.
  Workload workload = Equal(2, 1'000'000'000);
  for (StageCost& cost : workload.stages) cost.parameters = 1;
  workload.stages[0].largest_output = 2;
  workload.stages[1].largest_output = 10;
  const Throughput one = PredictThroughput(workload, Fine(10), {.schedule = "pb", .workers = 1});
  CHECK(one.samples_per_second == Approx(1 / (1.5 + 0.3)).epsilon(1e-9));
  CHECK(one.busy == Approx((2 * 1.5 + 10 * 0.3) / (10 * 1.8)).epsilon(1e-9));
  // A worker each: the first takes its two cores, and no more help it.
  const Throughput two = PredictThroughput(workload, Fine(10), {.schedule = "pb", .workers = 2});
  CHECK(two.samples_per_second == Approx(1 / 1.5).epsilon(1e-9));
  CHECK(two.workers[0].cores == 2);
  CHECK(two.busy == Approx(6 / (10 * 1.5)).epsilon(1e-9));
}

TEST_CASE("Cores are shared in proportion to cost, and the slowest stage is named",
          "[throughput]") {
  const Workload workload = MakeWorkload("resnet110");
  const Throughput result = PredictThroughput(workload, Fine(850'000), {.schedule = "pb"});
  std::int64_t cores = 0;
  std::size_t slowest = 0;
  for (std::size_t s = 0; s < result.workers.size(); ++s) {
    cores += result.workers[s].cores;
    const auto seconds = [&](std::size_t i) { return result.workers[i].times.total(); };
    if (seconds(s) > seconds(slowest)) slowest = s;
  }
  CHECK(cores == 850'000);
  CHECK(result.busy > 0.95);
  std::ostringstream expected;
  expected << "stage " << slowest << ' ' << workload.stage_names[slowest] << ": compute";
  CHECK(result.bottleneck == expected.str());
}

TEST_CASE("Layers one after the other: launches below a batch, the roofline above",
          "[throughput]") {
  const Workload workload = MakeWorkload("resnet20");
  const Throughput one = PredictThroughput(workload, Gpu(), {.schedule = "sequential"});
  CHECK(one.bottleneck == "launch");
  double before = 0;
  for (const std::int64_t batch : {1, 8, 64, 512, 4096, 32768}) {
    const Throughput result =
        PredictThroughput(workload, Gpu(), {.schedule = "sequential", .microbatch = batch});
    CHECK(result.samples_per_second > before);
    CHECK(result.peak_share <= 1);
    before = result.samples_per_second;
  }
  const Throughput large =
      PredictThroughput(workload, Gpu(), {.schedule = "sequential", .microbatch = 32768});
  CHECK(large.arithmetic_intensity() > one.arithmetic_intensity());
  CHECK(large.bottleneck != "launch");
  // Launches leave nothing in local memory, however large.
  Machine machine = Gpu();
  machine.local_memory_bytes = 1e15;
  machine.local_bytes_per_second = 1e15;
  CHECK(PredictThroughput(workload, machine, {.schedule = "sequential"}).local_bytes_per_sample ==
        0);
  machine = Gpu();
  machine.launch_seconds = 0;
  machine.shared_bytes_per_second = 1e20;
  // But for the loss, whose ten values ten cores share.
  CHECK(PredictThroughput(workload, machine, {.schedule = "sequential"}).peak_share ==
        Approx(1).epsilon(1e-4));
}

TEST_CASE("No gradient that nobody wants is launched", "[throughput]") {
  // Stages of a linear layer without, and with, a gradient of what they read.
  Workload workload = Equal(2, 1000);
  workload.stages[0].input_gradient_flops = 0;
  const Throughput two = PredictThroughput(workload, Gpu(), {.schedule = "sequential"});
  CHECK(two.workers[1].times.backward_seconds - two.workers[0].times.backward_seconds ==
        Approx(5e-6).epsilon(0.01));
  workload.stages[1].input_gradient_flops = 0;
  const Throughput one = PredictThroughput(workload, Gpu(), {.schedule = "sequential"});
  CHECK(one.workers[1].times.backward_seconds == one.workers[0].times.backward_seconds);
}

TEST_CASE("One worker alone is the layers one after the other", "[throughput]") {
  const Workload workload = MakeWorkload("resnet20");
  // With cores enough that the last stages cannot be shared by all.
  Machine machine = Fine(850'000);
  machine.local_bytes_per_second = 1e10 * machine.cores;
  for (const std::int64_t b : {1, 8, 512}) {
    for (const bool launches : {false, true}) {
      machine.launch_seconds = launches ? 5e-6 : 0;
      machine.shared_memory_bytes = launches ? 1e12 : 0;
      machine.shared_bytes_per_second = launches ? 1e12 : 0;
      const Throughput layers =
          PredictThroughput(workload, machine, {.schedule = "sequential", .microbatch = b});
      const Throughput one =
          PredictThroughput(workload, machine, {.schedule = "pb", .microbatch = b, .workers = 1});
      CAPTURE(b, launches);
      CHECK(one.samples_per_second == Approx(layers.samples_per_second).epsilon(1e-12));
      CHECK(one.busy == Approx(layers.busy).epsilon(1e-12));
      CHECK(layers.busy < 1);
      if (launches) continue;
      // A core works on a value or a weight of its own at least.
      double seconds = 0;
      for (const StageCost& cost : workload.stages) {
        const double most = std::max(
            {static_cast<double>(b * cost.largest_output), static_cast<double>(cost.parameters)});
        seconds += static_cast<double>(b * cost.training_flops() + cost.update_flops) /
                   (1e9 * std::min(most, machine.cores));
      }
      CHECK(layers.samples_per_second <= static_cast<double>(b) / seconds);
    }
  }
}

TEST_CASE("Further cores never slow a pipeline down", "[throughput]") {
  // A multiprocessor has its part of an H100's peak and local memory, and all share one memory.
  for (const std::string_view network : {"resnet20", "lenet5"}) {
    const Workload workload = MakeWorkload(network);
    double before = 0;
    double in_shared = 0;
    double in_local = 0;
    for (const int cores : {40, 60, 80, 100, 132, 200, 400, 1000, 4000, 20'000}) {
      Machine machine;
      machine.name = "h100";
      machine.cores = cores;
      machine.peak_flops_per_second = 66.9e12 / 132 * cores;
      machine.local_memory_bytes = 228e3 * cores;
      machine.local_bytes_per_second = 225e9 * cores;
      machine.shared_memory_bytes = 80e9;
      machine.shared_bytes_per_second = 3.35e12;
      machine.fabric_bytes_per_second = 1e18;
      const Throughput result = PredictThroughput(workload, machine, {.schedule = "pb"});
      CAPTURE(network, cores);
      CHECK(result.fits);
      CHECK(result.samples_per_second >= before * (1 - 1e-12));
      // What shared memory has to serve is served.
      CHECK(result.samples_per_second * result.shared_bytes_per_sample <=
            machine.shared_bytes_per_second * (1 + 1e-12));
      before = result.samples_per_second;
      in_shared = std::max(in_shared, result.shared_bytes_per_sample);
      in_local = std::max(in_local, result.local_bytes_per_sample);
    }
    CHECK(in_shared > 0);
    CHECK(in_local > 0);
  }
}

TEST_CASE("Shared memory serves one worker after the other", "[throughput]") {
  // Two equal workers that each take all of its bandwidth: as slow as both together.
  Workload workload = Equal(2, 100);
  for (StageCost& cost : workload.stages) cost.parameter_bytes = 1'000'000;
  Machine machine = Fine(100);
  machine.local_memory_bytes = machine.local_bytes_per_second = 0;
  machine.shared_memory_bytes = 1e12;
  machine.shared_bytes_per_second = 1e9;
  // Weights once forward, twice backward, five times in the update, of 1 MB.
  const Throughput two = PredictThroughput(workload, machine, {.schedule = "pb", .workers = 2});
  CHECK(two.samples_per_second == Approx(1 / (2 * 8e-3)).epsilon(1e-9));
  CHECK(two.bottleneck == "shared memory");
  CHECK(PredictThroughput(workload, machine, {.schedule = "pb", .workers = 1}).samples_per_second ==
        Approx(1 / (2 * 8e-3)).epsilon(1e-9));
}

TEST_CASE("Energy is that of every FLOP and byte", "[throughput]") {
  Machine machine = Fine(100);
  machine.energy = MachineEnergy{1, 0, 0, 0};
  const Workload workload = MakeWorkload("resnet20");
  const auto joules = [&] {
    return PredictThroughput(workload, machine, {.schedule = "pb"}).joules_per_sample;
  };
  const double flops = joules();
  CHECK(flops == static_cast<double>(workload.training_flops() + 6 * workload.parameters()));
  machine.energy = MachineEnergy{0, 0, 0, 2};
  double boundaries = 0;
  for (const StageCost& cost : workload.stages) {
    boundaries += static_cast<double>(cost.boundary_bytes);
  }
  // With a core each nothing is exchanged but messages.
  machine.cores = 34;
  CHECK(joules() == Approx(2 * 2 * boundaries));
  machine.cores = 1e8;
  double exchanged = 0;
  for (const StageCost& cost : workload.stages) {
    exchanged += static_cast<double>(cost.read_bytes + cost.written_bytes + cost.gradient_bytes);
  }
  CHECK(joules() == Approx(2 * (2 * boundaries + exchanged)));
}

TEST_CASE("A pass takes no less than the way through its cores", "[throughput]") {
  // A second on one core for each of two passes, and a millisecond a hop.
  Workload workload = Equal(1, 1'000'000'000);
  workload.stages[0].weight_gradient_flops = 0;
  workload.stages[0].largest_output = 1'000'000;
  const auto rate = [&](double cores, double links) {
    Machine machine = Fine(cores);
    machine.fabric_latency_seconds = 1e-3;
    machine.fabric_links = links;
    return PredictThroughput(workload, machine, {.schedule = "pb"}).samples_per_second;
  };
  CHECK(rate(25, 4) == Approx(25 / 2.0).epsilon(1e-6));
  // On k cores of a mesh 1 / k = 2 sqrt(k) ms at k = 500^(2/3).
  CHECK(rate(1e6, 4) == Approx(std::pow(500, 2.0 / 3) / 2).epsilon(1e-6));
  CHECK(rate(1e8, 4) == Approx(rate(1e6, 4)));
  // With a link to every core a pass takes two milliseconds.
  CHECK(rate(1e6, 1) == Approx(1 / 4e-3).epsilon(1e-6));
  CHECK(rate(499, 1) == Approx(499 / 2.0).epsilon(1e-6));
}

TEST_CASE("Cores of a region exchange values over the links of its edge", "[throughput]") {
  // A gigabyte in and out, of a second of work, on links of a gigabyte a second, a quarter of a core's
  // four: 1 / sqrt(k) seconds a pass, and 1 / k of the work.
  Workload workload = Equal(1, 1'000'000'000);
  StageCost& cost = workload.stages[0];
  cost.weight_gradient_flops = 0;
  cost.largest_output = 1'000'000;
  cost.read_bytes = cost.written_bytes = 500'000'000;
  cost.gradient_bytes = 1'000'000'000;
  for (const double cores : {4.0, 100.0, 10'000.0}) {
    Machine machine = Fine(cores);
    machine.fabric_bytes_per_second = 4e9 * cores;
    const Throughput mesh = PredictThroughput(workload, machine, {.schedule = "pb"});
    CHECK(mesh.samples_per_second == Approx(std::sqrt(cores) / 2).epsilon(1e-6));
    CHECK(mesh.fabric_bytes_per_sample == 2e9);
    // Work takes 2 / k of the 2 / sqrt(k) seconds.
    const Bound bound = cores > 4 ? Bound::kFabric : Bound::kCompute;
    CHECK(mesh.workers[0].bound == bound);
    const Throughput layers = PredictThroughput(workload, machine, {.schedule = "sequential"});
    CHECK(layers.bottleneck == Name(bound));
    CHECK(layers.samples_per_second == Approx(mesh.samples_per_second));
    machine.fabric_links = 1;
    CHECK(PredictThroughput(workload, machine, {.schedule = "pb"}).samples_per_second ==
          Approx(cores / 2).epsilon(1e-6));
  }
  CHECK(PredictThroughput(workload, Fine(1), {.schedule = "pb"}).fabric_bytes_per_sample == 0);

  // Where the exchange would take longer than the work on one core, one does it.
  cost.read_bytes = cost.written_bytes = 50'000'000'000;
  cost.gradient_bytes = 100'000'000'000;
  Machine machine = Fine(100);
  machine.fabric_bytes_per_second = 4e9 * 100;
  for (const std::string schedule : {"pb", "sequential"}) {
    const Throughput alone = PredictThroughput(workload, machine, {.schedule = schedule});
    CHECK(alone.samples_per_second == Approx(0.5));
    CHECK(alone.fabric_bytes_per_sample == 0);
    CHECK(alone.busy == Approx(0.01));
    CHECK(alone.peak_share == Approx(0.01));
  }
}

TEST_CASE("A message crosses on the links between two regions", "[throughput]") {
  Workload workload = Equal(2, 1'000'000);
  workload.stages[0].boundary_bytes = 1000;
  for (StageCost& cost : workload.stages) cost.largest_output = 1000;
  Machine machine = Fine(100);
  machine.fabric_bytes_per_second = 100 * 4e3;  // a link 1 kB a second
  // Fifty cores each: ten links of a mesh's edge, or each core's own four in one.
  CHECK(PredictThroughput(workload, machine, {}).workers[0].link_seconds == Approx(0.1));
  machine.fabric_links = 1;
  CHECK(PredictThroughput(workload, machine, {}).workers[0].link_seconds == Approx(1 / (4 * 50.0)));
}

TEST_CASE("Measured times take the place of the roofline", "[throughput]") {
  Machine machine = Fine(2);
  const Workload workload = Equal(4, 100);
  machine.measured.push_back({"equal", 1, {1, 1, 1, 1}, {2, 2, 2, 2}, {0, 0, 0, 4}});
  // 3, 3, 3 and 7 seconds: two workers have 9 and 7, or 6 and 10.
  const Throughput result = PredictThroughput(workload, machine, {.schedule = "1f1b"});
  CHECK(result.samples_per_second == Approx(1.0 / 9));
  CHECK(result.workers[0].end_stage == 3);
  CHECK(result.workers[0].idle == 0);
  CHECK(result.workers[1].idle == Approx(1 - 7.0 / 9));
  // They are of one core.
  const Throughput alone = PredictThroughput(workload, machine, {.schedule = "sequential"});
  CHECK(alone.samples_per_second == Approx(1.0 / 16));
  CHECK(alone.busy == 0.5);
  // Two workers hold each other up.
  machine.measured.push_back({"equal", 1, {2, 1, 1, 1}, {4, 2, 2, 2}, {0, 0, 0, 4}, 2});
  CHECK(PredictThroughput(workload, machine, {.schedule = "pb", .workers = 2}).samples_per_second ==
        Approx(1.0 / 10));
  CHECK(PredictThroughput(workload, machine, {.schedule = "pb", .workers = 1}).samples_per_second ==
        Approx(1.0 / 16));
  machine.measured.pop_back();
  machine.measured[0].sample_flops = workload.training_flops();
  CHECK(PredictThroughput(workload, machine, {.schedule = "pb", .workers = 1}).samples_per_second ==
        Approx(1.0 / 16));
  machine.measured[0].sample_flops += 1;
  CHECK_THROWS_WITH(PredictThroughput(workload, machine, {.schedule = "pb"}),
                    Catch::Matchers::StartsWith("measured.equal: got times of 1"));
  machine.measured[0].forward_seconds.pop_back();
  CHECK_THROWS_WITH(PredictThroughput(workload, machine, {.schedule = "pb"}),
                    Catch::Matchers::StartsWith("measured.equal"));
}

TEST_CASE("Idle time counts fill and drain of a run", "[throughput]") {
  // One of two equal workers works in 2 N of the 2 N + 2 slots of N micro-batches that are drained.
  Machine machine = Fine(2);
  const Workload workload = Equal(2, 100);
  machine.measured.push_back({"equal", 1, {1, 1}, {1, 1}, {0, 0}});
  const Throughput result = PredictThroughput(
      workload, machine, {.schedule = "gpipe", .microbatches_per_update = 4, .samples = 8});
  for (const WorkerThroughput& worker : result.workers) CHECK(worker.idle == Approx(2.0 / 10));
}

TEST_CASE("A network that does not fit is said not to", "[throughput]") {
  Machine machine = Fine(1000);
  machine.local_memory_bytes = 1e6;
  CHECK_FALSE(PredictThroughput(MakeWorkload("vgg11"), machine, {.schedule = "pb"}).fits);
  machine.local_memory_bytes = 1e12;
  CHECK(PredictThroughput(MakeWorkload("vgg11"), machine, {.schedule = "pb"}).fits);
}

TEST_CASE("Every schedule runs on every machine", "[throughput]") {
  const Workload workload = MakeWorkload("lenet5");
  for (const ScheduleKind& kind : ScheduleKinds()) {
    if (!kind.one_stage_each) continue;
    const Throughput result =
        PredictThroughput(workload, Fine(50), {.schedule = std::string(kind.name)});
    CAPTURE(kind.name);
    CHECK(result.samples_per_second > 0);
    CHECK(result.utilisation <= 1);
    // The utilisation is of equal times, for most of which a pipeline of AMDP waits; fill and drain do not
    // wait for the ends of their steps.
    const bool waits_less = kind.name == "amdp" || kind.name == "fill-drain";
    if (!waits_less) CHECK(result.busy <= result.utilisation * (1 + 1e-9));
  }
}

TEST_CASE("Updates without a flush cost no time, however many backwards they take",
          "[throughput]") {
  const Workload workload = MakeWorkload("lenet5");
  const auto rate = [&](std::int64_t per_update) {
    return PredictThroughput(workload, Fine(50),
                             {.schedule = "paci", .microbatches_per_update = per_update});
  };
  const Throughput each = rate(1);
  for (const std::int64_t per_update : {2, 3, 8, 100}) {
    const Throughput result = rate(per_update);
    CAPTURE(per_update);
    CHECK(result.utilisation == Approx(1));
    CHECK(result.samples_per_update == per_update);
    // Fewer updates of the slowest worker's weights.
    CHECK(result.samples_per_second >= each.samples_per_second);
    CHECK(result.samples_per_second <= 1.5 * each.samples_per_second);
  }
}

void CheckDeepPipelines(const char* network) {
  const Workload workload = MakeWorkload(network);
  Machine machine = Fine(850'000);
  machine.fabric_bytes_per_second = 3e10 * machine.cores;
  machine.fabric_latency_seconds = 1e-9;
  const auto rate = [&](std::string_view kind) {
    return PredictThroughput(workload, machine, {.schedule = std::string(kind)}).samples_per_second;
  };
  const double most = rate("pb");
  for (const ScheduleKind& kind : ScheduleKinds()) {
    // One pipeline of AMDP idles most of its time.
    if (!kind.one_stage_each || kind.name == "amdp") continue;
    CAPTURE(kind.name);
    const double samples_per_second = rate(kind.name);
    // The bubbles of 4 micro-batches a worker are a fifth to a third of the time.
    CHECK(samples_per_second <= most);
    CHECK(samples_per_second >= most / 2);
  }
}

TEST_CASE("Deep pipelines with many micro-batches an update have a period", "[throughput]") {
  CheckDeepPipelines("resnet44");
}

TEST_CASE("The deepest pipelines have a period", "[throughput][.long]") {
  CheckDeepPipelines("resnet110");
}

TEST_CASE("Throughput options out of range are refused by name", "[throughput]") {
  const Workload workload = MakeWorkload("lenet5");
  const auto refuses = [&](const ThroughputOptions& options, const std::string& name) {
    CHECK_THROWS_WITH(PredictThroughput(workload, Fine(5), options),
                      Catch::Matchers::StartsWith(name));
  };
  refuses({.schedule = "pbx"}, "kind");
  refuses({.schedule = "interleaved"}, "schedule");
  refuses({.microbatch = 0}, "microbatch");
  refuses({.microbatches_per_update = 3}, "microbatches_per_update");
  refuses({.schedule = "sequential", .microbatches_per_update = 3}, "microbatches_per_update");
  refuses({.schedule = "sequential", .samples = 8}, "samples");
  refuses({.schedule = "sequential", .weight_stashing = true}, "weight_stashing");
  refuses({.workers = 6}, "workers");
  refuses({.workers = -1}, "workers");
  refuses({.schedule = "gpipe", .microbatches_per_update = 4, .samples = 5}, "samples");
  Machine machine = Fine(5);
  machine.fabric_bytes_per_second = 0;
  CHECK_THROWS_WITH(PredictThroughput(workload, machine, {}),
                    Catch::Matchers::StartsWith("fabric.bandwidth"));
}

}  // namespace
}  // namespace batchless::hwmodel
