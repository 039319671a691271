#include "batchless/hwmodel/planner.h"

#include <algorithm>
#include <limits>
#include <random>

#include "batchless/hwmodel/partition.h"
#include "batchless/hwmodel/scheme_memory.h"
#include "batchless/hwmodel/throughput.h"
#include "catch.h"

namespace batchless::hwmodel {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double StageSeconds(const std::vector<LayerTimes>& layers, int begin, int end, int machines,
                    double bandwidth) {
  double seconds = 0;
  double bytes = 0;
  for (int l = begin; l < end; ++l) {
    seconds += layers[l].total();
    bytes += layers[l].parameter_bytes;
  }
  return std::max(seconds, 2.0 * (machines - 1) / machines * bytes / bandwidth) / machines;
}

// The least time over every partition and every number of machines for each part.
double Exhaustive(const std::vector<LayerTimes>& layers, int begin, int machines,
                  double bandwidth) {
  const int count = static_cast<int>(layers.size());
  double best = kInfinity;
  for (int end = begin + 1; end <= count; ++end) {
    for (int m = 1; m <= machines; ++m) {
      const double stage = StageSeconds(layers, begin, end, m, bandwidth);
      if (end == count) {
        best = std::min(best, stage);
      } else if (m < machines) {
        best = std::min(best, std::max({stage, 2 * layers[end - 1].boundary_bytes / bandwidth,
                                        Exhaustive(layers, end, machines - m, bandwidth)}));
      }
    }
  }
  return best;
}

Machine Gpu() {
  return {.name = "gpu",
          .cores = 80,
          .peak_flops_per_second = 1e13,
          .shared_memory_bytes = 16e9,
          .shared_bytes_per_second = 9e11,
          .network_bytes_per_second = 1e10,
          .network_latency_seconds = 1e-5,
          .launch_seconds = 5e-6};
}

TEST_CASE("PipeDream's dynamic program is as good as exhaustive search", "[planner]") {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> draw(0, 1);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<LayerTimes> layers(1 + random() % 6);
    for (LayerTimes& layer : layers) {
      layer.forward_seconds = draw(random);
      layer.backward_seconds = 2 * draw(random);
      layer.update_seconds = 0.1 * draw(random);
      layer.boundary_bytes = draw(random);
      layer.parameter_bytes = 3 * draw(random);
    }
    const int machines = 1 + static_cast<int>(random() % 5);
    const double bandwidth = 0.3 + 3 * draw(random);
    const PipelinePlan plan = PlanPipeDream(layers, machines, bandwidth);
    CHECK(plan.seconds_per_update ==
          Approx(Exhaustive(layers, 0, machines, bandwidth)).epsilon(1e-12));
    // What it says is what its partition takes.
    double seconds = 0;
    int begin = 0;
    int used = 0;
    for (const PlanStage& stage : plan.stages) {
      seconds =
          std::max(seconds, StageSeconds(layers, begin, stage.end, stage.machines, bandwidth));
      if (begin > 0) {
        seconds = std::max(seconds, 2 * layers[begin - 1].boundary_bytes / bandwidth);
      }
      begin = stage.end;
      used += stage.machines;
    }
    CHECK(begin == static_cast<int>(layers.size()));
    CHECK(used <= machines);
    CHECK(seconds == Approx(plan.seconds_per_update).epsilon(1e-12));
  }
}

TEST_CASE("Equal layers: machines copy what is cheap to sum and cut what is cheap to send",
          "[planner]") {
  constexpr double kDear = 1e3;
  for (const int machines : {2, 4, 8}) {
    const auto plan = [&](double boundary_bytes, double parameter_bytes) {
      const std::vector<LayerTimes> layers(8, {{1, 2}, boundary_bytes, parameter_bytes});
      return PlanPipeDream(layers, machines, 1);
    };
    // Weights that cost nothing to sum: one stage on all machines.
    const PipelinePlan copies = plan(kDear, 0);
    CHECK(copies.seconds_per_update == Approx(24.0 / machines).epsilon(1e-12));
    CHECK(copies.stages == std::vector<PlanStage>{{8, machines}});
    // Weights that cost too much to sum: a stage for each machine.
    const PipelinePlan cuts = plan(0, kDear);
    CHECK(cuts.seconds_per_update == Approx(24.0 / machines).epsilon(1e-12));
    CHECK(std::ssize(cuts.stages) == machines);
    for (int g = 0; g < machines; ++g) {
      CHECK(cuts.stages[g] == PlanStage{8 / machines * (g + 1), 1});
    }
    // Both cost too much: one machine does it all.
    CHECK(plan(kDear, kDear).stages == std::vector<PlanStage>{{8, 1}});
  }
}

