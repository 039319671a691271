// A pipeline of workers, each a group of stages on cores of its own.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
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
    if (options_.schedule == "interleaved") {
      throw InvalidArgument("schedule", options_.schedule,
                            "one in which a worker has one group of stages, as pipedream-flush");
    }
    const int workers = WorkerCount();
    measured_ = Measured(workload_, machine_, workers);
    const std::int64_t m = PerUpdate(workers);
    result_.samples_per_update = m * options_.microbatch;
    // Two cycles in which every worker does everything, for the fill and drain of any kind.
    const std::int64_t microbatches = kind_.updates_each ? 4 * workers + 4 : 4 * m;
    const Schedule schedule = Make(workers, microbatches, m);
    const SteadyState steady = FindSteadyState(schedule);
    split_ = schedule.splits_backward();
    Allot(Summarize(schedule), workers);
    FillTimes();
    const PipelineTimes times = result_.times();
    const CycleTime cycle = ComputeCycleTime(steady, times);

    const auto per_cycle = static_cast<double>(cycle.microbatches_per_cycle);
    result_.utilisation = steady.utilisation;
    // Shared memory serves one after the other.
    if (!measured_ && result_.shared_bytes_per_sample > 0) {
      result_.shared_seconds_per_sample =
          result_.shared_bytes_per_sample / machine_.shared_bytes_per_second;
    }
    const double served = per_cycle * b_ * result_.shared_seconds_per_sample;
    const bool is_served = served > cycle.seconds;
    double cycle_seconds = std::max(cycle.seconds, served);
    double seconds_per_sample = cycle_seconds / (per_cycle * b_);
    if (options_.samples > 0) {
      seconds_per_sample = WholeRun(steady, cycle, cycle_seconds, times, workers, m);
      cycle_seconds = per_cycle * b_ * seconds_per_sample;
    }
    result_.samples_per_second = 1 / seconds_per_sample;
    result_.seconds_per_update =
        seconds_per_sample * static_cast<double>(result_.samples_per_update);
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
    if (is_served) {
      result_.bottleneck = "shared memory";
    } else {
      Describe(cycle);
    }
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
    return MakeSchedule(options_.schedule, options);
  }

  int WorkerCount() const {
    const int most = MostWorkers(workload_, machine_);
    const int given =
        options_.ends.empty() ? options_.workers : static_cast<int>(options_.ends.size());
    if (given > most) {
      throw InvalidArgument("workers", given,
                            "at most " + std::to_string(most) + ", the stages and cores there are");
    }
    return given > 0 ? given : most;
  }

  double BoundaryBytes(std::size_t group) const {
    return b_ * static_cast<double>(
                    workload_.stages[static_cast<std::size_t>(ends_[group] - 1)].boundary_bytes);
  }

  // One way to lay the stages out. Those in `local` memory have the cores that it takes.
  struct Layout {
    double seconds = std::numeric_limits<double>::infinity();  // of a micro-batch, without links
    std::vector<int> ends{};
    std::vector<bool> local{};
    std::vector<std::int64_t> cores{};
  };

  // The fastest layout: groups even by their work in either memory, and of these in local memory
  // none, or the one that has most use of it, or the two ... Each can only gain by further cores, and
  // so does the best.
  void Allot(const ScheduleSummary& summary, int workers) {
    const bool has_local = machine_.local_memory_bytes > 0;
    const bool has_shared = machine_.shared_memory_bytes > 0;
    for (const Memory memory : {Memory::kLocal, Memory::kShared}) {
      if (!(memory == Memory::kLocal ? has_local : has_shared)) continue;
      WorkIn(memory) = WorkOf(workload_, machine_, b_, split_, memory,
                              IsLaunched(static_cast<std::size_t>(workers)), measured_);
    }
    Layout best;
    for (const Memory memory : {Memory::kLocal, Memory::kShared}) {
      if (WorkIn(memory).empty()) continue;
      Layout layout;
      layout.ends = !options_.ends.empty()
                        ? options_.ends
                        : BalancedPartition(OneCoreSeconds(WorkIn(memory)), workers);
      Improve(best, layout, summary);
      if (!options_.ends.empty()) break;
    }
    ends_ = best.ends;
    int first = 0;
    double in_shared = 0;
    bool all_fit = true;
    for (std::size_t g = 0; g < ends_.size(); ++g) {
      WorkerThroughput worker = {.first_stage = first, .end_stage = ends_[g]};
      worker.cores = best.cores[g];
      worker.memory_bytes = BytesOf(summary, g, first, ends_[g]);
      worker.in_local_memory = best.local[g];
      worker.fits = worker.in_local_memory && CoresFor(worker.memory_bytes) <= worker.cores;
      if (!worker.in_local_memory) in_shared += worker.memory_bytes;
      all_fit = all_fit && (worker.fits || !worker.in_local_memory);
      result_.memory_bytes += worker.memory_bytes;
      result_.workers.push_back(worker);
      first = ends_[g];
    }
    const bool shared_fits = in_shared <= machine_.shared_memory_bytes;
    result_.fits = all_fit && shared_fits;
    for (WorkerThroughput& worker : result_.workers) {
      worker.fits = worker.fits || (!worker.in_local_memory && shared_fits);
    }
  }

  void Improve(Layout& best, Layout layout, const ScheduleSummary& summary) {
    const std::size_t workers = layout.ends.size();
    struct Use {
      double traffic = 0;  // bytes of a micro-batch
      double memory = 0;   // bytes
    };
    std::vector<Use> uses(workers);
    std::vector<std::size_t> order(workers);
    std::iota(order.begin(), order.end(), 0);
    double traffic = 0;  // of those in shared memory
    for (std::size_t g = 0; g < workers; ++g) {
      const int first = g == 0 ? 0 : layout.ends[g - 1];
      uses[g].memory = BytesOf(summary, g, first, layout.ends[g]);
      for (int s = first; s < layout.ends[g]; ++s) uses[g].traffic += StageTraffic(s);
      traffic += uses[g].traffic;
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return uses[a].traffic * uses[b].memory > uses[b].traffic * uses[a].memory;
    });
    const bool has_shared = machine_.shared_memory_bytes > 0;
    const bool has_local = machine_.local_memory_bytes > 0 && !(has_shared && IsLaunched(workers));
    const auto cores = static_cast<std::int64_t>(machine_.cores);
    layout.local.assign(workers, false);
    std::vector<std::int64_t> minimums(workers, 1);
    std::vector<std::vector<CoreWork>> parts(workers);
    const auto place = [&](std::size_t g, Memory memory) {
      const int first = g == 0 ? 0 : layout.ends[g - 1];
      parts[g] = PartsOf(WorkIn(memory), first, layout.ends[g]);
      layout.local[g] = memory == Memory::kLocal;
      if (layout.local[g]) minimums[g] = CoresFor(uses[g].memory);
    };
    const auto consider = [&] {
      if (std::accumulate(minimums.begin(), minimums.end(), std::int64_t{0}) > cores) return false;
      layout.cores = AllotCores(parts, cores, minimums);
      layout.seconds = measured_ || !has_shared ? 0 : traffic / machine_.shared_bytes_per_second;
      for (std::size_t g = 0; g < workers; ++g) {
        layout.seconds =
            std::max(layout.seconds, SecondsOn(parts[g], static_cast<double>(layout.cores[g])));
      }
      // Of equals the one with more in local memory.
      if (layout.seconds <= best.seconds * (1 + 1e-12)) best = layout;
      return true;
    };
    if (has_shared) {
      for (std::size_t g = 0; g < workers; ++g) place(g, Memory::kShared);
      consider();
      if (!has_local) return;
      for (const std::size_t g : order) {
        place(g, Memory::kLocal);
        traffic -= uses[g].traffic;
        if (!consider()) return;
      }
      return;
    }
    for (std::size_t g = 0; g < workers; ++g) place(g, Memory::kLocal);
    if (consider()) return;
    // It does not fit, and takes the time that it would take.
    minimums.assign(workers, 1);
    consider();
  }

  std::vector<StageWork>& WorkIn(Memory memory) { return work_[static_cast<std::size_t>(memory)]; }

  double BytesOf(const ScheduleSummary& summary, std::size_t g, int first, int end) const {
    const StageSummary& stage = summary.stages[g];
    return WorkerBytes(workload_, first, end, b_, static_cast<double>(stage.weight_versions),
                       static_cast<double>(stage.activations_in_flight));
  }

  // Cores with as much local memory.
  std::int64_t CoresFor(double bytes) const {
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::ceil(bytes / machine_.core_memory_bytes())));
  }

  double UpdatesPerMicrobatch() const {
    return b_ / static_cast<double>(result_.samples_per_update);
  }

  // Bytes of all passes of a stage for a micro-batch, with its part of the update's.
  double StageTraffic(int s) const {
    const Passes passes = PassesOf(workload_, static_cast<std::size_t>(s), b_, split_);
    double bytes = 0;
    for (std::size_t kind = 0; kind < passes.size(); ++kind) {
      const bool is_update = kActionKinds[kind] == ActionKind::kUpdate;
      bytes += passes[kind].bytes * (is_update ? UpdatesPerMicrobatch() : 1);
    }
    return bytes;
  }

  // One worker that does everything is the machine, operation after operation.
  bool IsLaunched(std::size_t workers) const {
    return workers == 1 && machine_.launch_seconds > 0 && !measured_;
  }

  void FillTimes() {
    result_.message_latency_seconds = ends_.size() > 1 ? machine_.fabric_latency_seconds : 0;
    if (measured_ && split_) {
      throw InvalidArgument(
          "schedule", options_.schedule,
          "one that does not split the backward, whose times were measured whole");
    }
    for (WorkerThroughput& worker : result_.workers) {
      const auto k = static_cast<double>(worker.cores);
      const bool local = worker.in_local_memory;
      const std::vector<StageWork>& work = WorkIn(local ? Memory::kLocal : Memory::kShared);
      // Of a micro-batch, with its part of the update.
      double core_seconds = 0;
      double seconds = 0;
      BoundTimes bounds;
      for (int s = worker.first_stage; s < worker.end_stage; ++s) {
        const auto index = static_cast<std::size_t>(s);
        const double sharing = std::min(k, MostCores(workload_, index, b_));
        const double bandwidth = local ? sharing / machine_.cores * machine_.local_bytes_per_second
                                       : machine_.shared_bytes_per_second;
        const Passes passes = PassesOf(workload_, index, b_, split_);
        const StageTimes times = TimesOn(work[index], k);
        const StageTimes launches = IsLaunched(ends_.size())
                                        ? LaunchesOf(workload_, machine_, index, split_)
                                        : StageTimes();
        Add(worker.times, times);
        Add(worker.times, launches);
        (local ? result_.local_bytes_per_sample : result_.shared_bytes_per_sample) +=
            StageTraffic(s) / b_;
        for (const ActionKind kind : kActionKinds) {
          const CoreWork& part = work[index][static_cast<std::size_t>(kind)];
          if (!IsLaunched(ends_.size()) && IsShared(part, k)) {
            result_.fabric_bytes_per_sample += ExchangedBytes(workload_, index, kind);
          }
          const double weight = kind == ActionKind::kUpdate ? UpdatesPerMicrobatch() : 1;
          core_seconds += weight * CoresUsed(part, k) * SecondsOn({&part, 1}, k);
          bounds.Add(passes[static_cast<std::size_t>(kind)], part, k,
                     sharing * machine_.core_flops_per_second(), bandwidth, weight);
          bounds.launch += weight * launches.seconds(kind);
          seconds += weight * (times.seconds(kind) + launches.seconds(kind));
        }
      }
      working_cores_.push_back(seconds > 0 ? core_seconds / seconds : k);
      worker.bound = measured_ ? Bound::kMeasured : bounds.Largest(local);
    }
    FillLinks();
  }

  void FillLinks() {
    if (ends_.size() < 2) return;
    if (machine_.fabric_bytes_per_second <= 0) {
      throw InvalidArgument("fabric.bandwidth", "nothing",
                            "a positive one, for a pipeline of more than one worker");
    }
    for (std::size_t g = 0; g + 1 < ends_.size(); ++g) {
      const auto smaller =
          static_cast<double>(std::min(result_.workers[g].cores, result_.workers[g + 1].cores));
      const double links = machine_.fabric_links > 1
                               ? std::min(smaller, std::ceil(std::sqrt(machine_.cores)))
                               : smaller;
      result_.workers[g].link_seconds =
          BoundaryBytes(g) / (machine_.link_bytes_per_second() * links);
      result_.fabric_bytes_per_sample += 2 * BoundaryBytes(g) / b_;
    }
  }

  // Seconds of a sample of a run with its fill and drain: simulated for a short one, and a cycle for
  // each that it is longer. Short ones are tried until as many cycles more as the slowest circuit goes
  // through take its time: before, workers that are almost as slow can hold up the run. Where that
  // takes very long, the run is said to take the little longer that cycles of the slowest make of it.
  // `cycle_seconds`: a cycle's, with its wait for shared memory, which a simulation does not know.
  double WholeRun(const SteadyState& steady, const CycleTime& cycle, double cycle_seconds,
                  const PipelineTimes& times, int workers, std::int64_t m) {
    constexpr std::int64_t kMaxActions = 2'000'000;
    const std::int64_t per_update = m * options_.microbatch;
    if (options_.samples % per_update != 0) {
      throw InvalidArgument("samples", static_cast<double>(options_.samples),
                            "a multiple of the " + std::to_string(per_update) + " of an update");
    }
    const std::int64_t microbatches = options_.samples / options_.microbatch;
    const std::int64_t per_cycle = cycle.microbatches_per_cycle;
    const std::int64_t period = per_cycle * cycle.circuit_cycles;
    const auto seconds = [&](const Schedule& schedule) {
      return SimulatePipeline(schedule, {.times = times}).seconds;
    };
    std::int64_t settled = kind_.updates_each ? std::int64_t{8} * workers + 8 : std::int64_t{8} * m;
    std::int64_t simulated = microbatches;
    Schedule schedule;
    double run_seconds = 0;
    while (true) {
      simulated =
          microbatches <= settled ? microbatches : settled + (microbatches - settled) % period;
      schedule = Make(workers, simulated, m);
      run_seconds = seconds(schedule);
      if (simulated == microbatches || 6 * workers * settled > kMaxActions) break;
      const double longer = seconds(Make(workers, simulated + period, m));
      const double repeated = static_cast<double>(cycle.circuit_cycles) * cycle.seconds;
      if (longer - run_seconds > repeated * (1 - 1e-9)) break;
      settled *= 2;
    }

    const std::int64_t whole_cycles = (microbatches - simulated) / per_cycle;
    const auto cycles = static_cast<double>(whole_cycles);
    const double all_cycles = static_cast<double>(microbatches) / static_cast<double>(per_cycle);
    const double run =
        run_seconds + cycles * cycle.seconds + all_cycles * (cycle_seconds - cycle.seconds);
    const ScheduleSummary summary = Summarize(schedule);
    const double steps = static_cast<double>(summary.steps);
    const double all_steps = steps + cycles * static_cast<double>(steady.steps_per_cycle);
    result_.utilisation =
        (summary.utilisation * steps +
         steady.utilisation * cycles * static_cast<double>(steady.steps_per_cycle)) /
        all_steps;
    return run / static_cast<double>(options_.samples);
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
  bool split_ = false;
  std::array<std::vector<StageWork>, 2> work_;  // by memory, then by stage; empty: none
  std::vector<double> working_cores_;           // by worker, on the average while it works
  std::vector<int> ends_;                       // by worker
  Throughput result_;
};

}  // namespace

Throughput PredictPipeline(const Workload& workload, const Machine& machine,
                           const ThroughputOptions& options) {
  return Pipeline(workload, machine, options).Predict();
}

}  // namespace batchless::hwmodel
