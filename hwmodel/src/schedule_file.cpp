#include "batchless/hwmodel/schedule_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/cancellation.h"
#include "batchless/hwmodel/schedule_check.h"

namespace batchless::hwmodel {
namespace {

using analysis::InvalidArgument;

// A stage count of this order would only be a slip of the pen, and costs memory.
constexpr std::int64_t kMaxStages = 1'000'000;
constexpr std::int64_t kMaxNumber = std::numeric_limits<std::int64_t>::max() / 4;
// What some editors put before a text's first character.
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

enum Column : unsigned char { kStep, kStage, kKind, kMicrobatch, kWorker, kSlots, kWeights };

constexpr std::array<std::string_view, 7> kColumns = {
    "step", "stage", "kind", "microbatch", "worker", "slots_per_step", "weights"};
constexpr std::size_t kRequired = 4;

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
  return schedule.forward_lag == 0 ? name : fmt::format("{}-{}", name, schedule.forward_lag);
}

void ReadVersions(std::string_view text, Schedule& schedule) {
  const std::size_t dash = text.rfind('-');
  const bool lags = dash != std::string_view::npos && text.find_first_of("0123456789") == dash + 1;
  schedule.weights = ParseWeightVersions(lags ? text.substr(0, dash) : text);
  if (!lags) return;
  schedule.forward_lag = ParseNumber("lag of weights", text.substr(dash + 1), kMaxForwardLag);
}

int ParseSlots(std::string_view text) {
  if (text == "1") return 1;
  if (text == "2") return 2;
  throw InvalidArgument("slots_per_step", text, "1 or 2");
}

// Calls read(line, number) for each line, and names the one that it refuses.
template <class Read>
void ReadLines(std::string_view text, const Read& read) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  // Editors leave empty lines at the end.
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  text = last == std::string_view::npos ? "" : text.substr(0, text.find('\n', last));
  for (std::size_t number = 1; number == 1 || !text.empty(); ++number) {
    std::string_view line = TakeUntil(text, '\n');
    if (line.ends_with('\r')) line.remove_suffix(1);
    try {
      read(line, number);
    } catch (const InvalidArgument& error) {
      throw ScheduleFileError(number, error.what());
    }
  }
}

std::vector<Column> ParseHeader(std::string_view line) {
  std::vector<Column> columns;
  const auto has = [&](std::size_t c) {
    return std::ranges::find(columns, static_cast<Column>(c)) != columns.end();
  };
  bool is_known = true;
  for (std::string_view rest = line; !rest.empty() && is_known;) {
    const auto found = std::ranges::find(kColumns, TakeUntil(rest, ','));
    const auto c = static_cast<std::size_t>(found - kColumns.begin());
    is_known = found != kColumns.end() && !has(c);
    if (is_known) columns.push_back(static_cast<Column>(c));
  }
  for (std::size_t c = 0; c < kRequired; ++c) is_known = is_known && has(c);
  if (is_known) return columns;
  throw InvalidArgument("columns", line,
                        fmt::format("{} and perhaps {}",
                                    fmt::join(kColumns.begin(), kColumns.begin() + kRequired, ","),
                                    fmt::join(kColumns.begin() + kRequired, kColumns.end(), ",")));
}

// The number of slots that the busiest worker fills in a step.
int FewestSlots(const Schedule& schedule) {
  std::vector<std::int64_t> last(static_cast<std::size_t>(schedule.workers()), -1);
  for (const auto& [step, action] : schedule.actions) {
    if (action.kind == ActionKind::kUpdate) continue;
    std::int64_t& of_worker = last[schedule.worker(action)];
    if (of_worker == step) return 2;
    of_worker = step;
  }
  return 1;
}

class CsvReader {
  static constexpr int kNone = -1;

  struct Row {
    TimedAction timed;
    std::size_t line = 0;
    int worker = kNone;
  };

 public:
  void ReadHeader(std::string_view line) { columns_ = ParseHeader(line); }

