#include "batchless/hwmodel/schedule_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "batchless/analysis/argument.h"

namespace batchless::hwmodel {
namespace {

using analysis::InvalidArgument;

// A stage count of this order would only be a slip of the pen, and costs memory.
constexpr std::int64_t kMaxStages = 1'000'000;
constexpr std::int64_t kMaxNumber = std::numeric_limits<std::int64_t>::max() / 4;

enum Column : unsigned char { kStep, kStage, kKind, kMicrobatch, kWorker, kSlots, kWeights };

constexpr std::array<std::string_view, 7> kColumns = {
    "step", "stage", "kind", "microbatch", "worker", "slots_per_step", "weights"};
constexpr std::size_t kRequired = 4;

// The text of a number takes no more.
using Digits = std::array<char, 24>;

void Append(std::string& text, std::int64_t number) {
  Digits digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  text.append(digits.data(), end);
}

void Append(std::string& text, const Action& action) {
  Append(text, action.stage);
  text += Letter(action.kind);
  Append(text, action.microbatch);
}

// Cuts `text` at the next separator, which goes away too.
std::string_view TakeUntil(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view front = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return front;
}

std::int64_t ParseNumber(std::string_view name, std::string_view text, std::int64_t most) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || number < 0 || number > most) {
    throw InvalidArgument(name, text, "an integer from 0 to " + std::to_string(most));
  }
  return number;
}

ActionKind ParseKind(std::string_view text) {
  for (const ActionKind kind : kActionKinds) {
    if (text.size() == 1 && text.front() == Letter(kind)) return kind;
  }
  throw InvalidArgument("kind", text, "F, B, W or U");
}

// The rule of versions: its name and, where forwards lag, by how many updates, "stashed-4".
std::string VersionsText(const Schedule& schedule) {
  const std::string name(Name(schedule.weights));
  return schedule.forward_lag == 0 ? name : name + "-" + std::to_string(schedule.forward_lag);
}

void ReadVersions(std::string_view text, Schedule& schedule) {
  const std::size_t dash = text.rfind('-');
  const bool lags = dash != std::string_view::npos && text.find_first_of("0123456789") == dash + 1;
  schedule.weights = ParseWeightVersions(lags ? text.substr(0, dash) : text);
  if (lags) schedule.forward_lag = ParseNumber("weights", text.substr(dash + 1), kMaxNumber);
}

int ParseSlots(std::string_view text) {
  if (text == "1") return 1;
  if (text == "2") return 2;
  throw InvalidArgument("slots_per_step", text, "1 or 2");
}

// The lines of a file, with what goes wrong in one of them named by its number.
class LineReader {
 public:
  explicit LineReader(std::string_view text) : left_(WithoutBlankEnd(text)) {}

