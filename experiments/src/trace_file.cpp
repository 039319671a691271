#include "trace_file.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <string>

#include "batchless/hwmodel/action.h"

namespace batchless {
namespace {

std::string Kind(const training::TraceEvent& event) {
  return fmt::format("{}{}", event.is_wait ? "wait-" : "", hwmodel::Name(event.kind));
}

// From the start of the run.
std::int64_t Nanoseconds(double seconds) { return std::llround(1e9 * seconds); }

std::string Table(std::span<const training::TraceEvent> events) {
  std::string text = "worker,kind,stage,microbatch,start_us,end_us\n";
  for (const training::TraceEvent& event : events) {
    text += fmt::format("{},{},{},{},{:.3f},{:.3f}\n", event.worker, Kind(event), event.stage,
                        event.microbatch, 1e6 * event.start, 1e6 * event.end);
  }
  return text;
}

std::string Viewer(std::span<const training::TraceEvent> events) {
  std::set<int> workers;
  for (const training::TraceEvent& event : events) workers.insert(event.worker);
  std::string text = R"({"displayTimeUnit":"ms","traceEvents":[)";
  const char* separator = "\n";
  for (const int worker : workers) {
    text += fmt::format(
        R"({}{{"ph":"M","name":"process_name","pid":{},"tid":0,"args":{{"name":"worker {}"}}}})",
        separator, worker + 1, worker);
    separator = ",\n";
  }
  for (const training::TraceEvent& event : events) {
    // A viewer rounds begin and duration each for itself: events of whole nanoseconds stay apart.
    const std::int64_t start = Nanoseconds(event.start);
    const std::int64_t duration = Nanoseconds(event.end) - start;
    text += fmt::format(
        R"({}{{"ph":"X","name":"{} {}","cat":"{}","ts":{}.{:03},"dur":{}.{:03},"pid":{},)"
        R"("tid":1,"args":{{"stage":{},"microbatch":{}}}}})",
        separator, Kind(event), event.microbatch, Kind(event), start / 1000, start % 1000,
        duration / 1000, duration % 1000, event.worker + 1, event.stage, event.microbatch);
    separator = ",\n";
  }
  return text + "\n]}\n";
}

}  // namespace

void WriteTrace(OutputFile& file, std::span<const training::TraceEvent> events) {
  file.Write(file.extension() == ".csv" ? Table(events) : Viewer(events));
}

}  // namespace batchless
