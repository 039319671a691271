// One piece of work of a pipeline stage, as data.
//
//   text form  STAGE KIND MICROBATCH, without spaces: "2F0" is stage 2, forward, micro-batch 0
//
//   stage       s, 0 (input) .. S-1 (loss)
//   kind        F forward, B backward, U update
//   microbatch  i, numbered from 0 in the order in which they enter the pipeline
//
// An update applies every gradient that its stage has computed since its last update; its
// micro-batch is the last of them. The text form is that of schedules in PyTorch's
// distributed/pipelining, with U added.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace batchless::hwmodel {

enum class ActionKind : unsigned char { kForward, kBackward, kUpdate };

/// F, B or U.
char Letter(ActionKind kind);

struct Action {
  int stage = 0;
  ActionKind kind = ActionKind::kForward;
  std::int64_t microbatch = 0;

  friend bool operator==(const Action&, const Action&) = default;
};

/// The text form; ParseAction reads it back.
std::string ToText(const Action& action);

/// Throws analysis::InvalidArgument naming `action` where the text is not of that form.
Action ParseAction(std::string_view text);

}  // namespace batchless::hwmodel
