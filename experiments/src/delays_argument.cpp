#include "delays_argument.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "batchless/analysis/argument.h"
#include "usage_error.h"
#include "values.h"

namespace batchless {
namespace {

using analysis::Delay;
using analysis::DelayCompensation;
using analysis::DelayModel;

constexpr IntegerRange kVaryingRange{0, analysis::kMaxVaryingDelay};
constexpr NumberRange kProbabilityRange{0, 1};
constexpr std::size_t kMostBytesOfDelays = 1 << 20;

// The cells of a file's lines; those without any are left out.
class Cells {
 public:
  Cells(std::string_view name, std::string path, std::string_view form)
      : name_(name), path_(std::move(path)) {
    text_ = ReadInput(name, path_, fmt::format("a CSV file {}", form), kMostBytesOfDelays);
    std::size_t number = 0;
    for (std::string_view line : SplitList(text_, '\n')) {
      ++number;
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (!line.empty()) lines_.push_back({number, line, SplitList(line)});
    }
  }

  std::size_t lines() const { return lines_.size(); }
  std::size_t columns(std::size_t line) const { return lines_[line].cells.size(); }

  // Throws where the first line is not this, and others have not as many cells.
  void TakeHeader(std::string_view header) {
    const std::vector<std::string_view> names = SplitList(header);
    if (lines_.empty() || lines_[0].cells != names) {
      RefuseLine(0, fmt::format("{} in the first line", header));
    }
    lines_.erase(lines_.begin());
    for (std::size_t line = 0; line < lines(); ++line) {
      if (columns(line) != names.size()) RefuseLine(line, fmt::format("columns {}", header));
    }
  }

  Delay DelayAt(std::size_t line, std::size_t column) const {
    return Read(line, column, ParseInteger, kVaryingRange);
  }
  double ProbabilityAt(std::size_t line, std::size_t column) const {
    return Read(line, column, ParseNumber, kProbabilityRange);
  }

 private:
  struct Line {
    std::size_t number;
    std::string_view text;
    std::vector<std::string_view> cells;
  };

  [[noreturn]] void RefuseLine(std::size_t line, std::string_view accepted) const {
    if (line >= lines_.size()) RefusePart(1, "nothing", accepted);
    RefusePart(lines_[line].number, lines_[line].text, accepted);
  }

  [[noreturn]] void RefusePart(std::size_t number, std::string_view part,
                               std::string_view accepted) const {
    // A long part is cut as a long value is; the path is not.
    const analysis::InvalidArgument shown(name_, part, accepted);
    throw UsageError(name_, fmt::format("{}, line {}: {}", path_, number, shown.value()), accepted);
  }

  template <class Value, class Range>
  Value Read(std::size_t line, std::size_t column,
             Value (*parse)(std::string_view, std::string_view, const Range&),
             const Range& range) const {
    try {
      return parse(name_, lines_[line].cells[column], range);
    } catch (const UsageError&) {
      RefusePart(lines_[line].number, lines_[line].cells[column], range.Text());
    }
  }