  void ReadRow(std::string_view line, std::size_t number) {
    std::array<std::string_view, kColumns.size()> fields;
    std::string_view rest = line;
    const auto commas = static_cast<std::size_t>(std::ranges::count(line, ','));
    if (commas + 1 != columns_.size()) {
      throw InvalidArgument("row", line, std::to_string(columns_.size()) + " values");
    }
    for (const Column column : columns_) fields[column] = TakeUntil(rest, ',');
    TimedAction timed;
    timed.step = ParseNumber("step", fields[kStep], kMaxStep);
    timed.action.stage = static_cast<int>(ParseNumber("stage", fields[kStage], kMaxStages - 1));
    timed.action.kind = ParseKind(fields[kKind]);
    timed.action.microbatch = ParseNumber("microbatch", fields[kMicrobatch], kMaxNumber);
    schedule_.stages = std::max(schedule_.stages, timed.action.stage + 1);
    schedule_.microbatches = std::max(schedule_.microbatches, timed.action.microbatch + 1);
    Row& row = rows_.emplace_back(Row{.timed = timed, .line = number});
    for (const Column column : columns_) {
      if (column >= kRequired) ReadExtra(column, fields[column], row);
    }
  }

  // The rows by their steps, in the file's order within one.
  Schedule Take(std::vector<std::size_t>* lines) {
    SetWorkers();
    std::ranges::stable_sort(rows_, {}, [](const Row& row) { return row.timed.step; });
    for (const Row& row : rows_) {
      schedule_.actions.push_back(row.timed);
      if (lines != nullptr) lines->push_back(row.line);
    }
    schedule_.slots_per_step = slots_ ? *slots_ : FewestSlots(schedule_);
    return std::move(schedule_);
  }

 private:
  // As few copies of the stages as have one worker for each of theirs: one, or an even number.
  void SetWorkers() {
    const auto rows = static_cast<std::int64_t>(rows_.size());
    if (rows == 0 || rows_.front().worker == kNone) return;
    // Every copy has rows of every stage.
    const std::int64_t stages = schedule_.stages;
    const std::int64_t most = std::max<std::int64_t>(2, std::min(stages / 2, rows / stages));
    // The number that most rows agree with.
    const Row* refused = nullptr;
    std::int64_t best = 2;
    for (std::int64_t copies = 1; copies <= most; copies += copies == 1 ? 1 : 2) {
      const Row* const other = TryCopies(copies);
      if (other == nullptr) return;
      if (refused != nullptr && other <= refused) continue;
      refused = other;
      best = std::max<std::int64_t>(copies, 2);
    }
    const std::int64_t copy = refused->timed.action.microbatch % best;
    const InvalidArgument error(
        "worker", std::to_string(refused->worker),
        fmt::format("the same in all rows of stage {} and micro-batches {}, {}, ..",
                    refused->timed.action.stage, copy, copy + best));
    throw ScheduleFileError(refused->line, error.what());
  }

  // Sets the workers of so many copies, or returns the first row that has another worker.
  const Row* TryCopies(std::int64_t copies) {
    const std::int64_t stages = schedule_.stages;
    std::vector<int>& workers = schedule_.worker_of_stage;
    std::vector<int> of_any(static_cast<std::size_t>(stages), 0);
    workers.assign(static_cast<std::size_t>(copies * stages), kNone);
    for (const Row& row : rows_) {
      const auto& [stage, kind, microbatch] = row.timed.action;
      int& worker = workers[microbatch % copies * stages + stage];
      if (worker == kNone) worker = of_any[stage] = row.worker;
      if (worker != row.worker) return &row;
    }
    for (std::size_t k = 0; k < workers.size(); ++k) {
      if (workers[k] == kNone) workers[k] = of_any[k % of_any.size()];
    }
    return nullptr;
  }

