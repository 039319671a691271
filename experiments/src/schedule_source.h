// Schedules from files that users wrote.
#pragma once

#include <string>

#include "batchless/hwmodel/schedule.h"

namespace batchless {

// Reads CSV or text, by the name's ending, and checks it. Throws UsageError that names `argument`,
// the file and, in CSV, the line where it is no schedule.
hwmodel::Schedule ReadScheduleFile(const std::string& argument, const std::string& path);

}  // namespace batchless
