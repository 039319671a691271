// What is in the pictures; that they look right is for eyes.
#include "batchless/hwmodel/schedule_picture.h"

#include <set>
#include <string>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "catch.h"
#include "refusal.h"

using namespace batchless::hwmodel;
using batchless::analysis::InvalidArgument;
using batchless::test::MessageOf;
using batchless::test::RefusedName;

namespace {

std::int64_t CountOf(const std::string& text, const std::string& part) {
  std::int64_t count = 0;
  for (std::size_t place = text.find(part); place != std::string::npos;
       place = text.find(part, place + part.size())) {
    ++count;
  }
  return count;
}

// Boxes of a colour in the grid; the legend has one more.
std::int64_t Boxes(const std::string& svg, const std::string& colour) {
  return CountOf(svg, "fill=\"" + colour + "\"/>") - 1;
}

constexpr const char* kForward = "#56b4e9";
constexpr const char* kBackward = "#e69f00";
constexpr const char* kWeight = "#2fb892";

}  // namespace

TEST_CASE("a box for every computation and an edge for every update") {
  const std::string svg = ToSvg(ZeroBubbleH1(3, 12, 4), "ZB-H1");
  CHECK(Boxes(svg, kForward) == 36);
  CHECK(Boxes(svg, kBackward) == 36);
  CHECK(Boxes(svg, kWeight) == 36);
  CHECK(Boxes(svg, "#1c1e21") == 9);
  CHECK(CountOf(svg, "weight gradient") == 1);
  CHECK(CountOf(ToSvg(PipelinedBackpropagation(2, 2), "PB"), "weight gradient") == 0);
}

TEST_CASE("stages of one worker have shades of their own, in one row") {
  const std::string svg = ToSvg(Interleaved(6, 3, 2, 2), "Interleaved");
  CHECK(Boxes(svg, kForward) == 4);
  CHECK(CountOf(svg, "worker 1: 1, 3, 5") == 1);
  CHECK(CountOf(svg, "paler") == 1);
}

TEST_CASE("boxes of one worker do not overlap") {
  for (const ScheduleKind& kind : ScheduleKinds()) {
    const std::string svg =
        ToSvg(MakeSchedule(kind.name, {.stages = 4, .microbatches = 8}), kind.title);
    std::set<std::string> places;
    std::int64_t boxes = 0;
    for (std::size_t place = svg.find("<rect x="); place != std::string::npos;
         place = svg.find("<rect x=", place + 1)) {
      const std::string box = svg.substr(place, svg.find("/>", place) - place);
      // Updates lie on boxes, and boxes on their row and the background.
      const auto has_colour = [&](const char* colour) {
        return box.find(colour) != std::string::npos;
      };
      if (has_colour("#1c1e21") || has_colour("#eff0f2") || has_colour("#ffffff")) continue;
      places.insert(box.substr(0, box.find(" width=")));
      ++boxes;
    }
    CAPTURE(std::string(kind.name));
    CHECK(boxes >= 64);
    CHECK(places.size() == static_cast<std::size_t>(boxes));
  }
}

TEST_CASE("labels grow with the picture and leave each other room") {
  const std::string small = ToSvg(PipelinedBackpropagation(4, 4), "PB");
  for (const char* label : {">stage 0<", ">stage 1<", ">stage 2<", ">stage 3<"}) {
    CHECK(CountOf(small, label) == 1);
  }
  // 194 steps take 6014 pixels, five pages: four times the size, every other row, every tenth step.
  const std::string large = ToSvg(PipelinedBackpropagation(34, 128), "PB");
  CHECK(CountOf(large, ">stage 0<") == 1);
  CHECK(CountOf(large, ">stage 1<") == 0);
  CHECK(CountOf(large, ">stage 32<") == 1);
  CHECK(CountOf(large, "font-size=\"48\"") == 17 + 1 + 20);
}

TEST_CASE("markup in the title is text") {
  const std::string svg = ToSvg(PipelinedBackpropagation(1, 1), "<a & b>\n");
  CHECK(CountOf(svg, "&lt;a &amp; b&gt;?") == 2);
  CHECK(CountOf(svg, "<a") == 0);
  CHECK(CountOf(svg, "1 stage, 1 micro-batch, 1 step, 100.0 % of the slots filled") == 1);
}

TEST_CASE("a picture that nobody could look at is refused by name") {
  const Schedule schedule = PipelinedBackpropagation(10, 6000);
  CHECK(RefusedName([&] { ToSvg(schedule, ""); }) == "microbatches");
  CHECK(MessageOf([&] { ToSvg(schedule, ""); }).find("at most 5000 steps") != std::string::npos);
}

TEST_CASE("the trace has an event for every action, and lasts as long as the steps") {
  const std::string json = ToTraceJson(OneForwardOneBackward(2, 3));
  CHECK(CountOf(json, R"("ph":"X")") == 12);
  CHECK(CountOf(json, R"("ph":"i")") == 6);
  CHECK(CountOf(json, R"("dur":1000)") == 12);
  for (const std::string number : {"0", "1"}) {
    CHECK(CountOf(json, R"("args":{"name":"worker )" + number + R"("}})") == 1);
    CHECK(CountOf(json, R"("args":{"name":"stage )" + number + R"("}})") == 1);
  }
  CHECK(CountOf(json, R"("name":"backward 2","cat":"backward","ts":7000,"dur":1000,"pid":1)") == 1);
  const std::string halves = ToTraceJson(PipelinedBackpropagation(2, 1));
  CHECK(CountOf(halves, R"("name":"forward 0","cat":"forward","ts":1000,"dur":500,"pid":2)") == 1);
  CHECK(CountOf(halves, R"("name":"backward 0","cat":"backward","ts":1500,"dur":500,"pid":2)") ==
        1);
  CHECK(CountOf(halves, R"("name":"update 0","cat":"update","ts":2000,"pid":2)") == 1);
}

TEST_CASE("what is no schedule is not drawn") {
  Schedule schedule = PipelinedBackpropagation(2, 2);
  schedule.actions.pop_back();
  CHECK_THROWS_AS(ToSvg(schedule, ""), InvalidArgument);
  CHECK_THROWS_AS(ToTraceJson(schedule), InvalidArgument);
}
