#include "batchless/hwmodel/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/cycle_time.h"
#include "batchless/hwmodel/partition.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/scheme_memory.h"
#include "batchless/hwmodel/steady_state.h"
#include "batchless/hwmodel/throughput.h"
#include "checks.h"

namespace batchless::hwmodel {
namespace {

constexpr std::array<std::string_view, 6> kSchemes = {"pipedream",      "2bw", "gpipe", "balanced",
                                                      "model-parallel", "pb"};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Bytes that each of `copies` sends and receives to sum something of that size in a ring.
double RingSeconds(double bytes, int copies, double bytes_per_second) {
  return 2.0 * (copies - 1) / copies * bytes / bytes_per_second;
}

struct Link {
  double bytes_per_second;
  double latency_seconds;
};

// Between all machines from `first` to `last`.
Link LinkOf(const Machine& machine, int first, int last) {
  const auto size = static_cast<int>(machine.server_machines);
  if (size == 0 || first / size == last / size) {
    return {machine.network_bytes_per_second, machine.network_latency_seconds};
  }
  return {machine.server_bytes_per_second, machine.server_latency_seconds};
}

// Sums over layers from the first one up to each.
std::vector<double> Sums(std::span<const LayerTimes> layers, double (*of)(const LayerTimes&)) {
  std::vector<double> sums(layers.size() + 1);
  for (std::size_t l = 0; l < layers.size(); ++l) sums[l + 1] = sums[l] + of(layers[l]);
  return sums;
}

// Bytes that a whole machine can keep.
double Room(const Machine& machine) {
  return machine.shared_memory_bytes > 0 ? machine.shared_memory_bytes : machine.local_memory_bytes;
}

// What a worker keeps by its scheme, its velocity and its gradients.
double KeptWithState(std::string_view scheme, const WorkerSizes& worker, double versions,
                     double in_flight) {
  return KeptBytes(FindMemoryScheme(scheme), worker, versions, in_flight).total() +
         2 * worker.weights;
}

class Sweep {
 public:
  Sweep(const Workload& workload, const Machine& machine, const PlanOptions& options)
      : workload_(workload),
        machine_(machine),
        options_(options),
        updates_late_(options.scheme == "2bw"),
        one_at_a_time_(options.scheme == "model-parallel") {}

  PipelinePlan Best() {
    const int deepest = std::min(options_.machines, workload_.stage_count());
    const bool balanced = options_.scheme == "balanced";
    for (std::int64_t b = 1; b <= options_.max_microbatch; b *= 2) {
      layers_ = TimeLayers(workload_, machine_, b);
      std::vector<double> costs;
      for (const LayerTimes& layer : layers_) {
        costs.push_back(layer.forward_seconds + layer.backward_seconds);
      }
      partitions_ = BalancedPartitions(costs, deepest);
      for (int d = balanced ? deepest : 1; d <= deepest; ++d) {
        const int w = options_.machines / d;
        const std::int64_t samples = w * b;
        if (options_.depth > 0 && d != options_.depth) continue;
        if (options_.batch % samples != 0) continue;
        const std::int64_t m = options_.batch / samples;
        if (updates_late_ && m < d) continue;
        for (const bool copies_are_neighbours : {false, true}) {
          if (copies_are_neighbours && (w == 1 || d == 1 || machine_.server_machines == 0))
            continue;
          for (const bool recompute : {false, true}) {
            if (balanced && recompute) continue;
            Consider({.width = w,
                      .depth = d,
                      .microbatch = b,
                      .microbatches_per_update = m,
                      .recompute = recompute,
                      .copies_are_neighbours = copies_are_neighbours});
          }
        }
      }
    }
    RefuseIf(best_.plans == 0, "batch", options_.batch,
             (options_.depth > 0
                  ? fmt::format("a multiple of {}, the copies of a pipeline of {} machines",
                                options_.machines / options_.depth, options_.depth)
                  : fmt::format("one that divides into micro-batches for {} machines",
                                options_.machines)) +
                 (updates_late_ ? ", with as many micro-batches as the pipeline is deep" : ""));
    return std::move(best_);
  }

