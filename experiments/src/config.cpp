#include "config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "batchless/analysis/argument.h"
#include "text_output.h"
#include "toml_reader.h"
#include "usage_error.h"

namespace batchless {
namespace {

// What a phase may have of its own.
constexpr std::array<std::string_view, 3> kPhaseSections{"schedule", "rule", "optimizer"};
constexpr std::size_t kMaxConfigurationBytes = 1 << 20;
constexpr std::string_view kSet = "--set";

bool IsText(const ConfigurationKey& key) {
  return std::holds_alternative<std::monostate>(key.accepted) &&
         !std::holds_alternative<bool*>(key.value);
}

// Refuses a value; `where` is the file and line, or the option.
[[noreturn]] void Refuse(std::string_view where, std::string_view name, std::string_view got,
                         std::string_view accepted) {
  throw UsageError::FromLine(fmt::format("{}: {}", where, UsageError(name, got, accepted).what()));
}

// Each reads a node as a value of its type that the key accepts; false for any other.
bool Read(const ConfigurationKey& /*key*/, const toml::node& node, bool& value) {
  if (!node.is_boolean()) return false;
  value = node.as_boolean()->get();
  return true;
}

bool Read(const ConfigurationKey& key, const toml::node& node, double& value) {
  const std::optional<double> number = NumberIn(node);
  if (!number) return false;
  value = *number;
  return std::get<NumberRange>(key.accepted).Contains(value);
}

bool Read(const ConfigurationKey& key, const toml::node& node, std::int64_t& value) {
  if (!node.is_number()) return false;
  // An integer may be written as 1e6.
  const std::optional<std::int64_t> integer = node.value<std::int64_t>();
  if (!integer) return false;
  value = *integer;
  const auto& range = std::get<IntegerRange>(key.accepted);
  return value >= range.low && value <= range.high;
}

bool Read(const ConfigurationKey& key, const toml::node& node, std::string& value) {
  if (!node.is_string()) return false;
  value = node.as_string()->get();
  const auto* words = std::get_if<Choices>(&key.accepted);
  return words == nullptr || std::find(words->begin(), words->end(), value) != words->end();
}

template <class Value>
bool Read(const ConfigurationKey& key, const toml::node& node, std::optional<Value>& value) {
  return Read(key, node, value.emplace());
}

template <class Value>
bool Read(const ConfigurationKey& key, const toml::node& node, std::vector<Value>& values) {
  if (!node.is_array()) return false;
  values.clear();
  for (const toml::node& item : *node.as_array()) {
    if (!Read(key, item, values.emplace_back())) return false;
  }
  return true;
}

// How a number or another value of TOML is written as the text that it was meant to be.
std::string Quoted(std::string_view where, std::string_view name, std::string_view got) {
  return where == kSet ? fmt::format("a text in quotes, --set '{}=\"{}\"'", name, got)
                       : fmt::format("a text in quotes, \"{}\"", got);
}

// What is accepted in a section in place of a key that it has not: its keys, with the one of another section by
// that name, or the section's own name or kind by the other word.
std::string AcceptedKeys(const std::vector<ConfigurationKey>& keys, const Choices& of_section,
                         std::string_view section, std::string_view name) {
  const bool is_main = name == "name" || name == "kind";
  std::vector<std::string> meant;
  for (const ConfigurationKey& key : keys) {
    const bool fits = is_main ? key.section == section && (key.name == "name" || key.name == "kind")
                              : key.name == name;
    if (fits) meant.push_back(key.FullName());
  }
  if (meant.size() != 1) return analysis::OneOf(name, of_section);
  return fmt::format("{} (did you mean {}?)", fmt::join(of_section, ", "), meant.front());
}

// Reads one value into its place; `phase` comes before its name in what is refused.
void Assign(const std::vector<ConfigurationKey>& keys, std::string_view where,
            std::string_view phase, std::string_view section, std::string_view name,
            const toml::node& node) {
  Choices sections;
  Choices names;
  for (const ConfigurationKey& key : keys) {
    if (sections.empty() || sections.back() != key.section) sections.push_back(key.section);
    if (key.section == section) names.push_back(key.name);
  }
  const std::string full_name = fmt::format("{}{}.{}", phase, section, name);
  if (names.empty()) {
    Refuse(where, full_name, "an unknown section",
           fmt::format("sections {}", analysis::OneOf(section, sections)));
  }
  const auto key = std::find_if(keys.begin(), keys.end(), [&](const ConfigurationKey& candidate) {
    return candidate.section == section && candidate.name == name;
  });
  if (key == keys.end()) {
    Refuse(where, full_name, "an unknown key", AcceptedKeys(keys, names, section, name));
  }
  const bool is_read =
      std::visit([&](auto* value) { return Read(*key, node, *value); }, key->value);
  if (is_read) return;
  const auto* words = std::get_if<Choices>(&key->accepted);
  // "10" is no number, which its quotes show.
  const bool is_quoted = node.is_string() && words == nullptr && !IsText(*key);
  const std::string got = is_quoted ? fmt::format("\"{}\"", ShownText(node)) : ShownText(node);
  if (IsText(*key) && !node.is_table() && !node.is_array()) {
    Refuse(where, full_name, got, Quoted(where, full_name, got));
  }
  Refuse(where, full_name, got,
         words != nullptr && node.is_string() ? analysis::OneOf(got, *words) : key->AcceptedText());
}

// All sections of a table of the file; `other` is no section of it.
void ReadSections(const std::vector<ConfigurationKey>& keys, const TomlReader& file,
                  const toml::table& table, std::string_view other) {
  // toml++ sorts by name; the first wrong value of the file is the one to report.
  struct Found {
    std::string section;
    std::string name;
    const toml::node* node;
  };
  std::vector<Found> values;
  for (const auto& [section, content] : table) {
    if (section == other) continue;
    if (!content.is_table()) {
      values.push_back({"", std::string(section.str()), &content});
      continue;
    }
    for (const auto& [name, node] : *content.as_table()) {
      values.push_back({std::string(section.str()), std::string(name.str()), &node});
    }
  }
  std::stable_sort(values.begin(), values.end(), [](const Found& a, const Found& b) {
    return a.node->source().begin.line < b.node->source().begin.line;
  });
  for (const Found& found : values) {
    if (found.section.empty()) {
      file.RefuseValue(*found.node, found.name, "keys in a section, [network] for instance");
    }
    Assign(keys, file.At(*found.node), "", found.section, found.name, *found.node);
  }
}

// The text as a TOML value, or else as the text itself.
toml::table ParseValue(const std::string& text) {
  try {
    const TomlReader value(std::string(kSet), "value = " + text);
    if (value.document().size() == 1) return value.document();
  } catch (const UsageError&) {
    // A bare word, a path for instance.
  }
  toml::table table;
  table.insert("value", text);
  return table;
}

// "section.key=value", or "phase.N.section.key=value" for one of the phases, which may have its `until` set, too.
struct Override {
  std::size_t phase = 0;  // from 1; 0: the run's own
  std::string section;    // empty for `until`
  std::string name;
  toml::table value;