// t of a plan by the papers' equations, from the layers, for any depth, micro-batch and width.
double Seconds(const Workload& workload, const Machine& machine, const PipelinePlan& plan,
               const std::string& scheme) {
  const std::vector<LayerTimes> layers = TimeLayers(workload, machine, plan.microbatch);
  const double m = static_cast<double>(plan.microbatches_per_update);
  std::vector<double> f, b, u, r, c;
  int l = 0;
  for (const PlanStage& stage : plan.stages) {
    f.push_back(0), b.push_back(0), u.push_back(0), r.push_back(0);
    for (; l < stage.end; ++l) {
      f.back() += layers[l].forward_seconds;
      b.back() += layers[l].backward_seconds;
      u.back() += layers[l].update_seconds;
      r.back() += 2.0 * (plan.width - 1) / plan.width * layers[l].parameter_bytes /
                  machine.network_bytes_per_second;
    }
    if (plan.recompute) b.back() += f.back();
    const bool last = l == workload.stage_count();
    c.push_back(last ? 0
                     : layers[l - 1].boundary_bytes / machine.network_bytes_per_second +
                           machine.network_latency_seconds);
  }
  if (machine.server_machines > 0) {
    // By going through all pairs of machines.
    const int w = plan.width;
    const int d = static_cast<int>(plan.stages.size());
    const auto server = [&](int g, int copy) {
      const int number = plan.copies_are_neighbours ? g * w + copy : copy * d + g;
      return number / static_cast<int>(machine.server_machines);
    };
    for (int g = 0; g < d; ++g) {
      bool far = false;
      bool ring_is_far = false;
      for (int copy = 0; copy < w; ++copy) {
        far = far || (g + 1 < d && server(g, copy) != server(g + 1, copy));
        for (int other = 0; other < w; ++other) {
          ring_is_far = ring_is_far || server(g, copy) != server(g, other);
        }
      }
      if (far) {
        c[g] = (c[g] - machine.network_latency_seconds) * machine.network_bytes_per_second /
                   machine.server_bytes_per_second +
               machine.server_latency_seconds;
      }
      if (ring_is_far) r[g] *= machine.network_bytes_per_second / machine.server_bytes_per_second;
    }
  }
  double t = 0;
  if (scheme == "2bw") {
    for (std::size_t i = 0; i < f.size(); ++i) {
      const double sends = c[i] + (i > 0 ? c[i - 1] : 0);
      t = std::max({t, f[i] + b[i] + u[i] / m + sends, r[i] / m});
    }
    return t * m;
  }
  double update = 0;
  for (std::size_t i = 0; i < f.size(); ++i) {
    t += f[i] + b[i] + 2 * c[i];
    update = std::max(update, u[i] + r[i]);
  }
  if (scheme == "model-parallel") return m * t + update;
  double forward = 0;
  double backward = 0;
  for (std::size_t i = 0; i < f.size(); ++i) {
    forward = std::max(forward, f[i] + c[i]);
    backward = std::max(backward, b[i] + (i > 0 ? c[i - 1] : 0));
  }
  return t + (m - 1) * (forward + backward) + update;
}

TEST_CASE("The sweep's plan takes what the equations say, and fits as scheme_memory says",
          "[planner]") {
  const Workload workload = MakeWorkload("gpt2", 2);
  for (const std::string scheme : {"2bw", "gpipe", "balanced", "model-parallel"}) {
    for (const int machines : {1, 2, 6, 8}) {
      const PipelinePlan plan =
          MakePlan(workload, Gpu(), {.scheme = scheme, .machines = machines, .batch = 96});
      CAPTURE(scheme, machines);
      CHECK(plan.width * plan.depth <= machines);
      CHECK(plan.microbatch * plan.width * plan.microbatches_per_update == 96);
      CHECK(plan.samples_per_second ==
            Approx(96 / Seconds(workload, Gpu(), plan, scheme)).epsilon(1e-12));
      std::vector<int> group_ends;
      for (const PlanStage& stage : plan.stages) group_ends.push_back(stage.end);
      const std::string name =
          (scheme == "2bw" ? "2bw" : "gpipe") + std::string(plan.recompute ? "-recompute" : "");
      const std::vector<SchemeMemory> memory = PredictSchemeMemory(
          FindMemoryScheme(name), workload, group_ends,
          {plan.microbatch, scheme == "model-parallel" ? 1 : plan.microbatches_per_update});
      double most = 0;
      int l = 0;
      for (std::size_t g = 0; g < memory.size(); ++g) {
        double weights = 0;
        for (; l < group_ends[g]; ++l) {
          weights += static_cast<double>(workload.stages[l].parameter_bytes);
        }
        // Two versions from the first update on, also where one worker would need one.
        const double versions = scheme == "2bw" ? 2 * weights - memory[g].weight_bytes : 0;
        most = std::max(most, memory[g].total() + 2 * weights + versions);
      }
      CHECK(plan.memory_bytes == Approx(most).epsilon(1e-12));
    }
  }
}

