// What a run has left in its folder, read back for the commands that show runs. A run that still goes on,
// or was interrupted, has no summary.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text_output.h"

namespace batchless {

struct RunRecord {
  std::string path;  // as given
  std::string name;  // the folder's own
  // Columns of metrics.csv; NaN where a field is empty.
  std::map<std::string, std::vector<double>, std::less<>> metrics;
  // "schedule.kind" and its value as text, in the order of the file; "phase.1.until" in the first phase.
  std::vector<std::pair<std::string, std::string>> configuration;
  Json summary;  // null where there is none
  Json manifest;

  // The last number of a column; NaN where there is none.
  double Last(std::string_view column) const;
  // A number of the summary; NaN where it has none.
  double Number(std::string_view key) const;
  // "finished", "diverged" or "not finished".
  std::string state() const;
};

inline constexpr std::string_view kRunFolder = "the folder of a run, as train --out wrote it";

// Throws UsageError, which calls the folder `argument`, where it holds no run or a file of it cannot be read.
RunRecord ReadRun(std::string_view argument, const std::string& path);

// A setting that not all runs share, and what each has; empty where it has none.
struct Difference {
  std::string key;
  std::vector<std::string> values;
};
std::vector<Difference> Differences(const std::vector<RunRecord>& runs);

}  // namespace batchless
