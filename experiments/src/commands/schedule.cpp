#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "batchless/hwmodel/schedule_file.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_picture.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "batchless/hwmodel/steady_state.h"
#include "commands/commands.h"
#include "memory.h"
#include "output_file.h"
#include "schedule_source.h"

namespace batchless {
namespace {

using hwmodel::Schedule;
using hwmodel::ScheduleSummary;

constexpr IntegerRange kStagesRange{1, 10'000};
constexpr IntegerRange kMicrobatchesRange{1, 10'000'000};
constexpr std::size_t kMaxJsonActions = 100'000;

// Laying out a list of so many actions, to find its kind's steady state, takes some seconds.
constexpr std::int64_t kMaxActions = 20'000'000;

// Actions, what the check and the summary keep, and the text of one in a file.
constexpr double kBytesPerAction = 120;

class ScheduleCommand final : public Command {
 public:
  explicit ScheduleCommand(CLI::App& root)
      : Command(
            root, "schedule", "Who does what when: actions, delays and utilisation of a schedule",
            R"(Kinds:
  pb, fill-drain    a step has room for a forward and a backward at every stage
  gpipe, 1f1b, 2bw, paci, amdp, amdp-multi, pipedream-flush, interleaved, zb-h1, zb-v, dualpipe-v,
  dualpipe
                    a step has room for one of them, or for a weight gradient
Delays, versions and micro-batches in flight are the largest of each stage in the
steady state, or of the list itself where that is too short, as a note then says
(JSON: shows_steady_state, steady_delays). Utilisation counts fill and drain.
--out writes the list of actions: F.csv (step,stage,kind,microbatch; kinds F
forward, B backward, W weight gradient, U update), F.txt (one line a step, 2F0 for
stage 2, forward, micro-batch 0), F.svg (a picture) or F.json (a trace for Perfetto).
--file reads a list in the form of F.csv or F.txt and names the first action that breaks
a rule. --json without --out holds the actions too, unless there are more than 100000.)",
            {"schedule --kind pb --stages 4 --microbatches 16",
             "schedule --kind zb-h1 --stages 4 --microbatches 8 --out schedule.svg",
             "schedule --kind 2bw --stages 4 --microbatches 32 --microbatches-per-update 8 --json",
             "schedule --file schedule.csv --out schedule.json"}) {}

  void Run() override {
    const Schedule schedule = file_.given() ? ReadSchedule() : MakeNamed();
    std::optional<OutputFile> out;
    if (out_.given()) out.emplace(out_.name(), out_.Text(""), ".csv,.txt,.svg,.json");
    ScheduleSummary summary = hwmodel::Summarize(schedule);
    const SteadyDelays steady = FindSteadyDelays(schedule, summary);
    if (out) WriteOut(*out, schedule);
    if (json()) {
      ReportJson(schedule, summary, steady);
    } else {
      ReportText(schedule, summary, steady);
    }
  }

 private:
  // What a list says of the delays of runs that are long enough.
  struct SteadyDelays {
    std::optional<std::vector<std::int64_t>> updates;  // by stage; none where nothing tells them
    std::string note;  // why the list does not show them; empty where it does
  };

  hwmodel::ScheduleOptions NamedOptions() const {
    hwmodel::ScheduleOptions options;
    options.stages = static_cast<int>(stages_.Integer(kStagesRange));
    options.microbatches = microbatches_.Integer(kMicrobatchesRange);
    options.microbatches_per_update = per_update_.IntegerOr(0, kMicrobatchesRange);
    options.chunks = static_cast<int>(chunks_.IntegerOr(0, kStagesRange));
    options.weight_stashing = weight_stashing_.given();
    options.vertical_sync = vertical_sync_.given();
    return options;
  }

  Schedule MakeNamed() const {
    kind_.Choice(analysis::NamesOf(hwmodel::ScheduleKinds()));
    const hwmodel::ScheduleOptions options = NamedOptions();
    const double actions = 3.0 * options.stages * static_cast<double>(options.microbatches);
    RequireMemory(microbatches_.name(),
                  fmt::format("{}, whose {} actions take", options.microbatches, actions),
                  actions * kBytesPerAction, "as many as fit");
    return hwmodel::MakeSchedule(kind_.Text(""), options);
  }

  Schedule ReadSchedule() const {
    for (const Argument* argument : {&kind_, &stages_, &microbatches_, &per_update_, &chunks_}) {
      argument->Refuse("nothing together with --file");
    }
    RefuseIf(weight_stashing_.given() || vertical_sync_.given(),
             weight_stashing_.given() ? "--weight-stashing" : "--vertical-sync", "it",
             "the file's column weights, with --file");
    return ReadScheduleFile(file_.name(), file_.Text(""));
  }

  static SteadyDelays Shown(const ScheduleSummary& summary) {
    SteadyDelays steady;
    steady.updates.emplace();
    for (const hwmodel::StageSummary& stage : summary.stages) {
      steady.updates->push_back(stage.forward_delay_updates);
    }
    return steady;
  }

  // Takes the stages' numbers from the list's steady state where it has one: a list may be long
  // enough to show all delays and too short for all versions of the weights.
  SteadyDelays FindSteadyDelays(const Schedule& schedule, ScheduleSummary& summary) const {
    const std::int64_t per_update = hwmodel::MicrobatchesPerUpdate(schedule);
    const std::int64_t enough = hwmodel::EnoughMicrobatches(schedule.stages, per_update);
    if (!file_.given() &&
        (hwmodel::FindScheduleKind(kind_.Text("")).flushes || schedule.microbatches >= enough)) {
      return Shown(summary);
    }
    try {
      summary.stages = hwmodel::Summarize(InSteadyState(schedule)).stages;
      return Shown(summary);
    } catch (const analysis::InvalidArgument&) {
      // There is none in the list.
    }
    SteadyDelays steady;
    if (file_.given()) {
      steady.note = "the list does not repeat itself, or is too short for its steady state";
      return steady;
    }
    if (per_update == schedule.microbatches) steady.note = "one update only: nothing is late; ";
    steady.note += "too short for the steady state";
    if (3 * schedule.stages * enough > kMaxActions) {
      steady.note += fmt::format(", for which {} micro-batches are enough", enough);
      return steady;
    }
    hwmodel::ScheduleOptions options = NamedOptions();
    options.microbatches = enough;
    options.microbatches_per_update = per_update;
    const ScheduleSummary longer =
        hwmodel::Summarize(hwmodel::MakeSchedule(kind_.Text(""), options));
    steady.updates = Shown(longer).updates;
    if (steady.updates == Shown(summary).updates) {
      summary.stages = longer.stages;
      return Shown(summary);
    }
    steady.note += fmt::format(", whose delays are {}", fmt::join(*steady.updates, ", "));
    return steady;
  }

  std::string Title() const {
    if (file_.given()) return file_.Text("");
    return std::string(hwmodel::FindScheduleKind(kind_.Text("")).title);
  }

  void WriteOut(OutputFile& out, const Schedule& schedule) const {
    std::string content;
    if (out.extension() == ".csv") {
      content = hwmodel::ToCsv(schedule);
    } else if (out.extension() == ".txt") {
      content = hwmodel::ToText(schedule);
    } else if (out.extension() == ".svg") {
      content = Within(fmt::format("{} {}", out_.name(), out_.Text("")),
                       [&] { return hwmodel::ToSvg(schedule, Title()); });
    } else {
      content = hwmodel::ToTraceJson(schedule);
    }
    out.Write(content);
  }

  template <class Value>
  static Json ByStage(const ScheduleSummary& summary, Value hwmodel::StageSummary::*field) {
    Json list = Json::array();
    for (const hwmodel::StageSummary& stage : summary.stages) list.push_back(stage.*field);
    return list;
  }

  void ReportJson(const Schedule& schedule, const ScheduleSummary& summary,
                  const SteadyDelays& steady) const {
    using hwmodel::StageSummary;
    Json object;
    object["kind"] = file_.given() ? Json(nullptr) : Json(kind_.Text(""));
    object["stages"] = schedule.stages;
    object["microbatches"] = schedule.microbatches;
    object["workers"] = summary.workers;
    object["slots_per_step"] = schedule.slots_per_step;
    object["weights"] = Name(schedule.weights);
    object["steps"] = summary.steps;
    object["utilisation"] = summary.utilisation;
    object["bubble_ratio"] = summary.bubble_ratio;
    object["delays"] = ByStage(summary, &StageSummary::forward_delay_updates);
    object["backward_delays"] = ByStage(summary, &StageSummary::backward_delay_updates);
    object["activations_in_flight"] = ByStage(summary, &StageSummary::activations_in_flight);
    object["weight_versions"] = ByStage(summary, &StageSummary::weight_versions);
    object["stashed_weight_versions"] = ByStage(summary, &StageSummary::stashed_weight_versions);
    object["shows_steady_state"] = steady.note.empty();
    object["steady_delays"] = OrNull(steady.updates);
    object["action_count"] = schedule.actions.size();
    if (out_.given()) {
      object["out"] = out_.Text("");
    } else if (schedule.actions.size() <= kMaxJsonActions) {
      Json actions = Json::array();
      for (const auto& [step, action] : schedule.actions) {
        actions.push_back(
            {step, action.stage, std::string(1, Letter(action.kind)), action.microbatch});
      }
      object["actions"] = std::move(actions);
    }
    json().Put(object);
  }

  void ReportText(const Schedule& schedule, const ScheduleSummary& summary,
                  const SteadyDelays& steady) const {
    PrintText("{}: {} stages, {} workers, {} micro-batches, {} actions in {} steps\n", Title(),
              schedule.stages, summary.workers, schedule.microbatches, schedule.actions.size(),
              summary.steps);
    PrintText("  utilisation   {:.6g}\n", summary.utilisation);
    PrintText("  bubble ratio  {:.6g}\n", summary.bubble_ratio);
    PrintText("  weights       {}\n", Name(schedule.weights));
    if (!steady.note.empty()) PrintText("  note          {}\n", steady.note);
    PrintText("\n{:>5} {:>6} {:>13} {:>14} {:>9} {:>8} {:>12}\n", "stage", "worker",
              "forward delay", "backward delay", "in flight", "versions", "if stashed");
    for (int s = 0; s < schedule.stages; ++s) {
      const hwmodel::StageSummary& stage = summary.stages[s];
      std::vector<int> workers(schedule.copies());
      for (std::size_t copy = 0; copy < workers.size(); ++copy) {
        workers[copy] = schedule.worker(s, static_cast<std::int64_t>(copy));
      }
      PrintText("{:>5} {:>6} {:>13} {:>14} {:>9} {:>8} {:>12}\n", s,
                fmt::format("{}", fmt::join(workers, ", ")), stage.forward_delay_updates,
                stage.backward_delay_updates, stage.activations_in_flight, stage.weight_versions,
                stage.stashed_weight_versions);
    }
  }

  Argument kind_{app(), "--kind", "K",
                 fmt::format("{}; this or --file is required",
                             fmt::join(analysis::NamesOf(hwmodel::ScheduleKinds()), "|"))};
  Argument stages_{app(), "--stages", "S", "Number of stages, required with --kind"};
  Argument microbatches_{app(), "--microbatches", "N",
                         "Micro-batches in all, required with --kind"};
  Argument per_update_{app(), "--microbatches-per-update", "M",
                       "Micro-batches of an update (default: N; with 2bw the smallest divisor of N "
                       "that is at least S)"};
  Argument chunks_{app(), "--chunks", "V", "Stages of a worker, with interleaved (default: 2)"};
  Argument file_{app(), "--file", "F.csv|F.txt", "Read a schedule in place of making one"};
  Argument out_{app(), "--out", "F.csv|F.txt|F.svg|F.json", "Write the actions to this file"};
  Flag weight_stashing_{app(), "--weight-stashing",
                        "Backwards read the weights that their forwards read"};
  Flag vertical_sync_{app(), "--vertical-sync",
                      "With --weight-stashing: all stages read the version that stage 0 read"};
};

}  // namespace

const CommandMaker kScheduleCommand = MakeCommand<ScheduleCommand>;

}  // namespace batchless
