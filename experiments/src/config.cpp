#include "config.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/rule.h"
#include "batchless/hwmodel/network.h"
#include "batchless/training/optimizer.h"
#include "text_output.h"
#include "usage_error.h"

#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_UNRELEASED_FEATURES 0
#include <toml++/toml.h>

namespace batchless {
namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;
constexpr IntegerRange kAnyCount{0, std::int64_t{1} << 53};
constexpr IntegerRange kCount{1, std::int64_t{1} << 53};
constexpr IntegerRange kSeeds{0, 4'294'967'295};
constexpr NumberRange kShare{0, 1};
constexpr NumberRange kRates{0, 1e6};
constexpr NumberRange kScales{0, analysis::kMaxScale};
constexpr NumberRange kCoefficients{-analysis::kMaxCoefficient, analysis::kMaxCoefficient};
constexpr NumberRange kDelays{0, analysis::kMaxCoefficient};

Words NetworkWords() {
  const auto names = hwmodel::NetworkNames();
  return {names.begin(), names.end()};
}

Words RuleWords() {
  Words words;
  for (const analysis::Rule& rule : analysis::AllRules()) {
    if (rule.name != analysis::LinearRule().name) words.push_back(rule.name);
  }
  return words;
}

Words OptimizerWords() {
  Words words;
  for (const training::Optimizer& optimizer : training::Optimizers()) {
    words.push_back(optimizer.name);
  }
  return words;
}

// Each hyperparameter once, with the range of the first optimizer that has it.
std::vector<ConfigurationKey> HyperparameterKeys(Configuration& c) {
  std::vector<ConfigurationKey> keys;
  for (const training::Optimizer& optimizer : training::Optimizers()) {
    for (const training::Hyperparameter& h : optimizer.hyperparameters) {
      if (std::any_of(keys.begin(), keys.end(),
                      [&](const ConfigurationKey& key) { return key.name == h.name; })) {
        continue;
      }
      keys.push_back({"optimizer", h.name, &c.optimizer.hyperparameters[std::string(h.name)],
                      NumberRange{h.low, h.high}, h.help});
    }
  }
  return keys;
}

std::string AcceptedWords(std::string_view word, const Words& words) {
  return fmt::format("{}{}", fmt::join(words, ", "), analysis::DidYouMean(word, words));
}

bool IsText(const ConfigurationKey& key) {
  return std::holds_alternative<std::monostate>(key.accepted) &&
         !std::holds_alternative<bool*>(key.value);
}

// What is accepted, in words.
std::string AcceptedText(const ConfigurationKey& key) {
  const bool is_list = std::holds_alternative<std::vector<std::int64_t>*>(key.value) ||
                       std::holds_alternative<std::vector<double>*>(key.value);
  std::string text;
  if (const auto* range = std::get_if<NumberRange>(&key.accepted)) text = range->Text();
  if (const auto* range = std::get_if<IntegerRange>(&key.accepted)) text = range->Text();
  if (const auto* words = std::get_if<Words>(&key.accepted)) {
    text = fmt::format("{}", fmt::join(*words, ", "));
  }
  if (IsText(key)) text = "a text";
  if (std::holds_alternative<bool*>(key.value)) text = "true, false";
  return is_list ? fmt::format("a list [...], each item {}", text) : text;
}

// The value as it was written, more or less, in at most a line.
std::string ShortText(const toml::node& node) {
  constexpr std::size_t kMax = 80;
  std::ostringstream stream;
  if (const auto text = node.value<std::string>()) {
    stream << *text;
  } else {
    node.visit([&](const auto& value) { stream << value; });
  }
  const std::string text = std::move(stream).str();
  return text.size() <= kMax ? text : text.substr(0, kMax) + "...";
}

// Refuses a value; `where` is the file and line, or the option.
[[noreturn]] void Refuse(std::string_view where, std::string_view name, std::string_view got,
                         std::string_view accepted) {
  throw UsageError::FromLine(fmt::format("{}: {}", where, UsageError(name, got, accepted).what()));
}

bool Contains(const ConfigurationKey& key, double value) {
  const auto& range = std::get<NumberRange>(key.accepted);
  return value >= range.low && value <= range.high;  // false for a NaN
}

bool Contains(const ConfigurationKey& key, std::int64_t value) {
  const auto& range = std::get<IntegerRange>(key.accepted);
  return value >= range.low && value <= range.high;
}

bool Contains(const ConfigurationKey& key, const std::string& value) {
  const auto* words = std::get_if<Words>(&key.accepted);
  return words == nullptr || std::find(words->begin(), words->end(), value) != words->end();
}

// Each reads a node as a value of its type that the key accepts; false for any other.
bool Read(const ConfigurationKey& /*key*/, const toml::node& node, bool& value) {
  if (!node.is_boolean()) return false;
  value = node.as_boolean()->get();
  return true;
}

bool Read(const ConfigurationKey& key, const toml::node& node, double& value) {
  if (!node.is_number()) return false;
  value = *node.value<double>();
  return Contains(key, value);
}

bool Read(const ConfigurationKey& key, const toml::node& node, std::int64_t& value) {
  if (!node.is_number()) return false;
  // An integer may be written as 1e6.
  const std::optional<std::int64_t> integer = node.value<std::int64_t>();
  if (!integer) return false;
  value = *integer;
  return Contains(key, value);
}

bool Read(const ConfigurationKey& key, const toml::node& node, std::string& value) {
  if (!node.is_string()) return false;
  value = node.as_string()->get();
  return Contains(key, value);
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
std::string Quoted(const ConfigurationKey& key, std::string_view where, std::string_view got) {
  return where == "--set" ? fmt::format("a text in quotes, --set '{}=\"{}\"'", key.FullName(), got)
                          : fmt::format("a text in quotes, \"{}\"", got);
}

// Reads one value into its place.
void Assign(const std::vector<ConfigurationKey>& keys, std::string_view where,
            std::string_view section, std::string_view name, const toml::node& node) {
  Words sections;
  Words names;
  for (const ConfigurationKey& key : keys) {
    if (sections.empty() || sections.back() != key.section) sections.push_back(key.section);
    if (key.section == section) names.push_back(key.name);
  }
  const std::string full_name = fmt::format("{}.{}", section, name);
  if (names.empty()) {
    Refuse(where, full_name, "an unknown section",
           fmt::format("sections {}", AcceptedWords(section, sections)));
  }
  const auto key = std::find_if(keys.begin(), keys.end(), [&](const ConfigurationKey& candidate) {
    return candidate.section == section && candidate.name == name;
  });
  if (key == keys.end()) Refuse(where, full_name, "an unknown key", AcceptedWords(name, names));
  const bool is_read =
      std::visit([&](auto* value) { return Read(*key, node, *value); }, key->value);
  if (is_read) return;
  const std::string got = ShortText(node);
  const auto* words = std::get_if<Words>(&key->accepted);
  if (IsText(*key) && !node.is_table() && !node.is_array()) {
    Refuse(where, full_name, got, Quoted(*key, where, got));
  }
  Refuse(where, full_name, got,
         words != nullptr && node.is_string() ? AcceptedWords(got, *words) : AcceptedText(*key));
}

std::string ReadText(const std::string& path) {
  if (const std::string why = WhyUnreadable(path); !why.empty()) {
    throw UsageError("CONFIG", path, fmt::format("a TOML file that can be read ({})", why));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) throw UsageError("CONFIG", path, "a TOML file that can be read");
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxFileBytes) {
    throw UsageError("CONFIG", path, fmt::format("a TOML file of at most {} bytes", kMaxFileBytes));
  }
  return text;
}

std::string At(const std::string& path, const toml::source_region& source) {
  return fmt::format("{}:{}", path, source.begin.line);
}

void ParseInto(const std::vector<ConfigurationKey>& keys, const std::string& text,
               const std::string& path) {
  toml::table document;
  try {
    document = toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw UsageError(At(path, error.source()), error.description(), "TOML");
  }
  // toml++ sorts by name; the first wrong value of the file is the one to report.
  struct Found {
    std::string section;
    std::string name;
    const toml::node* node;
  };
  std::vector<Found> values;
  for (const auto& [section, content] : document) {
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
    const std::string where = At(path, found.node->source());
    if (found.section.empty()) {
      Refuse(where, found.name, ShortText(*found.node),
             "keys in a section, [network] for instance");
    }
    Assign(keys, where, found.section, found.name, *found.node);
  }
}

// The text as a TOML value, or else as the text itself.
toml::table ParseOverride(const std::string& text) {
  try {
    toml::table table = toml::parse("value = " + text);
    if (table.size() == 1) return table;
  } catch (const toml::parse_error&) {
    // A bare word, a path for instance.
  }
  toml::table table;
  table.insert("value", text);
  return table;
}

// JSON's own check; a resolved configuration and a checkpoint hold nothing else.
bool IsUtf8(const std::string& text) {
  try {
    static_cast<void>(Json(text).dump());
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

void Override(const std::vector<ConfigurationKey>& keys, const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::size_t dot = text.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals) {
    throw UsageError("--set", text, "section.key=value");
  }
  if (!IsUtf8(text)) throw UsageError("--set", text, "UTF-8");
  const toml::table table = ParseOverride(text.substr(equals + 1));
  Assign(keys, "--set", text.substr(0, dot), text.substr(dot + 1, equals - dot - 1),
         *table.get("value"));
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

// The table wants a configuration that it could write to.
std::string Text(Configuration configuration) {
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
  return text;
}

}  // namespace

std::string ConfigurationKey::FullName() const { return fmt::format("{}.{}", section, name); }

std::vector<ConfigurationKey> KeysOf(Configuration& c) {
  constexpr bool kAnyResult = false;  // changes_results of the keys that do not
  std::vector<ConfigurationKey> keys{
      {"network", "name", &c.network.name, NetworkWords(), "which network; resnet20"},
      {"network",
       "file",
       &c.network.file,
       {},
       "in place of a name: a network of your own, PATH.toml (batchless network --help)"},
      {"network", "norm", &c.network.norm, Words{"group", "batch", "none"},
       "normalisation; group for ResNet and VGG"},
      {"network", "groups", &c.network.groups, kCount,
       "groups of each group normalisation; half of the first width, at most 32"},
      {"network", "hidden", &c.network.hidden, kCount, "widths of the hidden layers of an MLP"},

      {"data", "name", &c.data.name, Words{"synthetic", "cifar10", "mnist", "imagefolder"},
       "which data set"},
      {"data", "root", &c.data.root, {}, "folder that the data sets lie in", kAnyResult},
      {"data", "image_size", &c.data.image_size, IntegerRange{1, 4096},
       "edge of the images of imagefolder, pixels; 224"},
      {"data", "seed", &c.data.seed, kSeeds, "of the synthetic set; 1"},
      {"data", "augment", &c.data.augment, {}, "crop and mirror training samples"},
      {"data", "order", &c.data.order, Words{"shuffled", "sequential"},
       "anew in each epoch, or sample i mod n at step i"},
      {"data", "limit_train", &c.data.limit_train, kAnyCount,
       "training samples in an epoch, the first ones of the set; 0: all"},
      {"data", "limit_validation", &c.data.limit_validation, kAnyCount,
       "validation samples, the first ones; 0: all"},

      {"schedule", "kind", &c.schedule.kind,
       Words{"sequential", "fill-drain", "gpipe", "pipedream-flush", "zb-h1", "pb", "1f1b", "2bw",
             "zhang", "uniform-delay", "file"},
       "who does what when; zhang: pb over groups of stages"},
      {"schedule", "microbatch", &c.schedule.microbatch, kCount,
       "samples that pass through a stage together; 1, or the whole batch with schedules that "
       "update "
       "after every micro-batch and with batch normalisation"},
      {"schedule", "workers", &c.schedule.workers, IntegerRange{1, 1024},
       "threads that share the stages, in each process", kAnyResult},
      {"schedule",
       "pin",
       &c.schedule.pin,
       {},
       "each of them stays on a processor of its own",
       kAnyResult},
      {"schedule", "balance", &c.schedule.balance, Words{"measured", "flops"},
       "what they share equally: times of the stages, measured before long runs, or FLOPs",
       kAnyResult},
      {"schedule",
       "machine",
       &c.schedule.machine,
       {},
       "in place of measuring: a machine file with the network's times, as `batchless calibrate` "
       "writes it",
       kAnyResult},
      {"schedule", "replicas", &c.schedule.replicas, IntegerRange{1, 1024},
       "pipelines that share every mini-batch and sum their gradients, each in a process or "
       "several",
       kAnyResult},
      {"schedule", "gradient_parts", &c.schedule.gradient_parts, kCount,
       "parts in which a mini-batch's gradients are summed, then as a tree; a multiple of "
       "replicas"},
      {"schedule",
       "weight_stashing",
       &c.schedule.weight_stashing,
       {},
       "backwards read the weights of their forwards; pb, 1f1b, zhang, uniform-delay"},
      {"schedule", "delay", &c.schedule.delay, kAnyCount,
       "uniform-delay: age of the forwards' weights, updates"},
      {"schedule", "stages", &c.schedule.stages, kCount,
       "stages of the pipeline, groups of equal work; the network's own. Not for sequential, "
       "fill-drain, uniform-delay, file"},
      {"schedule", "placement", &c.schedule.placement, kCount,
       "in place of stages: how many of the network's come before each pipeline register"},
      {"schedule",
       "file",
       &c.schedule.file,
       {},
       "with kind file: a list of actions as `batchless schedule --out F.csv` writes it"},

      {"rule", "name", &c.rule.name, RuleWords(),
       "update rule; spectrain, with delays: sgdm, and both passes predict to the step of the "
       "sample's last backward"},
      {"rule", "sc_delay", &c.rule.sc_delay, kDelays,
       "delay that spike compensation is made for, updates"},
      {"rule", "horizon", &c.rule.horizon, kDelays, "horizon of weight prediction, updates"},
      {"rule", "sc_a", &c.rule.sc_a, kCoefficients, "coefficient a itself"},
      {"rule", "sc_b", &c.rule.sc_b, kCoefficients, "coefficient b itself"},
      {"rule", "sc_delay_scale", &c.rule.sc_delay_scale, kScales,
       "sc_delay in units of each stage's delay"},
      {"rule", "horizon_scale", &c.rule.horizon_scale, kScales,
       "horizon in units of each stage's delay"},

      {"optimizer", "kind", &c.optimizer.kind, OptimizerWords(),
       "what an update makes of a gradient; batchless optimizers lists them"},
      {"optimizer", "batch", &c.optimizer.batch, IntegerRange{1, 1 << 20}, "samples of one update"},
      {"optimizer", "lr", &c.optimizer.lr, kRates,
       "learning rate; 0.1, 0.001 with adam and adamw, 0.02 with muon"},
      {"optimizer", "momentum", &c.optimizer.momentum, kShare,
       "momentum, below 1; 0.9; adam and adamw have beta1"},
      {"optimizer", "reference_lr", &c.optimizer.reference_lr, kRates,
       "in place of lr and momentum: those of another batch size, scaled to this one"},
      {"optimizer", "reference_momentum", &c.optimizer.reference_momentum, kShare,
       "with reference_lr"},
      {"optimizer", "reference_batch", &c.optimizer.reference_batch, kCount, "with reference_lr"},
      {"optimizer", "weight_decay", &c.optimizer.weight_decay, kShare,
       "L2 penalty; decoupled with adamw and muon"},
      {"optimizer", "schedule", &c.optimizer.schedule, Words{"steps", "cosine", "one-cycle"},
       "shape of the learning rate over the run"},
      {"optimizer", "decay_points", &c.optimizer.decay_points, kShare,
       "steps: where the rate drops, in units of the run"},
      {"optimizer", "decay_factor", &c.optimizer.decay_factor, kShare, "steps: by what"},
      {"optimizer", "start", &c.optimizer.start, kShare, "one-cycle: first rate, in units of lr"},
      {"optimizer", "peak", &c.optimizer.peak, kShare,
       "one-cycle: where the rate is lr, in units of the run"},
      {"optimizer", "final", &c.optimizer.final, kShare,
       "cosine, one-cycle: last rate, in units of lr"},
      {"optimizer", "warmup_samples", &c.optimizer.warmup_samples, kAnyCount,
       "samples over which the rate rises from 0 first"},

      {"run", "epochs", &c.run.epochs, NumberRange{1e-6, 1e6}, "length of the run; 1"},
      {"run", "samples", &c.run.samples, kCount,
       "in place of epochs; either is rounded up to whole batches"},
      {"run", "seed", &c.run.seed, kSeeds, "of initial weights, order, augmentation and dropout"},
      {"run", "precision", &c.run.precision, Words{"float", "double"}, "of all arithmetic"},
      {"run", "convolution", &c.run.convolution, Words{"winograd", "onednn", "reference"},
       "kernels; winograd, reference with double"},
      {"run", "checkpoint_every_samples", &c.run.checkpoint_every_samples, kCount,
       "an epoch; the end of the run always", kAnyResult},
      {"run", "log_every_samples", &c.run.log_every_samples, kCount, "a tenth of an epoch",
       kAnyResult},
      {"run", "validate_every_samples", &c.run.validate_every_samples, kCount,
       "an epoch; the end of the run always", kAnyResult},
      {"run", "watchdog_seconds", &c.run.watchdog_seconds, NumberRange{0, 1e6},
       "a worker that waits that long for another one gives up; 0: never", kAnyResult},
      {"run", "trace_samples", &c.run.trace_samples, IntegerRange{1, 100'000},
       "with --trace: how many, the first ones", kAnyResult},
      {"run",
       "log_samples",
       &c.run.log_samples,
       {},
       "write samples.csv, with label and loss of each sample"},
  };
  const std::vector<ConfigurationKey> hyperparameters = HyperparameterKeys(c);
  const auto after = std::find_if(keys.begin(), keys.end(), [](const ConfigurationKey& key) {
    return key.section == "optimizer" && key.name == "schedule";
  });
  keys.insert(after, hyperparameters.begin(), hyperparameters.end());
  return keys;
}

Configuration LoadConfiguration(const std::string& path, std::span<const std::string> overrides) {
  Configuration configuration;
  const std::vector<ConfigurationKey> keys = KeysOf(configuration);
  ParseInto(keys, ReadText(path), path);
  const auto has = [&](std::string_view start) {
    return std::any_of(overrides.begin(), overrides.end(),
                       [&](const std::string& text) { return text.starts_with(start); });
  };
  // Another network takes the place of all that the file says of one.
  const bool is_file = !configuration.network.file.empty();
  if (is_file ? has("network.name=") : has("network.file=")) configuration.network = {};
  for (const std::string& text : overrides) Override(keys, text);
  // Two ways to say the same: one that overrides the file's counts.
  const bool sets_samples = has("run.samples=");
  const bool sets_epochs = has("run.epochs=");
  if (sets_samples && !sets_epochs) configuration.run.epochs.reset();
  if (sets_epochs && !sets_samples) configuration.run.samples.reset();
  return configuration;
}

Configuration ParseConfiguration(const std::string& text, const std::string& path) {
  Configuration configuration;
  ParseInto(KeysOf(configuration), text, path);
  return configuration;
}

std::string ConfigurationText(const Configuration& configuration) { return Text(configuration); }

std::optional<ConfigurationDifference> FirstDifference(const Configuration& first,
                                                       const Configuration& second) {
  Configuration a = first;
  Configuration b = second;
  const std::vector<ConfigurationKey> keys = KeysOf(a);
  const std::vector<ConfigurationKey> others = KeysOf(b);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!keys[i].changes_results) continue;
    const std::string value = ValueText(keys[i]);
    const std::string other = ValueText(others[i]);
    if (value == other) continue;
    const auto shown = [](const std::string& text) { return text.empty() ? "nothing" : text; };
    return ConfigurationDifference{keys[i].FullName(), shown(value), shown(other)};
  }
  return std::nullopt;
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
                        key.help, AcceptedText(key));
  }
  return text;
}

}  // namespace batchless
