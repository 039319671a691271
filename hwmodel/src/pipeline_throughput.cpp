// A pipeline of workers, each a group of stages on cores of its own.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "batchless/hwmodel/core_allotment.h"
#include "batchless/hwmodel/cycle_time.h"
#include "batchless/hwmodel/partition.h"
#include "batchless/hwmodel/pipeline_simulation.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "batchless/hwmodel/steady_state.h"
#include "checks.h"
#include "roofline.h"

namespace batchless::hwmodel {
namespace {

std::string StagesText(const Workload& workload, int first, int end) {
  const auto& names = workload.stage_names;
  const std::string text = fmt::format("stage {} {}", first, names[first]);
  return end - first == 1 ? text : fmt::format("{} to {} {}", text, end - 1, names[end - 1]);
}

// What every step reads and none changes.
struct Setting : Execution {
  const ThroughputOptions& options;
  int workers = 1;
};

// One way to lay the stages out. Workers in local memory have the cores that it takes.
struct Layout {
  double seconds = std::numeric_limits<double>::infinity();  // of a micro-batch, without links
  std::vector<WorkerThroughput> workers{};  // without what follows from their times
};

int WorkerCount(const Workload& workload, const Machine& machine,
                const ThroughputOptions& options) {
  const int most = MostWorkers(workload, machine);
  const int given =
      options.group_ends.empty() ? options.workers : static_cast<int>(options.group_ends.size());
  RefuseIf(given > most, "workers", given,
           "at most " + std::to_string(most) + ", the stages and cores there are");
  return given > 0 ? given : most;
}

std::int64_t PerUpdate(const ThroughputOptions& options, const ScheduleKind& kind, int workers) {
  const std::int64_t given = options.microbatches_per_update;
  RefuseIf(kind.updates_each && given > 1, "microbatches_per_update", given,
           "0 or 1 with " + options.schedule + ", which updates after each");
  if (kind.updates_each) return 1;
  return given > 0 ? given : std::int64_t{4} * workers;
}

Schedule ScheduleOf(const Setting& setting, std::int64_t microbatches) {
  return MakeSchedule(setting.options.schedule, {.stages = setting.workers,
                                                 .microbatches = microbatches,
                                                 .microbatches_per_update = setting.per_update,
                                                 .weight_stashing = setting.options.weight_stashing,
                                                 .vertical_sync = setting.options.vertical_sync});
}

// Cores with as much local memory.
std::int64_t CoresFor(const Machine& machine, double bytes) {
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::ceil(bytes / machine.core_memory_bytes())));
}

// `best`, or a layout of these groups that is faster: of their workers in local memory none, or the
// one that has most use of it, or the two ...
Layout Improved(const Setting& setting, const ScheduleSummary& summary, Layout best,
                const std::vector<int>& group_ends) {
  const Machine& machine = setting.machine;
  const std::size_t workers = group_ends.size();
  Layout layout;
  std::vector<double> traffic_of(workers);  // bytes of a micro-batch
  std::vector<std::size_t> order(workers);
  std::iota(order.begin(), order.end(), 0);
  double traffic = 0;  // of those in shared memory
  for (std::size_t g = 0; g < workers; ++g) {
    const StageSummary& stage = summary.stages[g];
    WorkerThroughput row = {.first_stage = g == 0 ? 0 : group_ends[g - 1],
                            .end_stage = group_ends[g],
                            .delay = stage.forward_delay_updates};
    row.memory_bytes =
        WorkerBytes(setting.workload, row.first_stage, row.end_stage, setting.options.microbatch,
                    static_cast<double>(stage.weight_versions),
                    static_cast<double>(stage.activations_in_flight), setting.recomputes);
    for (int s = row.first_stage; s < row.end_stage; ++s) traffic_of[g] += StageTraffic(setting, s);
    traffic += traffic_of[g];
    layout.workers.push_back(row);
  }
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return traffic_of[a] * layout.workers[b].memory_bytes >
           traffic_of[b] * layout.workers[a].memory_bytes;
  });
  const bool has_shared = machine.shared_memory_bytes > 0;
  const bool has_local = machine.local_memory_bytes > 0 && !(has_shared && setting.launched);
  const auto cores = static_cast<std::int64_t>(machine.cores);
  std::vector<std::int64_t> minimums(workers, 1);
  std::vector<std::vector<CoreWork>> parts(workers);
  const auto place = [&](std::size_t g, bool local) {
    WorkerThroughput& row = layout.workers[g];
    parts[g] = PartsOf(setting, local, row.first_stage, row.end_stage);
    row.in_local_memory = local;
    if (local) minimums[g] = CoresFor(machine, row.memory_bytes);
  };
  const auto consider = [&] {
    if (std::accumulate(minimums.begin(), minimums.end(), std::int64_t{0}) > cores) return false;
    const std::vector<std::int64_t> allotted = AllotCores(parts, cores, minimums);
    layout.seconds =
        setting.measured || !has_shared ? 0 : traffic / machine.shared_bytes_per_second;
    for (std::size_t g = 0; g < workers; ++g) {
      layout.workers[g].cores = allotted[g];
      layout.seconds =
          std::max(layout.seconds, SecondsOn(parts[g], static_cast<double>(allotted[g])));
    }
    // Among equals the one with more in local memory is taken.
    if (layout.seconds <= best.seconds * (1 + 1e-12)) best = layout;
    return true;
  };
  for (std::size_t g = 0; g < workers; ++g) place(g, !has_shared);
  if (!consider()) {
    // It does not fit, and takes the time that it would take.
    minimums.assign(workers, 1);
    consider();
  }
  if (!has_shared || !has_local) return best;
  for (const std::size_t g : order) {
    place(g, true);
    traffic -= traffic_of[g];
    if (!consider()) break;
  }
  return best;
}

