#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "argument.h"
#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/memory_increase.h"
#include "batchless/hwmodel/partition.h"
#include "batchless/hwmodel/scheme_memory.h"
#include "commands/commands.h"
#include "placement.h"
#include "table_output.h"
#include "usage_error.h"
#include "workload_argument.h"

namespace batchless {
namespace {

constexpr IntegerRange kMicrobatchRange{1, 65'536};
constexpr IntegerRange kPerUpdateRange{1, 65'536};

class MemoryCommand final : public Command {
 public:
  explicit MemoryCommand(CLI::App& root)
      : Command(
            root, "memory", "Memory that each scheme of the literature keeps, by worker",
            "Weights in all their versions and activations in flight, of stages shared evenly\n"
            "among the workers by their FLOPs; velocity and gradients, the same for all schemes,\n"
            "are left out. The largest worker's memory and the sum over all. Schemes: stale is\n"
            "pb as Zhang and Abdelrahman count it, arXiv 1912.12675; pipemare keeps an average of\n"
            "the weights' steps beside them; reversible computes inputs back from outputs, as\n"
            "PETRA does; -recompute keeps inputs alone and repeats the forward.\n"
            "With --placement, how much more memory PipeDream and stale pipelined training take\n"
            "than training without a pipeline, where the results of all layers and their\n"
            "gradients are counted, as in table 9 of doi 10.1155/2021/3839543. What the trainer\n"
            "here keeps of the results is beside that.\n" +
                ListHelp(),
            {"memory --network resnet110 --workers 2,4,8,16 --out memory.csv",
             "memory --network alexnet --placement 8 --microbatch 128",
             "memory --network gpt2 --workers 4 --microbatch 8 --microbatches-per-update 16 "
             "--json"}),
        network_(app(), "--network", "N", WorkloadHelp()),
        workers_(app(), "--workers", "LIST",
                 "Workers of the pipeline, at most the network's stages; required without "
                 "--placement"),
        placement_(app(), "--placement", "LIST",
                   "Pipeline registers after so many stages, ascending"),
        norm_(app(), "--norm", "N", NormalizationHelp()),
        microbatch_(app(), "--microbatch", "B",
                    "Samples of a micro-batch, of the mini-batch with --placement (default: 1)"),
        per_update_(app(), "--microbatches-per-update", "M",
                    "Of gpipe and 2bw, at least the workers with 2bw (default: as many)"),
        out_(app(), "--out", "F.csv", "Write the table to this file"),
        relu_in_place_(app(), "--relu-in-place",
                       "With --placement, results of ReLUs take the place of their inputs") {}

  void Run() override {
    const hwmodel::Workload workload = WorkloadOf(network_, norm_);
    if (placement_.given()) {
      CompareWithoutPipeline(workload);
      return;
    }
    if (relu_in_place_.given()) {
      throw UsageError(placement_.name(), "nothing", "a list of stages with --relu-in-place");
    }
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
    std::vector<Row> rows;
    for (const hwmodel::MemoryScheme& scheme : hwmodel::MemorySchemes()) {
      for (const std::int64_t workers : counts) {
        rows.push_back(
            MakeRow(scheme, workload, partitions[static_cast<std::size_t>(workers) - 1], options));
      }
    }
    if (table.has_file() || !json()) {
      table.Write([&](TextOutput& output) {
        output.Print("scheme,workers,largest_bytes,weight_bytes,activation_bytes,total_bytes\n");
        for (const Row& row : rows) {
          output.Print("{},{},{},{},{},{}\n", row.scheme, row.workers, row.largest, row.weights,
                       row.activations, row.weights + row.activations);
        }
      });
    }
    if (!json()) return;
    Json list = Json::array();
    for (const Row& row : rows) {
      list.push_back({{"scheme", row.scheme},
                      {"workers", row.workers},
                      {"largest_bytes", row.largest},
                      {"weight_bytes", row.weights},
                      {"activation_bytes", row.activations},
                      {"total_bytes", row.weights + row.activations}});
    }
    PrintJson({{"network", workload.name}, {"rows", std::move(list)}});
  }

 private:
  void CompareWithoutPipeline(const hwmodel::Workload& workload) const {
    const std::vector<int> ends = PlacementEnds(placement_, workload.stage_count());
    workers_.Refuse("nothing with --placement");
    per_update_.Refuse("nothing with --placement");
    hwmodel::MemoryIncreaseOptions options;
    options.minibatch = microbatch_.IntegerOr(1, kMicrobatchRange);
    options.relu_in_place = relu_in_place_.given();
    TableOutput table(out_);
    const hwmodel::MemoryIncrease increase = Increase(workload, ends, options);
    std::int64_t kept_bytes = 0;
    for (const hwmodel::StageCost& cost : workload.stages) kept_bytes += cost.activation_bytes;
    kept_bytes *= options.minibatch;
    const std::array<IncreaseRow, 2> rows = {{
        {"pipedream", increase.weight_copy_bytes, 100 * increase.pipedream()},
        {"stale", 0, 100 * increase.stale()},
    }};
    if (table.has_file() || !json()) {
      table.Write([&](TextOutput& output) {
        output.Print(
            "scheme,weight_bytes,activation_bytes,kept_activation_bytes,further_weight_bytes,"
            "further_activation_bytes,increase_percent\n");
        for (const IncreaseRow& row : rows) {
          output.Print("{},{},{},{},{},{},{}\n", row.scheme, increase.weight_bytes,
                       increase.activation_bytes, kept_bytes, row.further_weights,
                       increase.waiting_bytes, row.percent);
        }
      });
    }
    if (!json()) return;
    Json list = Json::array();
    for (const IncreaseRow& row : rows) {
      list.push_back({{"scheme", row.scheme},
                      {"further_weight_bytes", row.further_weights},
                      {"further_activation_bytes", increase.waiting_bytes},
                      {"increase_percent", row.percent}});
    }
    PrintJson({{"network", workload.name},
               {"placement", std::vector<int>(ends.begin(), ends.end() - 1)},
               {"microbatch", options.minibatch},
               {"weight_bytes", increase.weight_bytes},
               {"activation_bytes", increase.activation_bytes},
               {"kept_activation_bytes", kept_bytes},
               {"rows", std::move(list)}});
  }

  static hwmodel::MemoryIncrease Increase(const hwmodel::Workload& workload,
                                          const std::vector<int>& ends,
                                          const hwmodel::MemoryIncreaseOptions& options) {
    try {
      return hwmodel::PredictMemoryIncrease(workload, ends, options);
    } catch (const analysis::InvalidArgument& error) {
      // The library's name for the network is the option's.
      throw UsageError::FromLine("--" + std::string(error.what()) + " with --placement");
    }
  }

  struct IncreaseRow {
    std::string_view scheme;
    double further_weights = 0;
    double percent = 0;
  };

  struct Row {
    std::string_view scheme;
    std::size_t workers = 0;
    double largest = 0;  // worker's
    double weights = 0;  // of all workers
    double activations = 0;
  };

  static Row MakeRow(const hwmodel::MemoryScheme& scheme, const hwmodel::Workload& workload,
                     const std::vector<int>& ends, const hwmodel::SchemeMemoryOptions& options) {
    Row row;
    row.scheme = scheme.name;
    row.workers = ends.size();
    for (const hwmodel::SchemeMemory& worker :
         hwmodel::PredictSchemeMemory(scheme, workload, ends, options)) {
      row.largest = std::max(row.largest, worker.total());
      row.weights += worker.weight_bytes;
      row.activations += worker.activation_bytes;
    }
    return row;
  }

  Argument network_;
  Argument workers_;
  Argument placement_;
  Argument norm_;
  Argument microbatch_;
  Argument per_update_;
  Argument out_;
  Flag relu_in_place_;
};

}  // namespace

std::unique_ptr<Command> MakeMemoryCommand(CLI::App& root) {
  return std::make_unique<MemoryCommand>(root);
}

}  // namespace batchless
