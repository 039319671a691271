#include <string>

#include "batchless/hwmodel/planner.h"
#include "commands/commands.h"
#include "memory.h"
#include "workload_argument.h"

namespace batchless {
namespace {

constexpr IntegerRange kMachinesRange{1, 4096};
// PipeDream's program takes layers^2 machines^2 / 4 steps; so many take some seconds.
constexpr double kMaxSteps = 4e9;

class PlanCommand final : public Command {
 public:
  explicit PlanCommand(CLI::App& root)
      : Command(
            root, "plan", "Divide a network among machines: partition, width, depth, micro-batch",
            R"(  pipedream   stages of layers, each on as many machines as it needs; the batch is a
              machine's minibatch
  2bw, gpipe  equal pipelines side by side, over all depths, micro-batches and with or
              without recomputation; the batch is that of an update
  model-parallel
              the same without a pipeline: one micro-batch of a copy at a time
  balanced    one pipeline through all machines, as evenly as can be
  pb          the same without ever draining: pipelined backpropagation, an update
              after each batch, by gradients that are late
Each machine is the whole of the machine file's; layers run on it one after the other,
and its network connects it to the others. 2bw, gpipe, balanced and model-parallel
leave out what does not fit a machine's memory, unless nothing does; pipedream and pb
do not look at memory, but say whether the plan fits. A plan may use fewer machines
than there are, which is said (JSON: machines_used).
)" + ListHelp(),
            {"plan --model resnet56 --hardware hwmodel/machines/v100.toml --scheme pb --machines 2 "
             "--batch 128 --placement 28",
             "plan --model gpt2-xl --hardware hwmodel/machines/v100.toml --scheme 2bw --machines "
             "16 --batch 512",
             "plan --model vgg16-imagenet --hardware hwmodel/machines/v100.toml --scheme pipedream "
             "--machines 4 --batch 64 --json"}) {}

  void Run() override {
    const auto schemes = hwmodel::PlanSchemes();
    static_cast<void>(WorkloadName(model_));
    hwmodel::PlanOptions options;
    options.scheme = schemes[scheme_.Choice(schemes)];
    const bool pipedream = options.scheme == "pipedream";
    const bool one_microbatch = pipedream || options.scheme == "pb";
    options.machines = static_cast<int>(machines_.IntegerOr(4, kMachinesRange));
    options.batch = batch_.IntegerOr(one_microbatch ? 32 : 256, {1, 10'000'000});
    if (one_microbatch) max_microbatch_.Refuse("nothing with " + options.scheme);
    options.max_microbatch = max_microbatch_.IntegerOr(64, kMicrobatchRange);
    const hwmodel::Machine machine = MachineOf(hardware_);
    const hwmodel::Workload workload = WorkloadOf(model_, static_cast<int>(machine.number_bytes));
    options.depth = static_cast<int>(depth_.IntegerOr(0, kMachinesRange));
    ReadPlacement(workload, options);
    TableOutput table(out_);
    const double product = static_cast<double>(workload.stage_count()) * options.machines;
    RefuseIf(pipedream && product * product / 4 > kMaxSteps, machines_.name(), options.machines,
             fmt::format("fewer, with the {} layers of {}", workload.stage_count(), workload.name));
    const hwmodel::PipelinePlan plan = hwmodel::MakePlan(workload, machine, options);
    if (table.has_file()) {
      table.Write(
          "model,hardware,scheme,machines,batch,width,depth,microbatch,recompute,"
          "samples_per_second,memory_bytes,fits",
          1, [&](std::size_t) { return Describe(workload, machine, options, plan); },
          {{"memory_bytes", plan.memory_bytes}, {"fits", plan.fits}});
    }
    if (json()) {
      json().Put(Describe(workload, machine, options, plan));
    } else {
      ReportText(workload, machine, options, plan);
    }
  }

  UsageError Refused(const analysis::InvalidArgument& error) const override {
    if (error.name() != "network.bandwidth") return ModelError(hardware_, error);
    return {fmt::format("{} {}: {}", hardware_.name(), hardware_.Text(""), error.name()),
            error.value(), fmt::format("{}, or {} 1", error.accepted(), machines_.name())};
  }

 private:
  void ReadPlacement(const hwmodel::Workload& workload, hwmodel::PlanOptions& options) const {
    if (!placement_.given()) return;
    if (options.scheme != "pb") placement_.Refuse("nothing with " + options.scheme);
    options.group_ends = PlacementEnds(placement_, workload.stage_count());
    if (std::ssize(options.group_ends) > options.machines) {
      placement_.Refuse(fmt::format("fewer cuts than the {} machines", options.machines));
    }
  }

