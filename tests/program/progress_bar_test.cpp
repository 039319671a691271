#include "progress_bar.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "catch.h"

namespace batchless {

namespace {

const std::vector<std::string> kNotes = {"1:23 left", "520/s", "loss 1.2345"};
const std::string kAll = "128 / 512 samples, 1:23 left, 520/s, loss 1.2345";

std::string Line(std::size_t columns) { return ProgressLine(128, 512, "samples", kNotes, columns); }

}  // namespace

TEST_CASE("a bar shows the part that is done") {
  CHECK(ProgressLine(1, 4, "rows", {}, 79) == fmt::format("[{:<40}] 1 / 4 rows", "##########"));
  CHECK(Line(79) == "[####            ] " + kAll);
  // More than there was to do.
  CHECK(ProgressLine(9, 4, "rows", {}, 79) == fmt::format("[{:#<40}] 9 / 4 rows", ""));
}

TEST_CASE("on a narrow terminal the bar gives way first, then the last notes") {
  CHECK(Line(kAll.size() + 3 + 8) == "[##      ] " + kAll);
  CHECK(Line(kAll.size() + 3 + 5) == kAll);
  CHECK(Line(kAll.size()) == kAll);
  // What a note leaves the bar takes.
  CHECK(Line(kAll.size() - 1) == "[##       ] 128 / 512 samples, 1:23 left, 520/s");
  CHECK(Line(20) == "128 / 512 samples");
  CHECK(Line(5) == "128 /");
  CHECK(Line(0).empty());
  for (std::size_t columns = 0; columns < 100; ++columns) CHECK(Line(columns).size() <= columns);
}

}  // namespace batchless