  const toml::node& node() const { return *value.get("value"); }
  std::string FullName() const { return section + "." + name; }
  // As --set names it.
  std::string ShownName() const {
    if (phase == 0) return FullName();
    return fmt::format("phase.{}.{}", phase, section.empty() ? name : FullName());
  }
};

Override ParseOverride(const std::string& text) {
  const auto refuse = [&](std::string_view accepted) { throw UsageError(kSet, text, accepted); };
  constexpr std::string_view kForm = "section.key=value or phase.N.section.key=value";
  // A resolved configuration and a checkpoint hold nothing else.
  if (Utf8(text) != text) refuse("UTF-8");
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) refuse(kForm);
  std::string key = text.substr(0, equals);
  const auto cut = [&] {
    const std::size_t dot = key.find('.');
    if (dot == std::string::npos) refuse(kForm);
    std::string first = key.substr(0, dot);
    key.erase(0, dot + 1);
    return first;
  };
  Override given;
  given.value = ParseValue(text.substr(equals + 1));
  given.section = cut();
  if (given.section == "phase") {
    const std::string number = cut();
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), given.phase);
    if (error != std::errc() || end != number.data() + number.size() || given.phase == 0) {
      refuse("phase.N.section.key=value, N from 1");
    }
    given.section = key == "until" ? "" : cut();
  }
  given.name = key;
  return given;
}