  static int MachinesUsed(const hwmodel::PipelinePlan& plan) {
    int machines = 0;
    for (const hwmodel::PlanStage& stage : plan.stages) machines += stage.machines;
    return machines;
  }

  static Json Describe(const hwmodel::Workload& workload, const hwmodel::Machine& machine,
                       const hwmodel::PlanOptions& options, const hwmodel::PipelinePlan& plan) {
    Json partition = Json::array();
    int first = 0;
    for (const hwmodel::PlanStage& stage : plan.stages) {
      partition.push_back({{"first_layer", first},
                           {"end_layer", stage.end},
                           {"first", workload.stage_names[first]},
                           {"last", workload.stage_names[stage.end - 1]},
                           {"machines", stage.machines}});
      first = stage.end;
    }
    return {{"model", workload.name},
            {"hardware", machine.name},
            {"scheme", options.scheme},
            {"machines", options.machines},
            {"machines_used", MachinesUsed(plan)},
            {"batch", options.batch},
            {"partition", std::move(partition)},
            {"width", plan.width},
            {"depth", plan.depth},
            {"microbatch", plan.microbatch},
            {"microbatches_per_update", plan.microbatches_per_update},
            {"recompute", plan.recompute},
            {"neighbours", plan.copies_are_neighbours ? "copies" : "stages"},
            {"samples_per_second", plan.samples_per_second},
            {"seconds_per_update", plan.seconds_per_update},
            {"memory", {{"bytes", plan.memory_bytes}, {"fits", plan.fits}}},
            {"plans", plan.plans}};
  }

  static void ReportText(const hwmodel::Workload& workload, const hwmodel::Machine& machine,
                         const hwmodel::PlanOptions& options, const hwmodel::PipelinePlan& plan) {
    const int used = MachinesUsed(plan);
    PrintText("{} on {} of {}{}, {}, batch {}\n", workload.name, options.machines, machine.name,
              used < options.machines ? fmt::format(", of which it uses {}", used) : "",
              options.scheme, options.batch);
    PrintText("  samples a second  {:.6g}\n", plan.samples_per_second);
    PrintText("  width, depth      {}, {}\n", plan.width, plan.depth);
    PrintText("  micro-batch       {}, {} an update{}\n", plan.microbatch,
              plan.microbatches_per_update, plan.recompute ? ", recomputed" : "");
    PrintText("  memory            {} at most{}\n", BytesText(plan.memory_bytes),
              plan.fits ? "" : ", which does not fit");
    if (machine.server_machines > 0) {
      PrintText("  servers of        {:.0f} machines, which hold neighbouring {}\n",
                machine.server_machines, plan.copies_are_neighbours ? "copies" : "stages");
    }
    PrintText("  plans compared    {}\n", plan.plans);
    PrintText("\n{:>5} {:>8}  {}\n", "stage", "machines", "layers");
    int first = 0;
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
      const hwmodel::PlanStage& stage = plan.stages[i];
      PrintText("{:>5} {:>8}  {} to {}\n", i, stage.machines, workload.stage_names[first],
                workload.stage_names[static_cast<std::size_t>(stage.end) - 1]);
      first = stage.end;
    }
  }

  Argument model_{app(), "--model", "M", WorkloadHelp()};
  Argument hardware_{app(), "--hardware", "F.toml",
                     "Machine file, as in hwmodel/machines; required"};
  Argument scheme_{app(), "--scheme", "K",
                   fmt::format("{}; required", fmt::join(hwmodel::PlanSchemes(), "|"))};
  Argument machines_{app(), "--machines", "N", "Number of machines (default: 4)"};
  Argument batch_{app(), "--batch", "B", "Samples (default: 256; 32 with pipedream and pb)"};
  Argument max_microbatch_{app(), "--max-microbatch", "B",
                           "Largest micro-batch to try, from 1 by doubling (default: 64)"};
  Argument depth_{app(), "--depth", "D",
                  "Machines of a pipeline, with 2bw, gpipe and model-parallel (default: any)"};
  Argument placement_{app(), "--placement", "LIST",
                      "With pb, cut after so many layers, ascending (default: evenly)"};
  Argument out_{app(), "--out", "F.csv", "Write the plan's numbers to this file"};
};

}  // namespace

const CommandMaker kPlanCommand = MakeCommand<PlanCommand>;

}  // namespace batchless