// Goes through all plans of a sweep, of which none takes less time than the best, and counts them.
void CheckNoneIsFaster(const Workload& workload, const Machine& machine, const PlanOptions& options,
                       const PipelinePlan& best) {
  std::int64_t plans = 0;
  for (int d = 1; d <= options.machines; ++d) {
    for (std::int64_t b = 1; b <= options.max_microbatch; b *= 2) {
      PipelinePlan other;
      other.width = options.machines / d;
      other.depth = d;
      other.microbatch = b;
      if (options.batch % (other.width * b) != 0) continue;
      other.microbatches_per_update = options.batch / (other.width * b);
      if (options.scheme == "2bw" && other.microbatches_per_update < d) continue;
      std::vector<double> costs;
      for (const LayerTimes& layer : TimeLayers(workload, machine, b)) {
        costs.push_back(layer.forward_seconds + layer.backward_seconds);
      }
      for (const int end : BalancedPartition(costs, d)) other.stages.push_back({end, other.width});
      for (const bool neighbours : {false, true}) {
        if (neighbours && (machine.server_machines == 0 || d == 1 || other.width == 1)) continue;
        other.copies_are_neighbours = neighbours;
        for (const bool recompute : {false, true}) {
          other.recompute = recompute;
          ++plans;
          CHECK(static_cast<double>(options.batch) /
                    Seconds(workload, machine, other, options.scheme) <=
                best.samples_per_second * (1 + 1e-12));
        }
      }
    }
  }
  CHECK(plans == best.plans);
}

TEST_CASE("No other plan of the sweep is faster", "[planner]") {
  const Workload workload = MakeWorkload("gpt2", 2);
  const PlanOptions options = {.scheme = "2bw", .machines = 6, .batch = 96};
  Machine machine = Gpu();
  machine.shared_memory_bytes = 1e15;  // every plan fits
  CheckNoneIsFaster(workload, machine, options, MakePlan(workload, machine, options));
}

TEST_CASE("Over links of two speeds no other plan is faster either", "[planner]") {
  const Workload workload = MakeWorkload("gpt2", 2);
  Machine machine = Gpu();
  machine.shared_memory_bytes = 1e15;  // every plan fits
  machine.network_bytes_per_second = 1e11;
  machine.server_machines = 4;
  machine.server_bytes_per_second = 1e9;
  machine.server_latency_seconds = 1e-4;
  Machine slow = machine;
  slow.server_machines = slow.server_bytes_per_second = 0;
  slow.network_bytes_per_second = machine.server_bytes_per_second;
  slow.network_latency_seconds = machine.server_latency_seconds;
  for (const std::string scheme : {"2bw", "gpipe", "model-parallel"}) {
    const PlanOptions options = {.scheme = scheme, .machines = 8, .batch = 64, .max_microbatch = 8};
    const PipelinePlan best = MakePlan(workload, machine, options);
    CAPTURE(scheme, best.width, best.depth);
    CHECK(best.samples_per_second ==
          Approx(64 / Seconds(workload, machine, best, scheme)).epsilon(1e-12));
    CHECK(best.samples_per_second >= MakePlan(workload, slow, options).samples_per_second);
    CheckNoneIsFaster(workload, machine, options, best);
  }
}

