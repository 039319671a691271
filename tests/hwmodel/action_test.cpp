#include "batchless/hwmodel/action.h"

#include <limits>
#include <string>

#include "catch.h"
#include "refusal.h"

using batchless::hwmodel::Action;
using batchless::hwmodel::ActionKind;
using batchless::hwmodel::ParseAction;
using batchless::hwmodel::ToText;
using batchless::test::MessageOf;
using batchless::test::RefusedName;

TEST_CASE("an action prints as stage, kind, micro-batch") {
  CHECK(ToText({2, ActionKind::kForward, 0}) == "2F0");
  CHECK(ToText({0, ActionKind::kBackward, 17}) == "0B17");
  CHECK(ToText({3, ActionKind::kWeightGradient, 5}) == "3W5");
  CHECK(ToText({168, ActionKind::kUpdate, 50000}) == "168U50000");
}

TEST_CASE("what an action prints reads back as the same action") {
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  for (const ActionKind kind : batchless::hwmodel::kActionKinds) {
    for (const int stage : {0, 1, 168, std::numeric_limits<int>::max()}) {
      for (const std::int64_t microbatch : {std::int64_t{0}, std::int64_t{9}, largest}) {
        const Action action{stage, kind, microbatch};
        CHECK(ParseAction(ToText(action)) == action);
      }
    }
  }
}

TEST_CASE("text that is no action is refused with the text in the message") {
  const std::string text =
      GENERATE(as<std::string>{}, "", "F", "2F", "F0", "2F0 ", " 2F0", "2f0", "2G0", "-2F0", "2F-1",
               "+2F0", "2.0F1", "2FF0", "99999999999F0", "0F99999999999999999999");
  CAPTURE(text);
  CHECK(RefusedName([&] { ParseAction(text); }) == "action");
  CHECK(MessageOf([&] { ParseAction(text); }).find(text) != std::string::npos);
}
