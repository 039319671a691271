// One piece of work of a pipeline stage, as data.
//
//   text form  STAGE KIND MICROBATCH, without spaces: "2F0" is stage 2, forward, micro-batch 0
//
//   stage       s, 0 (input) .. S-1 (loss)
//   kind        F forward, B backward, W weight gradient, U update
//   microbatch  i, numbered from 0 in the order in which they enter the pipeline
//
// A schedule may split the backward: B then computes the gradient with respect to the stage's
// input, which the stage before it waits for, and W, later, the one with respect to the weights,
// which only the update waits for. In a schedule without W the B does both.
//
// An update applies every gradient that its stage has computed since its last update; its
// micro-batch is the last of them. The text form is that of schedules in PyTorch's
// distributed/pipelining, with U added.
//
// Source of the split: Qi et al., Zero Bubble Pipeline Parallelism, arXiv 2401.10241.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace batchless::hwmodel {

enum class ActionKind : unsigned char { kForward, kBackward, kWeightGradient, kUpdate };

/// All of them, in the order in which a stage does them for one micro-batch.
inline constexpr std::array<ActionKind, 4> kActionKinds = {
    ActionKind::kForward, ActionKind::kBackward, ActionKind::kWeightGradient, ActionKind::kUpdate};

/// F, B, W or U.
char Letter(ActionKind kind);

/// forward, backward, weight gradient or update.
std::string_view Name(ActionKind kind);

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

// Example
//   const Action action = ParseAction("2F0");
//   CHECK(action.stage == 2);
//   CHECK(action.kind == ActionKind::kForward);
//   CHECK(action.microbatch == 0);
//   CHECK(ToText(action) == "2F0");
