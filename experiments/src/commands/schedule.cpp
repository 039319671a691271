#include <array>
#include <optional>
#include <string>
#include <vector>

#include "argument.h"
#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/schedule_file.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_picture.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "commands/commands.h"
#include "memory.h"
#include "output_file.h"
#include "schedule_source.h"
#include "usage_error.h"

namespace batchless {
namespace {

using hwmodel::Schedule;
using hwmodel::ScheduleSummary;

constexpr IntegerRange kStagesRange{1, 10'000};
constexpr IntegerRange kMicrobatchesRange{1, 10'000'000};
constexpr std::array<std::string_view, 4> kOutExtensions = {".csv", ".txt", ".svg", ".json"};
constexpr std::size_t kMaxJsonActions = 100'000;

// Actions, what the check and the summary keep, and the text of one in a file.
constexpr double kBytesPerAction = 120;

std::vector<std::string_view> KindNames() {
  std::vector<std::string_view> names;
  for (const hwmodel::ScheduleKind& kind : hwmodel::ScheduleKinds()) names.push_back(kind.name);
  return names;
}

class ScheduleCommand final : public Command {
 public:
  explicit ScheduleCommand(CLI::App& root)
      : Command(
            root, "schedule", "Who does what when: actions, delays and utilisation of a schedule",
            "Kinds:\n"
            "  pb, fill-drain    a step has room for a forward and a backward at every stage\n"
            "  gpipe, 1f1b, 2bw, pipedream-flush, interleaved, zb-h1\n"
            "                    a step has room for one of them, or for a weight gradient\n"
            "Delays, versions and micro-batches in flight are the largest of each stage, read off\n"
            "the list of actions. --out writes the list: F.csv (step,stage,kind,microbatch; kinds "
            "F\n"
            "forward, B backward, W weight gradient, U update), F.txt (one line a step, 2F0 for\n"
            "stage 2, forward, micro-batch 0), F.svg (a picture) or F.json (a trace for "
            "Perfetto).\n"
            "--file reads a list in the form of F.csv or F.txt and names the first action that "
            "breaks\n"
            "a rule. --json without --out holds the actions too, unless there are more than "
            "100000.",
            {"schedule --kind pb --stages 4 --microbatches 16",
             "schedule --kind zb-h1 --stages 4 --microbatches 8 --out schedule.svg",
             "schedule --kind 2bw --stages 4 --microbatches 32 --microbatches-per-update 8 --json",
             "schedule --file schedule.csv --out schedule.json"}),
        kind_(app(), "--kind", "K",
              fmt::format("{}; this or --file is required", fmt::join(KindNames(), "|"))),
        stages_(app(), "--stages", "S", "Number of stages, required with --kind"),
        microbatches_(app(), "--microbatches", "N", "Micro-batches in all, required with --kind"),
        per_update_(app(), "--microbatches-per-update", "M",
                    "Micro-batches of an update (default: N; with 2bw the smallest divisor of N "
                    "that is at least S)"),
        chunks_(app(), "--chunks", "V", "Stages of a worker, with interleaved (default: 2)"),
        file_(app(), "--file", "F.csv|F.txt", "Read a schedule in place of making one"),
        out_(app(), "--out", "F.csv|F.txt|F.svg|F.json", "Write the actions to this file"),
        weight_stashing_(app(), "--weight-stashing",
                         "Backwards read the weights that their forwards read") {}

  void Run() override {
    const Schedule schedule = file_.given() ? ReadSchedule() : MakeNamed();
    std::optional<OutputFile> out;
    if (out_.given()) out.emplace(out_.name(), out_.Text(""), kOutExtensions);
    const ScheduleSummary summary = hwmodel::Summarize(schedule);
    if (out) WriteOut(*out, schedule);
    if (json()) {
      ReportJson(schedule, summary);
    } else {
      ReportText(schedule, summary);
    }
  }

 private:
  Schedule MakeNamed() const {
    const std::vector<std::string_view> names = KindNames();
    kind_.Choice(names);
    hwmodel::ScheduleOptions options;
    options.stages = static_cast<int>(stages_.Integer(kStagesRange));
    options.microbatches = microbatches_.Integer(kMicrobatchesRange);
    options.microbatches_per_update = per_update_.IntegerOr(0, kMicrobatchesRange);
    options.chunks = static_cast<int>(chunks_.IntegerOr(0, kStagesRange));
    options.weight_stashing = weight_stashing_.given();
    CheckMemory(options);
    try {
      return hwmodel::MakeSchedule(kind_.Text(""), options);
    } catch (const analysis::InvalidArgument& error) {
      // The library names its fields, which are the options' names with underscores.
      std::string line = error.what();
      for (std::size_t i = 0; i < error.name().size(); ++i) {
        if (line[i] == '_') line[i] = '-';
      }
      throw UsageError::FromLine("--" + line);
    }
  }

  void CheckMemory(const hwmodel::ScheduleOptions& options) const {
    const double actions = 3.0 * options.stages * static_cast<double>(options.microbatches);
    const std::optional<double> available = AvailableMemoryBytes();
    if (!available || actions * kBytesPerAction <= *available) return;
    throw UsageError(
        microbatches_.name(),
        fmt::format("{}, whose {} actions take {}", options.microbatches, actions,
                    BytesText(actions * kBytesPerAction)),
        fmt::format("as many as fit the {} of memory available", BytesText(*available)));
  }

  Schedule ReadSchedule() const {
    for (const Argument* argument : {&kind_, &stages_, &microbatches_, &per_update_, &chunks_}) {
      argument->Refuse("nothing together with --file");
    }
    if (weight_stashing_.given()) {
      throw UsageError("--weight-stashing", "it", "the file's column weights, with --file");
    }
    return ReadScheduleFile(file_.name(), file_.Text(""));
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
      content = Picture(schedule);
    } else {
      content = hwmodel::ToTraceJson(schedule);
    }
    TextOutput output(out.temporary_path(), out.path());
    output.Print("{}", content);
    output.Close();
    out.Commit();
  }

  std::string Picture(const Schedule& schedule) const {
    try {
      return hwmodel::ToSvg(schedule, Title());
    } catch (const analysis::InvalidArgument& error) {
      throw UsageError::FromLine(
          fmt::format("{} {}: {}", out_.name(), out_.Text(""), error.what()));
    }
  }

  template <class Value>
  static Json ByStage(const ScheduleSummary& summary, Value hwmodel::StageSummary::*field) {
    Json list = Json::array();
    for (const hwmodel::StageSummary& stage : summary.stages) list.push_back(stage.*field);
    return list;
  }

  void ReportJson(const Schedule& schedule, const ScheduleSummary& summary) const {
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
    PrintJson(object);
  }

  void ReportText(const Schedule& schedule, const ScheduleSummary& summary) const {
    TextOutput output;
    output.Print("{}: {} stages, {} workers, {} micro-batches, {} actions in {} steps\n", Title(),
                 schedule.stages, summary.workers, schedule.microbatches, schedule.actions.size(),
                 summary.steps);
    output.Print("  utilisation   {:.6g}\n", summary.utilisation);
    output.Print("  bubble ratio  {:.6g}\n", summary.bubble_ratio);
    output.Print("  weights       {}\n", Name(schedule.weights));
    output.Print("\n{:>5} {:>6} {:>13} {:>14} {:>9} {:>8} {:>12}\n", "stage", "worker",
                 "forward delay", "backward delay", "in flight", "versions", "if stashed");
    for (int s = 0; s < schedule.stages; ++s) {
      const hwmodel::StageSummary& stage = summary.stages[static_cast<std::size_t>(s)];
      output.Print("{:>5} {:>6} {:>13} {:>14} {:>9} {:>8} {:>12}\n", s, schedule.worker(s),
                   stage.forward_delay_updates, stage.backward_delay_updates,
                   stage.activations_in_flight, stage.weight_versions,
                   stage.stashed_weight_versions);
    }
    output.Close();
  }

  Argument kind_;
  Argument stages_;
  Argument microbatches_;
  Argument per_update_;
  Argument chunks_;
  Argument file_;
  Argument out_;
  Flag weight_stashing_;
};

}  // namespace

std::unique_ptr<Command> MakeScheduleCommand(CLI::App& root) {
  return std::make_unique<ScheduleCommand>(root);
}

}  // namespace batchless
