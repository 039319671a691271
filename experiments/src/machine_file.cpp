#include "machine_file.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/workload.h"
#include "toml_reader.h"
#include "usage_error.h"

namespace batchless {
namespace {

using hwmodel::Dimension;
using hwmodel::Machine;
using hwmodel::MachineField;
using hwmodel::MeasuredNetwork;

constexpr std::size_t kMaxMachineBytes = 1 << 22;
constexpr int kMaxWorkers = 100'000;

struct Unit {
  std::string_view text;
  double factor;
};

constexpr auto kPrefixes = std::to_array<Unit>({
    {"Ki", 1024.0},
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
    {"", 1},
});

struct DimensionTraits {
  // After the prefix; the first one is written, a second one may be read.
  std::array<Unit, 2> units{};
  std::string_view example{};
  bool counts = false;  // nobody has a thousandth of one
};

// In the order of Dimension.
constexpr std::array<DimensionTraits, 7> kDimensions = {{
    {},
    {{{{"FLOP/s", 1}}}, "1.5 TFLOP/s", true},
    {{{{"B", 1}}}, "40 GB", true},
    {{{{"B/s", 1}, {"b/s", 0.125}}}, "900 GB/s", true},
    {{{{"s", 1}}}, "5 us"},
    {{{{"J/FLOP", 1}}}, "1.5 pJ/FLOP"},
    {{{{"J/B", 1}, {"J/b", 8}}}, "10 pJ/B"},
}};

const DimensionTraits& TraitsOf(Dimension dimension) {
  return kDimensions.at(static_cast<std::size_t>(dimension));
}

std::string ExampleOf(Dimension dimension) {
  if (dimension == Dimension::kCount) return "a number";
  return fmt::format("a text with its unit, \"{}\" for instance", TraitsOf(dimension).example);
}

// The factor of prefix and unit; none where it is no unit of the dimension.
std::optional<double> FactorOf(std::string_view unit, Dimension dimension) {
  const DimensionTraits& traits = TraitsOf(dimension);
  for (const Unit& base : traits.units) {
    if (base.text.empty() || !unit.ends_with(base.text)) continue;
    const std::string_view prefix = unit.substr(0, unit.size() - base.text.size());
    for (const Unit& known : kPrefixes) {
      if (known.text != prefix) continue;
      // "mB" is meant to be "MB".
      if (traits.counts && known.factor < 1) return std::nullopt;
      return known.factor * base.factor;
    }
  }
  return std::nullopt;
}

constexpr std::pair<const char*, std::vector<double> MeasuredNetwork::*> kMeasuredFields[] = {
    {"forward_seconds", &MeasuredNetwork::forward_seconds},
    {"backward_seconds", &MeasuredNetwork::backward_seconds},
    {"update_seconds", &MeasuredNetwork::update_seconds},
};

class Reader {
 public:
  Reader(std::string path, const std::string& text) : path_(std::move(path)), file_(path_, text) {}

  Machine Read() {
    ReadSections(file_.document());
    for (const MachineField& field : hwmodel::MachineFields()) {
      const bool is_there = field.In(machine_) == nullptr || seen_.contains(&field);
      RefuseIf(field.required && !is_there,
               fmt::format("{}: {}.{}", path_, field.section, field.name), "nothing",
               ExampleOf(field.dimension));
    }
    RefuseIf(machine_.name.empty(), fmt::format("{}: name", path_), "nothing", "a text");
    Within(path_, [&] { Validate(machine_); });
    return std::move(machine_);
  }

 private:
  void ReadSections(const toml::table& document) {
    Choices sections = {"name"};
    for (const MachineField& field : hwmodel::MachineFields()) {
      if (sections.back() != field.section) sections.push_back(field.section);
    }
    sections.emplace_back("measured");
    file_.CheckKeys(document, "", "an unknown field", sections);
    for (const auto& [key, node] : document) {
      const std::string_view name = key.str();
      if (name == "name") {
        if (!node.is_string()) file_.RefuseValue(node, name, "a text");
        machine_.name = node.as_string()->get();
        continue;
      }
      const toml::table* section = node.as_table();
      if (section == nullptr) file_.RefuseValue(node, name, "a section of fields");
      if (name == "measured") {
        for (const auto& [network, times] : *section) ReadMeasured(network.str(), times);
      } else {
        ReadSection(name, *section);
      }
    }
  }

  void ReadSection(std::string_view name, const toml::table& section) {
    if (name == "energy") machine_.energy.emplace();
    Choices names;
    for (const MachineField& field : hwmodel::MachineFields()) {
      if (field.section == name) names.push_back(field.name);
    }
    file_.CheckKeys(section, fmt::format("{}.", name), "an unknown field", names);
    for (const MachineField& field : hwmodel::MachineFields()) {
      if (field.section != name) continue;
      if (const toml::node* node = section.get(field.name)) ReadField(field, *node);
    }
  }

