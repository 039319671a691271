#include "schedule_source.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/schedule_check.h"
#include "batchless/hwmodel/schedule_file.h"
#include "usage_error.h"

namespace batchless {
namespace {

// Empty where there is no such file.
std::string ReadWhole(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return {};
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

hwmodel::Schedule ReadScheduleFile(const std::string& argument, const std::string& path) {
  const bool is_text = path.ends_with(".txt");
  const std::string content = ReadWhole(path);
  if (content.empty() || (!is_text && !path.ends_with(".csv"))) {
    throw UsageError(argument, path, "a file whose name ends in .csv or .txt, not empty");
  }
  try {
    hwmodel::Schedule schedule =
        is_text ? hwmodel::ParseScheduleText(content) : hwmodel::ParseCsv(content);
    const std::optional<hwmodel::BrokenRule> broken = hwmodel::FirstBrokenRule(schedule);
    if (!broken) return schedule;
    // In CSV the actions begin on line 2.
    const std::string line =
        broken->action && !is_text ? fmt::format(" line {}", *broken->action + 2) : std::string();
    throw UsageError(fmt::format("{} {}{}", argument, path, line), broken->place, broken->accepted);
  } catch (const hwmodel::ScheduleFileError& error) {
    throw UsageError::FromLine(fmt::format("{} {} {}", argument, path, error.what()));
  } catch (const analysis::InvalidArgument& error) {
    throw UsageError::FromLine(fmt::format("{} {} {}", argument, path, error.what()));
  }
}

}  // namespace batchless
