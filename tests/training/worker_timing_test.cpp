// Whatever the workers' timing: the same bits, and a worker that is stuck is named.
#include <sched.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "batchless/analysis/rule.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "collective_runs.h"
#include "engine/pinning.h"
#include "engine/pipeline.h"
#include "plan.h"
#include "refusal.h"
#include "test_schedules.h"

namespace batchless::training {
namespace {

TrainerOptions Options(const char* network, std::int64_t samples) {
  TrainerOptions options;
  hwmodel::NetworkOptions shape{.name = network, .input = {3, 32, 32}};
  if (shape.name == "mlp") shape.hidden = {8, 8, 8, 8};
  options.network = hwmodel::MakeNetwork(shape);
  options.schedule = PbOf(options.network);
  options.batch = 1;
  options.samples = samples;
  options.rule.rule = analysis::FindRule("lwp-v+sc");
  options.learning_rate.base = 1e-4;
  options.momentum = 0.99;
  return options;
}

using ReadHook = std::function<void(const VersionRead&)>;

// All weights after a run of the engine, with something done at every pass.
std::vector<float> WeightsAfter(const TrainerOptions& options, std::int64_t samples,
                                const ReadHook& on_read, double watchdog_seconds = 0) {
  const PipelinePlan plan = MakePlan(options);
  Pipeline<float>::Options engine;
  engine.run = options;
  engine.run.watchdog_seconds = watchdog_seconds;
  engine.backend = MakeVectorBackend();
  engine.plan = plan;
  engine.plan.drains = false;
  engine.microbatches = samples;
  engine.microbatches_per_update = options.batch / options.microbatch;
  engine.on_read = on_read;
  engine.coefficients = [&](int stage, std::int64_t) {
    return MakeCoefficients<float>({}, options.rule,
                                   {.rate = 1e-4, .momentum = 0.99, .delay = plan.delays[stage]});
  };
  Pipeline<float> pipeline(engine);
  std::mt19937 random(7);
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    // Padding stays zero.
    const StageLayout& layout = pipeline.layout(s);
    std::vector<float> block(layout.parameter_size);
    for (const ParameterTensor& tensor : layout.parameters) {
      std::vector<float> values(tensor.size());
      for (float& value : values) {
        value = std::uniform_real_distribution<float>(-0.1F, 0.1F)(random);
      }
      Pack<float>(tensor, values, block.data());
    }
    pipeline.parameters(s).Reset(block, std::vector<float>(layout.state_size));
  }
  std::vector<SampleResult> results;
  pipeline.Run(SmallSource(), 0,
               samples / plan.program.microbatches_per_cycle + DrainCycles(plan.program), results);
  CHECK(results.size() == static_cast<std::size_t>(samples * options.microbatch));
  std::vector<float> weights;
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    const float* block = pipeline.parameters(s).weights();
    weights.insert(weights.end(), block, block + pipeline.layout(s).parameter_size);
  }
  return weights;
}

void HoldUpAtRandom(std::uint32_t seeds) {
  constexpr std::int64_t kSamples = 48;
  for (const bool stashing : {false, true}) {
    TrainerOptions options = Options("lenet5", kSamples);
    if (stashing) options.schedule.weights = hwmodel::WeightVersions::kStashed;
    const std::vector<float> expected = WeightsAfter(options, kSamples, nullptr);
    for (const int workers : {2, 3, 8}) {
      options.workers = workers;
      for (std::uint32_t seed = 0; seed < seeds; ++seed) {
        std::mutex mutex;
        std::mt19937 random(seed);
        // Some stages are slow in some runs, and every pass may be.
        const int slow_stage = std::uniform_int_distribution<int>(0, 11)(random);
        const auto hold_up = [&](const VersionRead& read) {
          int microseconds = 0;
          {
            const std::lock_guard lock(mutex);
            microseconds = std::uniform_int_distribution<int>(0, 99)(random);
          }
          if (read.stage == slow_stage) microseconds += 300;
          if (microseconds >= 60) {
            std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
          }
        };
        INFO("stashing " << stashing << ", workers " << workers << ", seed " << seed);
        CHECK(WeightsAfter(options, kSamples, hold_up) == expected);
      }
    }
  }
}

TEST_CASE("Workers that are held up at random change no bit", "[timing]") { HoldUpAtRandom(2); }

TEST_CASE("Workers that are held up at random change no bit, more often", "[timing][.long]") {
  HoldUpAtRandom(6);
}

TEST_CASE("Pinned workers give the same bits and leave the caller where it was", "[timing]") {
  TrainerOptions options = Options("lenet5", 24);
  const Outcome loose = Train(options, 24);
  options.workers = 3;
  options.pin_workers = true;
  cpu_set_t before;
  cpu_set_t after;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  const Outcome pinned = Train(options, 24);
  REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));
  CHECK(pinned == loose);
}

