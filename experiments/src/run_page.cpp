#include "run_page.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <iterator>

namespace batchless {
namespace {

struct Quantity {
  std::string_view column;
  std::string_view title;
  std::string_view label;
  double factor;
};

constexpr auto kQuantities = std::to_array<Quantity>({
    {"validation_accuracy", "Validation accuracy", "accuracy (%)", 100},
    {"validation_loss", "Validation loss", "loss", 1},
    {"train_loss", "Training loss", "loss", 1},
    {"learning_rate", "Learning rate", "rate", 1},
});

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; }
body { font: 15px/1.5 sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 0.5rem 0 1.5rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 0.2rem 0.9rem 0.2rem 0; vertical-align: top;
         border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
td { min-width: 6rem; overflow-wrap: anywhere; }
)";

std::string NumberText(double value, std::string_view format) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : "–";
}

}  // namespace

std::string PageText(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{0}</title>\n"
      "<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n{2}</body>\n</html>\n",
      Escaped(title), kStyle, body);
}

std::string HeadingText(const std::string& text) {
  return fmt::format("<h2>{}</h2>\n", Escaped(text));
}

std::string TableText(const std::vector<std::vector<std::string>>& rows) {
  std::string table = "<div class=\"wide\"><table>\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string_view cell = i == 0 ? "th" : "td";
    table += "<tr>";
    for (const std::string& text : rows[i]) {
      table += fmt::format("<{0}>{1}</{0}>", cell, Escaped(text));
    }
    table += "</tr>\n";
  }
  return table + "</table></div>\n";
}

std::string ChartsText(const std::vector<RunRecord>& runs, const std::string& further) {
  std::string charts = "<div class=\"charts\">\n";
  for (const Quantity& quantity : kQuantities) {
    std::vector<Curve> curves;
    for (const RunRecord& run : runs) {
      Curve curve{.name = run.name};
      const auto found = run.metrics.find(quantity.column);
      const auto samples = run.metrics.find("samples");
      if (found == run.metrics.end() || samples == run.metrics.end()) continue;
      // Rows are of intervals or of validations: those without this quantity do not interrupt its line.
      for (std::size_t i = 0; i < found->second.size(); ++i) {
        if (std::isnan(found->second[i])) continue;
        curve.x.push_back(samples->second[i]);
        curve.y.push_back(quantity.factor * found->second[i]);
      }
      curves.push_back(std::move(curve));
    }
    charts += LineChart(
        {.title = std::string(quantity.title), .x = "samples", .y = std::string(quantity.label)},
        curves);
  }
  return charts + further + "</div>\n";
}

Json Outcome(const RunRecord& run) {
  Json object;
  object["run"] = run.path;
  object["state"] = run.state();
  object["samples"] = run.Last("samples");
  object["epochs"] = run.Last("epoch");
  object["validation_accuracy"] = run.Last("validation_accuracy");
  object["validation_loss"] = run.Last("validation_loss");
  object["train_loss"] = run.Last("train_loss");
  object["samples_per_second"] = run.Number("samples_per_second");
  const bool has_weights = run.summary.contains("weights_sha256");
  object["weights_sha256"] = has_weights ? run.summary["weights_sha256"] : Json();
  return object;
}

std::vector<std::vector<std::string>> OutcomeTable(const std::vector<RunRecord>& runs) {
  std::vector<std::vector<std::string>> rows = {{"run", "state", "samples", "epochs",
                                                 "validation accuracy", "validation loss",
                                                 "training loss", "samples/s"}};
  for (const RunRecord& run : runs) {
    rows.push_back({run.name, run.state(), NumberText(run.Last("samples"), "{:.0f}"),
                    NumberText(run.Last("epoch"), "{:.4g}"),
                    NumberText(100 * run.Last("validation_accuracy"), "{:.2f} %"),
                    NumberText(run.Last("validation_loss"), "{:.4f}"),
                    NumberText(run.Last("train_loss"), "{:.4f}"),
                    NumberText(run.Number("samples_per_second"), "{:.0f}")});
  }
  return rows;
}

std::vector<std::vector<std::string>> DifferenceTable(const std::vector<RunRecord>& runs) {
  std::vector<std::vector<std::string>> rows(1, {"key"});
  for (const RunRecord& run : runs) rows.front().push_back(run.name);
  for (const Difference& each : Differences(runs)) {
    rows.push_back({each.key});
    for (const std::string& value : each.values) rows.back().push_back(value.empty() ? "–" : value);
  }
  return rows;
}

}  // namespace batchless
