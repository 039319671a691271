// A schedule as a file and as text; both read back as the same schedule.
//
// CSV, one row an action, rows of one step in the order of execution:
//
//   step,stage,kind,microbatch                         kind one of F B W U
//   step,stage,kind,microbatch,worker,slots_per_step,weights
//
// The last three columns may each be left out, in any combination, and are written only where the
// schedule is not what a reader takes it for without them:
//
//   worker          of the row's stage, in the copy of the stages   without it: stage s is worker s
//                   that its micro-batch goes through: one, or an
//                   even number of copies (schedule.h)
//   slots_per_step  1 or 2, the same in all rows                    without it: as few as fit
//   weights         newest, stashed or double-buffered, likewise    without it: newest
//                   with the forwards' lag in updates, "stashed-4"
//
// Stages and micro-batches are one more than the largest numbers in the file.
//
// Text, one word an action, one line a step that has any:
//
//   stages=2 microbatches=2 slots_per_step=2 weights=newest
//   0: 0F0
//   1: 0F1 1F0 1B0 1U0
//
// The first line may end in the workers of the stages, copy after copy, worker_of_stage=0,1,0,1.
//
// Steps may come in any order; blank lines at the end and a byte order mark do not count. Reading does not
// ask whether the actions make a schedule: that
// is for schedule_check.h.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "batchless/hwmodel/schedule.h"

namespace batchless::hwmodel {

/// Text that cannot be read. `what()` is one line: "line 3: step: got x, accepted: ...".
class ScheduleFileError : public std::runtime_error {
 public:
  ScheduleFileError(std::size_t line, std::string_view message);

  std::size_t line() const { return line_; }  ///< from 1

 private:
  std::size_t line_;
};

std::string ToCsv(const Schedule& schedule);

/// Throws ScheduleFileError. Action k of the result is from line (*lines)[k].
Schedule ParseCsv(std::string_view csv, std::vector<std::size_t>* lines = nullptr);

std::string ToText(const Schedule& schedule);

/// Throws ScheduleFileError.
Schedule ParseScheduleText(std::string_view text);

}  // namespace batchless::hwmodel

// Example
//   const Schedule schedule = Gpipe(2, 4, 2);
//   const std::string csv = ToCsv(schedule);
//   CHECK(csv.starts_with("step,stage,kind,microbatch\n0,0,F,0\n"));
//   CHECK(ParseCsv(csv).actions == schedule.actions);
//   CHECK(ParseScheduleText(ToText(schedule)).actions == schedule.actions);
