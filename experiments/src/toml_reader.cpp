#include "toml_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "batchless/analysis/argument.h"
#include "usage_error.h"

namespace batchless {
namespace {

constexpr int kMostDots = 32;

// Why the text is no TOML that toml++ may be given, and the line; none where it is. Six things that it
// does not look at itself, all outside strings and comments: a dotted key, each of whose parts is a table in
// the one before, uses up the stack with very many parts; what is no ASCII is no TOML, but undefined
// behaviour in its table of spaces; a quote in a word, or behind a second equals sign, where it sees no string;
// and so are a table's name that begins with what no name has, and a brace where a bracket is open.
struct BadPlace {
  std::size_t line;
  std::string_view why;
};
// Whether what stands behind a header's first bracket can begin a name, or ends the header or the text.
bool MayBeginName(std::string_view text) {
  if (text.starts_with('[')) text.remove_prefix(1);
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  if (text.empty()) return true;
  const auto c = static_cast<unsigned char>(text.front());
  return std::isalnum(c) != 0 ||
         std::string_view("_-\"']").find(text.front()) != std::string_view::npos;
}

std::optional<BadPlace> FindBadPlace(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::size_t line = 1;
  int dots = 0;
  std::string_view quotes;  // of the string that the place is in: one of a kind or three
  bool is_comment = false;
  bool begins_line = true;
  bool in_word = false;   // behind what no string may follow, or blanks after it
  bool in_value = false;  // behind an equals sign, up to where another key may come
  std::string open;       // brackets
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (c == '\n' && quotes.size() < 3) {
      quotes = {};
      is_comment = false;
      begins_line = true;
      in_word = false;
      in_value = false;
      dots = 0;
      continue;
    }
    if (is_comment) continue;
    if (!quotes.empty()) {
      if (c == '\\' && quotes.front() == '"') {
        if (i + 1 < text.size() && text[++i] == '\n') ++line;
      } else if (text.substr(i).starts_with(quotes)) {
        i += quotes.size() - 1;
        quotes = {};
      }
      continue;
    }
    if (c == '"' || c == '\'') {
      if (in_word) return BadPlace{line, "a quote in a word"};
      const std::string_view three = c == '"' ? R"(""")" : "'''";
      quotes = three.substr(0, text.substr(i).starts_with(three) ? 3 : 1);
      i += quotes.size() - 1;
    }
    is_comment = c == '#';
    if (c == '=' && std::exchange(in_value, true)) return BadPlace{line, "a second equals sign"};
    if (c == ',' || c == '{') in_value = false;
    if (c != ' ' && c != '\t') {
      in_word = std::string_view("=,[{.").find(c) == std::string_view::npos;
    }
    if (c == '[' && open.empty() && begins_line && !MayBeginName(text.substr(i + 1))) {
      return BadPlace{line, "a table's name that begins with no letter"};
    }
    begins_line = begins_line && (c == ' ' || c == '\t');
    if (c == '[' || c == '{') open += c;
    if (c == ']' || c == '}') {
      if (!open.ends_with(c == ']' ? '[' : '{'))
        return BadPlace{line, "a bracket without its other"};
      open.pop_back();
    }
    if (std::string_view("=,[]{}").find(c) != std::string_view::npos) dots = 0;
    if (c == '.' && ++dots > kMostDots) return BadPlace{line, "a key of too many parts"};
    if (static_cast<unsigned char>(c) >= 0x80) return BadPlace{line, "a letter that is no ASCII"};
  }
  return std::nullopt;
}

}  // namespace

TomlReader::TomlReader(std::string where, const std::string& text) : where_(std::move(where)) {
  if (const auto bad = FindBadPlace(text)) {
    throw UsageError(fmt::format("{}:{}", where_, bad->line),
                     fmt::format("{} outside a string", bad->why), "TOML");
  }
  try {
    document_ = toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw UsageError(fmt::format("{}:{}", where_, error.source().begin.line), error.description(),
                     "TOML");
  }
}

std::string TomlReader::At(const toml::node& node) const {
  return fmt::format("{}:{}", where_, node.source().begin.line);
}

void TomlReader::Refuse(const toml::node& node, std::string_view name, std::string_view got,
                        std::string_view accepted) const {
  throw UsageError(fmt::format("{}: {}", At(node), name), got, accepted);
}

void TomlReader::RefuseValue(const toml::node& node, std::string_view name,
                             std::string_view accepted) const {
  Refuse(node, name, ShownText(node), accepted);
}

void TomlReader::CheckKeys(const toml::table& table, const std::string& owner,
                           std::string_view what, const Choices& known) const {
  for (const auto& [key, node] : table) {
    const std::string_view name = key.str();
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    Refuse(node, fmt::format("{}{}", owner, name), what, analysis::OneOf(name, known));
  }
}

const toml::node& TomlReader::Node(const toml::table& table, std::string_view key,
                                   std::string_view accepted) const {
  const toml::node* node = table.get(key);
  if (node == nullptr) Refuse(table, key, "nothing", accepted);
  return *node;
}

std::optional<double> NumberIn(const toml::node& node) {
  if (const toml::value<std::int64_t>* integer = node.as_integer()) {
    return static_cast<double>(integer->get());
  }
  if (const toml::value<double>* number = node.as_floating_point()) return number->get();
  return std::nullopt;
}

std::string NodeText(const toml::node& node) {
  std::vector<std::string> parts;
  if (const toml::array* array = node.as_array()) {
    for (const toml::node& part : *array) parts.push_back(NodeText(part));
    return parts.empty() ? "[]" : fmt::format("[ {} ]", fmt::join(parts, ", "));
  }
  if (const toml::table* table = node.as_table()) {
    for (const auto& [key, part] : *table) {
      parts.push_back(fmt::format("{} = {}", key.str(), NodeText(part)));
    }
    return parts.empty() ? "{}" : fmt::format("{{ {} }}", fmt::join(parts, ", "));
  }
  std::ostringstream stream;
  // The shortest digits that read back as the same number, where the library prints 17.
  if (const toml::value<double>* number = node.as_floating_point()) {
    stream << analysis::ToText(number->get());
  } else {
    node.visit([&](const auto& value) { stream << value; });
  }
  return std::move(stream).str();
}

std::string ShownText(const toml::node& node) {
  constexpr std::size_t kMost = 80;
  std::string text = node.value<std::string>().value_or(NodeText(node));
  if (text.size() > kMost) text.replace(kMost, std::string::npos, "...");
  return text;
}

}  // namespace batchless