  void ReadField(const MachineField& field, const toml::node& node) {
    const std::string name = fmt::format("{}.{}", field.section, field.name);
    const toml::table* entry = node.as_table();
    if (entry == nullptr) file_.RefuseValue(node, name, "{ value = ..., source = \"...\" }");
    file_.CheckKeys(*entry, name + ".", "an unknown field", {"value", "source"});
    CheckSource(node, *entry, name);
    const toml::node* value = entry->get("value");
    if (value == nullptr) file_.Refuse(node, name, "nothing", ExampleOf(field.dimension));
    double number = 0;
    if (field.dimension == Dimension::kCount) {
      const std::optional<double> count = NumberIn(*value);
      if (!count) file_.RefuseValue(*value, name, "a number");
      number = *count;
    } else {
      if (!value->is_string()) {
        file_.Refuse(*value, name, ShownText(*value) + " without a unit",
                     ExampleOf(field.dimension));
      }
      number = ParseQuantity(fmt::format("{}: {}", file_.At(*value), name),
                             value->as_string()->get(), field.dimension);
    }
    if (!std::isfinite(number) || number < 0) {
      file_.RefuseValue(*value, name, "a number that is not negative");
    }
    seen_.insert(&field);
    *field.In(machine_) = number;
  }

  void CheckSource(const toml::node& node, const toml::table& table,
                   const std::string& name) const {
    const toml::node* source = table.get("source");
    if (source != nullptr && !source->value<std::string>().value_or("").empty()) return;
    file_.Refuse(node, name + ".source", source == nullptr ? "nothing" : ShownText(*source),
                 "a text that says where the number is from");
  }

  std::vector<double> ReadTimes(const std::string& name, const toml::node& node) const {
    const toml::array* items = node.as_array();
    if (items == nullptr || items->empty()) file_.RefuseValue(node, name, "a list of seconds");
    std::vector<double> times;
    for (const toml::node& item : *items) {
      const std::optional<double> seconds = NumberIn(item);
      if (!seconds || !std::isfinite(*seconds) || *seconds < 0) {
        file_.RefuseValue(item, name, "seconds, not negative");
      }
      times.push_back(*seconds);
    }
    return times;
  }

  std::int64_t ReadInteger(const toml::table& table, const std::string& owner, std::string_view key,
                           std::int64_t low, std::int64_t high, std::string_view accepted) const {
    const toml::node& node = file_.Node(table, key, accepted);
    const std::int64_t value = node.is_integer() ? node.as_integer()->get() : low - 1;
    if (value < low || value > high) {
      file_.RefuseValue(node, fmt::format("{}.{}", owner, key), accepted);
    }
    return value;
  }

  // The times of one worker alone, and in a section below those of several.
  void ReadMeasured(std::string_view network, const toml::node& node) {
    const std::string name = fmt::format("measured.{}", network);
    if (!hwmodel::IsWorkloadName(network)) {
      const auto known = hwmodel::WorkloadNames();
      file_.Refuse(node, name, "an unknown network", analysis::OneOf(network, known));
    }
    const MeasuredNetwork alone = ReadTimesOf(network, name, node, "shared");
    machine_.measured.push_back(alone);
    const toml::node* below = node.as_table()->get("shared");
    if (below == nullptr) return;
    const std::string full_name = name + ".shared";
    MeasuredNetwork shared = ReadTimesOf(network, full_name, *below, "workers");
    if (shared.forward_seconds.size() != alone.forward_seconds.size() ||
        shared.microbatch != alone.microbatch) {
      file_.Refuse(*below, full_name,
                   fmt::format("{} stages, micro-batches of {}", shared.forward_seconds.size(),
                               shared.microbatch),
                   fmt::format("the {} stages and micro-batches of {} of {}",
                               alone.forward_seconds.size(), alone.microbatch, name));
    }
    machine_.measured.push_back(std::move(shared));
  }