TEST_CASE("Without a pipeline one machine of a copy works at a time", "[planner]") {
  const Workload workload = MakeWorkload("gpt2", 2);
  Machine machine = Gpu();
  machine.network_bytes_per_second = 1e18;
  machine.network_latency_seconds = 0;
  machine.shared_memory_bytes = 1e15;
  PlanOptions options = {.scheme = "model-parallel", .machines = 6, .batch = 96, .depth = 6};
  const PipelinePlan chain = MakePlan(workload, machine, options);
  options.depth = 1;
  const PipelinePlan copies = MakePlan(workload, machine, options);
  options.machines = 1;
  const PipelinePlan one = MakePlan(workload, machine, options);
  // Updates alone go faster through six machines.
  CHECK(chain.samples_per_second == Approx(one.samples_per_second).epsilon(0.05));
  CHECK(copies.samples_per_second == Approx(6 * one.samples_per_second).epsilon(0.2));
  options.machines = options.depth = 6;
  options.scheme = "2bw";
  CHECK(MakePlan(workload, machine, options).samples_per_second > 3.5 * chain.samples_per_second);
}

TEST_CASE("PB's plan waits for latencies that its samples do not hide", "[planner]") {
  const Workload workload = MakeWorkload("vgg16");
  const PlanOptions options = {.scheme = "pb", .machines = 2, .batch = 4};
  const auto plan = [&](double latency, double server_machines = 0) {
    Machine machine = Gpu();
    machine.network_latency_seconds = server_machines > 0 ? 0 : latency;
    if (server_machines > 0) {
      machine.server_machines = server_machines;
      machine.server_bytes_per_second = machine.network_bytes_per_second;
      machine.server_latency_seconds = latency;
    }
    return MakePlan(workload, machine, options);
  };
  const std::vector<LayerTimes> layers = TimeLayers(workload, Gpu(), options.batch);
  const int end = plan(0).stages[0].end;
  double groups[2] = {0, 0};
  double passes = 0;  // and the first machine's update
  for (int l = 0; l < std::ssize(layers); ++l) {
    groups[l < end ? 0 : 1] += layers[l].total();
    passes += layers[l].forward_seconds + layers[l].backward_seconds +
              (l < end ? layers[l].update_seconds : 0);
  }
  const double send = layers[end - 1].boundary_bytes / Gpu().network_bytes_per_second;
  const double busy = std::max({groups[0], groups[1], send});
  CHECK(plan(0).seconds_per_update == Approx(busy));
  // Three samples are on their way from the first machine's forward to its update.
  const double hidden = (3 * busy - passes) / 2 - send;
  REQUIRE(hidden > 0);
  CHECK(plan(0.99 * hidden).seconds_per_update == Approx(busy));
  for (const double latency : {1.5 * hidden, 100 * hidden}) {
    const double waits = (passes + 2 * (send + latency)) / 3;
    CHECK(plan(latency).seconds_per_update == Approx(waits));
    // Of one server's two machines, and of two servers'.
    CHECK(plan(latency, 2).seconds_per_update == Approx(busy));
    CHECK(plan(latency, 1).seconds_per_update == Approx(waits));
  }
}

TEST_CASE("A longer search finds nothing slower", "[planner]") {
  for (const std::string network : {"vgg16", "resnet20", "gpt2"}) {
    for (const std::string scheme : {"2bw", "gpipe"}) {
      double before = 0;
      for (const std::int64_t most : {1, 2, 8, 16, 64}) {
        const PipelinePlan plan =
            MakePlan(MakeWorkload(network), Gpu(),
                     {.scheme = scheme, .machines = 8, .batch = 64, .max_microbatch = most});
        CAPTURE(network, scheme, most);
        CHECK(plan.samples_per_second >= before);
        before = plan.samples_per_second;
      }
    }
  }
}

TEST_CASE("With free communication no partition is faster than the plan's", "[planner]") {
  // Launches decide at small micro-batches and FLOPs at large ones, so that partitions differ.
  const Workload workload = MakeWorkload("lenet5");
  Machine machine = Gpu();
  machine.network_bytes_per_second = 1e18;
  machine.network_latency_seconds = 0;
  const PlanOptions options = {
      .scheme = "2bw", .machines = 3, .batch = 3 << 12, .max_microbatch = 1 << 10, .depth = 3};
  const PipelinePlan best = MakePlan(workload, machine, options);
  const int layers = workload.stage_count();
  for (std::int64_t b = 1; b <= options.max_microbatch; b *= 2) {
    for (int first = 1; first < layers - 1; ++first) {
      for (int second = first + 1; second < layers; ++second) {
        PipelinePlan other;
        other.microbatch = b;
        other.microbatches_per_update = options.batch / b;
        other.stages = {{first, 1}, {second, 1}, {layers, 1}};
        // Partitions are balanced without updates.
        CHECK(static_cast<double>(options.batch) / Seconds(workload, machine, other, "2bw") <=
              best.samples_per_second * 1.01);
      }
    }
  }
}

