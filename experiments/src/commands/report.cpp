#include <fmt/format.h>

#include "commands/commands.h"
#include "output_file.h"
#include "run_page.h"

namespace batchless {
namespace {

std::string Shown(const Json& value) {
  return value.is_string() ? value.get<std::string>() : JsonText(value);
}

class ReportCommand final : public Command {
 public:
  explicit ReportCommand(CLI::App& root)
      : Command(root, "report", "One run's page: outcome, curves, stages, configuration and origin",
                "RUN is a folder that train --out wrote. The page is one file of HTML.",
                {"report runs/sgdm", "report runs/sgdm --out sgdm.html"}) {}

  void Run() override {
    const RunRecord run = ReadRun(run_.name(), run_.Text(kRunFolder));
    OutputFile file(out_.name(), out_.given() ? out_.Text("") : run.path + "/report.html", ".html");
    try {
      file.Write(Html(run));
    } catch (const Json::exception&) {
      throw UsageError(run_.name(), run.path + "/summary.json", "a summary that train wrote");
    }
    if (json()) {
      Json object = Outcome(run);
      object["out"] = file.path();
      json().Put(object);
    } else {
      PrintText("{}\n", file.path());
    }
  }

 private:
  static std::string Html(const RunRecord& run) {
    const Json& summary = run.summary;
    std::string body =
        TableText(OutcomeTable({run})) +
        ChartsText({run}, summary.contains("delays") ? DelayChart(summary["delays"]) : "");
    if (summary.contains("workers")) {
      body += HeadingText("Workers") + TableText(WorkerTable(summary["workers"]));
    }
    std::vector<std::vector<std::string>> rows = {{"key", "value"}};
    for (const auto& [key, value] : run.configuration) rows.push_back({key, value});
    body += HeadingText("Configuration") + TableText(rows);
    rows = {{"key", "value"}};
    for (const auto& [key, value] : run.manifest.items()) rows.push_back({key, Shown(value)});
    if (summary.contains("weights_sha256")) {
      rows.push_back({"weights_sha256", Shown(summary["weights_sha256"])});
    }
    body += HeadingText("Origin") + TableText(rows);
    return PageText("Run " + run.name, body);
  }

  static std::string DelayChart(const Json& delays) {
    std::vector<Curve> curves(1);
    for (const Json& delay : delays) {
      curves[0].x.push_back(static_cast<double>(curves[0].x.size()));
      curves[0].y.push_back(delay.get<double>());
    }
    return LineChart({.title = "Delay by stage", .x = "stage", .y = "updates"}, curves);
  }

  static std::vector<std::vector<std::string>> WorkerTable(const Json& workers) {
    std::vector<std::vector<std::string>> rows = {{"worker", "stages", "busy (s)", "waiting (s)"}};
    for (const Json& worker : workers) {
      const auto number = [&](const char* key) { return worker.at(key).get<double>(); };
      rows.push_back(
          {fmt::format("{}", rows.size() - 1),
           fmt::format("{:.0f} to {:.0f}", number("first_stage"), number("end_stage") - 1),
           fmt::format("{:.2f}", number("busy_seconds")),
           fmt::format("{:.2f}", number("waiting_seconds"))});
    }
    return rows;
  }

  Argument run_{app(), "RUN", "RUN", "Folder of a run"};
  Argument out_{app(), "--out", "F.html", "Write the page here (default: RUN/report.html)"};
};

}  // namespace

const CommandMaker kReportCommand = MakeCommand<ReportCommand>;

}  // namespace batchless
