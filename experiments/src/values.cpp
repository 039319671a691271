#include "values.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>
#include <type_traits>
#include <unordered_set>

#include "batchless/analysis/argument.h"
#include "usage_error.h"

namespace batchless {
namespace {

constexpr std::string_view kListForm =
    "separated by commas, or lin:LO:HI:N, log:LO:HI:N, log1m:LO:HI:N";

// The number that the whole text spells; none for anything else, infinities and NaN included.
// A number too small for a double is 0 here and one too large is none.
std::optional<double> ReadNumber(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end || text.empty()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    // from_chars does not say which side; the sign of the decimal exponent does.
    const std::size_t exponent = text.find_first_of("eE");
    if (exponent != std::string_view::npos && text.substr(exponent + 1).starts_with('-')) return 0;
    return std::nullopt;
  }
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value == 0 ? 0 : value;  // -0 is 0
}

struct Spacing {
  std::string_view kind;  // lin, log or log1m
  double low;
  double high;
  std::int64_t count;

  double At(std::int64_t i) const {
    const bool first = i == 0;
    const bool last = i == count - 1;
    if (kind == "log") {
      if (first || last) return first ? low : high;
      return std::exp(Between(std::log(low), std::log(high), i));
    }
    const double u = first ? low : last ? high : Between(low, high, i);
    return kind == "lin" ? u : 1 - std::pow(10.0, u);
  }

 private:
  double Between(double from, double to, std::int64_t i) const {
    // In this order 0.9 * 1 / 9 is 0.1.
    return from + (to - from) * static_cast<double>(i) / static_cast<double>(count - 1);
  }
};

// The item read as KIND:LO:HI:N; none where it has no colon.
std::optional<Spacing> ReadSpacing(std::string_view name, std::string_view item) {
  if (item.find(':') == std::string_view::npos) return std::nullopt;
  const std::vector<std::string_view> parts = SplitList(item, ':');
  const std::string form = fmt::format(
      "lin:LO:HI:N, log:LO:HI:N (values, or powers of ten where LO is not above 0), or "
      "log1m:LO:HI:N, N an integer from 1 to {}",
      kMaxListCount);
  const bool known = parts[0] == "lin" || parts[0] == "log" || parts[0] == "log1m";
  if (!known || parts.size() != 4) throw UsageError(name, item, form);
  std::optional<double> low = ReadNumber(parts[1]);
  std::optional<double> high = ReadNumber(parts[2]);
  // No logarithm starts at or below 0, so such a LO can only be meant as log1m's are: an exponent.
  if (parts[0] == "log" && low && high && *low <= 0) {
    low = std::pow(10.0, *low);
    high = std::pow(10.0, *high);
  }
  const std::optional<double> count = ReadNumber(parts[3]);
  if (!low || !high || !count || *count != std::floor(*count) || *count < 1 ||
      *count > static_cast<double>(kMaxListCount) ||
      (parts[0] == "log" && !(*low > 0 && *high > 0)) || !std::isfinite(*high - *low)) {
    throw UsageError(name, item, form);
  }
  return Spacing{parts[0], *low, *high, static_cast<std::int64_t>(*count)};
}

// Calls add(value) for every value of a LIST; those of a spacing are rounded to integers in a range of
// integers, and shown together with the spacing where they are out of the range.
template <class Range, class Add>
void ReadList(std::string_view name, std::string_view text, const Range& range, const Add& add) {
  for (const std::string_view item : SplitList(text)) {
    const std::optional<Spacing> spacing = ReadSpacing(name, item);
    for (std::int64_t i = 0; i < (spacing ? spacing->count : 1); ++i) {
      std::optional<double> value = spacing ? spacing->At(i) : ReadNumber(item);
      if (spacing && std::is_same_v<Range, IntegerRange>) value = std::round(*value);
      if (!value || !range.Contains(*value)) {
        const std::string got =
            spacing ? fmt::format("{} in {}", analysis::ToText(*value), item) : std::string(item);
        throw UsageError(name, got, range.ListText());
      }
      add(*value);
    }
  }
}

}  // namespace

std::string NumberRange::Text() const {
  return fmt::format("a number from {} to {}{}", analysis::ToText(low), analysis::ToText(high),
                     why);
}

std::string NumberRange::ListText() const {
  return fmt::format("numbers from {} to {} {}{}", analysis::ToText(low), analysis::ToText(high),
                     kListForm, why);
}

bool IntegerRange::Contains(double value) const {
  return value == std::floor(value) && value >= static_cast<double>(low) &&
         value <= static_cast<double>(high);
}

std::string IntegerRange::Text() const {
  return fmt::format("an integer from {} to {}", low, high);
}

std::string IntegerRange::ListText() const {
  return fmt::format("integers from {} to {} {}", low, high, kListForm);
}

std::string ListHelp() {
  return R"(LIST: numbers separated by commas, or N of them: lin:LO:HI:N evenly spaced, log:LO:HI:N
with evenly spaced logarithms (from 10^LO to 10^HI where LO is not above 0: log:0:2:3 is
1, 10, 100), log1m:LO:HI:N for 1 - 10^u with u evenly spaced. Evenly spaced integers are
rounded.)";
}

double ParseNumber(std::string_view name, std::string_view text, const NumberRange& range) {
  const std::optional<double> value = ReadNumber(text);
  if (!value || !range.Contains(*value)) throw UsageError(name, text, range.Text());
  return *value;
}

std::int64_t ParseInteger(std::string_view name, std::string_view text, const IntegerRange& range) {
  const std::optional<double> value = ReadNumber(text);
  if (!value || !range.Contains(*value)) throw UsageError(name, text, range.Text());
  return static_cast<std::int64_t>(*value);
}

std::vector<double> ParseNumberList(std::string_view name, std::string_view text,
                                    const NumberRange& range) {
  std::vector<double> values;
  ReadList(name, text, range, [&](double value) { values.push_back(value); });
  return values;
}

std::vector<std::int64_t> ParseIntegerList(std::string_view name, std::string_view text,
                                           const IntegerRange& range, Repeats repeats) {
  std::vector<std::int64_t> values;
  std::unordered_set<std::int64_t> seen;
  ReadList(name, text, range, [&](double value) {
    const auto integer = static_cast<std::int64_t>(value);
    if (repeats == Repeats::kKeep || seen.insert(integer).second) values.push_back(integer);
  });
  return values;
}

std::vector<std::string_view> SplitList(std::string_view text, char separator) {
  std::vector<std::string_view> items;
  while (true) {
    const std::size_t end = text.find(separator);
    items.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return items;
    text.remove_prefix(end + 1);
  }
}

}  // namespace batchless