 private:
  // The machine of stage g of copy c.
  static int MachineOf(const PipelinePlan& plan, int g, int c) {
    return plan.copies_are_neighbours ? g * plan.width + c : c * plan.depth + g;
  }

  // Seconds of so many bytes to the next stage, of the slowest copy.
  double SendSeconds(const PipelinePlan& plan, double bytes, int g) const {
    double most = 0;
    for (int c = 0; c < plan.width; ++c) {
      const Link link = LinkOf(machine_, MachineOf(plan, g, c), MachineOf(plan, g + 1, c));
      most = std::max(most, bytes / link.bytes_per_second + link.latency_seconds);
    }
    return most;
  }

  void Consider(PipelinePlan plan) {
    const auto count = static_cast<double>(plan.microbatches_per_update);
    const int w = plan.width;
    double slowest = 0;
    double forwards = 0;
    double backwards = 0;
    double most_forward = 0;
    double most_backward = 0;
    double sends = 0;
    double after = 0;  // update and all-reduce, once a batch
    double receive = 0;
    int layer = 0;
    for (const int end : partitions_[static_cast<std::size_t>(plan.depth) - 1]) {
      const int g = static_cast<int>(plan.stages.size());
      plan.stages.push_back({end, w});
      const WorkerSizes bytes = MeasureWorker(workload_, layer, end, plan.microbatch);
      double forward = 0;
      double backward = 0;
      double update = 0;
      for (; layer < end; ++layer) {
        forward += layers_[layer].forward_seconds;
        backward += layers_[layer].backward_seconds;
        update += layers_[layer].update_seconds;
      }
      const double send =
          g + 1 < plan.depth ? SendSeconds(plan, layers_[layer - 1].boundary_bytes, g) : 0;
      const double back = backward + (plan.recompute ? forward : 0);
      const double ring =
          w == 1 ? 0
                 : RingSeconds(bytes.weights, w,
                               LinkOf(machine_, MachineOf(plan, g, 0), MachineOf(plan, g, w - 1))
                                   .bytes_per_second);
      plan.memory_bytes = std::max(
          plan.memory_bytes,
          updates_late_
              ? KeptWithState(plan.recompute ? "2bw-recompute" : "2bw", bytes, 2, plan.depth - g)
              : KeptWithState(plan.recompute ? "gpipe-recompute" : "gpipe", bytes, 1,
                              one_at_a_time_ ? 1 : count));
      slowest = std::max({slowest, forward + back + update / count + receive + send, ring / count});
      forwards += forward;
      backwards += back;
      most_forward = std::max(most_forward, forward + send);
      most_backward = std::max(most_backward, back + receive);
      sends += 2 * send;
      after = std::max(after, update + ring);
      receive = send;
    }
    plan.seconds_per_update =
        updates_late_ ? slowest * count
        : one_at_a_time_
            ? count * (forwards + backwards + sends) + after
            : forwards + backwards + (count - 1) * (most_forward + most_backward) + sends + after;
    plan.samples_per_second = static_cast<double>(options_.batch) / plan.seconds_per_update;
    plan.fits = plan.memory_bytes <= Room(machine_);
    const std::int64_t plans = best_.plans + 1;
    const bool faster = plan.samples_per_second > best_.samples_per_second;
    const bool better =
        plans == 1 ||
        (plan.fits != best_.fits ? plan.fits
                                 : (plan.fits ? faster : plan.memory_bytes < best_.memory_bytes));
    if (better) best_ = std::move(plan);
    best_.plans = plans;
  }

