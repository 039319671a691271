#include "machine_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/workload.h"
#include "usage_error.h"

#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_UNRELEASED_FEATURES 0
#include <toml++/toml.h>

namespace batchless {
namespace {

using hwmodel::Dimension;
using hwmodel::Machine;
using hwmodel::MachineField;

constexpr std::size_t kMaxFileBytes = 1 << 22;
constexpr int kMaxWorkers = 100'000;
constexpr std::array<std::string_view, 4> kMeasuredKeys = {"microbatch", "forward_seconds",
                                                           "backward_seconds", "update_seconds"};

struct Prefix {
  std::string_view text;
  double factor;
};

constexpr std::array<Prefix, 16> kPrefixes = {{{"Ki", 1024.0},
                                               {"Mi", 1048576.0},
                                               {"Gi", 1073741824.0},
                                               {"Ti", 1099511627776.0},
                                               {"f", 1e-15},
                                               {"p", 1e-12},
                                               {"n", 1e-9},
                                               {"u", 1e-6},
                                               {"m", 1e-3},
                                               {"k", 1e3},
                                               {"M", 1e6},
                                               {"G", 1e9},
                                               {"T", 1e12},
                                               {"P", 1e15},
                                               {"E", 1e18},
                                               {"", 1}}};

struct Unit {
  std::string_view text;
  double factor;
};

// Units of a dimension, after the prefix.
std::vector<Unit> UnitsOf(Dimension dimension) {
  switch (dimension) {
    case Dimension::kCount:
      return {};
    case Dimension::kFlopsPerSecond:
      return {{"FLOP/s", 1}};
    case Dimension::kBytes:
      return {{"B", 1}};
    case Dimension::kBytesPerSecond:
      return {{"B/s", 1}, {"b/s", 0.125}};
    case Dimension::kSeconds:
      return {{"s", 1}};
    case Dimension::kJoulesPerFlop:
      return {{"J/FLOP", 1}};
    case Dimension::kJoulesPerByte:
      return {{"J/B", 1}, {"J/b", 8}};
  }
  return {};
}

std::string_view ExampleOf(Dimension dimension) {
  switch (dimension) {
    case Dimension::kCount:
      return "a number";
    case Dimension::kFlopsPerSecond:
      return "a text with its unit, \"1.5 TFLOP/s\" for instance";
    case Dimension::kBytes:
      return "a text with its unit, \"40 GB\" for instance";
    case Dimension::kBytesPerSecond:
      return "a text with its unit, \"900 GB/s\" for instance";
    case Dimension::kSeconds:
      return "a text with its unit, \"5 us\" for instance";
    case Dimension::kJoulesPerFlop:
      return "a text with its unit, \"1.5 pJ/FLOP\" for instance";
    case Dimension::kJoulesPerByte:
      return "a text with its unit, \"10 pJ/B\" for instance";
  }
  return "";
}

// The factor of prefix and unit; none where it is no unit of the dimension.
std::optional<double> FactorOf(std::string_view unit, Dimension dimension) {
  for (const Unit& base : UnitsOf(dimension)) {
    if (!unit.ends_with(base.text)) continue;
    const std::string_view prefix = unit.substr(0, unit.size() - base.text.size());
    for (const Prefix& known : kPrefixes) {
      if (known.text != prefix) continue;
      // Nobody has a thousandth of a byte: "mB" is meant to be "MB".
      const bool counts = dimension == Dimension::kBytes ||
                          dimension == Dimension::kBytesPerSecond ||
                          dimension == Dimension::kFlopsPerSecond;
      if (counts && known.factor < 1) return std::nullopt;
      return known.factor * base.factor;
    }
  }
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  Machine Read(const std::string& text) {
    toml::table document;
    try {
      document = toml::parse(text);
    } catch (const toml::parse_error& error) {
      throw UsageError(fmt::format("{}:{}", path_, error.source().begin.line), error.description(),
                       "TOML");
    }
    ReadSections(document);
    for (const MachineField& field : hwmodel::MachineFields()) {
      const bool wanted = field.energy_member == nullptr || machine_.energy.has_value();
      if (field.required && wanted && !seen_.contains(&field)) {
        throw UsageError(fmt::format("{}: {}.{}", path_, field.section, field.name), "nothing",
                         ExampleOf(field.dimension));
      }
    }
    if (machine_.name.empty()) {
      throw UsageError(fmt::format("{}: name", path_), "nothing", "a text");
    }
    try {
      Validate(machine_);
    } catch (const analysis::InvalidArgument& error) {
      throw UsageError::FromLine(fmt::format("{}: {}", path_, error.what()));
    }
    return std::move(machine_);
  }

 private:
  [[noreturn]] void Refuse(const toml::node& node, std::string_view name, std::string_view got,
                           std::string_view accepted) const {
    throw UsageError::FromLine(fmt::format("{}:{}: {}", path_, node.source().begin.line,
                                           UsageError(name, got, accepted).what()));
  }

  static std::string TextOf(const toml::node& node) {
    if (const auto text = node.value<std::string>()) return *text;
    std::ostringstream stream;
    node.visit([&](const auto& value) { stream << value; });
    std::string text = std::move(stream).str();
    if (text.size() > 80) text = text.substr(0, 80) + "...";
    return text;
  }

  void ReadSections(const toml::table& document) {
    std::vector<std::string_view> sections = {"name"};
    for (const MachineField& field : hwmodel::MachineFields()) {
      if (sections.back() != field.section) sections.push_back(field.section);
    }
    sections.emplace_back("measured");
    for (const auto& [key, node] : document) {
      const std::string_view name = key.str();
      if (std::find(sections.begin(), sections.end(), name) == sections.end()) {
        Refuse(
            node, name, "an unknown field",
            fmt::format("{}{}", fmt::join(sections, ", "), analysis::DidYouMean(name, sections)));
      }
      if (name == "name") {
        if (!node.is_string()) Refuse(node, name, TextOf(node), "a text");
        machine_.name = node.as_string()->get();
        continue;
      }
      if (!node.is_table()) Refuse(node, name, TextOf(node), "a section of fields");
      if (name == "measured") {
        for (const auto& [network, times] : *node.as_table()) ReadMeasured(network.str(), times);
      } else {
        if (name == "energy") machine_.energy.emplace();
        for (const auto& [field, value] : *node.as_table()) ReadField(name, field.str(), value);
      }
    }
  }

  void ReadField(std::string_view section, std::string_view name, const toml::node& node) {
    const std::string full_name = fmt::format("{}.{}", section, name);
    std::vector<std::string_view> names;
    const MachineField* field = nullptr;
    for (const MachineField& candidate : hwmodel::MachineFields()) {
      if (candidate.section != section) continue;
      names.push_back(candidate.name);
      if (candidate.name == name) field = &candidate;
    }
    if (field == nullptr) {
      Refuse(node, full_name, "an unknown field",
             fmt::format("{}{}", fmt::join(names, ", "), analysis::DidYouMean(name, names)));
    }
    const toml::table* entry = node.as_table();
    if (entry == nullptr) {
      Refuse(node, full_name, TextOf(node), "{ value = ..., source = \"...\" }");
    }
    for (const auto& [key, value] : *entry) {
      if (key.str() != "value" && key.str() != "source") {
        Refuse(value, fmt::format("{}.{}", full_name, key.str()), "an unknown field",
               "value, source");
      }
    }
    const toml::node* source = entry->get("source");
    if (source == nullptr || source->value<std::string>().value_or("").empty()) {
      Refuse(node, full_name + ".source", source == nullptr ? "nothing" : TextOf(*source),
             "a text that says where the number is from");
    }
    const toml::node* value = entry->get("value");
    if (value == nullptr) Refuse(node, full_name, "nothing", ExampleOf(field->dimension));
    double number = 0;
    if (field->dimension == Dimension::kCount) {
      if (!value->is_number()) Refuse(*value, full_name, TextOf(*value), "a number");
      number = *value->value<double>();
    } else {
      if (!value->is_string()) {
        Refuse(*value, full_name, TextOf(*value) + " without a unit", ExampleOf(field->dimension));
      }
      const std::string where =
          fmt::format("{}:{}: {}", path_, value->source().begin.line, full_name);
      number = ParseQuantity(where, value->as_string()->get(), field->dimension);
    }
    if (!std::isfinite(number) || number < 0) {
      Refuse(*value, full_name, TextOf(*value), "a number that is not negative");
    }
    seen_.insert(field);
    if (field->member != nullptr) {
      machine_.*field->member = number;
    } else {
      (*machine_.energy).*field->energy_member = number;
    }
  }

  std::vector<double> ReadTimes(const std::string& name, const toml::node& node) const {
    const toml::array* items = node.as_array();
    if (items == nullptr || items->empty()) Refuse(node, name, TextOf(node), "a list of seconds");
    std::vector<double> times;
    for (const toml::node& item : *items) {
      const std::optional<double> seconds = item.is_number() ? item.value<double>() : std::nullopt;
      if (!seconds || !std::isfinite(*seconds) || *seconds < 0) {
        Refuse(item, name, TextOf(item), "seconds, not negative");
      }
      times.push_back(*seconds);
    }
    return times;
  }

  // Of one worker alone, and in a section below it of several.
  void ReadMeasured(std::string_view network, const toml::node& node) {
    const std::string name = fmt::format("measured.{}", network);
    if (!hwmodel::IsWorkloadName(network)) {
      const auto known = hwmodel::WorkloadNames();
      Refuse(node, name, "an unknown network",
             fmt::format("{}{}", fmt::join(known, ", "), analysis::DidYouMean(network, known)));
    }
    const hwmodel::MeasuredNetwork alone = ReadTimesOf(network, name, node, /*is_shared=*/false);
    machine_.measured.push_back(alone);
    const toml::node* below = node.as_table()->get("shared");
    if (below == nullptr) return;
    const std::string full_name = name + ".shared";
    hwmodel::MeasuredNetwork shared = ReadTimesOf(network, full_name, *below, /*is_shared=*/true);
    if (shared.forward_seconds.size() != alone.forward_seconds.size() ||
        shared.microbatch != alone.microbatch) {
      Refuse(*below, full_name,
             fmt::format("{} stages, micro-batches of {}", shared.forward_seconds.size(),
                         shared.microbatch),
             fmt::format("the {} stages and micro-batches of {} of {}",
                         alone.forward_seconds.size(), alone.microbatch, name));
    }
    machine_.measured.push_back(std::move(shared));
  }

  hwmodel::MeasuredNetwork ReadTimesOf(std::string_view network, const std::string& name,
                                       const toml::node& node, bool is_shared) const {
    const toml::table* table = node.as_table();
    if (table == nullptr) Refuse(node, name, TextOf(node), "a section");
    hwmodel::MeasuredNetwork measured;
    measured.network = network;
    if (is_shared) measured.workers = 0;
    bool has_source = false;
    for (const auto& [key, value] : *table) {
      const std::string full_name = fmt::format("{}.{}", name, key.str());
      if (key.str() == "source") {
        has_source = !value.value<std::string>().value_or("").empty();
        continue;
      }
      if (!is_shared && key.str() == "shared") continue;
      if (is_shared && key.str() == "workers") {
        const std::int64_t workers = value.is_integer() ? value.as_integer()->get() : 0;
        if (workers < 2 || workers > kMaxWorkers) {
          Refuse(value, full_name, TextOf(value),
                 fmt::format("an integer from 2 to {}", kMaxWorkers));
        }
        measured.workers = static_cast<int>(workers);
        continue;
      }
      if (key.str() == "microbatch") {
        measured.microbatch = value.is_integer() ? value.as_integer()->get() : std::int64_t{0};
        if (measured.microbatch < 1) Refuse(value, full_name, TextOf(value), "an integer >= 1");
        continue;
      }
      if (key.str() == kMeasuredKeys[1]) {
        measured.forward_seconds = ReadTimes(full_name, value);
      } else if (key.str() == kMeasuredKeys[2]) {
        measured.backward_seconds = ReadTimes(full_name, value);
      } else if (key.str() == kMeasuredKeys[3]) {
        measured.update_seconds = ReadTimes(full_name, value);
      } else {
        Refuse(value, full_name, "an unknown field",
               fmt::format("source, {}{}", fmt::join(kMeasuredKeys, ", "),
                           is_shared ? ", workers" : ", shared"));
      }
    }
    if (!has_source) {
      Refuse(node, name + ".source", "nothing", "a text that says where the number is from");
    }
    const std::size_t stages = measured.forward_seconds.size();
    if (stages == 0 || measured.backward_seconds.size() != stages ||
        measured.update_seconds.size() != stages) {
      Refuse(node, name,
             fmt::format("{} forward, {} backward, {} update seconds", stages,
                         measured.backward_seconds.size(), measured.update_seconds.size()),
             "as many of each as the network has stages");
    }
    if (measured.workers == 0) {
      Refuse(node, name + ".workers", "nothing",
             fmt::format("an integer from 2 to {}", kMaxWorkers));
    }
    return measured;
  }

  std::string path_;
  Machine machine_;
  std::set<const MachineField*> seen_;
};

std::string QuantityText(double value, Dimension dimension) {
  if (dimension == Dimension::kCount) return analysis::ToText(value);
  return fmt::format("\"{} {}\"", analysis::ToText(value), UnitsOf(dimension).front().text);
}

}  // namespace

double ParseQuantity(std::string_view name, std::string_view text, Dimension dimension) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || !std::isfinite(number)) {
    throw UsageError(name, text, ExampleOf(dimension));
  }
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit.empty() && dimension != Dimension::kCount) {
    throw UsageError(name, fmt::format("{} without a unit", text), ExampleOf(dimension));
  }
  const std::optional<double> factor =
      dimension == Dimension::kCount ? std::optional<double>(1.0) : FactorOf(unit, dimension);
  if (!factor || (dimension == Dimension::kCount && !unit.empty())) {
    throw UsageError(name, text, ExampleOf(dimension));
  }
  if (number < 0) throw UsageError(name, text, "a number that is not negative");
  return number * *factor;
}

