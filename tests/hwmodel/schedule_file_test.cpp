#include "batchless/hwmodel/schedule_file.h"

#include <string>

#include "batchless/hwmodel/schedule_kinds.h"
#include "catch.h"
#include "refusal.h"

using namespace batchless::hwmodel;

namespace {

template <class Parse>
std::string Error(Parse parse, const std::string& text) {
  return batchless::test::MessageOf<ScheduleFileError>([&] { parse(text); });
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const auto kCsv = [](const std::string& text) { return ParseCsv(text); };

}  // namespace

TEST_CASE("every kind comes back from CSV and from text as it was") {
  for (const ScheduleKind& kind : ScheduleKinds()) {
    for (const std::int64_t microbatches : {12, 24}) {
      CAPTURE(std::string(kind.name), microbatches);
      // dualpipe and amdp-multi take some numbers only.
      const int stages = kind.name == "dualpipe" || kind.name == "amdp-multi" ? 4 : 6;
      Schedule schedule = MakeSchedule(kind.name, {.stages = stages, .microbatches = microbatches});
      CHECK(ParseCsv(ToCsv(schedule)) == schedule);
      CHECK(ParseScheduleText(ToText(schedule)) == schedule);
      schedule.weights = WeightVersions::kStashed;
      schedule.forward_lag = microbatches - 12;
      CHECK(ParseCsv(ToCsv(schedule)) == schedule);
      CHECK(ParseScheduleText(ToText(schedule)) == schedule);
    }
  }
}

TEST_CASE("pipelines in more than two directions come back from CSV, and from text") {
  for (const int stages : {8, 12}) {
    for (const int minibatches : {1, 3}) {
      CAPTURE(stages, minibatches);
      const Schedule schedule = AmdpMulti(stages, minibatches * stages, stages);
      REQUIRE(schedule.copies() == stages / 2);
      CHECK(ParseCsv(ToCsv(schedule)) == schedule);
      CHECK(ParseScheduleText(ToText(schedule)) == schedule);
    }
  }
  // No number of copies makes one worker of two.
  std::string csv = ToCsv(AmdpMulti(8, 8, 8));
  csv += "99,0,U,0,7\n";
  CHECK(Contains(Error(kCsv, csv),
                 ": worker: got 7, accepted: the same in all rows of stage 0 and "
                 "micro-batches 0, 4, .."));
  CHECK(Contains(Error(kCsv, "step,stage,kind,microbatch,worker\n0,999999,F,0,0\n1,999999,B,0,1\n"),
                 "line 3: worker: got 1, accepted: the same in all rows of stage 999999"));
}

TEST_CASE("CSV, written out") {
  CHECK(ToCsv(OneForwardOneBackward(1, 1)) ==
        "step,stage,kind,microbatch\n0,0,F,0\n1,0,B,0\n1,0,U,0\n");
  CHECK(ToCsv(PipelinedBackpropagation(1, 1)) ==
        "step,stage,kind,microbatch\n0,0,F,0\n0,0,B,0\n0,0,U,0\n");
  // A step with room for two computations that never has two.
  CHECK(Contains(ToCsv(FillDrain(2, 1, 1)), "3,0,B,0") == false);
  Schedule roomy = OneForwardOneBackward(1, 1);
  roomy.slots_per_step = 2;
  roomy.weights = WeightVersions::kStashed;
  roomy.worker_of_stage = {0};
  CHECK(ToCsv(roomy) ==
        "step,stage,kind,microbatch,worker,slots_per_step,weights\n"
        "0,0,F,0,0,2,stashed\n1,0,B,0,0,2,stashed\n1,0,U,0,0,2,stashed\n");
  CHECK(ParseCsv(ToCsv(roomy)) == roomy);
}

TEST_CASE("text, written out") {
  CHECK(ToText(PipelinedBackpropagation(2, 2)) ==
        "stages=2 microbatches=2 slots_per_step=2 weights=newest\n"
        "0: 0F0\n1: 0F1 1F0 1B0 1U0\n2: 0B0 0U0 1F1 1B1 1U1\n3: 0B1 0U1\n");
  CHECK(ToText(Interleaved(2, 2, 1, 1)) ==
        "stages=2 microbatches=1 slots_per_step=1 weights=newest worker_of_stage=0,0\n"
        "0: 0F0\n1: 1F0\n2: 1B0 1U0\n3: 0B0 0U0\n");
}

TEST_CASE("columns in any order, lines that end as elsewhere") {
  const Schedule expected = OneForwardOneBackward(1, 1);
  CHECK(ParseCsv("kind,microbatch,step,stage\r\nF,0,0,0\r\nB,0,1,0\r\nU,0,1,0") == expected);
}

TEST_CASE("a byte order mark does not count, nor the order of steps") {
  const Schedule expected = OneForwardOneBackward(2, 3);
  const std::string mark = "\xEF\xBB\xBF";
  CHECK(ParseCsv(mark + ToCsv(expected)) == expected);
  CHECK(ParseScheduleText(mark + ToText(expected)) == expected);

  // As a table sorted by its second column.
  Schedule by_stage = expected;
  std::stable_sort(by_stage.actions.begin(), by_stage.actions.end(),
                   [](const auto& a, const auto& b) { return a.action.stage < b.action.stage; });
  REQUIRE(by_stage.actions != expected.actions);
  std::vector<std::size_t> lines;
  CHECK(ParseCsv(ToCsv(by_stage), &lines) == expected);
  REQUIRE(lines.size() == expected.actions.size());
  for (std::size_t k = 0; k < lines.size(); ++k) {
    CHECK(by_stage.actions[lines[k] - 2] == expected.actions[k]);
  }
  CHECK(ParseScheduleText(ToText(by_stage)) == expected);
}

TEST_CASE("blank lines at the end do not count") {
  const Schedule expected = OneForwardOneBackward(1, 1);
  for (const std::string end : {"", "\n", "\n\n", "\r\n\r\n", "\n \t\n\n"}) {
    CHECK(ParseCsv("step,stage,kind,microbatch\n0,0,F,0\n1,0,B,0\n1,0,U,0" + end) == expected);
    CHECK(ParseScheduleText("stages=1 microbatches=1 slots_per_step=1 weights=newest\n"
                            "0: 0F0\n1: 0B0 0U0" +
                            end) == expected);
  }
}

TEST_CASE("what cannot be read is named with its line, the value and what is accepted") {
  struct Case {
    std::string csv;
    std::string start;
    std::string accepted;
  };
  const std::string header = "step,stage,kind,microbatch\n";
  const Case c = GENERATE_COPY(values<Case>({
      {"", "line 1: columns: got an empty string", "step,stage,kind,microbatch"},
      {"step,stage,kind\n", "line 1: columns: got step,stage,kind,", "microbatch"},
      {"step,stage,kind,microbatch,step\n", "line 1: columns: got ", "microbatch"},
      {"step,stage,kind,microbatch,when\n", "line 1: columns: got ", "worker"},
      {header + "0,0,F\n", "line 2: row: got 0,0,F,", "4 values"},
      {header + "0,0,F,0,0\n", "line 2: row: got ", "4 values"},
      {header + "0,0,F,0\n\n1,0,B,0\n", "line 3: row: got an empty string", "4 values"},
      {header + "x,0,F,0\n", "line 2: step: got x,", "an integer from 0"},
      {header + "-1,0,F,0\n", "line 2: step: got -1,", "an integer from 0"},
      {header + "0,0,F,0\n1,1.5,F,0\n", "line 3: stage: got 1.5,", "an integer from 0"},
      {header + "1764064000000000000,0,F,0\n", "line 2: step: got 1764064000000000000,",
       "to 1000000000000"},
      {header + "0,1000000,F,0\n", "line 2: stage: got 1000000,", "to 999999"},
      {header + "0,0,f,0\n", "line 2: kind: got f,", "F, B, W or U"},
      {header + "0,0,,0\n", "line 2: kind: got an empty string,", "F, B, W or U"},
      {header + "0,0,F,99999999999999999999\n", "line 2: microbatch: got ", "an integer from 0"},
      {"step,stage,kind,microbatch,slots_per_step\n0,0,F,0,3\n", "line 2: slots_per_step: got 3,",
       "1 or 2"},
      {"step,stage,kind,microbatch,slots_per_step\n0,0,F,0,1\n1,0,B,0,2\n",
       "line 3: slots_per_step: got 2,", "the same in all rows"},
      {"step,stage,kind,microbatch,weights\n0,0,F,0,old\n", "line 2: weights: got old,",
       "newest, stashed, double-buffered or vertical-sync"},
      {"step,stage,kind,microbatch,weights\n0,0,F,0,newest-10001\n",
       "line 2: lag of weights: got 10001,", "an integer from 0 to 10000"},
      {"step,stage,kind,microbatch,weights\n0,0,F,0,stashed-2305843009213693951\n",
       "line 2: lag of weights: got 2305843009213693951,", "an integer from 0 to 10000"},
      {"step,stage,kind,microbatch,worker\n0,0,F,0,0\n1,0,B,0,1\n", "line 3: worker: got 1,",
       "the same in all rows of stage 0"},
  }));
  CAPTURE(c.csv);
  const std::string error = Error(kCsv, c.csv);
  CHECK(Contains(error, c.start));
  CHECK(Contains(error, ", accepted: "));
  CHECK(Contains(error, c.accepted));
}

TEST_CASE("text that cannot be read is named with its line") {
  const std::string header = "stages=1 microbatches=1 slots_per_step=1 weights=newest";
  CHECK(Error(ParseScheduleText, header + "\n0: 0F0\n1: 0B0 0U0\n").empty());
  CHECK(Contains(Error(ParseScheduleText, ""), "line 1: first line: got an empty string"));
  CHECK(Contains(Error(ParseScheduleText, "stages=x"), "line 1: stages: got x"));
  CHECK(Contains(Error(ParseScheduleText, "stages=1 slots=1"), "line 1: first line: got slots=1"));
  CHECK(Contains(Error(ParseScheduleText, header + " worker_of_stage=a"),
                 "line 1: worker_of_stage: got a"));
  CHECK(Contains(Error(ParseScheduleText, header + " worker_of_stage=0 x"),
                 "line 1: first line: got x"));
  CHECK(Contains(Error(ParseScheduleText, header + "\n0F0"), "line 2: step: got 0F0"));
  CHECK(Contains(Error(ParseScheduleText, header + "\n0: 0F0\n1: 0G0"),
                 "line 3: action: got 0G0, accepted: "));
}