// Nobody who gives a key twice knows which of them counts.
void RefuseRepetitions(std::span<const Override> overrides) {
  for (std::size_t later = 1; later < overrides.size(); ++later) {
    for (const Override& given : overrides.first(later)) {
      if (given.ShownName() != overrides[later].ShownName()) continue;
      Refuse(kSet, given.ShownName(),
             fmt::format("{} and {}", ShownText(given.node()), ShownText(overrides[later].node())),
             "one value, given once");
    }
  }
}

bool IsOfPhases(std::string_view section) {
  return std::find(kPhaseSections.begin(), kPhaseSections.end(), section) != kPhaseSections.end();
}

[[noreturn]] void RefuseOfPhase(std::string_view where, std::string_view section) {
  Refuse(where, fmt::format("phase.{}", section), "a value",
         fmt::format("until and keys of {} in a phase", fmt::join(kPhaseSections, ", ")));
}

// Where a phase gets a key from, which has the run's own value in it then no more; empty: from nowhere.
std::string PlaceOf(const TomlReader& file, const toml::table& phase, std::size_t number,
                    std::span<const Override> overrides, const Override& key) {
  for (const Override& other : overrides) {
    if (other.phase == number && other.FullName() == key.FullName()) {
      return fmt::format("{} {}", kSet, other.ShownName());
    }
  }
  const toml::table* const section = phase.get_as<toml::table>(key.section);
  const toml::node* const node = section == nullptr ? nullptr : section->get(key.name);
  return node == nullptr ? "" : file.At(*node);
}

// Overrides that no phase would read are refused.
void CheckOverrides(const TomlReader& file, const toml::array& phases,
                    std::span<const Override> overrides) {
  for (const Override& given : overrides) {
    if (given.phase > 0) {
      if (given.phase <= phases.size()) continue;
      throw UsageError(kSet, fmt::format("phase.{}", given.phase),
                       phases.empty() ? fmt::format("a configuration with phases, [[phase]]")
                                      : fmt::format("a phase from 1 to {}", phases.size()));
    }
    std::vector<std::string> places;
    for (std::size_t p = 0; p < phases.size(); ++p) {
      const std::string place = PlaceOf(file, *phases[p].as_table(), p + 1, overrides, given);
      if (!place.empty()) places.push_back(place);
    }
    if (places.empty() || places.size() < phases.size()) continue;
    Refuse(kSet, given.FullName(), ShownText(given.node()),
           fmt::format("nothing, as every phase sets it ({}), but --set phase.N.{}=value does",
                       fmt::join(places, ", "), given.FullName()));
  }
}

// The file's phases, whose settings begin as the rest of the configuration has them.
void ReadPhases(Configuration& configuration, const TomlReader& file,
                std::span<const Override> overrides) {
  const toml::node* const phases = file.document().get("phase");
  if (phases != nullptr && !phases->is_array_of_tables()) {
    file.RefuseValue(*phases, "phase", "tables, [[phase]]");
  }
  static const toml::array kNone;
  const toml::array& tables = phases == nullptr ? kNone : *phases->as_array();
  CheckOverrides(file, tables, overrides);
  double before = 0;
  for (std::size_t p = 0; p < tables.size(); ++p) {
    const toml::table& table = *tables[p].as_table();
    Configuration::Phase phase{.until = 0, .settings = configuration};
    phase.settings.phases.clear();
    const bool is_last = p + 1 == tables.size();
    const toml::node* until = table.get("until");
    std::string where = file.At(tables[p]);
    for (const Override& given : overrides) {
      if (given.phase != p + 1 || !given.section.empty()) continue;
      until = &given.node();
      where = kSet;
    }
    phase.until = until != nullptr ? NumberIn(*until).value_or(-1) : is_last ? 1 : -1;
    if (!(phase.until > before && phase.until <= 1) || (phase.until == 1) != is_last) {
      Refuse(where, fmt::format("phase.{}.until", p + 1),
             until == nullptr ? "nothing" : ShownText(*until),
             "shares of the run that increase from above 0 to 1, the last phase's");
    }
    before = phase.until;
    for (const auto& [section, content] : table) {
      if (!IsOfPhases(section.str()) && section != "until") {
        RefuseOfPhase(file.At(content), section.str());
      }
    }
    const std::vector<ConfigurationKey> keys = KeysOf(phase.settings);
    ReadSections(keys, file, table, "until");
    for (const Override& given : overrides) {
      if (given.phase != p + 1 || given.section.empty()) continue;
      if (!IsOfPhases(given.section)) RefuseOfPhase(kSet, given.section);
      Assign(keys, kSet, fmt::format("phase.{}.", p + 1), given.section, given.name, given.node());
    }
    configuration.phases.push_back(std::move(phase));
  }
}

