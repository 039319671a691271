#include <algorithm>
#include <array>
#include <vector>

#include "batchless/hwmodel/partition.h"
#include "batchless/hwmodel/scheme_memory.h"
#include "commands/commands.h"
#include "workload_argument.h"

namespace batchless {
namespace {

constexpr IntegerRange kPerUpdateRange{1, 65'536};

class MemoryCommand final : public Command {
 public:
  explicit MemoryCommand(CLI::App& root)
      : Command(
            root, "memory", "Memory that each scheme of the literature keeps, by worker",
            "Weights in all their versions and activations in flight, of stages shared evenly\n"
            "among the workers by their FLOPs; velocity and gradients, the same for all schemes,\n"
            "are left out. The largest worker's memory and the sum over all. Schemes: stale is\n"
            "pb as Zhang and Abdelrahman count it, arXiv 1912.12675; pipemare (recalled, not\n"
            "checked against the publication) keeps an average of the weights' steps beside them;\n"
            "reversible computes inputs back from outputs, as PETRA does; -recompute keeps inputs\n"
            "alone and repeats the forward.\n"
            "With --placement, how much more memory PipeDream and stale pipelined training take\n"
            "than training without a pipeline, where the results of all layers and their\n"
            "gradients are counted, as in table 9 of doi 10.1155/2021/3839543. What the trainer\n"
            "here keeps of the results is beside that.\n" +
                ListHelp(),
            {"memory --network resnet110 --workers 2,4,8,16 --out memory.csv",
             "memory --network alexnet --placement 8 --microbatch 128",
             "memory --network gpt2 --workers 4 --microbatch 8 --microbatches-per-update 16 "
             "--json"}) {}

  void Run() override {
    const hwmodel::Workload workload = WorkloadOf(network_, norm_);
    if (placement_.given()) {
      CompareWithoutPipeline(workload);
      return;
    }
    RefuseIf(relu_in_place_.given(), placement_.name(), "nothing",
             "a list of stages with --relu-in-place");
    const std::vector<std::int64_t> counts = workers_.IntegerList({1, workload.stage_count()});
    hwmodel::SchemeMemoryOptions options;
    options.microbatch = microbatch_.IntegerOr(1, kMicrobatchRange);
    const std::int64_t most = *std::max_element(counts.begin(), counts.end());
    options.microbatches_per_update = per_update_.IntegerOr(0, {most, kPerUpdateRange.high});
    TableOutput table(out_);
    std::vector<double> costs;
    for (const hwmodel::StageCost& cost : workload.stages) {
      costs.push_back(static_cast<double>(cost.training_flops()));
    }
    const auto partitions = hwmodel::BalancedPartitions(costs, static_cast<int>(most));
    std::vector<Json> rows;
    for (const hwmodel::MemoryScheme& scheme : hwmodel::MemorySchemes()) {
      for (const std::int64_t workers : counts) {
        rows.push_back(
            MakeRow(scheme, workload, partitions[static_cast<std::size_t>(workers) - 1], options));
      }
    }
    table.Report(json(), {{"network", workload.name}},
                 "scheme,workers,largest_bytes,weight_bytes,activation_bytes,total_bytes",
                 rows.size(), [&](std::size_t i) { return rows[i]; });
  }

 private:
  void CompareWithoutPipeline(const hwmodel::Workload& workload) const {
    const std::vector<int> group_ends = PlacementEnds(placement_, workload.stage_count());
    workers_.Refuse("nothing with --placement");
    per_update_.Refuse("nothing with --placement");
    hwmodel::MemoryIncreaseOptions options;
    options.minibatch = microbatch_.IntegerOr(1, kMicrobatchRange);
    options.relu_in_place = relu_in_place_.given();
    TableOutput table(out_);
    const hwmodel::MemoryIncrease increase = Increase(workload, group_ends, options);
    std::int64_t kept_bytes = 0;
    for (const hwmodel::StageCost& cost : workload.stages) kept_bytes += cost.activation_bytes;
    kept_bytes *= options.minibatch;
    const std::array<Json, 2> rows = {{
        {{"scheme", "pipedream"},
         {"further_weight_bytes", increase.weight_copy_bytes},
         {"further_activation_bytes", increase.waiting_bytes},
         {"increase_percent", 100 * increase.pipedream()}},
        {{"scheme", "stale"},
         {"further_weight_bytes", 0.0},
         {"further_activation_bytes", increase.waiting_bytes},
         {"increase_percent", 100 * increase.stale()}},
    }};
    table.Report(json(),
                 {{"network", workload.name},
                  {"placement", std::vector<int>(group_ends.begin(), group_ends.end() - 1)},
                  {"microbatch", options.minibatch},
                  {"weight_bytes", increase.weight_bytes},
                  {"activation_bytes", increase.activation_bytes},
                  {"kept_activation_bytes", kept_bytes}},
                 "scheme,weight_bytes,activation_bytes,kept_activation_bytes,further_weight_bytes,"
                 "further_activation_bytes,increase_percent",
                 rows.size(), [&](std::size_t i) { return rows.at(i); });
  }

  static hwmodel::MemoryIncrease Increase(const hwmodel::Workload& workload,
                                          const std::vector<int>& group_ends,
                                          const hwmodel::MemoryIncreaseOptions& options) {
    try {
      return hwmodel::PredictMemoryIncrease(workload, group_ends, options);
    } catch (const analysis::InvalidArgument& error) {
      throw UsageError("--" + error.name(), error.value(), error.accepted() + " with --placement");
    }
  }

  static Json MakeRow(const hwmodel::MemoryScheme& scheme, const hwmodel::Workload& workload,
                      const std::vector<int>& group_ends,
                      const hwmodel::SchemeMemoryOptions& options) {
    double largest = 0;  // worker's
    hwmodel::SchemeMemory all;
    for (const hwmodel::SchemeMemory& worker :
         hwmodel::PredictSchemeMemory(scheme, workload, group_ends, options)) {
      largest = std::max(largest, worker.total());
      all.weight_bytes += worker.weight_bytes;
      all.activation_bytes += worker.activation_bytes;
    }
    return {{"scheme", scheme.name},
            {"workers", group_ends.size()},
            {"largest_bytes", largest},
            {"weight_bytes", all.weight_bytes},
            {"activation_bytes", all.activation_bytes},
            {"total_bytes", all.total()}};
  }

  Argument network_{app(), "--network", "N", WorkloadHelp()};
  Argument workers_{app(), "--workers", "LIST",
                    "Workers of the pipeline, at most the network's stages; required without "
                    "--placement"};
  Argument placement_{app(), "--placement", "LIST",
                      "Pipeline registers after so many stages, ascending"};
  Argument norm_{app(), "--norm", "N", NormalizationHelp()};
  Argument microbatch_{app(), "--microbatch", "B",
                       "Samples of a micro-batch, of the mini-batch with --placement (default: 1)"};
  Argument per_update_{app(), "--microbatches-per-update", "M",
                       "Of gpipe and 2bw, at least the workers with 2bw (default: as many)"};
  Argument out_{app(), "--out", "F.csv", "Write the table to this file"};
  Flag relu_in_place_{app(), "--relu-in-place",
                      "With --placement, results of ReLUs take the place of their inputs"};
};

}  // namespace

const CommandMaker kMemoryCommand = MakeCommand<MemoryCommand>;

}  // namespace batchless
