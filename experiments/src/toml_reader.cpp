#include "toml_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "batchless/analysis/argument.h"
#include "usage_error.h"

namespace batchless {

TomlReader::TomlReader(std::string where, const std::string& text) : where_(std::move(where)) {
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
                           std::string_view what, const Words& known) const {
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

std::string ShownText(const toml::node& node) {
  constexpr std::size_t kMost = 80;
  std::ostringstream stream;
  if (const auto text = node.value<std::string>()) {
    stream << *text;
  } else {
    node.visit([&](const auto& value) { stream << value; });
  }
  std::string text = std::move(stream).str();
  if (text.size() > kMost) text.replace(kMost, std::string::npos, "...");
  return text;
}

}  // namespace batchless