std::string TomlText(bool value) { return value ? "true" : "false"; }
std::string TomlText(std::int64_t value) { return std::to_string(value); }
std::string TomlText(double value) { return analysis::ToText(value); }

std::string TomlText(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      text += fmt::format("\\u{:04x}", byte);
    } else {
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
  }
  return text + '"';
}

template <class Value>
std::string TomlText(const std::optional<Value>& value) {
  return value ? TomlText(*value) : "";
}

template <class Value>
std::string TomlText(const std::vector<Value>& values) {
  std::vector<std::string> items;
  items.reserve(values.size());
  for (const Value& value : values) items.push_back(TomlText(value));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

// Empty where the key has no value.
std::string ValueText(const ConfigurationKey& key) {
  return std::visit([](const auto* value) { return TomlText(*value); }, key.value);
}

// A key of the run, or of one phase, and what it says.
struct KeyEntry {
  std::string key;
  std::string value;
  bool changes_results = true;
  bool is_shared = true;  // by processes that train together
};

// In an order that depends on the number of phases alone, which comes before theirs.
std::vector<KeyEntry> EntriesOf(Configuration configuration) {
  std::vector<KeyEntry> entries;
  const auto add = [&](const std::string& place, Configuration& settings) {
    for (const ConfigurationKey& key : KeysOf(settings)) {
      const std::string value = ValueText(key);
      entries.push_back({place + key.FullName(), value.empty() ? "nothing" : value,
                         key.changes_results, !IsText(key) && key.FullName() != "schedule.pin"});
    }
  };
  add("", configuration);
  entries.push_back({"phase", fmt::format("{} phases", configuration.phases.size())});
  for (std::size_t p = 0; p < configuration.phases.size(); ++p) {
    Configuration::Phase& phase = configuration.phases[p];
    const std::string place = fmt::format("phase.{}.", p + 1);
    entries.push_back({place + "until", TomlText(phase.until)});
    add(place, phase.settings);
  }
  return entries;
}

}  // namespace

std::vector<Configuration> SettingsOf(const Configuration& configuration) {
  if (configuration.phases.empty()) return {configuration};
  std::vector<Configuration> settings;
  for (const Configuration::Phase& phase : configuration.phases) {
    settings.push_back(phase.settings);
  }
  return settings;
}

void ForEachPhase(const Configuration& configuration,
                  const std::function<void(const Configuration&, std::size_t)>& work) {
  const std::vector<Configuration> settings = SettingsOf(configuration);
  for (std::size_t p = 0; p < settings.size(); ++p) {
    try {
      work(settings[p], p);
    } catch (const UsageError& error) {
      if (configuration.phases.empty()) throw;
      throw UsageError::FromLine(fmt::format("{} (phase {})", error.what(), p + 1));
    }
  }
}

std::string ConfigurationKey::FullName() const { return fmt::format("{}.{}", section, name); }

std::string ConfigurationKey::AcceptedText() const {
  const bool is_list = std::holds_alternative<std::vector<std::int64_t>*>(value) ||
                       std::holds_alternative<std::vector<double>*>(value);
  std::string text;
  if (const auto* range = std::get_if<NumberRange>(&accepted)) text = range->Text();
  if (const auto* range = std::get_if<IntegerRange>(&accepted)) text = range->Text();
  if (const auto* words = std::get_if<Choices>(&accepted)) {
    text = analysis::ListOf(*words);
  }
  if (IsText(*this)) text = "a text";
  if (std::holds_alternative<bool*>(value)) text = "true, false";
  return is_list ? fmt::format("a list [...], each item {}", text) : text;
}