  const Workload& workload_;
  const Machine& machine_;
  const PlanOptions& options_;
  bool updates_late_;
  bool one_at_a_time_;
  std::vector<std::vector<int>> partitions_;  // by depth - 1, for the micro-batch in question
  std::vector<LayerTimes> layers_;
  PipelinePlan best_;
};

PipelinePlan PipeDreamAsPlan(const Workload& workload, const Machine& machine,
                             const PlanOptions& options) {
  const std::vector<LayerTimes> layers = TimeLayers(workload, machine, options.batch);
  PipelinePlan plan = PlanPipeDream(layers, options.machines,
                                    LinkOf(machine, 0, options.machines - 1).bytes_per_second);
  plan.width = plan.stages.front().machines;
  int after = 0;  // machines of a stage and of those after it
  for (const PlanStage& stage : plan.stages) after += stage.machines;
  int layer = 0;
  for (const PlanStage& stage : plan.stages) {
    const int in_flight = (after + stage.machines - 1) / stage.machines;
    const WorkerSizes worker = MeasureWorker(workload, layer, stage.end, options.batch);
    plan.memory_bytes =
        std::max(plan.memory_bytes, KeptWithState("pipedream", worker, in_flight, in_flight));
    layer = stage.end;
    after -= stage.machines;
  }
  return plan;
}

PipelinePlan PbAsPlan(const Workload& workload, const Machine& machine,
                      const PlanOptions& options) {
  const std::vector<LayerTimes> layers = TimeLayers(workload, machine, options.batch);
  std::vector<int> group_ends = options.group_ends;
  if (group_ends.empty()) {
    std::vector<double> costs;
    costs.reserve(layers.size());
    for (const LayerTimes& layer : layers) costs.push_back(layer.total());
    group_ends = BalancedPartition(costs, std::min(options.machines, workload.stage_count()));
  }
  RefuseIf(std::ssize(group_ends) > options.machines, "group_ends",
           std::to_string(group_ends.size()) + " groups of layers",
           "one for each of at most " + std::to_string(options.machines) + " machines");
  PipelinePlan plan;
  PipelineTimes times;
  // Throws where the ends are none.
  const std::vector<SchemeMemory> kept = PredictSchemeMemory(
      FindMemoryScheme("pb"), workload, group_ends, {.microbatch = options.batch});
  int layer = 0;
  for (std::size_t g = 0; g < group_ends.size(); ++g) {
    StageTimes& group = times.stages.emplace_back();
    for (; layer < group_ends[g]; ++layer) {
      group.forward_seconds += layers[layer].forward_seconds;
      group.backward_seconds +=
          layers[layer].backward_seconds + layers[layer].weight_gradient_seconds;
      group.update_seconds += layers[layer].update_seconds;
    }
    if (g + 1 < group_ends.size()) {
      const Link link = LinkOf(machine, static_cast<int>(g), static_cast<int>(g) + 1);
      times.link_seconds.push_back(layers[layer - 1].boundary_bytes / link.bytes_per_second);
      times.latency_seconds.push_back(link.latency_seconds);
    }
    plan.memory_bytes = std::max(plan.memory_bytes, kept[g].total() + 2 * kept[g].weight_bytes);
    plan.stages.push_back({group_ends[g], 1});
  }
  const auto groups = static_cast<int>(group_ends.size());
  const CycleTime cycle = ComputeCycleTime(
      FindSteadyState(PipelinedBackpropagation(groups, EnoughMicrobatches(groups, 1))), times);
  plan.seconds_per_update = cycle.seconds / static_cast<double>(cycle.microbatches_per_cycle);
  return plan;
}

}  // namespace

std::vector<LayerTimes> TimeLayers(const Workload& workload, const Machine& machine,
                                   std::int64_t microbatch) {
  const Throughput whole = PredictThroughput(
      workload, machine, {.schedule = std::string(kSequential), .microbatch = microbatch});
  std::vector<LayerTimes> layers;
  layers.reserve(whole.workers.size());
  for (const WorkerThroughput& row : whole.workers) {
    const StageCost& cost = workload.stages[row.first_stage];
    layers.push_back({row.times,
                      static_cast<double>(microbatch) * static_cast<double>(cost.boundary_bytes),
                      static_cast<double>(cost.parameter_bytes)});
  }
  return layers;
}

PipelinePlan PlanPipeDream(std::span<const LayerTimes> layers, int machines,
                           double bytes_per_second) {
  CheckAtLeastOne("machines", machines);
  RefuseIf(!(bytes_per_second > 0), "network.bandwidth", bytes_per_second, "a positive one");
  RefuseIf(layers.empty(), "layers", "none", "at least one");
  const std::size_t count = layers.size();
  const auto most = static_cast<std::size_t>(machines);
  const std::vector<double> seconds =
      Sums(layers, [](const LayerTimes& layer) { return layer.total(); });
  const std::vector<double> bytes =
      Sums(layers, [](const LayerTimes& layer) { return layer.parameter_bytes; });
  // Layers i .. j-1 on m machines.
  const auto stage_seconds = [&](std::size_t i, std::size_t j, std::size_t m) {
    const auto copies = static_cast<int>(m);
    return std::max(seconds[j] - seconds[i],
                    RingSeconds(bytes[j] - bytes[i], copies, bytes_per_second)) /
           copies;
  };
  struct Choice {
    double seconds = kInfinity;
    std::size_t begin = 0;     // of the last stage
    std::size_t machines = 0;  // of the last stage
  };
  // best[j][m]: the first j layers on m machines.
  std::vector<std::vector<Choice>> best(count + 1, std::vector<Choice>(most + 1));
  for (std::size_t j = 1; j <= count; ++j) {
    for (std::size_t m = 1; m <= most; ++m) {
      Choice& choice = best[j][m];
      choice = {stage_seconds(0, j, m), 0, m};
      for (std::size_t i = 1; i < j; ++i) {
        const double send = 2 * layers[i - 1].boundary_bytes / bytes_per_second;
        if (send >= choice.seconds) continue;
        for (std::size_t last = 1; last < m; ++last) {
          const double candidate =
              std::max({best[i][m - last].seconds, send, stage_seconds(i, j, last)});
          if (candidate < choice.seconds) choice = {candidate, i, last};
        }
      }
    }
  }
  // Fewer machines may do as well, where sending and summing costs more than it wins.
  std::size_t m = 1;
  for (std::size_t k = 2; k <= most; ++k) {
    if (best[count][k].seconds < best[count][m].seconds) m = k;
  }
  PipelinePlan plan;
  plan.seconds_per_update = best[count][m].seconds;
  for (std::size_t j = count; j > 0;) {
    const Choice& choice = best[j][m];
    plan.stages.insert(plan.stages.begin(),
                       {static_cast<int>(j), static_cast<int>(choice.machines)});
    j = choice.begin;
    m -= choice.machines;
  }
  return plan;
}

std::span<const std::string_view> PlanSchemes() { return kSchemes; }

PipelinePlan MakePlan(const Workload& workload, const Machine& machine,
                      const PlanOptions& options) {
  RefuseIf(std::ranges::find(kSchemes, options.scheme) == kSchemes.end(), "scheme", options.scheme,
           analysis::OneOf(options.scheme, kSchemes));
  CheckAtLeastOne("machines", options.machines);
  CheckAtLeastOne("batch", options.batch);
  CheckAtLeastOne("max_microbatch", options.max_microbatch);
  const bool sweeps =
      options.scheme == "2bw" || options.scheme == "gpipe" || options.scheme == "model-parallel";
  const int deepest = std::min(options.machines, workload.stage_count());
  RefuseIf(options.depth < 0 || options.depth > deepest || (options.depth > 0 && !sweeps), "depth",
           options.depth,
           sweeps ? "1 to " + std::to_string(deepest) + ", machines and layers"
                  : "nothing with " + options.scheme);
  RefuseIf(!options.group_ends.empty() && options.scheme != "pb", "group_ends", "some",
           "none with " + options.scheme);
  RefuseIf(options.machines > 1 && machine.network_bytes_per_second <= 0, "network.bandwidth",
           "nothing", "a positive one, between machines");
  const bool is_pb = options.scheme == "pb";
  if (!is_pb && options.scheme != "pipedream") return Sweep(workload, machine, options).Best();
  Machine alone = machine;
  if (options.machines == 1) alone.network_bytes_per_second = 1;  // of nothing
  PipelinePlan plan =
      is_pb ? PbAsPlan(workload, machine, options) : PipeDreamAsPlan(workload, alone, options);
  plan.depth = static_cast<int>(plan.stages.size());
  plan.microbatch = options.batch;
  plan.samples_per_second = static_cast<double>(options.batch) / plan.seconds_per_update;
  plan.fits = plan.memory_bytes <= Room(machine);
  plan.plans = 1;
  return plan;
}

}  // namespace batchless::hwmodel
