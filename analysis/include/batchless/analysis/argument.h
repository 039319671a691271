// Arguments are checked by name at the boundary: one line with the argument, the value and what is
// accepted.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace batchless::analysis {

/// An argument that is out of range. `what()` is one line: "NAME: got VALUE, accepted: ACCEPTED".
/// Control characters in VALUE are shown as `?`, and a long VALUE is cut.
class InvalidArgument : public std::invalid_argument {
 public:
  InvalidArgument(std::string_view name, std::string_view value, std::string_view accepted);
  InvalidArgument(std::string_view name, double value, std::string_view accepted);

  const std::string& name() const { return name_; }
  const std::string& value() const { return value_; }  ///< as it is shown
  const std::string& accepted() const { return accepted_; }

 private:
  std::string name_;
  std::string value_;
  std::string accepted_;
};

/// Throws InvalidArgument where the value, a number or a text, is refused.
template <class Value>
void RefuseIf(bool refused, std::string_view name, const Value& value, std::string_view accepted) {
  if (!refused) return;
  if constexpr (std::is_integral_v<Value>) {
    throw InvalidArgument(name, std::to_string(value), accepted);
  } else {
    throw InvalidArgument(name, value, accepted);
  }
}

/// Shortest decimal text that reads back as the same double.
std::string ToText(double value);

/// Throw InvalidArgument unless the value is in [low, high]; `where` ends what is accepted.
void CheckNumber(std::string_view name, double value, double low, double high,
                 std::string_view where = {});
void CheckInteger(std::string_view name, std::int64_t value, std::int64_t low, std::int64_t high,
                  std::string_view where = {});

/// The candidate with the least edit distance to `word`, the first of equals: insertions,
/// deletions, substitutions and swaps of neighbours count one each. Empty where there is no
/// candidate.
std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates);

/// " (did you mean NAME?)" with the candidate nearest to the word in lower case; empty where more
/// edits than half of its characters, dashes before it aside, lie between.
std::string DidYouMean(std::string_view word, std::span<const std::string_view> candidates);

/// "a, b, c".
std::string ListOf(std::span<const std::string_view> names);

/// "a, b, c (did you mean b?)": what is accepted in place of the word.
std::string OneOf(std::string_view word, std::span<const std::string_view> candidates);

/// The member `name` of each row of a table.
template <class Rows>
std::vector<std::string_view> NamesOf(const Rows& rows) {
  std::vector<std::string_view> names;
  for (const auto& row : rows) names.push_back(row.name);
  return names;
}

/// The row of that name. Throws InvalidArgument that names `argument` where there is none.
template <class Rows>
const auto& FindRow(const Rows& rows, std::string_view argument, std::string_view name) {
  for (const auto& row : rows) {
    if (row.name == name) return row;
  }
  throw InvalidArgument(argument, name, OneOf(name, NamesOf(rows)));
}

}  // namespace batchless::analysis

// Example
//   const std::vector<std::string_view> names = {"sgdm", "nesterov"};
//   CHECK(Nearest("sgmd", names) == "sgdm");
//   const InvalidArgument error("rule", "sgmd", OneOf("sgmd", names));
//   CHECK(error.name() == "rule");
//   CHECK(std::string(error.what()) ==
//         "rule: got sgmd, accepted: sgdm, nesterov (did you mean sgdm?)");