TEST_CASE("A worker's processor is one of the process's, and its own", "[timing]") {
  cpu_set_t all;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  const int processors = CPU_COUNT(&all);
  std::vector<int> seen;
  for (int number = 0; number < 2 * processors; ++number) {
    const std::shared_ptr<const void> pinned = PinThread(number);
    cpu_set_t own;
    REQUIRE(sched_getaffinity(0, sizeof own, &own) == 0);
    REQUIRE(CPU_COUNT(&own) == 1);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &own)) ++cpu;
    CHECK(CPU_ISSET(cpu, &all));
    CHECK(sched_getcpu() == cpu);
    seen.push_back(cpu);
  }
  for (int number = 0; number < processors; ++number) {
    CHECK(seen[number] == seen[number + processors]);
    for (int other = 0; other < number; ++other) CHECK(seen[number] != seen[other]);
  }
}

// Counts the threads that have ended, of those that have made one.
struct EndOfThread {
  explicit EndOfThread(std::shared_ptr<std::atomic<int>> count) : ended(std::move(count)) {}
  ~EndOfThread() { ++*ended; }
  EndOfThread(const EndOfThread&) = delete;
  EndOfThread& operator=(const EndOfThread&) = delete;

  std::shared_ptr<std::atomic<int>> ended;
};

TEST_CASE("A worker that is stuck is named, with the queue", "[timing]") {
  TrainerOptions options = Options("lenet5", 24);
  options.workers = 3;
  const PipelinePlan plan = MakePlan(options);
  const int stuck = plan.program.workers[1].first_stage;
  const auto is_stuck = [&](const VersionRead& read) {
    return read.stage == stuck && read.kind == hwmodel::ActionKind::kForward &&
           read.microbatch == 5;
  };
  // Until the watchdog has ended a neighbour. A stall of the machine is shorter than 3 s.
  const auto ended = std::make_shared<std::atomic<int>>(0);
  const auto hold_up = [&](const VersionRead& read) {
    const thread_local EndOfThread end(ended);
    while (is_stuck(read) && *ended == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  };
  const std::string line =
      test::MessageOf<std::runtime_error>([&] { WeightsAfter(options, 24, hold_up, 3); });
  INFO(line);
  // Its neighbours wait, whichever of them is the first to lose patience.
  CHECK(line.find("worker 1 (stages " + std::to_string(stuck) + " to ") != std::string::npos);
  CHECK(line.find("in the queue of ") != std::string::npos);
  CHECK(line.find("watchdog_seconds") != std::string::npos);
  CHECK((line.starts_with("worker 0 (stages 0 to ") || line.starts_with("worker 2 (stages ")));
  // One that is slow for less is left alone.
  const auto slow = [&](const VersionRead& read) {
    if (is_stuck(read)) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  };
  CHECK_NOTHROW(WeightsAfter(options, 24, slow, 60));
}

void ShareAnew(const char* network, int runs) {
  constexpr std::int64_t kSamples = 60;
  std::mt19937 random(5);
  for (const bool stashing : {false, true}) {
    TrainerOptions options = Options(network, kSamples);
    if (stashing) options.schedule.weights = hwmodel::WeightVersions::kStashed;
    const Outcome whole = Train(options, kSamples);
    for (int run = 0; run < runs; ++run) {
      std::unique_ptr<Trainer> trainer;
      Outcome parts;
      for (std::int64_t done = 0; done < kSamples; done += 20) {
        options.workers = std::uniform_int_distribution<int>(2, 5)(random);
        options.stage_costs.clear();
        for (int s = 0; s < options.network.stage_count(); ++s) {
          // Some cost nothing, some much more than others.
          const int cost = std::uniform_int_distribution<int>(0, 6)(random);
          options.stage_costs.push_back(cost * cost * cost);
        }
        trainer = trainer ? GoOn(*trainer, options) : MakeTrainer(options);
        parts += Train(*trainer, done + 20);
      }
      INFO("stashing " << stashing << ", run " << run);
      CHECK(parts == whole);
    }
  }
}

TEST_CASE("However the stages are shared, and shared anew on the way: the same bits", "[timing]") {
  ShareAnew("resnet8", 3);
}

TEST_CASE("However ResNet-20's stages are shared: the same bits", "[timing][.long]") {
  ShareAnew("resnet20", 6);
}

void StopAndStart(std::int64_t samples, int least_cycles) {
  TrainerOptions options = Options("mlp", samples);
  options.schedule.weights = hwmodel::WeightVersions::kStashed;
  const Outcome whole = Train(options, samples);
  std::mt19937 random(3);
  const int stages = options.network.stage_count();
  std::unique_ptr<Trainer> trainer;
  Outcome parts;
  int cycles = 0;
  for (std::int64_t done = 0; done < samples; ++cycles) {
    options.workers = std::uniform_int_distribution<int>(1, std::min(stages, 4))(random);
    trainer = trainer ? GoOn(*trainer, options) : MakeTrainer(options);
    CHECK(trainer->samples_done() == done);
    done = std::min(samples, done + std::uniform_int_distribution<int>(1, 2)(random));
    parts += Train(*trainer, done);
  }
  CHECK(cycles >= least_cycles);
  CHECK(parts == whole);
}

TEST_CASE("A hundred stops and starts end with the bits of none", "[timing]") {
  StopAndStart(170, 100);
}

TEST_CASE("A thousand stops and starts end with the bits of none", "[timing][.long]") {
  StopAndStart(1700, 1000);
}

}  // namespace
}  // namespace batchless::training