// The fastest layout: groups even by their work in either memory. Each can only gain by further cores,
// and so does the best.
Layout FastestLayout(const Setting& setting, const ScheduleSummary& summary) {
  const std::vector<int>& given = setting.options.group_ends;
  Layout best;
  for (const bool local : {true, false}) {
    if (setting.work(local).empty()) continue;
    if (!given.empty()) return Improved(setting, summary, best, given);
    std::vector<double> seconds;  // of each stage on one core
    seconds.reserve(setting.workload.stage_count());
    for (int s = 0; s < setting.workload.stage_count(); ++s) {
      seconds.push_back(SecondsOn(PartsOf(setting, local, s, s + 1), 1));
    }
    best = Improved(setting, summary, best, BalancedPartition(seconds, setting.workers));
  }
  return best;
}

void SetFits(const Machine& machine, std::vector<WorkerThroughput>& workers) {
  double in_shared = 0;
  for (const WorkerThroughput& worker : workers) {
    if (!worker.in_local_memory) in_shared += worker.memory_bytes;
  }
  for (WorkerThroughput& worker : workers) {
    worker.fits = worker.in_local_memory ? CoresFor(machine, worker.memory_bytes) <= worker.cores
                                         : in_shared <= machine.shared_memory_bytes;
  }
}

// Fills in a worker's times and what limits them, adds its traffic, and returns how many of its cores
// work on the average while it does.
double TimeWorker(const Setting& setting, WorkerThroughput& worker, Throughput& result) {
  double& bytes =
      worker.in_local_memory ? result.local_bytes_per_sample : result.shared_bytes_per_sample;
  PassSums sums;
  BoundTimes bounds{};
  for (int s = worker.first_stage; s < worker.end_stage; ++s) {
    AddStage(setting, s, worker, bounds, sums);
    bytes += StageTraffic(setting, s) / setting.b;
  }
  result.fabric_bytes_per_sample += sums.fabric_bytes;
  worker.bound = setting.measured ? Bound::kMeasured : LargestOf(bounds);
  return sums.seconds > 0 ? sums.core_seconds / sums.seconds : static_cast<double>(worker.cores);
}

// Fills in the times of messages and adds their traffic.
void TimeLinks(const Setting& setting, Throughput& result) {
  std::vector<WorkerThroughput>& workers = result.workers;
  if (workers.size() < 2) return;
  const Machine& machine = setting.machine;
  RefuseIf(machine.fabric_bytes_per_second <= 0, "fabric.bandwidth", "nothing",
           "a positive one, for a pipeline of more than one worker");
  for (std::size_t g = 0; g + 1 < workers.size(); ++g) {
    const StageCost& last = setting.workload.stages[workers[g].end_stage - 1];
    const double bytes = setting.b * static_cast<double>(last.boundary_bytes);
    const auto smaller = static_cast<double>(std::min(workers[g].cores, workers[g + 1].cores));
    const double links =
        machine.fabric_links > 1 ? std::min(smaller, std::ceil(std::sqrt(machine.cores))) : smaller;
    workers[g].link_seconds = bytes / (machine.link_bytes_per_second() * links);
    result.fabric_bytes_per_sample += 2 * bytes / setting.b;
  }
}

