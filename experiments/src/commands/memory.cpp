#include <algorithm>
#include <string>
#include <vector>

#include "argument.h"
#include "batchless/hwmodel/partition.h"
#include "batchless/hwmodel/scheme_memory.h"
#include "commands/commands.h"
#include "table_output.h"

namespace batchless {
namespace {

constexpr IntegerRange kWorkersRange{1, 2048};
constexpr IntegerRange kMicrobatchRange{1, 65'536};
constexpr IntegerRange kPerUpdateRange{1, 65'536};

class MemoryCommand final : public Command {
 public:
  explicit MemoryCommand(CLI::App& root)
      : Command(
            root, "memory", "Memory that each scheme of the literature keeps, by worker",
            "Weights in all their versions and activations in flight, of stages shared evenly\n"
            "among the workers by their FLOPs; velocity and gradients, the same for all schemes,\n"
            "are left out. The largest worker's memory and the sum over all.",
            {"memory --network resnet110 --workers 2,4,8,16 --out memory.csv",
             "memory --network gpt2 --workers 4 --microbatch 8 --microbatches-per-update 16 "
             "--json"}),
        network_(app(), "--network", "N",
                 fmt::format("{}; required", fmt::join(hwmodel::WorkloadNames(), "|"))),
        workers_(app(), "--workers", "LIST",
                 "Workers of the pipeline, at most the network's stages; required"),
        microbatch_(app(), "--microbatch", "B", "Samples of a micro-batch (default: 1)"),
        per_update_(app(), "--microbatches-per-update", "M",
                    "Of gpipe and 2bw, at least the workers with 2bw (default: as many)"),
        out_(app(), "--out", "F.csv", "Write the table to this file") {}

  void Run() override {
    const auto networks = hwmodel::WorkloadNames();
    const hwmodel::Workload workload = hwmodel::MakeWorkload(networks[network_.Choice(networks)]);
    const std::vector<std::int64_t> counts =
        workers_.IntegerList({kWorkersRange.low, workload.stage_count()});
    hwmodel::SchemeMemoryOptions options;
    options.microbatch = microbatch_.IntegerOr(1, kMicrobatchRange);
    const std::int64_t most = *std::max_element(counts.begin(), counts.end());
    options.microbatches_per_update = per_update_.IntegerOr(0, {most, kPerUpdateRange.high});
    TableOutput table(out_);
    std::vector<double> costs;
    for (const hwmodel::StageCost& cost : workload.stages) {
      costs.push_back(static_cast<double>(cost.forward_flops + cost.input_gradient_flops +
                                          cost.weight_gradient_flops));
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
  Argument microbatch_;
  Argument per_update_;
  Argument out_;
};

}  // namespace

std::unique_ptr<Command> MakeMemoryCommand(CLI::App& root) {
  return std::make_unique<MemoryCommand>(root);
}

}  // namespace batchless