TEST_CASE("PipeDream's memory is that of the machines it uses", "[planner]") {
  const Workload workload = MakeWorkload("vgg16");
  Machine machine = Gpu();
  // So slow a network that all is done on few machines.
  machine.network_bytes_per_second = 2e8;
  const PlanOptions options = {.scheme = "pipedream", .machines = 4, .batch = 32};
  const PipelinePlan few = MakePlan(workload, machine, options);
  int used = 0;
  for (const PlanStage& stage : few.stages) used += stage.machines;
  CHECK(used < 4);
  PlanOptions more = options;
  more.machines = 16;
  const PipelinePlan many = MakePlan(workload, machine, more);
  REQUIRE(many.stages == few.stages);
  CHECK(many.memory_bytes == few.memory_bytes);
}

TEST_CASE("PipeDream without copies keeps what scheme_memory says", "[planner]") {
  const Workload workload = MakeWorkload("vgg16-imagenet");
  Machine machine = Gpu();
  machine.network_bytes_per_second = 5e8;
  int deep = 0;
  for (const int machines : {1, 2, 3, 4}) {
    const PipelinePlan plan =
        MakePlan(workload, machine, {.scheme = "pipedream", .machines = machines, .batch = 8});
    std::vector<int> group_ends;
    bool copies = false;
    for (const PlanStage& stage : plan.stages) {
      group_ends.push_back(stage.end);
      copies = copies || stage.machines > 1;
    }
    if (copies) continue;
    deep += group_ends.size() > 1 ? 1 : 0;
    double most = 0;
    int layer = 0;
    const auto kept =
        PredictSchemeMemory(FindMemoryScheme("pipedream"), workload, group_ends, {.microbatch = 8});
    for (std::size_t g = 0; g < group_ends.size(); ++g) {
      double weights = 0;
      for (; layer < group_ends[g]; ++layer) {
        weights += static_cast<double>(workload.stages[layer].parameter_bytes);
      }
      most = std::max(most, kept[g].total() + 2 * weights);
    }
    CHECK(plan.memory_bytes == Approx(most).epsilon(1e-12));
  }
  CHECK(deep > 0);
}

TEST_CASE("A model too large for one machine is divided, or recomputed", "[planner]") {
  const Workload workload = MakeWorkload("gpt2-xl", 2);
  Machine machine = Gpu();
  machine.shared_memory_bytes = 8e9;
  const PipelinePlan plan =
      MakePlan(workload, machine, {.scheme = "2bw", .machines = 16, .batch = 512});
  CHECK(plan.fits);
  CHECK(plan.depth > 1);
  machine.shared_memory_bytes = 1e8;
  CHECK_FALSE(MakePlan(workload, machine, {.scheme = "2bw", .machines = 4, .batch = 512}).fits);
}

TEST_CASE("Options of planners out of range are refused by name", "[planner]") {
  const Workload workload = MakeWorkload("resnet20");
  const auto refuses = [&](const PlanOptions& options, const std::string& name) {
    CHECK_THROWS_WITH(MakePlan(workload, Gpu(), options), Catch::Matchers::StartsWith(name));
  };
  refuses({.scheme = "3bw"}, "scheme");
  refuses({.machines = 0}, "machines");
  refuses({.batch = 0}, "batch");
  refuses({.machines = 7, .batch = 2}, "batch");
  refuses({.scheme = "gpipe", .machines = 7, .batch = 11, .depth = 3},
          "batch: got 11, accepted: a multiple of 2, the copies of a pipeline of 3 machines");
  Machine alone = Gpu();
  alone.network_bytes_per_second = 0;
  CHECK_THROWS_WITH(MakePlan(workload, alone, {}), Catch::Matchers::StartsWith("network"));
  CHECK_NOTHROW(MakePlan(workload, alone, {.machines = 1}));
  CHECK_NOTHROW(MakePlan(workload, alone, {.scheme = "pipedream", .machines = 1}));
}

}  // namespace
}  // namespace batchless::hwmodel
