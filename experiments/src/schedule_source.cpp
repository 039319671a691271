#include "schedule_source.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/schedule_check.h"
#include "batchless/hwmodel/schedule_file.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "batchless/hwmodel/steady_state.h"
#include "usage_error.h"

namespace batchless {
namespace {

// A list that does not repeat is searched in vain, the longer the more so; one that long shows what it
// does anyway.
constexpr std::int64_t kMaxSearchedMicrobatches = 5'000;
constexpr std::int64_t kMaxSearchedUpdates = 1'000;
// Forwards that lag far behind many micro-batches an update take a long list, of so many actions at most.
constexpr std::int64_t kMaxLaggingActions = 20'000'000;

}  // namespace

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

hwmodel::Schedule InSteadyState(const hwmodel::Schedule& schedule) {
  const std::int64_t per_update = hwmodel::MicrobatchesPerUpdate(schedule);
  const std::int64_t lag = schedule.forward_lag * per_update;
  // A cycle ends with an update: however long a list of few of them is, few lengths are searched.
  if (schedule.microbatches > kMaxSearchedMicrobatches + 2 * lag &&
      schedule.microbatches > kMaxSearchedUpdates * per_update) {
    return schedule;
  }
  const hwmodel::SteadyState steady = hwmodel::FindSteadyState(schedule);
  const std::int64_t enough = hwmodel::EnoughMicrobatches(steady);
  analysis::RefuseIf(lag > 0 && enough > kMaxLaggingActions / (3 * schedule.stages), "forward_lag",
                     schedule.forward_lag,
                     fmt::format("one that shows in fewer than {} micro-batches", enough));
  return hwmodel::Repeat(steady, schedule, enough);
}

UsageError NoSteadyState(const std::string& argument, const std::string& path,
                         const hwmodel::Schedule& schedule,
                         const analysis::InvalidArgument& error) {
  const std::int64_t enough =
      hwmodel::EnoughMicrobatches(schedule.stages, hwmodel::MicrobatchesPerUpdate(schedule));
  return UsageError(argument, fmt::format("{}, with {}", path, error.value()),
                    fmt::format("{} ({} are enough for every kind of batchless schedule)",
                                error.accepted(), enough));
}

ForwardTimes ForwardTimesOf(const Argument& argument, int stages) {
  const std::string name = argument.given() ? argument.Text("") : std::string("pb");
  // A lag adds to every delay and horizon alike, so that no list has to be long enough to show it.
  std::int64_t lag = 0;
  const auto make = [&]() -> hwmodel::Schedule {
    if (name.ends_with(".csv") || name.ends_with(".txt")) {
      hwmodel::Schedule list = ReadScheduleFile(argument.name(), name);
      RefuseIf(list.stages != stages, argument.name(),
               fmt::format("{} with {} stages", name, list.stages),
               fmt::format("a schedule of {} stages", stages));
      lag = std::exchange(list.forward_lag, 0);
      try {
        return InSteadyState(list);
      } catch (const analysis::InvalidArgument& error) {
        throw NoSteadyState(argument.name(), name, list, error);
      }
    }
    try {
      hwmodel::ScheduleOptions options;
      options.stages = stages;
      const hwmodel::ScheduleKind& kind = hwmodel::FindScheduleKind(name);
      const std::int64_t per_update =
          kind.updates_each ? 1 : std::int64_t{kind.least_per_stage} * stages;
      options.microbatches_per_update = per_update;
      options.microbatches = hwmodel::EnoughMicrobatches(stages, per_update);
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
    times.delays.push_back(stage.forward_delay_updates + lag);
    times.spectrain_horizons.push_back(static_cast<double>(stage.forward_horizon_updates + lag));
  }
  for (const hwmodel::PlaceHorizons& horizons : hwmodel::HorizonsByPlace(schedule)) {
    times.xpipe_horizons.push_back(horizons.forward_updates);
  }
  return times;
}

}  // namespace batchless
