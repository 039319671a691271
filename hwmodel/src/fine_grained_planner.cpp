#include "batchless/hwmodel/fine_grained_planner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "batchless/analysis/cancellation.h"
#include "batchless/hwmodel/core_allotment.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "checks.h"
#include "roofline.h"

namespace batchless::hwmodel {
namespace {

constexpr std::size_t kPasses = kActionKinds.size();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void Check(const Workload& workload, const Machine& machine, const FineGrainedOptions& options) {
  Validate(machine);
  RefuseIf(!FindScheduleKind(options.schedule).updates_each, "schedule", options.schedule,
           "pb or 1f1b, which never drain");
  CheckAtLeastOne("microbatch", options.microbatch);
  RefuseIf(!(options.slack >= 0 && options.slack < 1), "slack", options.slack,
           "a number from 0 up to 1");
  const int most = MostWorkers(workload, machine);
  for (const int workers : options.workers) {
    RefuseIf(workers < 1 || workers > most, "workers", workers,
             "1 to " + std::to_string(most) + ", the stages and cores there are");
  }
}

// The dynamic program for W workers; h of them are behind the one in question.
class Partitioner {
 public:
  Partitioner(const Workload& workload, const Machine& machine, const FineGrainedOptions& options,
              const ScheduleSummary& summary)
      : stages_(workload.stage_count()),
        workers_(static_cast<int>(summary.stages.size())),
        cores_(machine.cores),
        core_memory_(machine.core_memory_bytes()),
        summary_(summary) {
    const std::int64_t b = options.microbatch;
    Execution execution{.workload = workload,
                        .machine = machine,
                        .b = static_cast<double>(b),
                        .launched = workers_ == 1 && machine.launch_seconds > 0,
                        .measured = Measured(workload, machine, workers_)};
    SetWork(execution);
    work_ = PartsOf(execution, /*local=*/machine.local_memory_bytes > 0, 0, stages_);
    if (machine.shared_memory_bytes > 0) shared_work_ = PartsOf(execution, false, 0, stages_);
    for (int begin = 0; begin < stages_; ++begin) {
      for (int end = begin + 1; end <= stages_; ++end) {
        const double fixed = WorkerBytes(workload, begin, end, b, 0, 0);
        bytes_.push_back({.fixed = fixed,
                          .version = WorkerBytes(workload, begin, end, b, 1, 0) - fixed,
                          .in_flight = WorkerBytes(workload, begin, end, b, 0, 1) - fixed});
      }
    }
    fewest_.resize(static_cast<std::size_t>(workers_) * stages_);
    ends_.resize(fewest_.size());
  }

  std::vector<int> Best() {
    Tabulate();
    if (FewestCores(kInfinity) > cores_) {
      core_memory_ = 0;
      if (!shared_work_.empty()) {
        work_ = shared_work_;
        Tabulate();
      }
    }
    // P cores take a P-th of one core's time at least, W workers of one core no more than all of it.
    double high = SecondsOn(work_, 1) * (1 + 1e-12);
    RefuseIf(!(high > 0), "cost", 0, "a network that takes time");
    double low = high / cores_ * (1 - 1e-11);
    while (high / low > 1 + 1e-12) {
      const double middle = std::sqrt(low * high);
      (FewestCores(middle) <= cores_ ? high : low) = middle;
    }
    FewestCores(high);
    std::vector<int> group_ends;
    for (int h = workers_ - 1, begin = 0; h >= 0; --h) {
      begin = ends_[Place(h, begin)];
      group_ends.push_back(begin);
    }
    return group_ends;
  }

 private:
  // What a group of stages keeps is linear in its weight versions and micro-batches in flight.
  struct Bytes {
    double fixed;
    double version;
    double in_flight;
  };

  std::size_t Place(int h, int begin) const {
    return static_cast<std::size_t>(h) * stages_ + begin;
  }

  // Groups of stages that begin at 0, 1, .. come one after the other.
  std::size_t Group(int begin, int end) const {
    return static_cast<std::size_t>(begin) * (2 * stages_ - begin + 1) / 2 + end - begin - 1;
  }

  // Seconds of the first stages on so many cores, all numbers of cores up to 1024 and from there on a
  // thousandth apart: of any group, and so the fewest cores for a time, at no cost.
  void Tabulate() {
    constexpr double kFine = 1024;
    const double most = std::min(std::ceil(MostCores(work_)), cores_);
    counts_.clear();
    seconds_.clear();
    for (double cores = 1;; cores = std::min(most, std::ceil(cores * (1 + 1 / kFine)))) {
      counts_.push_back(cores);
      double sum = 0;
      seconds_.push_back(0);
      for (int s = 0; s < stages_; ++s) {
        sum += SecondsOn(std::span(work_).subspan(kPasses * s, kPasses), cores);
        seconds_.push_back(sum);
      }
      if (cores >= most) return;
    }
  }

