#include <algorithm>
#include <string>
#include <vector>

#include "batchless/hwmodel/pipeline_simulation.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/throughput.h"
#include "commands/commands.h"
#include "workload_argument.h"

namespace batchless {
namespace {

constexpr IntegerRange kSimulatedMicrobatchesRange{1, 1'000'000};
constexpr double kMaxParts = 2e9;
// The schedule is laid out as a list: some gigabytes.
constexpr std::int64_t kMaxSimulatedActions = 50'000'000;

class StragglersCommand final : public Command {
 public:
  explicit StragglersCommand(CLI::App& root)
      : Command(
            root, "stragglers", "What uneven times, stalls and short queues cost a pipeline",
            "Simulates a schedule event by event: of --stages equal stages, whose actions take a\n"
            "unit of time each (a backward 2, or 1 and 1 where it is split), or of a network's on\n"
            "the machine of --hardware, in the times that throughput predicts for each worker by\n"
            "itself: none waits for a memory that all share. An action takes 1 + jitter u times\n"
            "as long, with u uniform in [-1, 1), and a core stalls with --stall-probability for\n"
            "--stall-factor times as long. time_units, or seconds, is the time of the whole run,\n"
            "slowdown the same over that of a run in which nothing varies and no queue is full.\n" +
                ListHelp(),
            {"stragglers --kind pb --stages 34 --microbatches 500 --jitter 0,0.3,0.6 --queue 0,1",
             "stragglers --kind pb --network resnet110 --hardware hwmodel/machines/wse2.toml "
             "--microbatches 1000 --jitter 0.1,0.3",
             "stragglers --kind gpipe --stages 8 --microbatches 64 --stall-probability 0.01 "
             "--stall-factor 10 --cores 1,10,100 --json"}) {}