  void ReadExtra(Column column, std::string_view text, Row& row) {
    if (column == kWorker) {
      row.worker = static_cast<int>(ParseNumber("worker", text, kMaxStages - 1));
      return;
    }
    if (column == kSlots) slots_ = ParseSlots(text);
    if (rows_.size() == 1) of_first_row_[column] = text;
    if (text != of_first_row_[column]) {
      throw InvalidArgument(kColumns[column], text, "the same in all rows");
    }
    if (column == kWeights) ReadVersions(text, schedule_);
  }

  std::vector<Column> columns_;
  std::vector<Row> rows_;
  Schedule schedule_;
  std::optional<int> slots_;
  std::array<std::string_view, kColumns.size()> of_first_row_;  // views of what is read
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
  schedule.stages = static_cast<int>(ParseNumber("stages", TakeValue(line, "stages"), kMaxStages));
  schedule.microbatches = ParseNumber("microbatches", TakeValue(line, "microbatches"), kMaxNumber);
  schedule.slots_per_step = ParseSlots(TakeValue(line, "slots_per_step"));
  ReadVersions(TakeValue(line, "weights"), schedule);
  if (line.empty()) return;
  std::string_view workers = TakeValue(line, "worker_of_stage");
  while (!workers.empty()) {
    schedule.worker_of_stage.push_back(
        static_cast<int>(ParseNumber("worker_of_stage", TakeUntil(workers, ','), kMaxStages - 1)));
  }
  if (!line.empty()) throw InvalidArgument("first line", line, "nothing behind the workers");
}

void ReadStep(std::string_view line, Schedule& schedule) {
  const std::int64_t step = ParseNumber("step", TakeUntil(line, ':'), kMaxStep);
  while (!line.empty()) {
    const std::string_view word = TakeUntil(line, ' ');
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
  std::string csv = fmt::format("step,stage,kind,microbatch{}{}{}\n", has_workers ? ",worker" : "",
                                has_slots ? ",slots_per_step" : "", has_weights ? ",weights" : "");
  const std::string same =
      fmt::format("{}{}\n", has_slots ? fmt::format(",{}", schedule.slots_per_step) : "",
                  has_weights ? "," + weights : "");
  for (const auto& [step, action] : schedule.actions) {
    analysis::CheckCancellation();
    csv += fmt::format("{},{},{},{}", step, action.stage, Letter(action.kind), action.microbatch);
    if (has_workers) csv += fmt::format(",{}", schedule.worker(action));
    csv += same;
  }
  return csv;
}

Schedule ParseCsv(std::string_view csv, std::vector<std::size_t>* lines) {
  CsvReader reader;
  ReadLines(csv, [&](std::string_view line, std::size_t number) {
    number == 1 ? reader.ReadHeader(line) : reader.ReadRow(line, number);
  });
  return reader.Take(lines);
}

std::string ToText(const Schedule& schedule) {
  std::string text =
      fmt::format("stages={} microbatches={} slots_per_step={} weights={}", schedule.stages,
                  schedule.microbatches, schedule.slots_per_step, VersionsText(schedule));
  if (!schedule.worker_of_stage.empty()) {
    text += fmt::format(" worker_of_stage={}", fmt::join(schedule.worker_of_stage, ","));
  }
  const TimedAction* before = nullptr;
  for (const TimedAction& timed : schedule.actions) {
    analysis::CheckCancellation();
    if (before == nullptr || before->step != timed.step) text += fmt::format("\n{}:", timed.step);
    text += ' ' + ToText(timed.action);
    before = &timed;
  }
  return text + '\n';
}

Schedule ParseScheduleText(std::string_view text) {
  Schedule schedule;
  ReadLines(text, [&](std::string_view line, std::size_t number) {
    number == 1 ? ReadTextHeader(line, schedule) : ReadStep(line, schedule);
  });
  std::ranges::stable_sort(schedule.actions, {}, &TimedAction::step);
  return schedule;
}

}  // namespace batchless::hwmodel
