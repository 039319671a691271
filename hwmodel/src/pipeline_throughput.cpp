// A pipeline of workers, each a group of stages on cores of its own.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/core_allotment.h"
#include "batchless/hwmodel/cycle_time.h"
#include "batchless/hwmodel/partition.h"
#include "batchless/hwmodel/pipeline_simulation.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "batchless/hwmodel/steady_state.h"
#include "roofline.h"

namespace batchless::hwmodel {
namespace {

using analysis::InvalidArgument;

std::string StagesText(const Workload& workload, int first, int end) {
  const auto& names = workload.stage_names;
  std::string text =
      "stage " + std::to_string(first) + " " + names[static_cast<std::size_t>(first)];
  if (end - first == 1) return text;
  return text + " to " + std::to_string(end - 1) + " " + names[static_cast<std::size_t>(end - 1)];
}

class Pipeline {
 public:
  Pipeline(const Workload& workload, const Machine& machine, const ThroughputOptions& options)
      : workload_(workload),
        machine_(machine),
        options_(options),
        kind_(FindScheduleKind(options.schedule)),
        b_(static_cast<double>(options.microbatch)) {}

  Throughput Predict() {
    Group();
    const auto workers = static_cast<int>(ends_.size());
    const std::int64_t m = PerUpdate(workers);
    result_.samples_per_update = m * options_.microbatch;
    // Two cycles in which every worker does everything, for the fill and drain of any kind.
    const std::int64_t microbatches = kind_.updates_each ? 4 * workers + 4 : 4 * m;
    const Schedule schedule = Make(workers, microbatches, m);
    const SteadyState steady = FindSteadyState(schedule);
    const ScheduleSummary summary = Summarize(schedule);
    AllotMemory(summary);
    const PipelineTimes times = Times(schedule.splits_backward());
    const CycleTime cycle = ComputeCycleTime(steady, times);

    const auto per_cycle = static_cast<double>(cycle.microbatches_per_cycle);
    double seconds_per_sample = cycle.seconds / (per_cycle * b_);
    result_.utilisation = steady.utilisation;
    result_.seconds_per_update = seconds_per_sample * static_cast<double>(m) * b_;
    if (options_.samples > 0) WholeRun(steady, cycle, times, workers, m, seconds_per_sample);
    result_.samples_per_second = 1 / seconds_per_sample;
    const double cycle_seconds = per_cycle * b_ * seconds_per_sample;
    double work = 0;
    double cores = 0;
    for (std::size_t g = 0; g < ends_.size(); ++g) {
      const auto k = static_cast<double>(result_.workers[g].cores);
      work += working_cores_[g] * cycle.busy_seconds[g];
      // The slowest worker's work is the cycle but for the rounding of its sum.
      result_.workers[g].idle = std::max(0.0, 1 - cycle.busy_seconds[g] / cycle_seconds);
      cores += k;
      const StageTimes& stage = times.stages[g];
      result_.latency_seconds += stage.forward_seconds + stage.backward_seconds;
      if (g + 1 < ends_.size()) {
        result_.latency_seconds +=
            2 * (times.message_seconds(static_cast<int>(g)) + times.latency_seconds);
      }
    }
    result_.busy = work / (cycle_seconds * std::max(cores, machine_.cores));
    Describe(cycle);
    Finish(workload_, machine_, result_);
    return std::move(result_);
  }

 private:
  std::int64_t PerUpdate(int workers) const {
    const std::int64_t given = options_.microbatches_per_update;
    if (kind_.updates_each) {
      if (given <= 1) return 1;
      throw InvalidArgument("microbatches_per_update", static_cast<double>(given),
                            "0 or 1 with " + options_.schedule + ", which updates after each");
    }
    return given > 0 ? given : std::int64_t{4} * workers;
  }

  Schedule Make(int workers, std::int64_t microbatches, std::int64_t m) const {
    ScheduleOptions options = {.stages = workers,
                               .microbatches = microbatches,
                               .microbatches_per_update = kind_.updates_each ? 0 : m,
                               .weight_stashing = options_.weight_stashing};
    // One stage a worker: another number of them is another schedule.
    if (options_.schedule == "interleaved") options.chunks = 1;
    return MakeSchedule(options_.schedule, options);
  }

