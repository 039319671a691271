// Configuration of a training run: a TOML file, with overrides from the command line.
//
// One table (KeysOf) says for each key where its value lives, what is accepted and what it means;
// help, checks, overrides, the resolved file and the comparison before a resumption all read it. A
// default is the value that the member starts with. One that depends on something else is empty and
// filled in by FillIn (run_options.h), so that a resolved file holds every key that acts.
//
// A run may have phases, [[phase]] until = 0.5, each with keys of its own in the sections schedule, rule
// and optimizer (schedule.kind = "pb"), which take the place of the file's up to that share of the run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "batchless/analysis/rule.h"
#include "values.h"

namespace batchless {

struct Configuration {
  struct Phase;

  struct {
    std::optional<std::string> name;
    std::string file;
    std::optional<std::string> norm;
    std::optional<std::int64_t> groups;
    std::vector<std::int64_t> hidden;
    std::optional<std::int64_t> layers;
    std::optional<std::int64_t> width;
    std::optional<std::int64_t> heads;
    std::string token_norm = "layer";
    bool norm_first = true;
    std::string activation = "gelu";
    bool tie_word_embeddings = false;
    std::optional<std::int64_t> context;
    std::optional<std::int64_t> vocabulary;
  } network;
  struct {
    std::string name = "synthetic";
    std::string root = "data";
    std::string file;
    std::optional<std::int64_t> image_size;
    std::optional<std::int64_t> seed;
    bool augment = true;
    std::string order = "shuffled";
    std::int64_t limit_train = 0;
    std::int64_t limit_validation = 0;
  } data;
  struct {
    std::string kind = "sequential";
    std::optional<std::int64_t> microbatch;
    std::int64_t workers = 1;
    bool pin = false;
    std::string balance = "measured";
    std::string machine;
    std::int64_t replicas = 1;
    std::int64_t gradient_parts = 1;
    bool weight_stashing = false;
    bool vertical_sync = false;
    bool recompute = false;
    double gradient_shrink = 1;
    std::vector<std::int64_t> recompute_stages;
    std::int64_t delay = 0;
    std::string delays;
    std::optional<std::string> compensate;
    std::optional<std::int64_t> stages;
    std::vector<std::int64_t> placement;
    std::string file;
  } schedule;
  struct {
    std::string name = "sgdm";
    analysis::RuleOptions options;
  } rule;
  struct {
    std::string kind = "sgdm";
    std::string file;
    // By name, of all optimizers (training/optimizer.h); KeysOf makes the places.
    std::map<std::string, std::optional<double>, std::less<>> hyperparameters;
    std::int64_t batch = 128;
    std::optional<double> lr;
    std::optional<double> momentum;
    std::optional<double> deepest_momentum;
    std::optional<double> reference_lr;
    std::optional<double> reference_momentum;
    std::optional<std::int64_t> reference_batch;
    std::optional<double> reference_exponent;
    double weight_decay = 0;
    std::optional<double> max_gradient_norm;
    std::string schedule = "steps";
    std::vector<double> decay_points;
    double decay_factor = 0.1;
    double start = 0.1;
    double peak = 0.3;
    double final = 0;
    std::int64_t warmup_samples = 0;
  } optimizer;
  struct {
    std::optional<double> epochs;
    std::optional<std::int64_t> samples;
    std::int64_t seed = 1;
    std::string precision = "float";
    std::optional<std::string> convolution;
    std::optional<std::int64_t> checkpoint_every_samples;
    std::optional<std::int64_t> log_every_samples;
    std::optional<std::int64_t> validate_every_samples;
    double watchdog_seconds = 300;
    std::int64_t trace_samples = 200;
    bool log_samples = false;
  } run;
  // None: the run has one, of the configuration's own.
  std::vector<Phase> phases;
};

struct Configuration::Phase {
  double until = 1;        // share of the run
  Configuration settings;  // the whole of it, without phases
};

// Those of the phases, or the configuration itself.
std::vector<Configuration> SettingsOf(const Configuration& configuration);

// Calls `work` with each of these settings and its place; what it refuses is refused with the phase's number.
void ForEachPhase(const Configuration& configuration,
                  const std::function<void(const Configuration&, std::size_t)>& work);

// One row of the table.
struct ConfigurationKey {
  std::string_view section;
  std::string_view name;
  std::variant<bool*, std::int64_t*, double*, std::string*, std::optional<std::int64_t>*,
               std::optional<double>*, std::optional<std::string>*, std::vector<std::int64_t>*,
               std::vector<double>*>
      value;
  // The range of a number or of each number of a list, or the words that a text may be; any text without.
  std::variant<std::monostate, NumberRange, IntegerRange, Choices> accepted;
  std::string_view help;
  // Whether the results of a run depend on it. Keys that only say where the data lie, how much work
  // is done at a time and when something is written may change when a run is resumed.
  bool changes_results = true;

  std::string FullName() const;
  // What is accepted, in words.
  std::string AcceptedText() const;
};

// The table, bound to one configuration.
std::vector<ConfigurationKey> KeysOf(Configuration& configuration);

// Reads `path` and applies the overrides, each "section.key=value", or "phase.N.section.key=value" (N from 1)
// for a phase alone: a TOML value, or else a text. One of a key that every phase sets is refused, and the
// second one of a key.
// An override of run.samples takes the place of run.epochs, and the other way round; one of
// network.file that of the file's network, and one of network.name that of its network.file.
// Throws UsageError in one line that names section.key, and the file's line where there is one.
Configuration LoadConfiguration(const std::string& path, std::span<const std::string> given = {});

// The same from the text of a file; `path` is what errors call it.
Configuration ParseConfiguration(const std::string& text, const std::string& path,
                                 std::span<const std::string> given = {});

// The configuration as TOML, keys in the order of the table. Reads back as the same configuration.
std::string ConfigurationText(Configuration configuration);

// A key with two values, as TOML; "nothing" for one without.
struct ConfigurationDifference {
  std::string key;  // section.key
  std::string first;
  std::string second;
};

// The first key that changes results and differs.
std::optional<ConfigurationDifference> FirstDifference(const Configuration& first,
                                                       const Configuration& second);

// By key all values that processes that train together have to have alike: but for paths, which may differ
// from machine to machine, and for schedule.pin.
std::vector<std::pair<std::string, std::string>> SharedValues(const Configuration& configuration);

// All keys with their defaults, for the help.
std::string ConfigurationHelp();

}  // namespace batchless
