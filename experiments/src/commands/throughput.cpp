#include "batchless/hwmodel/throughput.h"

#include <algorithm>
#include <string>
#include <vector>

#include "batchless/hwmodel/schedule_kinds.h"
#include "commands/commands.h"
#include "memory.h"
#include "workload_argument.h"

namespace batchless {
namespace {

using hwmodel::Throughput;
using hwmodel::WorkerThroughput;

constexpr IntegerRange kBatchRange{1, 1'000'000};
// Laying out a schedule of so many actions, to find its steady state, takes some seconds.
constexpr std::int64_t kMaxFlushActions = 50'000'000;

std::vector<std::string_view> ScheduleNames() {
  std::vector<std::string_view> names = {hwmodel::kSequential};
  for (const hwmodel::ScheduleKind& kind : hwmodel::ScheduleKinds()) {
    if (kind.one_stage_each) names.push_back(kind.name);
  }
  return names;
}

class ThroughputCommand final : public Command {
 public:
  explicit ThroughputCommand(CLI::App& root)
      : Command(
            root, "throughput", "Samples a second of a network on a machine, predicted",
            "sequential runs the layers one after the other on the whole machine, a batch at a\n"
            "time, and launches each. Every other schedule is a pipeline: one worker a stage, or\n"
            "--workers groups of stages, cores shared among them in proportion to their work.\n"
            "Utilisation is the schedule's, of workers that take equal times; busy is what the\n"
            "cores do with these. Without --samples both are of the steady state, otherwise of a\n"
            "run with its fill and drain. A machine file that holds measured times of the network\n"
            "is predicted from them. Machines: hwmodel/machines/*.toml, or what calibrate wrote;\n"
            "--cores takes another number of the same cores, with their part of all totals.\n"
            "Several batches or numbers of cores make a table, a row each.\n" +
                ListHelp(),
            {"throughput --network resnet110 --hardware hwmodel/machines/wse2.toml --schedule pb",
             "throughput --network resnet110 --hardware hwmodel/machines/v100.toml --schedule "
             "sequential --batch 128 --json",
             "throughput --network resnet20 --hardware hwmodel/machines/wse2.toml --schedule "
             "fill-drain --batch 128"}) {}

