#include <fmt/format.h>

#include "batchless/analysis/cancellation.h"
#include "batchless/hwmodel/schedule_check.h"
#include "batchless/hwmodel/schedule_picture.h"

namespace batchless::hwmodel {
namespace {

constexpr std::int64_t kStepMicroseconds = 1000;

// Names a process or a thread; numbers count from 1, because 0 means the idle task in traces.
std::string NameEvent(const char* what, int process, int thread, const std::string& name) {
  return fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":"{}"}}}},)"
                     "\n",
                     what, process, thread, name);
}

}  // namespace

std::string ToTraceJson(const Schedule& schedule) {
  CheckSchedule(schedule);
  std::string json = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    json += NameEvent("process_name", worker + 1, 0, fmt::format("worker {}", worker));
  }
  for (int copy = 0; copy < schedule.copies(); ++copy) {
    for (int stage = 0; stage < schedule.stages; ++stage) {
      json += NameEvent("thread_name", schedule.worker(stage, copy) + 1, stage + 1,
                        fmt::format("stage {}", stage));
    }
  }
  const std::int64_t slot = kStepMicroseconds / schedule.slots_per_step;
  for (const auto& [step, action] : schedule.actions) {
    analysis::CheckCancellation();
    const bool is_second = schedule.slots_per_step == 2 && action.kind != ActionKind::kForward;
    const bool is_update = action.kind == ActionKind::kUpdate;
    const std::int64_t start =
        step * kStepMicroseconds + (is_second ? slot : 0) + (is_update ? slot : 0);
    json +=
        fmt::format(R"({{"ph":"{}","name":"{} {}","cat":"{}","ts":{}{},"pid":{},"tid":{},)"
                    R"("args":{{"stage":{},"microbatch":{}}}}},)"
                    "\n",
                    is_update ? R"(i","s":"t)" : "X", Name(action.kind), action.microbatch,
                    Name(action.kind), start, is_update ? "" : fmt::format(R"(,"dur":{})", slot),
                    schedule.worker(action) + 1, action.stage + 1, action.stage, action.microbatch);
  }
  json.resize(json.size() - 2);  // the comma behind the last event
  json += "\n]}\n";
  return json;
}

}  // namespace batchless::hwmodel
