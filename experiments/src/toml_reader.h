// What readers of TOML files share: documents whose refusals name the file and the line.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_UNRELEASED_FEATURES 0
#include <toml++/toml.h>

#include "values.h"

namespace batchless {

class TomlReader {
 public:
  // `where` is what errors call the file. Throws UsageError where the text is no TOML.
  TomlReader(std::string where, const std::string& text);

  const toml::table& document() const { return document_; }

  // "FILE:LINE", where the node is.
  std::string At(const toml::node& node) const;

  [[noreturn]] void Refuse(const toml::node& node, std::string_view name, std::string_view got,
                           std::string_view accepted) const;
  // The node's own value.
  [[noreturn]] void RefuseValue(const toml::node& node, std::string_view name,
                                std::string_view accepted) const;
  // Refuses whatever is in the table and not known; `owner`, "stage.", comes before its name.
  void CheckKeys(const toml::table& table, const std::string& owner, std::string_view what,
                 const Choices& known) const;

  // The value of a key; refuses a table without it.
  const toml::node& Node(const toml::table& table, std::string_view key,
                         std::string_view accepted) const;

 private:
  std::string where_;
  toml::table document_;
};

// An integer or another number; none of what is neither. toml++ itself has none of integers between doubles.
std::optional<double> NumberIn(const toml::node& node);

// A value as TOML in one line. What toml++ itself writes of lists is undefined where a number is below 0.1.
std::string NodeText(const toml::node& node);

// A value as it was written, more or less, cut where it is long.
std::string ShownText(const toml::node& node);

}  // namespace batchless