struct WholeRun {
  double seconds_per_sample = 0;
  double utilisation = 0;
};

// A run with its fill and drain: simulated for a short one, and a cycle for each that it is longer.
// Short ones are tried until as many cycles more as the slowest circuit goes through take its time:
// before, workers that are almost as slow can hold up the run. Where that takes very long, the run is
// said to take the little longer that cycles of the slowest make of it. `cycle_seconds`: a cycle's,
// with its wait for shared memory, which a simulation does not know.
WholeRun RunToTheEnd(const Setting& setting, const SteadyState& steady, const CycleTime& cycle,
                     double cycle_seconds, const PipelineTimes& times) {
  constexpr std::int64_t kMaxActions = 2'000'000;
  const std::int64_t samples = setting.options.samples;
  const std::int64_t samples_per_update = setting.per_update * setting.options.microbatch;
  RefuseIf(samples % samples_per_update != 0, "samples", samples,
           "a multiple of the " + std::to_string(samples_per_update) + " of an update");
  const std::int64_t microbatches = samples / setting.options.microbatch;
  const std::int64_t per_cycle = cycle.microbatches_per_cycle;
  const std::int64_t period = per_cycle * cycle.circuit_cycles;
  const auto seconds = [&](const Schedule& schedule) {
    return SimulatePipeline(schedule, {.times = times}).seconds;
  };
  std::int64_t transient = 2 * EnoughMicrobatches(setting.workers, setting.per_update);
  std::int64_t simulated = microbatches;
  Schedule schedule;
  double run_seconds = 0;
  while (true) {
    simulated =
        microbatches <= transient ? microbatches : transient + (microbatches - transient) % period;
    schedule = ScheduleOf(setting, simulated);
    run_seconds = seconds(schedule);
    if (simulated == microbatches || 6 * setting.workers * transient > kMaxActions) break;
    const double longer = seconds(ScheduleOf(setting, simulated + period));
    const double repeated = static_cast<double>(cycle.circuit_cycles) * cycle.seconds;
    if (longer - run_seconds > repeated * (1 - 1e-9)) break;
    transient *= 2;
  }

  const std::int64_t whole_cycles = (microbatches - simulated) / per_cycle;
  const auto cycles = static_cast<double>(whole_cycles);
  const double all_cycles = static_cast<double>(microbatches) / static_cast<double>(per_cycle);
  const double run =
      run_seconds + cycles * cycle.seconds + all_cycles * (cycle_seconds - cycle.seconds);
  const ScheduleSummary summary = Summarize(schedule);
  const double steps = static_cast<double>(summary.steps);
  const double all_steps = steps + cycles * static_cast<double>(steady.steps_per_cycle);
  return {
      .seconds_per_sample = run / static_cast<double>(samples),
      .utilisation = (summary.utilisation * steps +
                      steady.utilisation * cycles * static_cast<double>(steady.steps_per_cycle)) /
                     all_steps};
}

std::string BottleneckText(const Workload& workload, const std::vector<WorkerThroughput>& workers,
                           const CycleTime& cycle) {
  if (cycle.workers.size() == 1) {
    const WorkerThroughput& worker = workers[cycle.workers.front()];
    return StagesText(workload, worker.first_stage, worker.end_stage) + ": " +
           std::string(Name(worker.bound));
  }
  if (cycle.workers.empty()) {
    const int end = workers[cycle.boundary].end_stage;
    return "link from " + StagesText(workload, end - 1, end) + " to " +
           StagesText(workload, end, end + 1);
  }
  return std::to_string(cycle.workers.size()) + " workers that wait for one another, " +
         std::to_string(cycle.workers.front()) + " to " + std::to_string(cycle.workers.back());
}

