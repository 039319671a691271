#include <array>
#include <string>

#include "batchless/hwmodel/fine_grained_planner.h"
#include "commands/commands.h"
#include "memory.h"
#include "workload_argument.h"

namespace batchless {
namespace {

using hwmodel::FineGrainedPlan;
using hwmodel::Throughput;
using hwmodel::WorkerThroughput;

constexpr std::array<std::string_view, 2> kSchedules = {"pb", "1f1b"};

class LayoutCommand final : public Command {
 public:
  explicit LayoutCommand(CLI::App& root)
      : Command(
            root, "layout", "Lay a network out on the cores of one fine-grained machine",
            "Groups consecutive stages into workers and shares the cores among these, so that the\n"
            "slowest worker takes as little time as it can while all that they keep fits their\n"
            "cores' memory. Fewer workers mean gradients that are less late: of all numbers of\n"
            "workers the fewest is chosen that costs no more than the slack of the most samples a\n"
            "second.\n" +
                ListHelp(),
            {"layout --network resnet110 --hardware hwmodel/machines/wse2.toml",
             "layout --network vgg16 --hardware hwmodel/machines/ipu_gc2.toml --workers 8,16,24,39 "
             "--slack 0.05 --json"}) {}

  void Run() override {
    static_cast<void>(WorkloadName(network_));
    hwmodel::FineGrainedOptions options;
    if (schedule_.given()) options.schedule = kSchedules[schedule_.Choice(kSchedules)];
    if (workers_.given()) {
      for (const std::int64_t workers : workers_.IntegerList({1, 2048})) {
        options.workers.push_back(static_cast<int>(workers));
      }
    }
    options.microbatch = microbatch_.IntegerOr(1, kMicrobatchRange);
    options.slack = slack_.NumberOr(options.slack, {0, 0.999});
    options.weight_stashing = weight_stashing_.given();
    const hwmodel::Machine machine = MachineOf(hardware_);
    const hwmodel::Workload workload = WorkloadOf(network_, static_cast<int>(machine.number_bytes));
    TableOutput table(out_);
    const FineGrainedPlan plan = hwmodel::PlanFineGrained(workload, machine, options);
    if (table.has_file()) {
      table.Write(
          "network,hardware,workers,samples_per_second,busy,largest_delay,memory_bytes,fits,chosen",
          plan.layouts.size(),
          [&](std::size_t i) {
            const Throughput& layout = plan.layouts[i];
            Json cells = Summary(layout);
            cells["memory_bytes"] = layout.memory_bytes;
            cells["fits"] = layout.fits;
            cells["chosen"] = i == plan.best;
            return cells;
          },
          {{"network", workload.name}, {"hardware", machine.name}});
    }
    if (json()) {
      json().Put(Describe(workload, machine, options, plan));
    } else {
      ReportText(workload, machine, options, plan);
    }
  }

  UsageError Refused(const analysis::InvalidArgument& error) const override {
    return ModelError(hardware_, error);
  }

 private:
  static Json Summary(const Throughput& layout) {
    return {{"workers", layout.workers.size()},
            {"samples_per_second", layout.samples_per_second},
            {"busy", layout.busy},
            {"largest_delay", layout.workers.front().delay},
            {"memory", {{"bytes", layout.memory_bytes}, {"fits", layout.fits}}},
            {"bottleneck", layout.bottleneck}};
  }

  static Json Describe(const hwmodel::Workload& workload, const hwmodel::Machine& machine,
                       const hwmodel::FineGrainedOptions& options, const FineGrainedPlan& plan) {
    const Throughput& best = plan.layouts[plan.best];
    Json object = {{"network", workload.name},
                   {"hardware", machine.name},
                   {"schedule", options.schedule},
                   {"microbatch", options.microbatch}};
    object.update(Summary(best));
    Json partition = Json::array();
    for (const WorkerThroughput& worker : best.workers) {
      partition.push_back({{"first_stage", worker.first_stage},
                           {"end_stage", worker.end_stage},
                           {"first", NameOf(workload, worker.first_stage)},
                           {"last", NameOf(workload, worker.end_stage - 1)},
                           {"cores", worker.cores},
                           {"memory_bytes", worker.memory_bytes},
                           {"idle", worker.idle}});
    }
    object["partition"] = std::move(partition);
    object["layouts"] =
        Rows(plan.layouts.size(), [&](std::size_t i) { return Summary(plan.layouts[i]); });
    return object;
  }

  static void ReportText(const hwmodel::Workload& workload, const hwmodel::Machine& machine,
                         const hwmodel::FineGrainedOptions& options, const FineGrainedPlan& plan) {
    PrintText("{} on {}, {}, micro-batches of {}\n\n", workload.name, machine.name,
              options.schedule, options.microbatch);
    PrintText("  {:>7} {:>16} {:>6} {:>7} {:>10}  {}\n", "workers", "samples a second", "busy",
              "delay", "memory", "bottleneck");
    for (std::size_t i = 0; i < plan.layouts.size(); ++i) {
      const Throughput& layout = plan.layouts[i];
      PrintText("{} {:>7} {:>16.6g} {:>5.1f}% {:>7} {:>10}  {}{}\n", i == plan.best ? '*' : ' ',
                layout.workers.size(), layout.samples_per_second, 100 * layout.busy,
                layout.workers.front().delay, BytesText(layout.memory_bytes),
                layout.fits ? "" : "does not fit; ", layout.bottleneck);
    }
    const Throughput& best = plan.layouts[plan.best];
    PrintText("\n* {} workers, at most {:g} % slower than the fastest:\n\n", best.workers.size(),
              100 * options.slack);
    PrintText("{:>6} {:>8} {:>10} {:>6}  {}\n", "worker", "cores", "memory", "idle", "stages");
    for (std::size_t g = 0; g < best.workers.size(); ++g) {
      const WorkerThroughput& worker = best.workers[g];
      PrintText("{:>6} {:>8} {:>10} {:>5.1f}%  {} to {}\n", g, worker.cores,
                BytesText(worker.memory_bytes), 100 * worker.idle,
                NameOf(workload, worker.first_stage), NameOf(workload, worker.end_stage - 1));
    }
  }

  static const std::string& NameOf(const hwmodel::Workload& workload, int stage) {
    return workload.stage_names[stage];
  }

  Argument network_{app(), "--network", "N", WorkloadHelp()};
  Argument hardware_{app(), "--hardware", "F.toml",
                     "Machine file, as in hwmodel/machines; required"};
  Argument schedule_{app(), "--schedule", "K", "pb or 1f1b (default: pb)"};
  Argument workers_{
      app(), "--workers", "LIST",
      "Numbers of workers to compare (default: powers of two, and as many as there are "
      "stages, or cores)"};
  Argument microbatch_{app(), "--microbatch", "B",
                       "Samples that go through the pipeline together (default: 1)"};
  Argument slack_{app(), "--slack", "X",
                  "Share of the most samples a second that fewer workers may cost (default: 0.01)"};
  Argument out_{app(), "--out", "F.csv", "Write a row for each number of workers to this file"};
  Flag weight_stashing_{app(), "--weight-stashing",
                        "Backwards read the weights that their forwards read"};
};

}  // namespace

const CommandMaker kLayoutCommand = MakeCommand<LayoutCommand>;

}  // namespace batchless
