#include "table_output.h"

#include <cmath>
#include <string>
#include <vector>

#include "values.h"

namespace batchless {
namespace {

std::string Field(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return CsvField(value.get<std::string>());
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  // JSON itself has no infinity and no NaN.
  if (value.is_number_float()) {
    const double number = value.get<double>();
    return std::isnan(number) ? "" : fmt::format("{}", number);
  }
  if (!value.is_array()) return JsonText(value);
  std::vector<std::string> items;
  for (const Json& item : value) items.push_back(Field(item));
  return fmt::format("{}", fmt::join(items, " "));
}

}  // namespace

Json FiniteOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

std::string CsvField(std::string_view text) {
  std::string utf8 = Utf8(text);
  if (utf8.find_first_of(",\"\n\r") == std::string::npos) return utf8;
  std::string quoted = "\"";
  for (const char c : utf8) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

Json Rows(std::size_t count, const Row& row) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < count; ++i) rows.push_back(row(i));
  return rows;
}

TableOutput::TableOutput(const Argument& out) {
  if (out.given()) file_.emplace(out.name(), out.Text(""), ".csv");
}

void TableOutput::Write(std::string_view columns, std::size_t count, const Row& row,
                        const Json& about) {
  const std::vector<std::string_view> names = SplitList(columns);
  Write([&](TextOutput& output) {
    output.Print("{}\n", columns);
    for (std::size_t i = 0; i < count; ++i) {
      const Json cells = row(i);
      std::string line;
      for (const std::string_view name : names) {
        const std::string key(name);
        line += Field(cells.contains(key) ? cells[key] : about.value(key, Json())) + ",";
      }
      line.back() = '\n';
      output.Print("{}", line);
    }
  });
}

void TableOutput::Report(const JsonOutput& json, Json about, std::string_view columns,
                         std::size_t count, const Row& row, const Row& cells) {
  if (file_ || !json) Write(columns, count, cells ? cells : row, about);
  if (!json) return;
  about["rows"] = Rows(count, row);
  json.Put(about);
}

bool TableOutput::ReportPoints(const JsonOutput& json, std::string_view columns, std::size_t count,
                               const Row& row) {
  if (file_ || (!json && count > 1)) Write(columns, count, row);
  if (!json) return count == 1;
  Json object = count == 1 ? row(0) : Json::object();
  object["rows"] = Rows(count, row);
  json.Put(object);
  return false;
}

}  // namespace batchless