Machine ParseMachine(const std::string& text, const std::string& path) {
  return Reader(path).Read(text);
}

Machine ReadMachineFile(const std::string& argument, const std::string& path) {
  if (const std::string why = WhyUnreadable(path); !why.empty()) {
    throw UsageError(argument, path, fmt::format("a machine file ({})", why));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) throw UsageError(argument, path, "a machine file that can be read");
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.empty() || text.size() > kMaxFileBytes) {
    throw UsageError(argument, path,
                     fmt::format("a machine file, not empty, of at most {} bytes", kMaxFileBytes));
  }
  return ParseMachine(text, argument + " " + path);
}

std::string MachineText(const Machine& machine, std::string_view source) {
  std::string text = fmt::format("name = \"{}\"\n", machine.name);
  std::string_view section;
  for (const MachineField& field : hwmodel::MachineFields()) {
    if (field.member == nullptr && !machine.energy) continue;
    const double value =
        field.member != nullptr ? machine.*field.member : (*machine.energy).*field.energy_member;
    if (!field.required && value == 0) continue;
    if (field.section != section) text += fmt::format("\n[{}]\n", field.section);
    section = field.section;
    text += fmt::format("{} = {{ value = {}, source = \"{}\" }}\n", field.name,
                        QuantityText(value, field.dimension), source);
  }
  for (const hwmodel::MeasuredNetwork& measured : machine.measured) {
    const auto list = [](const std::vector<double>& values) {
      std::vector<std::string> items;
      items.reserve(values.size());
      for (const double value : values) items.push_back(analysis::ToText(value));
      return fmt::format("[{}]", fmt::join(items, ", "));
    };
    const bool is_shared = measured.workers > 1;
    text += fmt::format("\n[measured.{}{}]\nsource = \"{}\"\n", measured.network,
                        is_shared ? ".shared" : "", source);
    if (is_shared) text += fmt::format("workers = {}\n", measured.workers);
    text += fmt::format(
        "microbatch = {}\nforward_seconds = {}\nbackward_seconds = {}\nupdate_seconds = {}\n",
        measured.microbatch, list(measured.forward_seconds), list(measured.backward_seconds),
        list(measured.update_seconds));
  }
  return text;
}

}  // namespace batchless