  double Seconds(std::size_t count, int begin, int end) const {
    const std::size_t row = count * (static_cast<std::size_t>(stages_) + 1);
    return seconds_[row + end] - seconds_[row + begin];
  }

  // The first of counts_ from `from` on that does the stages in that time; counts_.size(): none.
  std::size_t FewestWithin(std::size_t from, int begin, int end, double period) const {
    std::size_t low = from;
    std::size_t high = from;
    for (std::size_t step = 1; high < counts_.size() && Seconds(high, begin, end) > period;) {
      low = high + 1;
      high += step;
      step *= 2;
    }
    high = std::min(high, counts_.size());
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (Seconds(middle, begin, end) <= period) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return high;
  }

  double Need(int begin, int end, int h, double cores) const {
    if (core_memory_ > 0) {
      const Bytes& bytes = bytes_[Group(begin, end)];
      const StageSummary& worker = summary_.stages[workers_ - 1 - h];
      const double kept = bytes.fixed +
                          static_cast<double>(worker.weight_versions) * bytes.version +
                          static_cast<double>(worker.activations_in_flight) * bytes.in_flight;
      cores = std::max(cores, std::ceil(kept / core_memory_));
    }
    return cores;
  }

  // Cores that all workers take for a period; keeps where each worker ends.
  double FewestCores(double period) {
    for (int h = 0; h < workers_; ++h) {
      // Each of the workers before and behind has a stage at least.
      for (int begin = workers_ - 1 - h; begin < stages_ - h; ++begin) {
        analysis::CheckCancellation();
        double fewest = kInfinity;
        int best = stages_;
        std::size_t count = 0;
        // The last worker ends with the last stage.
        for (int end = h == 0 ? stages_ : begin + 1; end <= stages_ - h; ++end) {
          // Further stages need no fewer cores.
          count = FewestWithin(count, begin, end, period);
          if (count == counts_.size() || counts_[count] >= fewest) break;
          const double behind = h == 0 ? 0 : fewest_[Place(h - 1, end)];
          if (behind >= fewest) continue;
          const double cores = behind + Need(begin, end, h, counts_[count]);
          if (cores < fewest) {
            fewest = cores;
            best = end;
          }
        }
        fewest_[Place(h, begin)] = fewest;
        ends_[Place(h, begin)] = best;
      }
    }
    return fewest_[Place(workers_ - 1, 0)];
  }

  int stages_;
  int workers_;
  double cores_;
  double core_memory_;  // 0: needs no cores
  const ScheduleSummary& summary_;
  std::vector<CoreWork> work_;  // of each stage kPasses parts, in the memory that it is for
  std::vector<CoreWork> shared_work_;
  std::vector<Bytes> bytes_;     // by group of consecutive stages
  std::vector<double> counts_;   // of cores
  std::vector<double> seconds_;  // by count, then by stages from the first one on
  std::vector<double> fewest_;   // cores from a stage on
  std::vector<int> ends_;        // of the worker that begins there
};

bool IsBetter(const Throughput& a, const Throughput& b) {
  if (a.fits != b.fits) return a.fits;
  return a.samples_per_second > b.samples_per_second;
}

}  // namespace

FineGrainedPlan PlanFineGrained(const Workload& workload, const Machine& machine,
                                const FineGrainedOptions& options) {
  Check(workload, machine, options);
  std::set<int> counts(options.workers.begin(), options.workers.end());
  if (counts.empty()) {
    const int most = MostWorkers(workload, machine);
    for (int workers = 1; workers < most; workers *= 2) counts.insert(workers);
    counts.insert(most);
  }

  FineGrainedPlan plan;
  for (const int workers : counts) {
    const ScheduleSummary summary =
        Summarize(MakeSchedule(options.schedule, {.stages = workers,
                                                  .microbatches = EnoughMicrobatches(workers, 1),
                                                  .weight_stashing = options.weight_stashing}));
    ThroughputOptions predicted = {.schedule = options.schedule,
                                   .microbatch = options.microbatch,
                                   .workers = workers,
                                   .weight_stashing = options.weight_stashing};
    Throughput even = PredictThroughput(workload, machine, predicted);
    predicted.group_ends = Partitioner(workload, machine, options, summary).Best();
    Throughput partitioned = PredictThroughput(workload, machine, predicted);
    plan.layouts.push_back(std::move(IsBetter(even, partitioned) ? even : partitioned));
  }
  const Throughput& fastest = *std::ranges::min_element(plan.layouts, IsBetter);
  const auto best = std::ranges::find_if(plan.layouts, [&](const Throughput& layout) {
    return layout.fits == fastest.fits &&
           layout.samples_per_second >= (1 - options.slack) * fastest.samples_per_second;
  });
  plan.best = static_cast<std::size_t>(best - plan.layouts.begin());
  return plan;
}

}  // namespace batchless::hwmodel