  // The next line without its end; none after the last.
  std::optional<std::string_view> Next() {
    if (left_.empty()) return std::nullopt;
    ++number_;
    std::string_view line = TakeUntil(left_, '\n');
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  // Number of the line that Next gave last; an empty file lacks its first line.
  std::size_t number() const { return std::max<std::size_t>(number_, 1); }

 private:
  // Editors leave empty lines at the end.
  static std::string_view WithoutBlankEnd(std::string_view text) {
    const std::size_t last = text.find_last_not_of(" \t\r\n");
    return last == std::string_view::npos ? "" : text.substr(0, text.find('\n', last));
  }

  std::string_view left_;
  std::size_t number_ = 0;
};

// Runs `read` on behalf of a line.
template <class Read>
void ReadLine(const LineReader& lines, const Read& read) {
  try {
    read();
  } catch (const InvalidArgument& error) {
    throw ScheduleFileError(lines.number(), error.what());
  }
}

std::vector<Column> ParseHeader(std::string_view line) {
  std::string accepted;
  for (std::size_t c = 0; c < kColumns.size(); ++c) {
    accepted += (c == 0 ? "" : c == kRequired ? " and perhaps " : ",");
    accepted += kColumns[c];
  }
  std::vector<Column> columns;
  std::string_view rest = line;
  while (!rest.empty()) {
    const std::string_view name = TakeUntil(rest, ',');
    const auto found = std::find(kColumns.begin(), kColumns.end(), name);
    const auto column = static_cast<Column>(found - kColumns.begin());
    if (found == kColumns.end() ||
        std::find(columns.begin(), columns.end(), column) != columns.end()) {
      throw InvalidArgument("columns", line, accepted);
    }
    columns.push_back(column);
  }
  for (std::size_t c = 0; c < kRequired; ++c) {
    if (std::find(columns.begin(), columns.end(), static_cast<Column>(c)) == columns.end()) {
      throw InvalidArgument("columns", line, accepted);
    }
  }
  return columns;
}

// The number of slots that the busiest worker fills in a step.
int FewestSlots(const Schedule& schedule) {
  std::vector<std::int64_t> last(static_cast<std::size_t>(schedule.workers()), -1);
  for (const auto& [step, action] : schedule.actions) {
    if (action.kind == ActionKind::kUpdate) continue;
    std::int64_t& of_worker = last[static_cast<std::size_t>(schedule.worker(action.stage))];
    if (of_worker == step) return 2;
    of_worker = step;
  }
  return 1;
}

// Sets a value that has to be the same in all rows that give it.
template <class Value>
void SetOnce(std::optional<Value>& place, const Value& value, std::string_view name,
             std::string_view text, const std::string& accepted) {
  if (place && *place != value) throw InvalidArgument(name, text, accepted);
  place = value;
}

class CsvReader {
 public:
  explicit CsvReader(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void ReadRow(std::string_view line) {
    std::array<std::string_view, kColumns.size()> fields;
    std::string_view rest = line;
    const auto commas = static_cast<std::size_t>(std::count(line.begin(), line.end(), ','));
    if (commas + 1 != columns_.size()) {
      throw InvalidArgument("row", line, std::to_string(columns_.size()) + " values");
    }
    for (const Column column : columns_) fields[column] = TakeUntil(rest, ',');
    TimedAction timed;
    timed.step = ParseNumber("step", fields[kStep], kMaxNumber);
    timed.action.stage = static_cast<int>(ParseNumber("stage", fields[kStage], kMaxStages - 1));
    timed.action.kind = ParseKind(fields[kKind]);
    timed.action.microbatch = ParseNumber("microbatch", fields[kMicrobatch], kMaxNumber);
    schedule_.stages = std::max(schedule_.stages, timed.action.stage + 1);
    schedule_.microbatches = std::max(schedule_.microbatches, timed.action.microbatch + 1);
    schedule_.actions.push_back(timed);
    for (const Column column : columns_) {
      if (column >= kRequired) ReadExtra(column, fields[column], timed.action.stage);
    }
  }

  Schedule Take() {
    for (const std::optional<int>& worker : workers_) {
      schedule_.worker_of_stage.push_back(worker.value_or(0));
    }
    schedule_.slots_per_step = slots_ ? *slots_ : FewestSlots(schedule_);
    return std::move(schedule_);
  }

 private:
  void ReadExtra(Column column, std::string_view text, int stage) {
    static const std::string kSame = "the same in all rows";
    switch (column) {
      case kSlots:
        SetOnce(slots_, ParseSlots(text), "slots_per_step", text, kSame);
        break;
      case kWeights:
        SetOnce(weights_, std::string(text), "weights", text, kSame);
        ReadVersions(text, schedule_);
        break;
      default: {
        const int worker = static_cast<int>(ParseNumber("worker", text, kMaxStages - 1));
        if (workers_.size() <= static_cast<std::size_t>(stage)) workers_.resize(stage + 1);
        SetOnce(workers_[static_cast<std::size_t>(stage)], worker, "worker", text,
                "the same in all rows of stage " + std::to_string(stage));
      }
    }
  }

  std::vector<Column> columns_;
  Schedule schedule_;
  std::vector<std::optional<int>> workers_;  // by stage
  std::optional<int> slots_;
  std::optional<std::string> weights_;
};

// The value of the next word, NAME=VALUE, of the text form's first line.
std::string_view TakeValue(std::string_view& line, const std::string& name) {
  std::string_view word = TakeUntil(line, ' ');
  const std::string_view whole = word;
  if (TakeUntil(word, '=') != name) {
    throw InvalidArgument("first line", whole,
                          name + "= in stages=.. microbatches=.. slots_per_step=.. weights=..");
  }
  return word;
}

void ReadTextHeader(std::string_view line, Schedule& schedule) {
  std::string_view rest = line;
  schedule.stages = static_cast<int>(ParseNumber("stages", TakeValue(rest, "stages"), kMaxStages));
  schedule.microbatches = ParseNumber("microbatches", TakeValue(rest, "microbatches"), kMaxNumber);
  schedule.slots_per_step = ParseSlots(TakeValue(rest, "slots_per_step"));
  ReadVersions(TakeValue(rest, "weights"), schedule);
  if (rest.empty()) return;
  std::string_view workers = TakeValue(rest, "worker_of_stage");
  while (!workers.empty()) {
    schedule.worker_of_stage.push_back(
        static_cast<int>(ParseNumber("worker_of_stage", TakeUntil(workers, ','), kMaxStages - 1)));
  }
  if (!rest.empty()) throw InvalidArgument("first line", rest, "nothing behind the workers");
}

void ReadStep(std::string_view line, Schedule& schedule) {
  std::string_view rest = line;
  const std::int64_t step = ParseNumber("step", TakeUntil(rest, ':'), kMaxNumber);
  while (!rest.empty()) {
    const std::string_view word = TakeUntil(rest, ' ');
    if (!word.empty()) schedule.actions.push_back({step, ParseAction(word)});
  }
}

}  // namespace

ScheduleFileError::ScheduleFileError(std::size_t line, std::string_view message)
    : std::runtime_error("line " + std::to_string(line) + ": " + std::string(message)),
      line_(line) {}

std::string ToCsv(const Schedule& schedule) {
  const bool has_workers = !schedule.worker_of_stage.empty();
  const bool has_slots = schedule.slots_per_step != FewestSlots(schedule);
  const std::string weights = VersionsText(schedule);
  const bool has_weights = weights != Name(WeightVersions::kNewest);
  std::string csv = "step,stage,kind,microbatch";
  if (has_workers) csv += ",worker";
  if (has_slots) csv += ",slots_per_step";
  if (has_weights) csv += ",weights";
  csv += '\n';
  for (const auto& [step, action] : schedule.actions) {
    Append(csv, step);
    csv += ',';
    Append(csv, action.stage);
    csv += ',';
    csv += Letter(action.kind);
    csv += ',';
    Append(csv, action.microbatch);
    if (has_workers) {
      csv += ',';
      Append(csv, schedule.worker(action.stage));
    }
    if (has_slots) {
      csv += ',';
      Append(csv, schedule.slots_per_step);
    }
    if (has_weights) {
      csv += ',';
      csv += weights;
    }
    csv += '\n';
  }
  return csv;
}

Schedule ParseCsv(std::string_view csv) {
  LineReader lines(csv);
  std::vector<Column> columns;
  const std::string_view header = lines.Next().value_or("");
  ReadLine(lines, [&] { columns = ParseHeader(header); });
  CsvReader reader(std::move(columns));
  while (const std::optional<std::string_view> line = lines.Next()) {
    ReadLine(lines, [&] { reader.ReadRow(*line); });
  }
  return reader.Take();
}

std::string ToText(const Schedule& schedule) {
  std::string text = "stages=";
  Append(text, schedule.stages);
  text += " microbatches=";
  Append(text, schedule.microbatches);
  text += " slots_per_step=";
  Append(text, schedule.slots_per_step);
  text += " weights=";
  text += VersionsText(schedule);
  for (std::size_t stage = 0; stage < schedule.worker_of_stage.size(); ++stage) {
    text += stage == 0 ? " worker_of_stage=" : ",";
    Append(text, schedule.worker_of_stage[stage]);
  }
  for (std::size_t k = 0; k < schedule.actions.size(); ++k) {
    const auto& [step, action] = schedule.actions[k];
    if (k == 0 || schedule.actions[k - 1].step != step) {
      text += '\n';
      Append(text, step);
      text += ':';
    }
    text += ' ';
    Append(text, action);
  }
  text += '\n';
  return text;
}

Schedule ParseScheduleText(std::string_view text) {
  LineReader lines(text);
  Schedule schedule;
  const std::string_view header = lines.Next().value_or("");
  ReadLine(lines, [&] { ReadTextHeader(header, schedule); });
  while (const std::optional<std::string_view> line = lines.Next()) {
    ReadLine(lines, [&] { ReadStep(*line, schedule); });
  }
  return schedule;
}

}  // namespace batchless::hwmodel
