// Rows of results, described once: as CSV in --out or on standard output, and as JSON.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "argument.h"
#include "command_host.h"
#include "output_file.h"
#include "text_output.h"

namespace batchless {

// Row i by the names of its columns. In CSV null and NaN are empty fields, an infinity, which stands where
// there is no limit, is inf, true is 1, and a list has spaces.
using Row = std::function<Json(std::size_t)>;

// What is no finite number as nothing, which is null in JSON and an empty field in CSV.
Json FiniteOrNull(double value);

// A text as a field, in quotes where it has to be.
std::string CsvField(std::string_view text);

// All of them as a JSON list.
Json Rows(std::size_t count, const Row& row);

class TableOutput {
 public:
  // Throws UsageError where --out names a place that cannot be written.
  explicit TableOutput(const Argument& out);

  bool has_file() const { return file_.has_value(); }

  // Calls print(TextOutput&) for the file or for standard output and puts the file in its place.
  template <class Print>
  void Write(Print print) {
    if (!file_) return print(TextOutput::Standard());
    TextOutput output(file_->temporary_path(), file_->path());
    print(output);
    output.Close();
    file_->Commit();
  }

  // The columns, "rate,momentum", of `count` rows as CSV; what a row lacks is in `about`.
  void Write(std::string_view columns, std::size_t count, const Row& row,
             const Json& about = Json::object());

  // CSV unless `json` is wanted and there is no file; JSON: `about`, and the rows in it. `cells`: rows of
  // the CSV where they are others.
  void Report(const JsonOutput& json, Json about, std::string_view columns, std::size_t count,
              const Row& row, const Row& cells = nullptr);

  // The same of points, of which one alone is an object of its own in JSON, and has no CSV but in a
  // file. Returns whether it is left to be printed as text.
  bool ReportPoints(const JsonOutput& json, std::string_view columns, std::size_t count,
                    const Row& row);

 private:
  std::optional<OutputFile> file_;
};

}  // namespace batchless
