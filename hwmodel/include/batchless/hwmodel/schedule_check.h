// Whether a list of actions is a schedule: the first rule that it breaks, and where.
//
//   range         stages, micro-batches and workers that there are; steps from 0 to kMaxStep, in order
//   slots         at most `slots_per_step` computations of a worker in a step, no two of a kind
//   one of each   one forward, one backward and, in a schedule that splits the backward, one weight
//                 gradient of every micro-batch at every stage; none missing
//   forward       in a later step than that of the stage before it
//   backward      after its own forward; in a later step than that of the stage behind it
//   weight grad.  after its own backward
//   update        after a gradient that has not been applied, and numbered by the last of them;
//                 none left without an update
//   two versions  double-buffered weights: the version that a micro-batch reads is there at its
//                 forward (and then still the newest or the one before it at its backward)
//
// What a stage computes in a step is there for the same stage in that step, for others in the next.
// Every rule is looked at action by action in the order of the list, so that the first place is the
// first also where one mistake breaks many rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "batchless/hwmodel/schedule.h"

namespace batchless::hwmodel {

/// Largest step of a list: times of a trace, a thousand a step, are exact in double precision.
inline constexpr std::int64_t kMaxStep = 1'000'000'000'000;

struct BrokenRule {
  /// Index into Schedule::actions; none where actions are missing at the end.
  std::optional<std::size_t> action;
  std::string place;     ///< what is wrong there, such as "1B0 at step 3"
  std::string accepted;  ///< what the rule asks for
};

/// O(actions). Throws analysis::InvalidArgument naming the field where stages, microbatches,
/// slots_per_step, forward_lag or worker_of_stage are themselves out of range.
std::optional<BrokenRule> FirstBrokenRule(const Schedule& schedule);

/// Throws analysis::InvalidArgument naming `actions` with the first broken rule's place.
void CheckSchedule(const Schedule& schedule);

}  // namespace batchless::hwmodel

// Example
//   Schedule schedule = Gpipe(2, 2, 2);
//   CHECK_FALSE(FirstBrokenRule(schedule).has_value());
//   std::swap(schedule.actions[0], schedule.actions[1]);
//   const std::optional<BrokenRule> broken = FirstBrokenRule(schedule);
//   CHECK(broken.has_value());
//   CHECK(broken->action == 1);
