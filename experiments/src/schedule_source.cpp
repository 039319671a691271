#include "schedule_source.h"

#include <fmt/format.h>

#include <limits>
#include <optional>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/schedule_check.h"
#include "batchless/hwmodel/schedule_file.h"
#include "usage_error.h"

namespace batchless {
hwmodel::Schedule ReadScheduleFile(const std::string& argument, const std::string& path) {
  const bool is_text = path.ends_with(".txt");
  constexpr std::string_view kAccepted = "a file whose name ends in .csv or .txt";
  if (!is_text && !path.ends_with(".csv")) throw UsageError(argument, path, kAccepted);
  const std::string content =
      ReadInput(argument, path, kAccepted, std::numeric_limits<std::size_t>::max());
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
