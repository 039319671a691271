#include "schedule_source.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/schedule_check.h"
#include "batchless/hwmodel/schedule_file.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "usage_error.h"

namespace batchless {
hwmodel::Schedule ReadScheduleFile(const std::string& argument, const std::string& path) {
  const bool is_text = path.ends_with(".txt");
  constexpr std::string_view kAccepted = "a file whose name ends in .csv or .txt";
  if (!is_text && !path.ends_with(".csv")) throw UsageError(argument, path, kAccepted);
  constexpr std::size_t kMaxFileBytes = std::size_t{1} << 30;
  const std::string content = ReadInput(argument, path, kAccepted, kMaxFileBytes);
  try {
    std::vector<std::size_t> lines;
    hwmodel::Schedule schedule =
        is_text ? hwmodel::ParseScheduleText(content) : hwmodel::ParseCsv(content, &lines);
    const std::optional<hwmodel::BrokenRule> broken = hwmodel::FirstBrokenRule(schedule);
    if (!broken) return schedule;
    const std::string line = broken->action && !is_text
                                 ? fmt::format(" line {}", lines[*broken->action])
                                 : std::string();
    throw UsageError(fmt::format("{} {}{}", argument, path, line), broken->place, broken->accepted);
  } catch (const hwmodel::ScheduleFileError& error) {
    throw UsageError::FromLine(fmt::format("{} {} {}", argument, path, error.what()));
  } catch (const analysis::InvalidArgument& error) {
    throw UsageError::FromLine(fmt::format("{} {} {}", argument, path, error.what()));
  }
}

ForwardTimes ForwardTimesOf(const Argument& argument, int stages) {
  const std::string name = argument.given() ? argument.Text("") : std::string("pb");
  const auto make = [&]() -> hwmodel::Schedule {
    if (name.ends_with(".csv") || name.ends_with(".txt")) {
      hwmodel::Schedule list = ReadScheduleFile(argument.name(), name);
      if (list.stages == stages) return list;
      throw UsageError(argument.name(), fmt::format("{} with {} stages", name, list.stages),
                       fmt::format("a schedule of {} stages", stages));
    }
    try {
      hwmodel::ScheduleOptions options;
      options.stages = stages;
      const bool each = hwmodel::FindScheduleKind(name).updates_each;
      options.microbatches_per_update = each ? 1 : stages;
      options.microbatches = hwmodel::EnoughMicrobatches(stages, each ? 1 : stages);
      return hwmodel::MakeSchedule(name, options);
    } catch (const analysis::InvalidArgument& error) {
      if (error.name() == "kind") {
        throw OptionError(error, {{"kind", argument.name()}});
      }
      throw UsageError(argument.name(), name,
                       fmt::format("a schedule that takes {} stages ({})", stages, error.what()));
    }
  };
  ForwardTimes times;
  const hwmodel::Schedule schedule = make();
  for (const hwmodel::StageSummary& stage : hwmodel::Summarize(schedule).stages) {
    times.delays.push_back(stage.forward_delay_updates);
    times.spectrain_horizons.push_back(static_cast<double>(stage.forward_horizon_updates));
  }
  for (const hwmodel::PlaceHorizons& horizons : hwmodel::HorizonsByPlace(schedule)) {
    times.xpipe_horizons.push_back(horizons.forward_updates);
  }
  return times;
}

}  // namespace batchless