  std::string_view name_;
  std::string path_;
  std::string text_;
  std::vector<Line> lines_;
};

DelayModel ReadDistribution(std::string_view name, const std::string& path) {
  Cells cells(name, path, "with the columns delay,probability");
  cells.TakeHeader("delay,probability");
  std::vector<Delay> delays;
  std::vector<double> probabilities;
  for (std::size_t line = 0; line < cells.lines(); ++line) {
    delays.push_back(cells.DelayAt(line, 0));
    probabilities.push_back(cells.ProbabilityAt(line, 1));
  }
  return analysis::IndependentDelays(delays, probabilities);
}

DelayModel ReadTrace(std::string_view name, const std::string& path) {
  Cells cells(name, path, "with the column delay");
  cells.TakeHeader("delay");
  std::vector<Delay> delays;
  for (std::size_t line = 0; line < cells.lines(); ++line) delays.push_back(cells.DelayAt(line, 0));
  return analysis::TraceDelays(std::move(delays));
}

DelayModel ReadChain(std::string_view name, const std::string& path) {
  const Cells cells(name, path, "of delays and, for each, a line of probabilities");
  std::vector<Delay> delays;
  std::vector<std::vector<double>> transition;
  for (std::size_t line = 0; line < cells.lines(); ++line) {
    if (line > 0) transition.emplace_back();
    for (std::size_t column = 0; column < cells.columns(line); ++column) {
      if (line == 0) {
        delays.push_back(cells.DelayAt(line, column));
      } else {
        transition.back().push_back(cells.ProbabilityAt(line, column));
      }
    }
  }
  return analysis::MarkovDelays(std::move(delays), std::move(transition));
}

DelayModel Parse(std::string_view name, const std::string& text, std::optional<Delay> largest,
                 std::string_view forms) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (kind == "uniform") {
    const std::vector<std::string_view> ends = SplitList(rest, ':');
    if (ends.size() != 2) throw UsageError(name, text, forms);
    return analysis::UniformDelays(ParseInteger(name, ends[0], kVaryingRange),
                                   ParseInteger(name, ends[1], kVaryingRange));
  }
  if (kind == "geometric") {
    return analysis::GeometricDelays(ParseNumber(name, rest, kProbabilityRange), largest);
  }
  const bool is_drawn = kind != "markov" && kind != "trace";
  if (!is_drawn && forms == kDrawnDelaysForms) throw UsageError(name, text, forms);
  if (kind == "markov") return ReadChain(name, rest);
  if (kind == "trace") return ReadTrace(name, rest);
  if (!text.ends_with(".csv")) throw UsageError(name, text, forms);
  return ReadDistribution(name, text);
}

DelayModel ParseByName(std::string_view name, const std::string& text, std::optional<Delay> largest,
                       std::string_view forms) {
  try {
    return Parse(name, text, largest, forms);
  } catch (const analysis::InvalidArgument& error) {
    throw UsageError(name, fmt::format("{}, with {}", text, error.value()), error.accepted());
  }
}

}  // namespace

DelayModel ParseDrawnDelays(std::string_view name, const std::string& text) {
  return ParseByName(name, text, std::nullopt, kDrawnDelaysForms);
}

std::string DelaysText(const DelayModel& model) {
  std::string text;
  for (std::size_t i = 0; i < model.delays.size(); ++i) {
    text += fmt::format("{},{}\n", model.delays[i], model.shares[i]);
  }
  return text;
}

DelaysArguments::DelaysArguments(CLI::App& command)
    : delays_(command, "--delays", "DELAYS",
              fmt::format("Delays that vary, in place of --delay: {}", kDelaysForms)),
      compensate_(command, "--compensate", "HOW",
                  "With --delays: coefficients made for the mean delay, or for each gradient's own "
                  "(default: mean)"),
      largest_(command, "--largest-delay", "D",
               "With --delays geometric:P: where they are cut (default: where less than 1e-6 is "
               "left)") {}

bool DelaysArguments::given() const {
  if (delays_.given()) return true;
  compensate_.Refuse("nothing without --delays");
  largest_.Refuse("nothing without --delays");
  return false;
}

const std::string& DelaysArguments::text() const { return delays_.Text(kDelaysForms); }

std::shared_ptr<const VaryingDelays> DelaysArguments::Read(const Argument& delay) const {
  std::optional<Delay> largest;
  if (largest_.given()) {
    if (!text().starts_with("geometric:")) largest_.Refuse("nothing but with geometric:P");
    largest = largest_.Integer(kVaryingRange);
  }
  VaryingDelays read{text(), ParseByName(delays_.name(), text(), largest, kDelaysForms)};
  if (compensate_.given() && compensate_.Choice(kCompensateChoices) == 1) {
    read.compensation = DelayCompensation::kOwn;
  }
  delay.Refuse("nothing together with --delays");
  return std::make_shared<const VaryingDelays>(std::move(read));
}

std::string DelaysHelp() {
  return R"(
With --delays each update's gradient has a delay of its own: drawn anew (uniform, geometric, a
file of delays and probabilities), by a chain, or from a trace that repeats. Radius, half-life,
critical rate and variance are those of the mean square then, E[w^2]; the mean itself, and
almost every single run, may be stable where it is not. With a trace nothing is random.
)";
}

}  // namespace batchless
