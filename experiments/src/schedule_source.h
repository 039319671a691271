// Schedules from files that users wrote.
#pragma once

#include <string>
#include <vector>

#include "argument.h"
#include "batchless/analysis/argument.h"
#include "batchless/analysis/rule.h"
#include "batchless/hwmodel/schedule.h"
#include "usage_error.h"

namespace batchless {

// Reads CSV or text, by the name's ending, and checks it. Throws UsageError that names `argument`,
// the file and, in CSV, the line where it is no schedule.
hwmodel::Schedule ReadScheduleFile(const std::string& argument, const std::string& path);

// A file's list as runs repeat it, from the empty pipeline on and long enough to show every delay and all
// versions; a very long list itself, which shows them anyway. Throws analysis::InvalidArgument where the
// list does not repeat itself, or would have to be longer than memory allows.
hwmodel::Schedule InSteadyState(const hwmodel::Schedule& schedule);

// What to say of a file's list for which FindSteadyState throws `error`.
UsageError NoSteadyState(const std::string& argument, const std::string& path,
                         const hwmodel::Schedule& schedule, const analysis::InvalidArgument& error);

// Delays of the forward weights and the horizons of SpecTrain and XPipe, by stage, read off a schedule's actions: a
// kind's, pb where the argument is not given, updating after every micro-batch or after as many as there
// are stages, or those of a file's list once it repeats itself.
struct ForwardTimes {
  std::vector<analysis::Delay> delays;
  std::vector<double> spectrain_horizons;
  std::vector<double> xpipe_horizons;
};
ForwardTimes ForwardTimesOf(const Argument& argument, int stages);

}  // namespace batchless
