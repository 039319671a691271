// Every rule, broken once, with the place that the checker names.
#include "batchless/hwmodel/schedule_check.h"

#include <algorithm>
#include <string>

#include "batchless/hwmodel/schedule_file.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "catch.h"
#include "refusal.h"

using namespace batchless::hwmodel;

namespace {

// Two stages, two micro-batches, one slot a step:
//   0: 0F0  1: 0F1 1F0  2: 1B0  3: 0B0 1F1  4: 1B1 1U1  5: 0B1 0U1
constexpr const char* kGood =
    "stages=2 microbatches=2 slots_per_step=1 weights=newest\n"
    "0: 0F0\n1: 0F1 1F0\n2: 1B0\n3: 0B0 1F1\n4: 1B1 1U1\n5: 0B1 0U1\n";

// The good schedule's text with one part replaced.
Schedule With(const std::string& part, const std::string& replacement) {
  std::string text = kGood;
  const std::size_t place = text.find(part);
  REQUIRE(place != std::string::npos);
  text.replace(place, part.size(), replacement);
  return ParseScheduleText(text);
}

// The place, an arrow and what is accepted there.
std::string Broken(const Schedule& schedule) {
  const auto broken = FirstBrokenRule(schedule);
  return broken ? broken->place + " -> " + broken->accepted : "none";
}

}  // namespace

TEST_CASE("the good schedule is one") {
  CHECK(ParseScheduleText(kGood) == PipeDreamFlush(2, 2, 2));
  CHECK(Broken(ParseScheduleText(kGood)) == "none");
  CHECK_NOTHROW(CheckSchedule(ParseScheduleText(kGood)));
}

TEST_CASE("each rule and the place where it is broken") {
  struct Case {
    std::string part;
    std::string replacement;
    std::string place;
    std::string accepted;
  };
  const Case c = GENERATE(values<Case>({
      {"0: 0F0", "0: 2F0", "2F0 at step 0", "stage 0 .. 1"},
      {"0: 0F0", "0: 0F2", "0F2 at step 0", "micro-batch 0 .. 1"},
      // The reader sorts by steps: this backward stands before its forward.
      {"2: 1B0", "0: 1B0", "1B0 at step 0", "1F0 before it"},
      {"1: 0F1", "1: 0F0", "0F0 at step 1", "one forward of each"},
      {"5: 0B1", "5: 0B0", "0B0 at step 5", "one backward of each"},
      {"1: 0F1 1F0", "1: 0F1 1F1", "1F1 at step 1", "0F1 in an earlier step"},
      {"0: 0F0\n1: 0F1 1F0", "0: 0F0 1F0\n1: 0F1", "1F0 at step 0", "0F0 in an earlier step"},
      {"2: 1B0\n3: 0B0", "2: 1B0 0B0\n3:", "0B0 at step 2", "1B0 in an earlier step"},
      {"2: 1B0", "2: 1B1", "1B1 at step 2", "1F1 before it"},
      {"2: 1B0", "2: 0B0", "0B0 at step 2", "1B0 in an earlier step"},
      {"2: 1B0", "2: 1B0 1U1", "1U1 at step 2", "numbered by the last gradient"},
      {"1B1 1U1", "1B1 1U0", "1U0 at step 4", "numbered by the last gradient"},
      {"1B1 1U1", "1U1 1B1", "1U1 at step 4", "numbered by the last gradient"},
      {"1B1 1U1", "1B1 1U1 1U1", "1U1 at step 4", "numbered by the last gradient"},
      {"1: 0F1 1F0\n2: 1B0", "1: 0F1 1F0 1B0", "1B0 at step 1",
       "at most 1 computation of worker 1"},
      {" 0U1", "", "stage 0 ends before micro-batch 0 is applied", "every micro-batch"},
      {"5: 0B1 0U1", "5: 0U0", "stage 0 ends before micro-batch 1 is applied", "every micro-batch"},
      {"2: 1B0", "2: 1W0", "1W0 at step 2", "1B0 before it"},
      {"2: 1B0", "2: 1B0\n2: 1W0", "1W0 at step 2", "at most 1 computation of worker 1"},
  }));
  CAPTURE(c.part, c.replacement);
  const std::string broken = Broken(With(c.part, c.replacement));
  CHECK(broken.find(c.place + " -> ") == 0);
  CHECK(broken.find(c.accepted) != std::string::npos);
}

TEST_CASE("the action is named by its index") {
  CHECK(FirstBrokenRule(With("2: 1B0", "2: 1B1"))->action == 3U);
  CHECK_FALSE(FirstBrokenRule(With(" 0U1", ""))->action.has_value());
}