Configuration LoadConfiguration(const std::string& path, std::span<const std::string> given) {
  return ParseConfiguration(
      ReadText("CONFIG", path, "a TOML file that can be read", kMaxConfigurationBytes), path,
      given);
}

Configuration ParseConfiguration(const std::string& text, const std::string& path,
                                 std::span<const std::string> given) {
  Configuration configuration;
  const std::vector<ConfigurationKey> keys = KeysOf(configuration);
  const TomlReader file(path, text);
  ReadSections(keys, file, file.document(), "phase");
  std::vector<Override> overrides;
  for (const std::string& text_of_one : given) overrides.push_back(ParseOverride(text_of_one));
  RefuseRepetitions(overrides);
  const auto has = [&](std::string_view key) {
    return std::any_of(overrides.begin(), overrides.end(), [&](const Override& each) {
      return each.phase == 0 && each.FullName() == key;
    });
  };
  // Another network takes the place of all that the file says of one.
  const bool is_file = !configuration.network.file.empty();
  if (is_file ? has("network.name") : has("network.file")) configuration.network = {};
  for (const Override& each : overrides) {
    if (each.phase > 0) continue;
    Assign(keys, kSet, "", each.section, each.name, each.node());
  }
  // Two ways to say the same: one that overrides the file's counts.
  const bool sets_samples = has("run.samples");
  const bool sets_epochs = has("run.epochs");
  if (sets_samples && !sets_epochs) configuration.run.epochs.reset();
  if (sets_epochs && !sets_samples) configuration.run.samples.reset();
  ReadPhases(configuration, file, overrides);
  return configuration;
}

std::string ConfigurationText(Configuration configuration) {
  std::string text;
  std::string_view section;
  for (const ConfigurationKey& key : KeysOf(configuration)) {
    const std::string value = ValueText(key);
    if (value.empty()) continue;
    if (key.section != section) {
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", key.section);
      section = key.section;
    }
    text += fmt::format("{} = {}\n", key.name, value);
  }
  const std::vector<ConfigurationKey> keys = KeysOf(configuration);
  for (Configuration::Phase& phase : configuration.phases) {
    text += fmt::format("\n[[phase]]\nuntil = {}\n", TomlText(phase.until));
    const std::vector<ConfigurationKey> own = KeysOf(phase.settings);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const std::string value = ValueText(own[i]);
      if (value == ValueText(keys[i])) continue;
      text += fmt::format("{} = {}\n", own[i].FullName(), value);
    }
  }
  return text;
}

std::optional<ConfigurationDifference> FirstDifference(const Configuration& first,
                                                       const Configuration& second) {
  const std::vector<KeyEntry> entries = EntriesOf(first);
  const std::vector<KeyEntry> others = EntriesOf(second);
  // Both have the same keys up to the number of phases.
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [key, value, changes_results, is_shared] = entries[i];
    if (!changes_results || value == others[i].value) continue;
    return ConfigurationDifference{key, value, others[i].value};
  }
  return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> SharedValues(const Configuration& configuration) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const KeyEntry& entry : EntriesOf(configuration)) {
    if (entry.is_shared) values.emplace_back(entry.key, entry.value);
  }
  return values;
}

std::string ConfigurationHelp() {
  Configuration defaults;
  std::string text;
  std::string_view section;
  for (const ConfigurationKey& key : KeysOf(defaults)) {
    if (key.section != section) {
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", key.section);
      section = key.section;
    }
    const std::string value = ValueText(key);
    text += fmt::format("  {} = {}\n      {} ({})\n", key.name, value.empty() ? "..." : value,
                        key.help, key.AcceptedText());
  }
  text += fmt::format(
      "\n[[phase]]\n  until = ...\n      a phase of the run, up to that share of its samples, with "
      "keys "
      "of its\n      own in the sections {}, such as schedule.kind = \"pb\"; weights go on from "
      "phase to\n      phase, and what the optimizer keeps as batchless optimizers says (a number "
      "above 0 to 1, 1 in the last)\n",
      fmt::join(kPhaseSections, ", "));
  return text;
}

}  // namespace batchless
