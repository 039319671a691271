#include "batchless/hwmodel/schedule_check.h"
#include "batchless/hwmodel/schedule_picture.h"

namespace batchless::hwmodel {
namespace {

constexpr std::int64_t kStepMicroseconds = 1000;

// Names a process or a thread; numbers count from 1, because 0 means the idle task in traces.
void AppendName(std::string& json, const char* what, int process, int thread,
                const std::string& name) {
  json += R"({"ph":"M","name":")" + std::string(what) + R"(","pid":)" + std::to_string(process) +
          R"(,"tid":)" + std::to_string(thread) + R"(,"args":{"name":")" + name + R"("}},)" + '\n';
}

void AppendAction(std::string& json, const Schedule& schedule, const Action& action,
                  std::int64_t start, std::int64_t duration) {
  const bool is_update = action.kind == ActionKind::kUpdate;
  json += R"({"ph":")";
  json += is_update ? R"(i","s":"t)" : "X";
  json += R"(","name":")";
  json += Name(action.kind);
  json += ' ';
  json += std::to_string(action.microbatch);
  json += R"(","cat":")";
  json += Name(action.kind);
  json += R"(","ts":)";
  json += std::to_string(start);
  if (!is_update) json += R"(,"dur":)" + std::to_string(duration);
  json += R"(,"pid":)" + std::to_string(schedule.worker(action.stage) + 1);
  json += R"(,"tid":)" + std::to_string(action.stage + 1);
  json += R"(,"args":{"stage":)" + std::to_string(action.stage);
  json += R"(,"microbatch":)" + std::to_string(action.microbatch) + "}},\n";
}

}  // namespace

std::string ToTraceJson(const Schedule& schedule) {
  CheckSchedule(schedule);
  std::string json = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    AppendName(json, "process_name", worker + 1, 0, "worker " + std::to_string(worker));
  }
  for (int stage = 0; stage < schedule.stages; ++stage) {
    AppendName(json, "thread_name", schedule.worker(stage) + 1, stage + 1,
               "stage " + std::to_string(stage));
  }
  const std::int64_t slot = kStepMicroseconds / schedule.slots_per_step;
  for (const auto& [step, action] : schedule.actions) {
    const bool is_second = schedule.slots_per_step == 2 && action.kind != ActionKind::kForward;
    const std::int64_t start = step * kStepMicroseconds + (is_second ? slot : 0);
    AppendAction(json, schedule, action, action.kind == ActionKind::kUpdate ? start + slot : start,
                 slot);
  }
  json.resize(json.size() - 2);  // the comma behind the last event
  json += "\n]}\n";
  return json;
}

}  // namespace batchless::hwmodel
