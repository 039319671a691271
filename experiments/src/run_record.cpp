#include "run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <new>
#include <sstream>

#include "run_directory.h"
#include "toml_reader.h"
#include "usage_error.h"
#include "values.h"

namespace batchless {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::string_view kReadable = "a file that can be read";
constexpr std::size_t kMaxLogBytes = std::size_t{1} << 30;

std::map<std::string, std::vector<double>, std::less<>> ReadMetrics(std::string_view argument,
                                                                    const std::string& path) {
  std::istringstream text(ReadText(argument, path, kReadable, kMaxLogBytes));
  std::string line;
  std::getline(text, line);
  std::vector<std::string> names;
  for (const std::string_view name : SplitList(line)) names.emplace_back(name);
  std::map<std::string, std::vector<double>, std::less<>> columns;
  for (const std::string& name : names) columns[name];
  // Curves and rows are over the samples.
  RefuseIf(!columns.contains("samples") || columns.size() != names.size(), argument,
           fmt::format("{}:1", path), "columns, each once, samples among them");
  for (int row = 2; std::getline(text, line); ++row) {
    const std::vector<std::string_view> fields = SplitList(line);
    if (fields.size() != names.size()) {
      // The last line of a run that goes on may be half written.
      if (text.eof()) break;
      throw UsageError(argument, fmt::format("{}:{}", path, row),
                       fmt::format("{} fields in each line", names.size()));
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      double value = kNaN;
      const char* const end = fields[i].data() + fields[i].size();
      const bool is_number = std::from_chars(fields[i].data(), end, value).ptr == end;
      if (!is_number && !fields[i].empty()) {
        throw UsageError(argument, fmt::format("{}:{}: {}", path, row, fields[i]), "a number");
      }
      columns[names[i]].push_back(value);
    }
  }
  if (text.bad()) throw std::bad_alloc();  // a stream keeps that to itself
  return columns;
}

Json ReadJson(std::string_view argument, const std::string& path) {
  Json object = ParseJson(ReadText(argument, path, kReadable, kMaxLogBytes));
  if (!object.is_object()) throw UsageError(argument, path, "a JSON object");
  return object;
}

void Flatten(const std::string& prefix, const toml::table& table,
             std::vector<std::pair<std::string, std::string>>& settings) {
  // By the lines of the file, which the table does not keep.
  std::vector<std::pair<std::string, const toml::node*>> nodes;
  for (const auto& [key, node] : table) nodes.emplace_back(std::string(key.str()), &node);
  std::stable_sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) {
    return a.second->source().begin.line < b.second->source().begin.line;
  });
  for (const auto& [key, node] : nodes) {
    const std::string name = prefix + key;
    const toml::array* array = node->as_array();
    if (const toml::table* inner = node->as_table()) {
      Flatten(name + ".", *inner, settings);
    } else if (array != nullptr && array->is_array_of_tables()) {
      for (std::size_t i = 0; i < array->size(); ++i) {
        Flatten(name + "." + std::to_string(i + 1) + ".", *array->get_as<toml::table>(i), settings);
      }
    } else {
      settings.emplace_back(name, node->value<std::string>().value_or(NodeText(*node)));
    }
  }
}

}  // namespace

double RunRecord::Last(std::string_view column) const {
  const auto found = metrics.find(column);
  if (found == metrics.end()) return kNaN;
  // What is no number at the end of a run was not left unmeasured.
  const auto at_end = summary.find(column);
  if (at_end != summary.end() && at_end->is_null()) return kNaN;
  const auto last = std::find_if(found->second.rbegin(), found->second.rend(),
                                 [](double value) { return !std::isnan(value); });
  return last == found->second.rend() ? kNaN : *last;
}

double RunRecord::Number(std::string_view key) const {
  const auto found = summary.find(key);
  return found != summary.end() && found->is_number() ? found->get<double>() : kNaN;
}

std::string RunRecord::state() const {
  if (summary.is_null()) return "not finished";
  return summary.value("diverged", Json()).is_null() ? "finished" : "diverged";
}

RunRecord ReadRun(std::string_view argument, const std::string& path) {
  const RunDirectory directory(path);
  RefuseIf(!std::filesystem::is_directory(path) || !std::filesystem::exists(directory.config()),
           argument, path, kRunFolder);
  directory.CheckSums(argument);
  RunRecord run;
  run.path = path;
  run.name = std::filesystem::weakly_canonical(path).filename().string();
  run.metrics = ReadMetrics(argument, directory.metrics());
  const TomlReader configuration(directory.config(),
                                 ReadText(argument, directory.config(), kReadable, kMaxLogBytes));
  Flatten("", configuration.document(), run.configuration);
  run.manifest = ReadJson(argument, directory.manifest());
  if (std::filesystem::exists(directory.summary())) {
    run.summary = ReadJson(argument, directory.summary());
  }
  return run;
}

std::vector<Difference> Differences(const std::vector<RunRecord>& runs) {
  std::vector<Difference> all;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    for (const auto& [key, value] : runs[r].configuration) {
      const std::string& wanted = key;
      auto found = std::find_if(all.begin(), all.end(),
                                [&](const Difference& each) { return each.key == wanted; });
      if (found == all.end()) {
        all.push_back({key, std::vector<std::string>(runs.size())});
        found = all.end() - 1;
      }
      found->values[r] = value;
    }
  }
  std::erase_if(all, [](const Difference& each) {
    return std::all_of(each.values.begin(), each.values.end(),
                       [&](const std::string& value) { return value == each.values.front(); });
  });
  return all;
}

}  // namespace batchless