  void Run() override {
    const std::vector<std::string_view> kinds = analysis::NamesOf(hwmodel::ScheduleKinds());
    hwmodel::ScheduleOptions made;
    const std::string kind(kinds[kind_.Choice(kinds)]);
    made.microbatches = microbatches_.Integer(kSimulatedMicrobatchesRange);
    if (network_.given()) {
      Predict(kind, made);
    } else {
      for (const Argument* argument : {&hardware_, &workers_, &microbatch_}) {
        argument->Refuse("nothing without --network");
      }
      made.stages = static_cast<int>(stages_.Integer({1, 10'000}));
    }
    const std::vector<double> jitters = jitter_.NumberListOr("0", {0, 0.999});
    const std::vector<std::int64_t> queues = queue_.IntegerListOr(0, {0, 1'000'000});
    const std::vector<std::int64_t> cores = cores_.IntegerListOr(1, {1, 1'000'000});
    const auto rows = Combinations("--jitter, --queue, --cores", jitters, queues, cores);
    options_.stall_probability = stall_probability_.NumberOr(0, {0, 1});
    options_.stall_factor = stall_factor_.NumberOr(10, {1, 1e6});
    if (!stall_probability_.given()) stall_factor_.Refuse("nothing without --stall-probability");
    options_.seed = static_cast<std::uint64_t>(seed_.IntegerOr(1, kSeedRange));
    const int threads = ThreadsOf(threads_);
    const std::int64_t most_cores = *std::max_element(cores.begin(), cores.end());
    const double parts = 3.0 * made.stages * static_cast<double>(made.microbatches) *
                         static_cast<double>(most_cores);
    RefuseIf(parts > kMaxParts, microbatches_.name(), made.microbatches,
             fmt::format("fewer: {} parts of actions to simulate, at most {}", parts, kMaxParts));
    CheckActions(made, 1);
    const hwmodel::Schedule schedule = Make(kind, made);
    TableOutput table(out_);
    if (!network_.given()) {
      const bool split = schedule.splits_backward();
      options_.times.stages.assign(static_cast<std::size_t>(made.stages),
                                   {.forward_seconds = 1,
                                    .backward_seconds = split ? 1.0 : 2.0,
                                    .weight_gradient_seconds = split ? 1.0 : 0.0});
    }
    hwmodel::SimulationOptions steady;
    steady.times = options_.times;
    const double even = hwmodel::SimulatePipeline(schedule, steady).seconds;
    const auto runs = Solved(threads, rows, [&](const auto& row) {
      const auto& [jitter, queue, count] = row;
      hwmodel::SimulationOptions options = options_;
      options.jitter = jitter;
      options.queue_capacity = queue;
      options.cores_of_worker.assign(static_cast<std::size_t>(schedule.workers()), count);
      return hwmodel::SimulatePipeline(schedule, options);
    });
    const bool has_network = network_.given();
    const auto samples =
        static_cast<double>(made.microbatches * microbatch_.IntegerOr(1, kMicrobatchRange));
    const std::string columns =
        fmt::format("jitter,queue,cores,{},slowdown,utilisation,longest_queue,events",
                    has_network ? "seconds,samples_per_second" : "time_units");
    table.Report(json(), {{"kind", kind}}, columns, rows.size(), [&](std::size_t i) {
      const auto& [jitter, queue, count] = rows[i];
      const hwmodel::SimulationSummary& run = runs[i];
      Json cells = {{"jitter", jitter}, {"queue", queue}, {"cores", count}};
      cells[has_network ? "seconds" : "time_units"] = run.seconds;
      if (has_network) cells["samples_per_second"] = samples / run.seconds;
      cells["slowdown"] = run.seconds / even;
      cells["utilisation"] = run.utilisation;
      cells["longest_queue"] = run.longest_queue;
      cells["events"] = run.events;
      return cells;
    });
  }

  UsageError Refused(const analysis::InvalidArgument& error) const override {
    // All micro-batches are one update, but with 2bw, which makes as many updates as it can.
    return ModelError(hardware_, error,
                      {{"schedule", kind_.name()},
                       {"microbatches_per_update", microbatches_.name()},
                       {"queue_capacity", queue_.name()}});
  }

 private:
  // The times of a network's groups of stages, whose number the schedule is made for.
  void Predict(const std::string& kind, hwmodel::ScheduleOptions& made) {
    const std::string network = WorkloadName(network_);
    stages_.Refuse("nothing with --network, whose stages they are");
    const hwmodel::Machine machine = MachineOf(hardware_);
    hwmodel::ThroughputOptions options;
    options.schedule = kind;
    options.workers = static_cast<int>(workers_.IntegerOr(0, {1, 2048}));
    options.microbatch = microbatch_.IntegerOr(1, kMicrobatchRange);
    const hwmodel::Workload workload = WorkloadOf(network_, static_cast<int>(machine.number_bytes));
    made.stages = options.workers > 0 ? options.workers : hwmodel::MostWorkers(workload, machine);
    if (hwmodel::FindScheduleKind(kind).flushes) {
      options.microbatches_per_update = made.microbatches;
      // The prediction is of four such updates.
      CheckActions(made, 4);
    }
    const hwmodel::Throughput predicted = hwmodel::PredictThroughput(workload, machine, options);
    RefuseIf(predicted.samples_per_second * predicted.shared_seconds_per_sample > 1 - 1e-12,
             hardware_.name(), hardware_.Text(""),
             fmt::format("a machine whose workers do not wait for one shared memory, as "
                         "those of {} would on this one",
                         network));
    options_.times = predicted.times();
  }

  // A schedule's list, `times` so long.
  void CheckActions(const hwmodel::ScheduleOptions& made, std::int64_t times) const {
    const std::int64_t most = kMaxSimulatedActions / (3 * times * made.stages);
    RefuseIf(made.microbatches > most, microbatches_.name(), made.microbatches,
             fmt::format("at most {} with {} stages", most, made.stages));
  }

  hwmodel::Schedule Make(const std::string& kind, const hwmodel::ScheduleOptions& options) const {
    try {
      hwmodel::Schedule schedule = hwmodel::MakeSchedule(kind, options);
      if (schedule.copies() > 1) kind_.Refuse("a kind with one copy of each stage");
      return schedule;
    } catch (const analysis::InvalidArgument& error) {
      if (error.name() == "chunks") {
        throw UsageError(stages_.name(), std::to_string(options.stages),
                         fmt::format("an even number with {}: two stages for each worker", kind));
      }
      throw;
    }
  }

  Argument kind_{
      app(), "--kind", "K",
      fmt::format("{}; required", fmt::join(analysis::NamesOf(hwmodel::ScheduleKinds()), "|"))};
  Argument stages_{app(), "--stages", "S", "Number of equal stages; this or --network is required"};
  Argument network_{app(), "--network", "N",
                    fmt::format("{}", fmt::join(hwmodel::WorkloadNames(), "|"))};
  Argument hardware_{app(), "--hardware", "F.toml",
                     "Machine file, as in hwmodel/machines; required with --network"};
  Argument workers_{
      app(), "--workers", "W",
      "With --network, groups of stages (default: as many as there are stages, or cores)"};
  Argument microbatch_{
      app(), "--microbatch", "B",
      "With --network, samples that go through the pipeline together (default: 1)"};
  Argument microbatches_{app(), "--microbatches", "N", "Micro-batches in all; required"};
  Argument jitter_{app(), "--jitter", "LIST", "Largest relative deviation (default: 0)"};
  Argument queue_{app(), "--queue", "LIST",
                  "Messages that a queue between stages holds; 0: any number (default: 0)"};
  Argument cores_{app(), "--cores", "LIST", "Cores that share each action (default: 1)"};
  Argument stall_probability_{app(), "--stall-probability", "P", "Of a core's action (default: 0)"};
  Argument stall_factor_{app(), "--stall-factor", "F", "Of its time then (default: 10)"};
  Argument seed_{app(), "--seed", "N", "Of the random numbers (default: 1)"};
  Argument threads_{app(), "--threads", "N", "Threads; 0: as many as the machine has (default: 0)"};
  Argument out_{app(), "--out", "F.csv", "Write the table to this file"};
  hwmodel::SimulationOptions options_;
};

}  // namespace

const CommandMaker kStragglersCommand = MakeCommand<StragglersCommand>;

}  // namespace batchless
