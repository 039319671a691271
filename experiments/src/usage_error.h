#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "batchless/analysis/argument.h"

namespace batchless {

// A command line, or an input file that it names, that cannot be worked with. `what()` is one line,
// "NAME: got VALUE, accepted: ACCEPTED", and the program ends with exit code 2.
//
// The same line as analysis::InvalidArgument, except that paths are not cut: the end of a path is
// what tells it from its neighbours.
class UsageError : public std::runtime_error {
 public:
  UsageError(std::string_view name, std::string_view value, std::string_view accepted);

  // A line that already has the form.
  static UsageError FromLine(std::string_view line);

 private:
  explicit UsageError(const std::string& line) : std::runtime_error(line) {}
};

// Throws UsageError where the value, a number or a text, is refused; one that may be missing is there then.
template <class Value>
void RefuseIf(bool refused, std::string_view name, const Value& value, std::string_view accepted) {
  if (!refused) return;
  if constexpr (std::is_integral_v<Value>) {
    throw UsageError(name, std::to_string(value), accepted);
  } else if constexpr (std::is_floating_point_v<Value>) {
    throw UsageError(name, analysis::ToText(value), accepted);
  } else {
    throw UsageError(name, value, accepted);
  }
}
template <class Value>
void RefuseIf(bool refused, std::string_view name, const std::optional<Value>& value,
              std::string_view accepted) {
  if (refused) RefuseIf(true, name, *value, accepted);
}

// What a library refuses, as the option that stands for the library's argument: --NAME with dashes,
// unless `names` or the library's other word for it says another one. The field of a file or key of a
// configuration, SECTION.NAME, has no option and keeps its name.
using OtherNames = std::initializer_list<std::pair<std::string_view, std::string_view>>;
UsageError OptionError(const analysis::InvalidArgument& error, OtherNames names = {});

// Calls `work` and puts `where` before what a library refuses in it.
template <class Work>
auto Within(std::string_view where, Work work) {
  try {
    return work();
  } catch (const analysis::InvalidArgument& error) {
    throw UsageError::FromLine(std::string(where) + ": " + error.what());
  }
}

// Why a file cannot be read: "there is no such file", "this is a folder", the system's reason; empty
// where it can.
std::string WhyUnreadable(const std::string& path);

// The content of a file of at most so many bytes, without a byte order mark; ReadInput's has something in it. Throws UsageError
// with what is accepted and why it is none.
std::string ReadText(std::string_view argument, const std::string& path, std::string_view accepted,
                     std::size_t most_bytes);
std::string ReadInput(std::string_view argument, const std::string& path, std::string_view accepted,
                      std::size_t most_bytes);

// `text` with every control character shown as '?', so that it stays one line.
std::string OneLine(std::string_view text);

}  // namespace batchless