  void Run() override {
    const std::vector<std::string_view> schedules = ScheduleNames();
    static_cast<void>(WorkloadName(network_));
    hwmodel::ThroughputOptions options;
    options.schedule = schedules[schedule_.Choice(schedules)];
    options.workers = static_cast<int>(workers_.IntegerOr(0, {1, 10'000}));
    options.samples = samples_.IntegerOr(0, {1, 1'000'000'000'000});
    options.weight_stashing = weight_stashing_.given();
    options.vertical_sync = vertical_sync_.given();
    options.recompute = recompute_.given();
    const std::vector<std::int64_t> batches = batch_.IntegerListOr(0, kBatchRange);
    const std::vector<std::int64_t> cores = cores_.IntegerListOr(0, {1, 100'000'000});
    const hwmodel::Machine machine = MachineOf(hardware_);
    const hwmodel::Workload workload = WorkloadOf(network_, static_cast<int>(machine.number_bytes));
    const auto lists = Combinations("--batch, --cores", cores, batches);
    const std::size_t rows = lists.size();
    TableOutput table(out_);
    std::vector<Point> points;
    for (const auto& [count, batch] : lists) {
      Point point = {Scaled(machine, count), options, {}};
      ReadBatch(batch, point.options);
      CheckSize(workload, point.machine, batch, point.options);
      point.result = Predict(workload, point.machine, point.options);
      points.push_back(std::move(point));
    }
    const auto row = [&](std::size_t i) { return Describe(workload, points[i]); };
    if (table.has_file() || (rows > 1 && !json())) {
      table.Write(
          "network,hardware,stages,schedule,cores,batch,microbatch,samples_per_second,utilisation,"
          "busy,peak_share,latency_seconds,memory_bytes,fits,flops_per_sample,"
          "local_bytes_per_sample,shared_bytes_per_sample,fabric_bytes_per_sample,"
          "joules_per_sample,bottleneck,largest_delay",
          rows, [&](std::size_t i) {
            Json cells = row(i);
            cells["memory_bytes"] = points[i].result.memory_bytes;
            cells["fits"] = points[i].result.fits;
            cells.update(Json(cells["traffic"]));
            return cells;
          });
    }
    if (json()) {
      json().Put(rows == 1 ? row(0) : Json{{"rows", Rows(rows, row)}});
    } else if (!table.has_file() && rows == 1) {
      ReportText(workload, points.front());
    }
  }

 private:
  struct Point {
    hwmodel::Machine machine;
    hwmodel::ThroughputOptions options;
    Throughput result;
  };

  // A machine of other many of the same cores; 0 is its own number.
  static hwmodel::Machine Scaled(hwmodel::Machine machine, std::int64_t cores) {
    if (cores == 0) return machine;
    const double factor = static_cast<double>(cores) / machine.cores;
    for (double hwmodel::Machine::*const total :
         {&hwmodel::Machine::peak_flops_per_second, &hwmodel::Machine::local_memory_bytes,
          &hwmodel::Machine::local_bytes_per_second, &hwmodel::Machine::fabric_bytes_per_second}) {
      machine.*total *= factor;
    }
    machine.cores = static_cast<double>(cores);
    return machine;
  }

  // Whether the batch is one micro-batch.
  static bool TakesBatchAtOnce(const hwmodel::ThroughputOptions& options) {
    return options.schedule == hwmodel::kSequential ||
           hwmodel::FindScheduleKind(options.schedule).updates_each;
  }

  void ReadBatch(std::int64_t batch, hwmodel::ThroughputOptions& options) const {
    const std::int64_t microbatch = microbatch_.IntegerOr(0, kBatchRange);
    if (TakesBatchAtOnce(options)) {
      options.microbatch = std::max<std::int64_t>({batch, microbatch, 1});
      RefuseIf(batch > 0 && microbatch > 0 && batch != microbatch, microbatch_.name(), microbatch,
               fmt::format("the batch, {}, with {}", batch, options.schedule));
      return;
    }
    options.microbatch = std::max<std::int64_t>(microbatch, 1);
    RefuseIf(batch % options.microbatch != 0, batch_.name(), batch,
             fmt::format("a multiple of the micro-batch, {}", options.microbatch));
    options.microbatches_per_update = batch / options.microbatch;
  }

  // The model lays out four micro-batches of each worker, or four updates; for a run twice as many.
  void CheckSize(const hwmodel::Workload& workload, const hwmodel::Machine& machine,
                 std::int64_t batch, const hwmodel::ThroughputOptions& options) const {
    if (options.schedule == hwmodel::kSequential) return;
    const std::int64_t workers =
        options.workers > 0 ? options.workers : hwmodel::MostWorkers(workload, machine);
    const std::int64_t of_one = 12 * workers * (options.samples > 0 ? 2 : 1);
    const std::int64_t most = kMaxFlushActions / of_one;
    if (options.microbatches_per_update > 0) {
      if (options.microbatches_per_update <= most) return;
      throw UsageError(
          batch_.name(), std::to_string(batch),
          fmt::format("at most {} micro-batches an update, with {} workers", most, workers));
    }
    const std::int64_t default_each = TakesBatchAtOnce(options) ? workers : 4 * workers;
    if (default_each <= most) return;
    throw UsageError(workers_.name(), std::to_string(workers),
                     fmt::format("fewer with {}: its schedule would have {} actions, at most {}",
                                 options.schedule, of_one * default_each, kMaxFlushActions));
  }

  Throughput Predict(const hwmodel::Workload& workload, const hwmodel::Machine& machine,
                     const hwmodel::ThroughputOptions& options) const {
    try {
      return hwmodel::PredictThroughput(workload, machine, options);
    } catch (const analysis::InvalidArgument& error) {
      if (error.name() == "microbatches_per_update") {
        throw UsageError("--batch",
                         std::to_string(options.microbatches_per_update * options.microbatch),
                         "micro-batches of an update, " + error.accepted());
      }
      throw ModelError(hardware_, error);
    }
  }

  static std::string Stages(const hwmodel::Workload& workload, const WorkerThroughput& worker) {
    const std::string& first = workload.stage_names[worker.first_stage];
    if (worker.end_stage == worker.first_stage + 1) return first;
    return first + ".." + workload.stage_names[static_cast<std::size_t>(worker.end_stage) - 1];
  }

  static double Seconds(const hwmodel::StageTimes& times, const Throughput& result,
                        const hwmodel::ThroughputOptions& options) {
    const double updates =
        static_cast<double>(options.microbatch) / static_cast<double>(result.samples_per_update);
    return times.total(updates);
  }

  static std::int64_t LargestDelay(const Throughput& result) {
    std::int64_t largest = 0;
    for (const WorkerThroughput& worker : result.workers) largest = std::max(largest, worker.delay);
    return largest;
  }

  static Json Describe(const hwmodel::Workload& workload, const Point& point) {
    const auto& [machine, options, result] = point;
    Json object;
    object["network"] = workload.name;
    object["hardware"] = machine.name;
    object["cores"] = machine.cores;
    object["schedule"] = options.schedule;
    object["batch"] = result.samples_per_update;
    object["microbatch"] = options.microbatch;
    object["samples"] = options.samples > 0 ? Json(options.samples) : Json(nullptr);
    object["samples_per_second"] = result.samples_per_second;
    object["utilisation"] = result.utilisation;
    object["busy"] = result.busy;
    object["peak_share"] = result.peak_share;
    object["bottleneck"] = result.bottleneck;
    object["seconds_per_update"] = result.seconds_per_update;
    object["latency_seconds"] = result.latency_seconds;
    object["largest_delay"] = LargestDelay(result);
    object["stages"] = workload.stage_count();
    object["parameters"] = workload.parameters();
    object["memory"] = {{"bytes", result.memory_bytes}, {"fits", result.fits}};
    object["traffic"] = {{"local_bytes_per_sample", result.local_bytes_per_sample},
                         {"shared_bytes_per_sample", result.shared_bytes_per_sample},
                         {"fabric_bytes_per_sample", result.fabric_bytes_per_sample}};
    object["flops_per_sample"] = result.flops_per_sample;
    object["arithmetic_intensity"] = result.arithmetic_intensity();
    object["joules_per_sample"] = machine.energy ? Json(result.joules_per_sample) : Json(nullptr);
    Json seconds = Json::array();
    Json workers = Json::array();
    for (const WorkerThroughput& worker : result.workers) {
      seconds.push_back(Seconds(worker.times, result, options));
      workers.push_back({{"stages", Stages(workload, worker)},
                         {"first_stage", worker.first_stage},
                         {"end_stage", worker.end_stage},
                         {"cores", worker.cores},
                         {"delay", worker.delay},
                         {"forward_seconds", worker.times.forward_seconds},
                         {"backward_seconds", worker.times.backward_seconds},
                         {"weight_gradient_seconds", worker.times.weight_gradient_seconds},
                         {"update_seconds", worker.times.update_seconds},
                         {"link_seconds", worker.link_seconds},
                         {"idle", worker.idle},
                         {"bound", Name(worker.bound)},
                         {"memory_bytes", worker.memory_bytes},
                         {"fits", worker.fits}});
    }
    object["stage_seconds"] = std::move(seconds);
    object["workers"] = std::move(workers);
    return object;
  }

  static void ReportText(const hwmodel::Workload& workload, const Point& point) {
    const auto& [machine, options, result] = point;
    PrintText("{} on {}, {}: {} stages, {} parameters, batch {} in micro-batches of {}\n",
              workload.name, machine.name, options.schedule, workload.stage_count(),
              workload.parameters(), result.samples_per_update, options.microbatch);
    PrintText("  samples a second  {:.6g}\n", result.samples_per_second);
    PrintText("  utilisation       {:.6g}\n", result.utilisation);
    PrintText("  busy              {:.6g}\n", result.busy);
    PrintText("  share of peak     {:.6g}\n", result.peak_share);
    PrintText("  bottleneck        {}\n", result.bottleneck);
    PrintText("  latency           {:.6g} s\n", result.latency_seconds);
    PrintText("  memory            {}{}\n", BytesText(result.memory_bytes),
              result.fits ? "" : ", which does not fit");
    PrintText("  a sample          {:.6g} FLOPs, {} local, {} shared, {} between cores\n",
              result.flops_per_sample, BytesText(result.local_bytes_per_sample),
              BytesText(result.shared_bytes_per_sample), BytesText(result.fabric_bytes_per_sample));
    if (machine.energy)
      PrintText("  energy            {:.6g} J a sample\n", result.joules_per_sample);
    PrintText("\n{:>6} {:>9} {:>10} {:>7} {:>10} {:>13}  {}\n", "worker", "cores", "seconds",
              "idle", "memory", "bound", "stages");
    for (std::size_t w = 0; w < result.workers.size(); ++w) {
      const WorkerThroughput& worker = result.workers[w];
      PrintText("{:>6} {:>9} {:>10.4g} {:>6.1f}% {:>10} {:>13}  {}\n", w, worker.cores,
                Seconds(worker.times, result, options), 100 * worker.idle,
                BytesText(worker.memory_bytes), Name(worker.bound), Stages(workload, worker));
    }
  }

  Argument network_{app(), "--network", "N", WorkloadHelp()};
  Argument hardware_{app(), "--hardware", "F.toml",
                     "Machine file, as in hwmodel/machines; required"};
  Argument schedule_{app(), "--schedule", "K",
                     fmt::format("{}; required", fmt::join(ScheduleNames(), "|"))};
  Argument batch_{app(), "--batch", "LIST",
                  "Samples of an update (default: the micro-batch; 4 of them for each worker with "
                  "schedules that flush, and 2bw)"};
  Argument microbatch_{app(), "--microbatch", "B",
                       "Samples that go through the pipeline together (default: 1, or the batch "
                       "where it updates after each)"};
  Argument workers_{app(), "--workers", "W",
                    "Groups of stages (default: as many as there are stages, or cores)"};
  Argument cores_{app(), "--cores", "LIST", "Cores of the machine (default: the file's)"};
  Argument samples_{app(), "--samples", "N", "Count fill and drain of a run of so many samples"};
  Argument out_{app(), "--out", "F.csv", "Write the table to this file"};
  Flag weight_stashing_{app(), "--weight-stashing",
                        "Backwards read the weights that their forwards read"};
  Flag vertical_sync_{app(), "--vertical-sync",
                      "With --weight-stashing: all stages read the version that stage 0 read"};
  Flag recompute_{app(), "--recompute",
                  "Backwards do the forwards once more, in place of keeping what these made"};
};

}  // namespace

const CommandMaker kThroughputCommand = MakeCommand<ThroughputCommand>;

}  // namespace batchless
