#include "usage_error.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>

namespace batchless {

UsageError::UsageError(std::string_view name, std::string_view value, std::string_view accepted)
    : std::runtime_error(OneLine(
          fmt::format("{}: got {}, accepted: {}", name,
                      value.empty() ? std::string_view("an empty string") : value, accepted))) {}

UsageError UsageError::FromLine(std::string_view line) { return UsageError(OneLine(line)); }

UsageError OptionError(const analysis::InvalidArgument& error, OtherNames names) {
  static const std::map<std::string_view, std::string_view> kOtherNames{
      {"discrepancy", "--discrepancies"}, {"forward_delay", "--delay"}, {"learning_rate", "--rate"},
      {"network.norm", "--norm"},         {"ratio", "--discrepancies"}, {"updates", "--steps"},
  };
  std::string option = error.name();
  if (option.find('.') == std::string::npos) {
    option = "--" + option;
    std::replace(option.begin(), option.end(), '_', '-');
  }
  if (const auto other = kOtherNames.find(error.name()); other != kOtherNames.end()) {
    option = other->second;
  }
  for (const auto& [name, other] : names) {
    if (name == error.name()) option = other;
  }
  return {option, error.value(), error.accepted()};
}

std::string WhyUnreadable(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return "this is a folder";
  if (access(path.c_str(), R_OK) == 0) return {};
  return errno == ENOENT ? "there is no such file" : std::strerror(errno);
}

std::string ReadText(std::string_view argument, const std::string& path, std::string_view accepted,
                     std::size_t most_bytes) {
  const auto refuse = [&](std::string_view why) {
    throw UsageError(argument, path, fmt::format("{} ({})", accepted, why));
  };
  if (const std::string why = WhyUnreadable(path); !why.empty()) refuse(why);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) refuse(errno == 0 ? "it cannot be opened" : std::strerror(errno));
  // Piece by piece: a file of endless zeros is one of more bytes, too.
  constexpr std::size_t kPieceBytes = 1 << 16;
  std::string text;
  while (file && text.size() <= most_bytes) {
    const std::size_t before = text.size();
    text.resize(before + kPieceBytes);
    file.read(text.data() + before, kPieceBytes);
    text.resize(before + static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) refuse("it cannot be read to its end");
  if (text.size() > most_bytes) refuse(fmt::format("it has more than {} bytes", most_bytes));
  // What some editors put before the first character.
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return text;
}

std::string ReadInput(std::string_view argument, const std::string& path, std::string_view accepted,
                      std::size_t most_bytes) {
  std::string text = ReadText(argument, path, accepted, most_bytes);
  RefuseIf(text.empty(), argument, path, fmt::format("{} (there is nothing in it)", accepted));
  return text;
}

std::string OneLine(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return line;
}

}  // namespace batchless
