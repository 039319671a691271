#include "run_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "batchless/analysis/argument.h"
#include "batchless/training/hyperparameter_scaling.h"
#include "network_file.h"
#include "quotient_file.h"
#include "run_schedule.h"
#include "usage_error.h"

namespace batchless {
namespace {

using analysis::InvalidArgument;
using hwmodel::Normalization;
using training::ConvolutionMethod;

constexpr double kDefaultMomentum = 0.9;

constexpr std::array<std::pair<std::string_view, ConvolutionMethod>, 3> kConvolutionMethods{
    {{"winograd", ConvolutionMethod::kWinograd},
     {"onednn", ConvolutionMethod::kOneDnn},
     {"reference", ConvolutionMethod::kReference}}};

// Calls `work` and gives what it refuses the name that it has in a configuration: key(name).
template <class Key, class Work>
auto ByKeys(Key key, Work work) {
  try {
    return work();
  } catch (const InvalidArgument& error) {
    throw UsageError(key(error.name()), error.value(), error.accepted());
  }
}

// The library says "sc-delay" or "reference_lr" where the key is rule.sc_delay or optimizer.reference_lr.
template <class Work>
auto InSection(std::string_view section, Work work) {
  return ByKeys(
      [&](std::string name) {
        name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
        std::replace(name.begin(), name.end(), '-', '_');
        return fmt::format("{}.{}", section, name);
      },
      work);
}

// The key of an option of the trainer, its rule or learning rate.
std::string KeyOf(const Configuration& c, std::string_view name) {
  static const std::map<std::string_view, std::string_view> kKeys{
      {"base", "optimizer.lr"},
      {"batch", "optimizer.batch"},
      {"by_delay", "optimizer.file"},
      {"drops", "optimizer.decay_points"},
      {"factor", "optimizer.decay_factor"},
      {"forward_lag", "schedule.delay"},
      {"gradient_parts", "schedule.gradient_parts"},
      {"microbatch", "schedule.microbatch"},
      {"network", "network.name"},
      {"optimizer", "optimizer.kind"},
      {"peak_fraction", "optimizer.peak"},
      {"replicas", "schedule.replicas"},
      {"rule", "rule.name"},
      {"samples", "run.samples"},
      {"warm_up_samples", "optimizer.warmup_samples"},
      {"workers", "schedule.workers"},
  };
  if (const auto key = kKeys.find(name); key != kKeys.end()) return std::string(key->second);
  if (name == "weights" || name == "schedule" || name == "actions") {
    return c.schedule.kind == "file" ? "schedule.file" : "schedule.kind";
  }
  return fmt::format("optimizer.{}", name);  // with the name of the key
}

analysis::RuleSpec RuleOf(const Configuration& c) {
  analysis::RuleSpec spec{analysis::FindRule(c.rule.name), {}};
  spec.options.sc_delay = c.rule.sc_delay;
  spec.options.horizon = c.rule.horizon;
  spec.options.sc_a = c.rule.sc_a;
  spec.options.sc_b = c.rule.sc_b;
  spec.options.sc_delay_scale = c.rule.sc_delay_scale;
  spec.options.horizon_scale = c.rule.horizon_scale;
  InSection("rule", [&] { analysis::Validate(spec); });
  if (c.rule.sc_delay && c.rule.sc_delay_scale != 1) {
    throw UsageError("rule.sc_delay_scale", analysis::ToText(c.rule.sc_delay_scale),
                     "nothing together with rule.sc_delay");
  }
  if (c.rule.horizon && c.rule.horizon_scale != 1) {
    throw UsageError("rule.horizon_scale", analysis::ToText(c.rule.horizon_scale),
                     "nothing together with rule.horizon");
  }
  return spec;
}

// The least integer that is not below a * b, but for what rounding adds: 0.55 * 100 is 55.
double CeilOfProduct(double a, double b) {
  constexpr double kRounding = 1e-12;
  const double nearest = std::round(a * b);
  return std::abs(a * b - nearest) <= kRounding * std::abs(nearest) ? nearest : std::ceil(a * b);
}

struct RateAndMomentum {
  double rate;
  double momentum;
};

training::OptimizerSpec OptimizerOf(const Configuration& c) {
  training::OptimizerSpec spec{training::FindOptimizer(c.optimizer.kind), {}};
  for (const auto& [name, value] : c.optimizer.hyperparameters) {
    if (value) spec.values.emplace(name, *value);
  }
  if (!c.optimizer.file.empty()) {
    spec.by_delay = ReadQuotientFile("optimizer.file", c.optimizer.file);
  }
  return spec;
}

bool TakesMomentum(const training::Optimizer& optimizer) {
  return optimizer.momentum == "momentum";
}

RateAndMomentum RateAndMomentumOf(const Configuration& c) {
  const auto& o = c.optimizer;
  const training::Optimizer& optimizer = training::FindOptimizer(o.kind);
  if (!TakesMomentum(optimizer)) {
    for (const auto& [name, value] :
         {std::pair("momentum", o.momentum), std::pair("reference_lr", o.reference_lr),
          std::pair("reference_momentum", o.reference_momentum)}) {
      // A quotient has the drift of some momentum, by which reference rates scale.
      if (!value || (optimizer.takes_quotients && std::string_view(name) != "momentum")) continue;
      throw UsageError(fmt::format("optimizer.{}", name), analysis::ToText(*value),
                       fmt::format("nothing with optimizer.kind = {}, which has lr and {}", o.kind,
                                   optimizer.momentum.empty() ? "file" : optimizer.momentum));
    }
  }
  if (!o.reference_lr && !o.reference_momentum && !o.reference_batch) {
    return {o.lr.value_or(optimizer.learning_rate), o.momentum.value_or(kDefaultMomentum)};
  }
  constexpr const char* kAccepted =
      "either lr and momentum, or reference_lr, reference_momentum and reference_batch";
  if (o.lr || o.momentum) {
    throw UsageError(o.lr ? "optimizer.lr" : "optimizer.momentum",
                     analysis::ToText(o.lr ? *o.lr : *o.momentum), kAccepted);
  }
  for (const auto& [name, is_there] :
       {std::pair("reference_lr", o.reference_lr.has_value()),
        std::pair("reference_momentum", o.reference_momentum.has_value()),
        std::pair("reference_batch", o.reference_batch.has_value())}) {
    if (!is_there) throw UsageError(fmt::format("optimizer.{}", name), "nothing", kAccepted);
  }
  const training::Hyperparameters scaled = InSection("optimizer", [&] {
    return training::ScaleToBatch({*o.reference_lr, *o.reference_momentum, *o.reference_batch},
                                  o.batch);
  });
  if (!(scaled.momentum < 1)) {
    throw UsageError(
        "optimizer.reference_batch", std::to_string(*o.reference_batch),
        fmt::format("one from which the momentum scales to less than 1 at batch {}", o.batch));
  }
  return {scaled.learning_rate, scaled.momentum};
}

// Refuses what the schedule of the learning rate has no use for. Defaults are in every resolved file.
void CheckRateSchedule(const Configuration& c) {
  const Configuration defaults;
  const auto& o = c.optimizer;
  const auto refuse = [](const char* key, const std::string& value, const char* schedules) {
    throw UsageError(fmt::format("optimizer.{}", key), value,
                     fmt::format("nothing but with optimizer.schedule = {}", schedules));
  };
  const bool is_one_cycle = o.schedule == "one-cycle";
  const bool is_steps = o.schedule == "steps";
  if (!is_one_cycle && o.start != defaults.optimizer.start) {
    refuse("start", analysis::ToText(o.start), "one-cycle");
  }
  if (!is_one_cycle && o.peak != defaults.optimizer.peak) {
    refuse("peak", analysis::ToText(o.peak), "one-cycle");
  }
  if (is_steps && o.final != defaults.optimizer.final) {
    refuse("final", analysis::ToText(o.final), "cosine or one-cycle");
  }
  if (!is_steps && !o.decay_points.empty()) {
    refuse("decay_points", fmt::format("[{}]", fmt::join(o.decay_points, ", ")), "steps");
  }
  if (o.decay_points.empty() && o.decay_factor != defaults.optimizer.decay_factor) {
    throw UsageError("optimizer.decay_factor", analysis::ToText(o.decay_factor),
                     "nothing without optimizer.decay_points");
  }
}

training::LearningRate LearningRateOf(const Configuration& c, std::int64_t samples) {
  const auto& o = c.optimizer;
  training::LearningRate rate;
  rate.base = RateAndMomentumOf(c).rate;
  rate.samples = samples;
  rate.start = o.start;
  rate.final = o.final;
  rate.peak_fraction = o.peak;
  rate.warm_up_samples = o.warmup_samples;
  if (o.warmup_samples > samples) {
    throw UsageError("optimizer.warmup_samples", std::to_string(o.warmup_samples),
                     fmt::format("0 to {}, the samples of the run", samples));
  }
  if (o.schedule == "cosine") rate.shape = training::LearningRateShape::kCosine;
  if (o.schedule == "one-cycle") rate.shape = training::LearningRateShape::kOneCycle;
  if (o.schedule == "steps") {
    if (!std::is_sorted(o.decay_points.begin(), o.decay_points.end())) {
      throw UsageError("optimizer.decay_points",
                       fmt::format("[{}]", fmt::join(o.decay_points, ", ")),
                       "numbers from 0 to 1 in ascending order");
    }
    for (const double point : o.decay_points) {
      const double sample = CeilOfProduct(point, static_cast<double>(samples));
      rate.drops.push_back({static_cast<std::int64_t>(sample), o.decay_factor});
    }
  }
  return rate;
}

Normalization NormalizationOf(const hwmodel::Layer& layer) {
  return hwmodel::TraitsOf(layer.kind).normalization;
}

// The first layer with a normalisation; none where there is no such layer.
const hwmodel::Layer* FirstNormalization(const hwmodel::Network& network) {
  for (const hwmodel::Stage& stage : network.stages) {
    for (const hwmodel::Layer& layer : stage.layers) {
      if (NormalizationOf(layer) != Normalization::kNone) return &layer;
    }
  }
  return nullptr;
}

std::vector<std::int64_t> HiddenWidths(const hwmodel::Network& network) {
  std::vector<std::int64_t> widths;
  for (const hwmodel::Stage& stage : network.stages) {
    for (const hwmodel::Layer& layer : stage.layers) {
      if (layer.kind == hwmodel::LayerKind::kLinear) widths.push_back(layer.output.channels);
    }
  }
  if (!widths.empty()) widths.pop_back();  // the classes
  return widths;
}

}  // namespace

namespace {

hwmodel::Network FileNetwork(const Configuration& c, const DataShape& shape) {
  const std::string& path = c.network.file;
  for (const auto& [key, is_given] : {std::pair("name", c.network.name.has_value()),
                                      std::pair("norm", c.network.norm.has_value()),
                                      std::pair("groups", c.network.groups.has_value()),
                                      std::pair("hidden", !c.network.hidden.empty())}) {
    if (is_given) {
      throw UsageError(fmt::format("network.{}", key), "a value",
                       "nothing with network.file, which says it");
    }
  }
  hwmodel::Network network = ReadNetworkFile("network.file", path);
  if (network.input == shape.image && network.classes == shape.classes) return network;
  throw UsageError(
      "network.file",
      fmt::format("{}, for {} and {} classes", path, ToText(network.input), network.classes),
      fmt::format("a network for {} and {} classes, as {} has them", ToText(shape.image),
                  shape.classes, c.data.name));
}

}  // namespace

hwmodel::Network NetworkOf(const Configuration& c, const DataShape& shape) {
  if (!c.network.file.empty()) return FileNetwork(c, shape);
  hwmodel::NetworkOptions options;
  options.name = c.network.name.value_or("resnet20");
  if (c.network.norm == "group") options.normalization = Normalization::kGroup;
  if (c.network.norm == "batch") options.normalization = Normalization::kBatch;
  if (c.network.norm == "none") options.normalization = Normalization::kNone;
  // The library's own limits are below this one.
  const auto narrow = [](std::string_view key, std::int64_t value) {
    constexpr int kMost = std::numeric_limits<int>::max();
    if (value <= kMost) return static_cast<int>(value);
    throw UsageError(key, std::to_string(value), fmt::format("at most {}", kMost));
  };
  options.groups = narrow("network.groups", c.network.groups.value_or(0));
  for (const std::int64_t width : c.network.hidden) {
    options.hidden.push_back(narrow("network.hidden", width));
  }
  options.input = shape.image;
  options.classes = shape.classes;
  try {
    return hwmodel::MakeNetwork(options);
  } catch (const InvalidArgument& error) {
    // The data say how large an image is.
    if (error.name() != "network.input") throw;
    throw UsageError(c.data.name == "imagefolder" ? "data.image_size" : "data.name", error.value(),
                     error.accepted());
  }
}

namespace {

// Samples of the run, before they are rounded up to whole mini-batches.
double RunSamples(const Configuration& c, std::int64_t epoch_size) {
  if (c.run.epochs && c.run.samples) {
    throw UsageError("run.epochs", analysis::ToText(*c.run.epochs),
                     "either run.epochs or run.samples");
  }
  constexpr double kMost = 1e15;
  const double samples =
      c.run.samples ? static_cast<double>(*c.run.samples)
                    : CeilOfProduct(c.run.epochs.value_or(1), static_cast<double>(epoch_size));
  if (samples > kMost) {
    throw UsageError(c.run.samples ? "run.samples" : "run.epochs",
                     fmt::format("{} samples", samples), "at most 1e+15 samples");
  }
  return samples;
}

training::TrainerOptions PhaseOptionsOf(const Configuration& c, const DataShape& shape,
                                        const std::shared_ptr<training::ProcessGroup>& processes) {
  training::TrainerOptions options;
  options.network = NetworkOf(c, shape);
  options.processes = processes;
  options.workers = static_cast<int>(c.schedule.workers);
  options.pin_workers = c.schedule.pin;
  options.replicas = static_cast<int>(c.schedule.replicas);
  options.gradient_parts = c.schedule.gradient_parts;
  options.watchdog_seconds = c.run.watchdog_seconds;
  options.batch = c.optimizer.batch;
  const bool is_whole = UpdatesEach(c.schedule.kind) ||
                        HasLayer(options.network, hwmodel::LayerKind::kBatchNormalization);
  options.microbatch = c.schedule.microbatch.value_or(is_whole ? c.optimizer.batch : 1);
  options.schedule = ScheduleOf(c, options);
  CheckRateSchedule(c);
  options.rule = RuleOf(c);
  options.optimizer = OptimizerOf(c);
  if (c.schedule.weight_stashing && options.optimizer.optimizer.sets_backward_weights) {
    throw UsageError("schedule.weight_stashing", "true",
                     fmt::format("false with optimizer.kind = {}, whose backwards read weights of "
                                 "their own",
                                 c.optimizer.kind));
  }
  options.momentum = RateAndMomentumOf(c).momentum;
  options.samples = options.batch;  // until SetLengths
  options.weight_decay = c.optimizer.weight_decay;
  options.seed = static_cast<std::uint64_t>(c.run.seed);
  const bool is_double = c.run.precision == "double";
  options.precision = is_double ? training::Precision::kDouble : training::Precision::kSingle;
  if (is_double && c.run.convolution.value_or("reference") != "reference") {
    throw UsageError("run.convolution", *c.run.convolution,
                     "reference with run.precision = double");
  }
  if (is_double) options.convolution = ConvolutionMethod::kReference;
  for (const auto& [name, method] : kConvolutionMethods) {
    if (c.run.convolution == name) options.convolution = method;
  }
  ByKeys([&](std::string_view name) { return KeyOf(c, name); },
         [&] { training::Validate(options); });
  return options;
}

void FillInPhase(Configuration& c, const training::TrainerOptions& options,
                 std::int64_t epoch_size) {
  const hwmodel::Layer* normalization = FirstNormalization(options.network);
  if (c.network.file.empty()) {
    c.network.name = options.network.name;
    c.network.norm =
        Name(normalization == nullptr ? Normalization::kNone : NormalizationOf(*normalization));
    if (c.network.norm == "group") c.network.groups = normalization->groups;
    if (c.network.name == "mlp") c.network.hidden = HiddenWidths(options.network);
  }
  if (c.data.name == "imagefolder" && !c.data.image_size) c.data.image_size = kDefaultImageSize;
  if (c.data.name == "synthetic" && !c.data.seed) {
    c.data.seed = static_cast<std::int64_t>(training::kSyntheticSeed);
  }
  c.schedule.microbatch = options.microbatch;
  if (!c.optimizer.reference_lr) {
    c.optimizer.lr = options.learning_rate.base;
    if (TakesMomentum(options.optimizer.optimizer)) c.optimizer.momentum = options.momentum;
  }
  for (const training::Hyperparameter& h : options.optimizer.optimizer.hyperparameters) {
    c.optimizer.hyperparameters[std::string(h.name)] = options.optimizer.Value(h.name);
  }
  if (!c.run.samples && !c.run.epochs) c.run.epochs = 1;
  for (const auto& [name, method] : kConvolutionMethods) {
    if (options.convolution == method) c.run.convolution = name;
  }
  const auto default_to = [](std::optional<std::int64_t>& interval, std::int64_t value) {
    if (!interval) interval = value;
  };
  default_to(c.run.checkpoint_every_samples, epoch_size);
  default_to(c.run.log_every_samples, (epoch_size + 9) / 10);
  default_to(c.run.validate_every_samples, epoch_size);
}

}  // namespace

std::vector<training::TrainerOptions> TrainerOptionsOf(
    const Configuration& c, const DataShape& shape,
    const std::shared_ptr<training::ProcessGroup>& processes) {
  std::vector<training::TrainerOptions> phases;
  for (const Configuration& settings : SettingsOf(c)) {
    phases.push_back(PhaseOptionsOf(settings, shape, processes));
  }
  return phases;
}

void SetLengths(const Configuration& c, std::int64_t epoch_size,
                std::vector<training::TrainerOptions>& phases) {
  const double samples = RunSamples(c, epoch_size);
  std::int64_t end = 0;
  for (std::size_t p = 0; p < phases.size(); ++p) {
    training::TrainerOptions& phase = phases[p];
    const double until = c.phases.empty() ? 1 : c.phases[p].until;
    const auto goal = static_cast<std::int64_t>(CeilOfProduct(until, samples));
    if (goal <= end) {
      throw UsageError("phase.until", analysis::ToText(until),
                       fmt::format("more than {}, where the mini-batches of the phase before end",
                                   analysis::ToText(static_cast<double>(end) / samples)));
    }
    phase.first_sample = end;
    phase.samples = (goal - end + phase.batch - 1) / phase.batch * phase.batch;
    end += phase.samples;
    if (p == 0) continue;
    const training::TrainerOptions& before = phases[p - 1];
    // What an optimizer keeps begins anew with another one.
    if (phase.optimizer.optimizer.name == before.optimizer.optimizer.name) {
      phase.first_update = before.first_update + before.samples / before.batch;
    }
  }
  const std::vector<Configuration> settings = SettingsOf(c);
  for (std::size_t p = 0; p < phases.size(); ++p) {
    phases[p].learning_rate = LearningRateOf(settings[p], end);
    ByKeys([&](std::string_view name) { return KeyOf(settings[p], name); },
           [&] { training::Validate(phases[p].learning_rate); });
  }
}

void FillIn(Configuration& c, std::span<const training::TrainerOptions> phases,
            std::int64_t epoch_size) {
  if (c.phases.empty()) {
    FillInPhase(c, phases.front(), epoch_size);
    return;
  }
  for (std::size_t p = 0; p < c.phases.size(); ++p) {
    FillInPhase(c.phases[p].settings, phases[p], epoch_size);
  }
  // The sections that all phases have alike.
  const Configuration& settings = c.phases.front().settings;
  c.network = settings.network;
  c.data = settings.data;
  c.run = settings.run;
}

}  // namespace batchless
