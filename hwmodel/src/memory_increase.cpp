#include "batchless/hwmodel/memory_increase.h"

#include <string>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/scheme_memory.h"

namespace batchless::hwmodel {

using analysis::InvalidArgument;

MemoryIncrease PredictMemoryIncrease(const Workload& workload, std::span<const int> ends,
                                     const MemoryIncreaseOptions& options) {
  if (ends.size() < 2) {
    throw InvalidArgument("ends", std::to_string(ends.size()) + " groups", "two or more");
  }
  if (options.minibatch < 1) {
    throw InvalidArgument("minibatch", static_cast<double>(options.minibatch), "an integer >= 1");
  }
  // How many mini-batches' results a group keeps follows from the scheme's schedule.
  Workload counted = workload;
  std::int64_t outputs = 0;
  for (StageCost& cost : counted.stages) {
    cost.activation_bytes =
        cost.layer_output_bytes - (options.relu_in_place ? cost.relu_output_bytes : 0);
    cost.kept_again_bytes = 0;  // every layer's result is its own
    outputs += cost.activation_bytes;
  }
  if (outputs == 0) {
    throw InvalidArgument("network", workload.name, "one whose layers are known");
  }
  const std::vector<SchemeMemory> groups = PredictSchemeMemory(
      FindMemoryScheme("stale"), counted, ends, {.microbatch = options.minibatch});

  const auto results = static_cast<double>(options.minibatch * outputs);
  MemoryIncrease increase = {.activation_bytes = 2 * results, .waiting_bytes = -results};
  for (const SchemeMemory& group : groups) {
    increase.weight_bytes += group.weight_bytes;
    increase.waiting_bytes += group.activation_bytes;
  }
  increase.weight_copy_bytes = 2 * static_cast<double>(ends.size()) * increase.weight_bytes;
  return increase;
}

}  // namespace batchless::hwmodel
