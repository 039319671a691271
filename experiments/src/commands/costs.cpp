#include <cstdint>
#include <string>
#include <utility>

#include "batchless/hwmodel/workload.h"
#include "commands/commands.h"
#include "workload_argument.h"

namespace batchless {
namespace {

using hwmodel::StageCost;

// As network.h says what each is.
constexpr std::pair<const char*, std::int64_t StageCost::*> kCostColumns[] = {
    {"parameters", &StageCost::parameters},
    {"forward_flops", &StageCost::forward_flops},
    {"input_gradient_flops", &StageCost::input_gradient_flops},
    {"weight_gradient_flops", &StageCost::weight_gradient_flops},
    {"update_flops", &StageCost::update_flops},
    {"weight_bytes", &StageCost::parameter_bytes},
    {"activation_bytes", &StageCost::activation_bytes},
    {"boundary_bytes", &StageCost::boundary_bytes},
    {"read_bytes", &StageCost::read_bytes},
    {"written_bytes", &StageCost::written_bytes},
    {"gradient_bytes", &StageCost::gradient_bytes},
    {"saved_bytes", &StageCost::saved_bytes},
    {"kept_bytes", &StageCost::kept_bytes},
};

class CostsCommand final : public Command {
 public:
  explicit CostsCommand(CLI::App& root)
      : Command(
            root, "costs", "Work and sizes of each stage of a network, for one sample",
            "A multiply-add is two FLOPs. weight_bytes are one version of the weights;\n"
            "activation_bytes what a stage keeps of a sample from its forward to its backward,\n"
            "once for each sample in flight, a value that two stages keep at the first of them;\n"
            "boundary_bytes what crosses to the next stage, in one direction. Beside weights a\n"
            "forward moves read, written and saved bytes, a backward gradient and kept bytes.\n"
            "The trainer runs the same stages, and throughput, plan, layout and memory are made\n"
            "of these numbers.",
            {"costs --network resnet20", "costs --network vgg16 --norm none --out vgg16.csv",
             "costs --network gpt2 --bytes-per-number 2 --json",
             "costs --network experiments/networks/tiny_resnet.toml"}) {}

  void Run() override {
    const auto bytes = static_cast<int>(bytes_.IntegerOr(sizeof(float), {1, 8}));
    const hwmodel::Workload workload = WorkloadOf(network_, norm_, bytes);
    TableOutput table(out_);
    Json total = Json::object();
    std::string columns = "stage,name";
    for (const auto& [name, cost] : kCostColumns) {
      columns += fmt::format(",{}", name);
      std::int64_t sum = 0;
      for (const StageCost& stage : workload.stages) sum += stage.*cost;
      total[name] = sum;
    }
    const auto row = [&](std::size_t s) {
      Json stage = {{"stage", s}, {"name", workload.stage_names[s]}};
      for (const auto& [name, cost] : kCostColumns) stage[name] = workload.stages[s].*cost;
      return stage;
    };
    if (table.has_file() || !json()) table.Write(columns, workload.stages.size(), row);
    if (!json()) return;
    json().Put({{"network", workload.name},
                {"bytes_per_number", bytes},
                {"input_bytes", workload.input_bytes},
                {"total", std::move(total)},
                {"stages", Rows(workload.stages.size(), row)}});
  }

 private:
  Argument network_{app(), "--network", "N", WorkloadHelp()};
  Argument norm_{app(), "--norm", "N", NormalizationHelp()};
  Argument bytes_{app(), "--bytes-per-number", "P", "Of weights and values (default: 4)"};
  Argument out_{app(), "--out", "F.csv", "Write the table to this file"};
};

}  // namespace

const CommandMaker kCostsCommand = MakeCommand<CostsCommand>;

}  // namespace batchless