  void Group() {
    const int most = MostWorkers(workload_, machine_);
    const int given =
        options_.ends.empty() ? options_.workers : static_cast<int>(options_.ends.size());
    if (given > most) {
      throw InvalidArgument("workers", given,
                            "at most " + std::to_string(most) + ", the stages and cores there are");
    }
    const int workers = given > 0 ? given : most;
    measured_ = Measured(workload_, machine_, workers);
    work_ = WorkOf(workload_, machine_, b_, measured_);
    ends_ = options_.ends;
    if (ends_.empty()) {
      std::vector<double> seconds;
      for (const CoreWork& stage : work_) seconds.push_back(stage.seconds);
      ends_ = BalancedPartition(seconds, workers);
    }
    int first = 0;
    for (const int end : ends_) {
      result_.workers.push_back({.first_stage = first, .end_stage = end});
      first = end;
    }
  }

  double BoundaryBytes(std::size_t group) const {
    return b_ * static_cast<double>(
                    workload_.stages[static_cast<std::size_t>(ends_[group] - 1)].boundary_bytes);
  }

  // Memory of each worker, and cores enough to hold it where there are.
  void AllotMemory(const ScheduleSummary& summary) {
    std::vector<std::vector<CoreWork>> works;
    std::vector<std::int64_t> minimums;
    for (std::size_t g = 0; g < ends_.size(); ++g) {
      WorkerThroughput& worker = result_.workers[g];
      const StageSummary& stage = summary.stages[g];
      works.emplace_back(work_.begin() + worker.first_stage, work_.begin() + worker.end_stage);
      worker.memory_bytes = WorkerBytes(workload_, worker.first_stage, worker.end_stage, b_,
                                        static_cast<double>(stage.weight_versions),
                                        static_cast<double>(stage.activations_in_flight));
      result_.memory_bytes += worker.memory_bytes;
      const double share = machine_.core_memory_bytes();
      minimums.push_back(share > 0 ? std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(
                                                                   worker.memory_bytes / share)))
                                   : 1);
    }
    const auto cores = static_cast<std::int64_t>(machine_.cores);
    const std::int64_t least = std::accumulate(minimums.begin(), minimums.end(), std::int64_t{0});
    const bool all_local = machine_.local_memory_bytes > 0 && least <= cores;
    const std::vector<std::int64_t> allotted =
        all_local ? AllotCores(works, cores, minimums) : AllotCores(works, cores);
    result_.fits = all_local || result_.memory_bytes <= machine_.shared_memory_bytes;
    for (std::size_t g = 0; g < ends_.size(); ++g) {
      WorkerThroughput& worker = result_.workers[g];
      worker.cores = allotted[g];
      worker.in_local_memory = machine_.shared_memory_bytes == 0 ||
                               (machine_.local_memory_bytes > 0 && minimums[g] <= allotted[g]);
      worker.fits = result_.fits || minimums[g] <= allotted[g];
    }
  }

  PipelineTimes Times(bool split) {
    PipelineTimes times;
    times.latency_seconds = ends_.size() > 1 ? machine_.fabric_latency_seconds : 0;
    if (measured_ && split) {
      throw InvalidArgument(
          "schedule", options_.schedule,
          "one that does not split the backward, whose times were measured whole");
    }
    for (std::size_t g = 0; g < ends_.size(); ++g) {
      WorkerThroughput& worker = result_.workers[g];
      const auto k = static_cast<double>(worker.cores);
      double core_seconds = 0;
      double by_flops = 0;
      double by_bytes = 0;
      for (int s = worker.first_stage; s < worker.end_stage; ++s) {
        const auto index = static_cast<std::size_t>(s);
        const double sharing = std::min(k, work_[index].most_cores);
        const double flops_per_second = sharing * machine_.core_flops_per_second();
        const double bandwidth = worker.in_local_memory
                                     ? sharing / machine_.cores * machine_.local_bytes_per_second
                                     : k / machine_.cores * machine_.shared_bytes_per_second;
        const Passes passes = PassesOf(workload_, index, b_, split);
        for (std::size_t kind = 0; kind < passes.size(); ++kind) {
          const Pass& pass = passes[kind];
          by_flops += pass.flops / flops_per_second;
          by_bytes += pass.bytes / bandwidth;
          const bool is_update = static_cast<ActionKind>(kind) == ActionKind::kUpdate;
          const double samples = is_update ? static_cast<double>(result_.samples_per_update) : b_;
          (worker.in_local_memory ? result_.local_bytes_per_sample
                                  : result_.shared_bytes_per_sample) += pass.bytes / samples;
        }
        const StageTimes stage = measured_ ? MeasuredTimes(*measured_, index, b_)
                                           : TimesOf(passes, flops_per_second, bandwidth);
        core_seconds += sharing * Sum(stage);
        Add(worker.times, stage);
      }
      const double seconds = Sum(worker.times);
      working_cores_.push_back(seconds > 0 ? core_seconds / seconds : k);
      worker.bound = measured_                ? Bound::kMeasured
                     : by_flops >= by_bytes   ? Bound::kCompute
                     : worker.in_local_memory ? Bound::kLocalMemory
                                              : Bound::kSharedMemory;
      times.stages.push_back(worker.times);
    }
    AddLinks(times);
    return times;
  }

