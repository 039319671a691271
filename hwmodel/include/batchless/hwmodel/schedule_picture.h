// A schedule to look at.
//
//   SVG     a row a worker, a column a step; every computation is a box with its micro-batch in it,
//           forwards blue, backwards orange, weight gradients green; a dark edge on the right of
//           the box after which the stage updates; empty slots are grey. Where a worker has several
//           stages, later ones are paler. With two slots a step the forward is above the backward.
//   trace   the trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing open: a
//           process a worker, a thread a stage, a millisecond a step, updates as instants
//
// Source of the format: Trace Event Format, Google, "X", "i" and "M" events.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "batchless/hwmodel/schedule.h"

namespace batchless::hwmodel {

/// Workers times steps that still make a picture.
inline constexpr std::int64_t kMaxPictureCells = 50'000;

/// Throws analysis::InvalidArgument naming `actions` where the list is no schedule
/// (schedule_check.h), or `microbatches` where the picture would have more than kMaxPictureCells.
/// title: text, whose markup characters are escaped; the size and utilisation are added below it.
std::string ToSvg(const Schedule& schedule, std::string_view title);

/// Throws analysis::InvalidArgument where the list is no schedule (schedule_check.h).
std::string ToTraceJson(const Schedule& schedule);

}  // namespace batchless::hwmodel

// Example
//   const Schedule schedule = Gpipe(/*stages=*/2, /*microbatches=*/4, /*microbatches_per_update=*/4);
//   CHECK(ToSvg(schedule, "GPipe").starts_with("<svg"));
//   CHECK(ToTraceJson(schedule).starts_with("{"));
