// A schedule as CSV or as text, its check, and the summary of one that keeps the rules.
#include "batchless/hwmodel/schedule.h"

#include "batchless/hwmodel/schedule_check.h"
#include "batchless/hwmodel/schedule_file.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace batchless::hwmodel;
  namespace fuzz = batchless::fuzz;
  const std::string_view text = fuzz::Text(data, size);
  fuzz::Accepts([&] {
    const bool is_csv = text.starts_with("step");
    const Schedule schedule = is_csv ? ParseCsv(text) : ParseScheduleText(text);
    if (FirstBrokenRule(schedule)) return;
    Summarize(schedule);
    const Schedule again = is_csv ? ParseCsv(ToCsv(schedule)) : ParseScheduleText(ToText(schedule));
    fuzz::Require(again.actions == schedule.actions);
  });
  return 0;
}