  void AddLinks(PipelineTimes& times) {
    if (ends_.size() < 2) return;
    if (machine_.fabric_bytes_per_second <= 0) {
      throw InvalidArgument("fabric.bandwidth", "nothing",
                            "a positive one, for a pipeline of more than one worker");
    }
    const double per_core = machine_.fabric_bytes_per_second / machine_.cores;
    for (std::size_t g = 0; g + 1 < ends_.size(); ++g) {
      const auto smaller =
          static_cast<double>(std::min(result_.workers[g].cores, result_.workers[g + 1].cores));
      const double links = std::min(smaller, std::ceil(std::sqrt(machine_.cores)));
      const double seconds = BoundaryBytes(g) / (per_core * links);
      result_.workers[g].link_seconds = seconds;
      times.link_seconds.push_back(seconds);
      result_.fabric_bytes_per_sample += 2 * BoundaryBytes(g) / b_;
    }
  }

  // Fill and drain of a run: simulated for a short one, and a cycle for each that it is longer.
  void WholeRun(const SteadyState& steady, const CycleTime& cycle, const PipelineTimes& times,
                int workers, std::int64_t m, double& seconds_per_sample) {
    const std::int64_t per_update = m * options_.microbatch;
    if (options_.samples % per_update != 0) {
      throw InvalidArgument("samples", static_cast<double>(options_.samples),
                            "a multiple of the " + std::to_string(per_update) + " of an update");
    }
    const std::int64_t microbatches = options_.samples / options_.microbatch;
    const std::int64_t per_cycle = cycle.microbatches_per_cycle;
    const std::int64_t settled =
        (kind_.updates_each ? std::int64_t{8} * workers + 8 : std::int64_t{8} * m);
    const std::int64_t simulated =
        microbatches <= settled ? microbatches : settled + (microbatches - settled) % per_cycle;
    const Schedule schedule = Make(workers, simulated, m);
    const SimulationSummary run = SimulatePipeline(schedule, {.times = times});

    const std::int64_t whole_cycles = (microbatches - simulated) / per_cycle;
    const auto cycles = static_cast<double>(whole_cycles);
    seconds_per_sample =
        (run.seconds + cycles * cycle.seconds) / static_cast<double>(options_.samples);
    const ScheduleSummary summary = Summarize(schedule);
    const double steps = static_cast<double>(summary.steps);
    const double all_steps = steps + cycles * static_cast<double>(steady.steps_per_cycle);
    result_.utilisation =
        (summary.utilisation * steps +
         steady.utilisation * cycles * static_cast<double>(steady.steps_per_cycle)) /
        all_steps;
  }

  void Describe(const CycleTime& cycle) {
    if (cycle.bottleneck == BottleneckKind::kWorker) {
      const WorkerThroughput& worker = result_.workers[static_cast<std::size_t>(cycle.worker)];
      result_.bottleneck = StagesText(workload_, worker.first_stage, worker.end_stage) + ": " +
                           std::string(Name(worker.bound));
      return;
    }
    if (cycle.bottleneck == BottleneckKind::kLink) {
      const int end = ends_[static_cast<std::size_t>(cycle.boundary)];
      result_.bottleneck = "link from " + StagesText(workload_, end - 1, end) + " to " +
                           StagesText(workload_, end, end + 1);
      return;
    }
    result_.bottleneck =
        std::to_string(cycle.workers.size()) + " workers that wait for one another, " +
        std::to_string(cycle.workers.front()) + " to " + std::to_string(cycle.workers.back());
  }

  const Workload& workload_;
  const Machine& machine_;
  const ThroughputOptions& options_;
  const ScheduleKind& kind_;
  double b_;
  std::optional<MeasuredNetwork> measured_;
  std::vector<CoreWork> work_;         // by stage
  std::vector<double> working_cores_;  // by worker, on the average while it works
  std::vector<int> ends_;              // by worker
  Throughput result_;
};

}  // namespace

Throughput PredictPipeline(const Workload& workload, const Machine& machine,
                           const ThroughputOptions& options) {
  return Pipeline(workload, machine, options).Predict();
}

}  // namespace batchless::hwmodel