TEST_CASE("negative numbers are out of range") {
  Schedule schedule = ParseScheduleText(kGood);
  schedule.actions[0].step = -1;
  CHECK(Broken(schedule) == "0F0 at step -1 -> step >= 0");
  schedule.actions[0] = {0, {-1, ActionKind::kForward, 0}};
  CHECK(Broken(schedule) == "-1F0 at step 0 -> stage 0 .. 1");
  schedule.actions[0] = {0, {0, ActionKind::kForward, -1}};
  CHECK(Broken(schedule) == "0F-1 at step 0 -> micro-batch 0 .. 1");
}

TEST_CASE("two slots hold one forward and one backward") {
  Schedule schedule = PipelinedBackpropagation(2, 2);
  CHECK(Broken(schedule) == "none");
  // Both forwards of stage 0 in step 0.
  schedule.actions[1].step = 0;
  CHECK(Broken(schedule) == "0F1 at step 0 -> at most 1 forward of worker 0 in a step");
  schedule = PipelinedBackpropagation(2, 2);
  schedule.slots_per_step = 1;
  CHECK(Broken(schedule) == "1B0 at step 1 -> at most 1 computation of worker 1 in a step");
}

TEST_CASE("stages of one worker share its slots") {
  Schedule schedule = ParseScheduleText(kGood);
  schedule.worker_of_stage = {0, 0};
  CHECK(Broken(schedule) == "1F0 at step 1 -> at most 1 computation of worker 0 in a step");
}

TEST_CASE("a split backward has a weight gradient everywhere, and the update waits for it") {
  Schedule schedule = ZeroBubbleH1(2, 2, 2);
  CHECK(Broken(schedule) == "none");
  const auto is = [](const char* text) {
    return
        [action = ParseAction(text)](const TimedAction& timed) { return timed.action == action; };
  };
  Schedule missing = schedule;
  std::erase_if(missing.actions, is("1W0"));
  CHECK(Broken(missing).find("stage 1 ends before micro-batch 0 is applied") == 0);
  Schedule early = schedule;
  const auto weight = std::find_if(early.actions.begin(), early.actions.end(), is("0W1"));
  std::swap(weight->action, (weight + 1)->action);
  CHECK(Broken(early).find("0U1 at step 6 -> an update numbered by the last") == 0);
  Schedule twice = schedule;
  std::find_if(twice.actions.begin(), twice.actions.end(), is("0W1"))->action.microbatch = 0;
  CHECK(Broken(twice).find("0W0 at step 6 -> one weight gradient of each") == 0);
}

TEST_CASE("double-buffered weights have two versions") {
  Schedule early = OneForwardOneBackward(3, 8);
  early.weights = WeightVersions::kDoubleBuffered;
  CHECK(Broken(early) ==
        "0U2 at step 9 -> version 1 of the double-buffered weights before the forward of "
        "micro-batch 2, which reads it");
  // A backward may wait.
  const Schedule late = ParseScheduleText(
      "stages=1 microbatches=3 slots_per_step=1 weights=double-buffered\n"
      "0: 0F0\n1: 0F1\n2: 0B0 0U0\n3: 0F2\n4: 0B1 0U1\n5: 0B2 0U2\n");
  CHECK(Broken(late) == "none");
}

TEST_CASE("fields out of range are named") {
  const Schedule good = ParseScheduleText(kGood);
  const auto name = [&](auto change) {
    Schedule schedule = good;
    change(schedule);
    return batchless::test::RefusedName([&] { FirstBrokenRule(schedule); });
  };
  CHECK(name([](Schedule& s) { s.stages = 0; }) == "stages");
  CHECK(name([](Schedule& s) { s.microbatches = 0; }) == "microbatches");
  CHECK(name([](Schedule& s) { s.slots_per_step = 3; }) == "slots_per_step");
  CHECK(name([](Schedule& s) { s.worker_of_stage = {0}; }) == "worker_of_stage");
  CHECK(name([](Schedule& s) { s.worker_of_stage = {0, 2}; }) == "worker_of_stage");
  CHECK(name([](Schedule& s) { s.worker_of_stage = {0, -1}; }) == "worker_of_stage");
  CHECK(name([](Schedule& s) { s.worker_of_stage = {1, 1}; }) == "worker_of_stage");
  CHECK(name([](Schedule& s) { s.worker_of_stage = {1, 0}; }).empty());
  CHECK(name([](Schedule& s) { s.forward_lag = -1; }) == "forward_lag");
  CHECK(name([](Schedule& s) { s.forward_lag = kMaxForwardLag; }).empty());
  CHECK(name([](Schedule& s) { s.forward_lag = kMaxForwardLag + 1; }) == "forward_lag");
  CHECK(name([](Schedule& s) { s.forward_lag = (std::int64_t{1} << 61) - 1; }) == "forward_lag");
}

TEST_CASE("a micro-batch from far away is refused without the memory for all before it") {
  Schedule schedule = ParseScheduleText(kGood);
  schedule.microbatches = std::int64_t{1} << 60;
  CHECK(Broken(schedule).find("10 actions for") == 0);
}
