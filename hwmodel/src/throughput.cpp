#include "batchless/hwmodel/throughput.h"

#include <string>

#include "batchless/analysis/argument.h"
#include "roofline.h"

namespace batchless::hwmodel {
namespace {

using analysis::InvalidArgument;

void Check(const Workload& workload, const ThroughputOptions& options) {
  const auto require = [](bool holds, const char* name, double value, std::string_view accepted) {
    if (!holds) throw InvalidArgument(name, value, accepted);
  };
  require(options.microbatch >= 1, "microbatch", static_cast<double>(options.microbatch),
          "an integer >= 1");
  require(options.microbatches_per_update >= 0, "microbatches_per_update",
          static_cast<double>(options.microbatches_per_update), "an integer >= 0");
  require(options.workers >= 0 && options.workers <= workload.stage_count(), "workers",
          options.workers, "0, or 1 to the " + std::to_string(workload.stage_count()) + " stages");
  if (!options.ends.empty()) {
    int before = 0;
    for (const int end : options.ends) {
      require(end > before, "ends", end, "more than the " + std::to_string(before) + " before it");
      before = end;
    }
    require(before == workload.stage_count(), "ends", before,
            "the " + std::to_string(workload.stage_count()) + " stages at last");
    require(options.workers == 0 || std::ssize(options.ends) == options.workers, "workers",
            options.workers, "0 or " + std::to_string(options.ends.size()) + ", as there are ends");
    require(options.schedule != kSequential, "ends", before, "none with sequential");
  }
  require(options.samples >= 0, "samples", static_cast<double>(options.samples), "an integer >= 0");
}

}  // namespace

std::string_view Name(Bound bound) {
  switch (bound) {
    case Bound::kCompute:
      return "compute";
    case Bound::kLocalMemory:
      return "local memory";
    case Bound::kSharedMemory:
      return "shared memory";
    case Bound::kFabric:
      return "fabric";
    case Bound::kLaunch:
      return "launch";
    case Bound::kMeasured:
      return "measured";
  }
  return "";
}

PipelineTimes Throughput::times() const {
  PipelineTimes times;
  times.latency_seconds = message_latency_seconds;
  for (const WorkerThroughput& worker : workers) {
    if (!times.stages.empty())
      times.link_seconds.push_back(workers[times.stages.size() - 1].link_seconds);
    times.stages.push_back(worker.times);
  }
  return times;
}

Throughput PredictThroughput(const Workload& workload, const Machine& machine,
                             const ThroughputOptions& options) {
  Validate(machine);
  Check(workload, options);
  if (options.schedule == kSequential) return PredictSequential(workload, machine, options);
  return PredictPipeline(workload, machine, options);
}

}  // namespace batchless::hwmodel
