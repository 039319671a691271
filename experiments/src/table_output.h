// Where a command's CSV goes: to --out, or else to standard output.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "argument.h"
#include "output_file.h"
#include "text_output.h"

namespace batchless {

inline constexpr std::array<std::string_view, 1> kCsvExtension = {".csv"};

// A text as one field of a line.
inline std::string CsvField(std::string_view text) {
  if (text.find_first_of(",\"\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

class TableOutput {
 public:
  // Throws UsageError where --out names a place that cannot be written.
  explicit TableOutput(const Argument& out) {
    if (out.given()) file_.emplace(out.name(), out.Text(""), kCsvExtension);
  }

  bool has_file() const { return file_.has_value(); }

  // Calls print(TextOutput&) for the file or for standard output and puts the file in its place.
  template <class Print>
  void Write(Print print) {
    if (file_) {
      TextOutput output(file_->temporary_path(), file_->path());
      print(output);
      output.Close();
      file_->Commit();
    } else {
      TextOutput output;
      print(output);
      output.Close();
    }
  }

 private:
  std::optional<OutputFile> file_;
};

}  // namespace batchless
