// What workers did when, as a file.
//
//   .json   the trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing open: a
//           process for each worker; passes are named as in schedules' traces, waits by what for
//   .csv    worker, kind (forward, backward, update, wait-forward, wait-backward), stage, microbatch,
//           start_us, end_us
#pragma once

#include <span>

#include "batchless/training/trainer.h"
#include "output_file.h"

namespace batchless {

// Commits the file. Throws std::runtime_error where it cannot be written.
void WriteTrace(OutputFile& file, std::span<const training::TraceEvent> events);

}  // namespace batchless