  // `further`: the key that the section has beside those that every one has.
  MeasuredNetwork ReadTimesOf(std::string_view network, const std::string& name,
                              const toml::node& node, std::string_view further) const {
    const toml::table* table = node.as_table();
    if (table == nullptr) file_.RefuseValue(node, name, "a section");
    Choices keys = {"source", "microbatch"};
    for (const auto& [key, times] : kMeasuredFields) keys.push_back(key);
    const bool is_alone = further != "workers";
    if (is_alone) keys.push_back("sample_flops");
    keys.push_back(further);
    file_.CheckKeys(*table, name + ".", "an unknown field", keys);
    CheckSource(node, *table, name);
    MeasuredNetwork measured;
    measured.network = network;
    for (const auto& [key, member] : {std::pair("microbatch", &MeasuredNetwork::microbatch),
                                      std::pair("sample_flops", &MeasuredNetwork::sample_flops)}) {
      if (!table->contains(key)) continue;
      measured.*member = ReadInteger(*table, name, key, 1, std::numeric_limits<std::int64_t>::max(),
                                     "an integer >= 1");
    }
    for (const auto& [key, times] : kMeasuredFields) {
      const toml::node* seconds = table->get(key);
      if (seconds == nullptr) continue;
      measured.*times = ReadTimes(fmt::format("{}.{}", name, key), *seconds);
    }
    const std::size_t stages = measured.forward_seconds.size();
    if (stages == 0 || measured.backward_seconds.size() != stages ||
        measured.update_seconds.size() != stages) {
      file_.Refuse(node, name,
                   fmt::format("{} forward, {} backward, {} update seconds", stages,
                               measured.backward_seconds.size(), measured.update_seconds.size()),
                   "as many of each as the network has stages");
    }
    const auto is_zero = [](double seconds) { return seconds == 0; };
    if (std::ranges::all_of(measured.forward_seconds, is_zero) &&
        std::ranges::all_of(measured.backward_seconds, is_zero)) {
      file_.Refuse(node, name, "0 s for all passes", "passes of which one takes time");
    }
    if (is_alone) return measured;
    const std::string accepted = fmt::format("an integer from 2 to {}", kMaxWorkers);
    if (!table->contains("workers")) file_.Refuse(node, name + ".workers", "nothing", accepted);
    measured.workers =
        static_cast<int>(ReadInteger(*table, name, "workers", 2, kMaxWorkers, accepted));
    return measured;
  }

  std::string path_;
  TomlReader file_;
  Machine machine_;
  std::set<const MachineField*> seen_;
};

}  // namespace

double ParseQuantity(std::string_view name, std::string_view text, Dimension dimension) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  const bool is_number = error == std::errc() && std::isfinite(number);
  const bool is_count = dimension == Dimension::kCount;
  RefuseIf(is_number && unit.empty() && !is_count, name, fmt::format("{} without a unit", text),
           ExampleOf(dimension));
  std::optional<double> factor = is_count ? std::nullopt : FactorOf(unit, dimension);
  if (is_count && unit.empty()) factor = 1;
  if (!is_number || !factor) throw UsageError(name, text, ExampleOf(dimension));
  if (number < 0) throw UsageError(name, text, "a number that is not negative");
  return number * *factor;
}

Machine ParseMachine(const std::string& text, const std::string& path) {
  return Reader(path, text).Read();
}

Machine ReadMachineFile(const std::string& argument, const std::string& path) {
  return ParseMachine(ReadInput(argument, path, "a machine file", kMaxMachineBytes),
                      fmt::format("{} {}", argument, path));
}

std::string MachineText(const Machine& machine, std::string_view source) {
  std::string text = fmt::format("name = \"{}\"\n", machine.name);
  std::string_view section;
  Machine copy = machine;
  for (const MachineField& field : hwmodel::MachineFields()) {
    const double* value = field.In(copy);
    if (value == nullptr || (!field.required && *value == 0)) continue;
    if (field.section != section) text += fmt::format("\n[{}]\n", field.section);
    section = field.section;
    const std::string_view unit = TraitsOf(field.dimension).units.front().text;
    const std::string number = analysis::ToText(*value);
    text += fmt::format("{} = {{ value = {}, source = \"{}\" }}\n", field.name,
                        unit.empty() ? number : fmt::format("\"{} {}\"", number, unit), source);
  }
  for (const MeasuredNetwork& measured : machine.measured) {
    const bool is_shared = measured.workers > 1;
    text += fmt::format("\n[measured.{}{}]\nsource = \"{}\"\n", measured.network,
                        is_shared ? ".shared" : "", source);
    if (is_shared) text += fmt::format("workers = {}\n", measured.workers);
    text += fmt::format("microbatch = {}\n", measured.microbatch);
    if (!is_shared && measured.sample_flops != 0) {
      text += fmt::format("sample_flops = {}\n", measured.sample_flops);
    }
    for (const auto& [key, times] : kMeasuredFields) {
      std::vector<std::string> items;
      for (const double value : measured.*times) items.push_back(analysis::ToText(value));
      text += fmt::format("{} = [{}]\n", key, fmt::join(items, ", "));
    }
  }
  return text;
}

}  // namespace batchless
