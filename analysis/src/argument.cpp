#include "batchless/analysis/argument.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace batchless::analysis {
namespace {

// Longest value that is repeated in full; a message stays one readable line.
constexpr std::size_t kMaxShownCharacters = 60;

std::string OneLine(std::string_view value) {
  if (value.empty()) return "an empty string";
  std::string text(value.substr(0, kMaxShownCharacters));
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  if (value.size() > kMaxShownCharacters) text += "...";
  return text;
}

std::string Message(std::string_view name, std::string_view value, std::string_view accepted) {
  return std::string(name) + ": got " + OneLine(value) + ", accepted: " + std::string(accepted);
}

// Least number of insertions, deletions, substitutions and swaps of neighbours, none of which
// touches the same place twice (Damerau-Levenshtein, optimal string alignment). Three rows of the
// table are enough.
std::size_t EditDistance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> before_previous(to.size() + 1);
  std::vector<std::size_t> previous(to.size() + 1);
  std::vector<std::size_t> current(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) current[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    before_previous.swap(previous);
    previous.swap(current);
    current[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t substitution = from[i - 1] == to[j - 1] ? 0 : 1;
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + substitution});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        current[j] = std::min(current[j], before_previous[j - 2] + 1);
      }
    }
  }
  return current[to.size()];
}

}  // namespace

InvalidArgument::InvalidArgument(std::string_view name, std::string_view value,
                                 std::string_view accepted)
    : std::invalid_argument(Message(name, value, accepted)),
      name_(name),
      value_(OneLine(value)),
      accepted_(accepted) {}

InvalidArgument::InvalidArgument(std::string_view name, double value, std::string_view accepted)
    : InvalidArgument(name, ToText(value), accepted) {}

std::string ToText(double value) {
  std::array<char, 32> buffer;  // The longest shortest form of a double takes 24 characters.
#if defined(__cpp_lib_to_chars)
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return std::string(buffer.data(), result.ptr);
#else
  // This standard library converts integers alone.
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(buffer.data(), buffer.size(), "%.*g", digits, value);
    if (std::strtod(buffer.data(), nullptr) == value) break;
  }
  return buffer.data();
#endif
}

void CheckNumber(std::string_view name, double value, double low, double high,
                 std::string_view where) {
  // Written so that a NaN fails.
  if (value >= low && value <= high) return;
  throw InvalidArgument(
      name, value, "a number from " + ToText(low) + " to " + ToText(high) + std::string(where));
}

void CheckInteger(std::string_view name, std::int64_t value, std::int64_t low, std::int64_t high,
                  std::string_view where) {
  if (value >= low && value <= high) return;
  throw InvalidArgument(name, std::to_string(value),
                        "an integer from " + std::to_string(low) + " to " + std::to_string(high) +
                            std::string(where));
}

std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view nearest;
  std::size_t least = 0;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = EditDistance(word, candidate);
    if (nearest.data() == nullptr || distance < least) {
      nearest = candidate;
      least = distance;
    }
  }
  return nearest;
}

std::string DidYouMean(std::string_view word, std::span<const std::string_view> candidates) {
  std::string lower(word);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const std::string_view nearest = Nearest(lower, candidates);
  const std::size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  if (nearest.empty() || EditDistance(lower, nearest) > (word.size() - dashes) / 2) return {};
  return " (did you mean " + std::string(nearest) + "?)";
}

std::string ListOf(std::span<const std::string_view> names) {
  std::string list;
  for (const std::string_view name : names) list += (list.empty() ? "" : ", ") + std::string(name);
  return list;
}

std::string OneOf(std::string_view word, std::span<const std::string_view> candidates) {
  return ListOf(candidates) + DidYouMean(word, candidates);
}

}  // namespace batchless::analysis
