#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "commands/commands.h"
#include "output_file.h"
#include "run_log.h"
#include "run_page.h"

namespace batchless {
namespace {

// Columns as wide as their longest entries.
void PrintTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i) PrintText("{:<{}}  ", row[i], widths[i]);
    PrintText("{}\n", row.back());
  }
}

class CompareCommand final : public Command {
 public:
  explicit CompareCommand(CLI::App& root)
      : Command(
            root, "compare", "Several runs' curves, and what their configurations differ in",
            "RUN is a folder that train --out wrote; a run that goes on is shown as far as it is.\n"
            "--out F.html is a page with both tables and the curves of accuracy, losses and\n"
            "learning rate against samples, F.csv the runs' rows of metrics.csv, one below the\n"
            "other, with the run before them.",
            {"compare runs/sgdm runs/sc", "compare runs/* --out build/compare.html",
             "compare runs/sgdm runs/sc --json"}) {}

  void Run() override {
    std::vector<RunRecord> runs;
    constexpr std::string_view kRun = "RUN";
    for (const std::string& path : runs_.texts()) runs.push_back(ReadRun(kRun, path));
    if (runs.empty()) throw UsageError(kRun, "nothing", kRunFolder);
    NameApart(runs);
    std::optional<OutputFile> file;
    if (out_.given()) file.emplace(out_.name(), out_.Text(""), ".html,.csv");
    if (file) file->Write(file->extension() == ".csv" ? Csv(runs) : Html(runs));
    if (json()) {
      Json object = {{"runs", Json::array()}, {"differences", Json::object()}};
      for (const RunRecord& run : runs) object["runs"].push_back(Outcome(run));
      for (const Difference& each : Differences(runs))
        object["differences"][each.key] = each.values;
      json().Put(object);
      return;
    }
    PrintTable(OutcomeTable(runs));
    const auto differences = DifferenceTable(runs);
    PrintText("\n");
    if (differences.size() > 1) {
      PrintTable(differences);
    } else {
      PrintText("One configuration.\n");
    }
  }

 private:
  // Folders of one name are told apart by their paths.
  static void NameApart(std::vector<RunRecord>& runs) {
    std::vector<std::string> names;
    names.reserve(runs.size());
    for (const RunRecord& run : runs) names.push_back(run.name);
    for (RunRecord& run : runs) {
      if (std::count(names.begin(), names.end(), run.name) > 1) run.name = run.path;
    }
  }

  static std::string Html(const std::vector<RunRecord>& runs) {
    const auto differences = DifferenceTable(runs);
    return PageText("Runs side by side",
                    TableText(OutcomeTable(runs)) + ChartsText(runs) +
                        HeadingText("What their configurations differ in") +
                        (differences.size() > 1 ? TableText(differences) : "<p>Nothing.</p>\n"));
  }

  static std::string Csv(const std::vector<RunRecord>& runs) {
    std::vector<std::string_view> columns = SplitList(kMetricsColumns);
    if (std::any_of(runs.begin(), runs.end(),
                    [](const RunRecord& run) { return run.metrics.contains(kExcessColumn); })) {
      columns.push_back(kExcessColumn);
    }
    std::string text = fmt::format("run,{}\n", fmt::join(columns, ","));
    for (const RunRecord& run : runs) {
      const std::size_t count = run.metrics.at("samples").size();
      for (std::size_t i = 0; i < count; ++i) {
        text += CsvField(run.name);
        for (const std::string_view column : columns) {
          const auto found = run.metrics.find(column);
          const bool is_there = found != run.metrics.end() && !std::isnan(found->second[i]);
          text += is_there ? fmt::format(",{}", found->second[i]) : ",";
        }
        text += '\n';
      }
    }
    return text;
  }

  RepeatedArgument runs_{app(), "RUN", "RUN...", "Folders of runs"};
  Argument out_{app(), "--out", "F.html|F.csv",
                "Draw the curves on this page, or write their rows"};
};

}  // namespace

const CommandMaker kCompareCommand = MakeCommand<CompareCommand>;

}  // namespace batchless
