#include "usage_error.h"

#include <fmt/format.h>

namespace batchless {

UsageError::UsageError(std::string_view name, std::string_view value, std::string_view accepted)
    : std::runtime_error(OneLine(
          fmt::format("{}: got {}, accepted: {}", name,
                      value.empty() ? std::string_view("an empty string") : value, accepted))) {}

UsageError UsageError::FromLine(std::string_view line) { return UsageError(OneLine(line)); }

std::string OneLine(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return line;
}

}  // namespace batchless