// Seconds of a sample through all workers and back.
double LatencySeconds(const PipelineTimes& times) {
  double seconds = 0;
  for (std::size_t g = 0; g < times.stages.size(); ++g) {
    seconds += times.stages[g].forward_seconds + times.stages[g].backward_seconds;
    if (g + 1 == times.stages.size()) break;
    const int boundary = static_cast<int>(g);
    seconds += 2 * (times.message_seconds(boundary) + times.latency(boundary));
  }
  return seconds;
}

}  // namespace

Throughput PredictPipeline(const Workload& workload, const Machine& machine,
                           const ThroughputOptions& options) {
  const ScheduleKind& kind = FindScheduleKind(options.schedule);
  RefuseIf(!kind.one_stage_each, "schedule", options.schedule,
           "one in which a worker has one group of stages, as pipedream-flush");
  const int workers = WorkerCount(workload, machine, options);
  Setting setting{{.workload = workload,
                   .machine = machine,
                   .b = static_cast<double>(options.microbatch),
                   .recomputes = options.recompute,
                   .measured = Measured(workload, machine, workers),
                   .per_update = PerUpdate(options, kind, workers)},
                  options,
                  workers};
  setting.launched = setting.workers == 1 && machine.launch_seconds > 0 && !setting.measured;
  const Schedule schedule =
      ScheduleOf(setting, EnoughMicrobatches(setting.workers, setting.per_update));
  const SteadyState steady = FindSteadyState(schedule);
  setting.split = schedule.splits_backward();
  RefuseIf(setting.measured && setting.split, "schedule", options.schedule,
           "one that does not split the backward, whose times were measured whole");
  SetWork(setting);

  Throughput result;
  result.samples_per_update = setting.per_update * options.microbatch;
  const ScheduleSummary summary = Summarize(schedule);
  for (const StageSummary& stage : summary.stages) {
    RefuseIf(options.recompute && stage.forward_delay_updates != stage.backward_delay_updates,
             "recompute", "true",
             "false with " + options.schedule +
                 ", whose backwards do not read the weights of their forwards");
  }
  result.workers = FastestLayout(setting, summary).workers;
  SetFits(machine, result.workers);
  std::vector<double> working_cores;
  for (WorkerThroughput& worker : result.workers) {
    working_cores.push_back(TimeWorker(setting, worker, result));
    result.memory_bytes += worker.memory_bytes;
    result.fits = result.fits && worker.fits;
  }
  TimeLinks(setting, result);
  result.message_latency_seconds = setting.workers > 1 ? machine.fabric_latency_seconds : 0;

  const PipelineTimes times = result.times();
  const CycleTime cycle = ComputeCycleTime(steady, times);
  const double per_cycle = static_cast<double>(cycle.microbatches_per_cycle) * setting.b;
  // Shared memory serves one after the other.
  if (!setting.measured && result.shared_bytes_per_sample > 0) {
    result.shared_seconds_per_sample =
        result.shared_bytes_per_sample / machine.shared_bytes_per_second;
  }
  const double served = per_cycle * result.shared_seconds_per_sample;
  double cycle_seconds = std::max(cycle.seconds, served);
  double seconds_per_sample = cycle_seconds / per_cycle;
  result.utilisation = steady.utilisation;
  if (options.samples > 0) {
    const WholeRun run = RunToTheEnd(setting, steady, cycle, cycle_seconds, times);
    seconds_per_sample = run.seconds_per_sample;
    cycle_seconds = per_cycle * seconds_per_sample;
    result.utilisation = run.utilisation;
  }
  result.samples_per_second = 1 / seconds_per_sample;
  result.seconds_per_update = seconds_per_sample * static_cast<double>(result.samples_per_update);
  result.latency_seconds = LatencySeconds(times);
  double work = 0;
  double cores = 0;
  for (std::size_t g = 0; g < result.workers.size(); ++g) {
    work += working_cores[g] * cycle.busy_seconds[g];
    // The slowest worker's work is the cycle but for the rounding of its sum.
    result.workers[g].idle = std::max(0.0, 1 - cycle.busy_seconds[g] / cycle_seconds);
    cores += static_cast<double>(result.workers[g].cores);
  }
  result.busy = work / (cycle_seconds * std::max(cores, machine.cores));
  result.bottleneck =
      served > cycle.seconds ? "shared memory" : BottleneckText(workload, result.workers, cycle);
  Finish(workload, machine, result);
  return result;
}

}  // namespace batchless::hwmodel
