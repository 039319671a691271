#include "run_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "batchless/analysis/argument.h"
#include "network_file.h"
#include "run_optimizer.h"
#include "run_schedule.h"
#include "usage_error.h"

namespace batchless {
namespace {

using analysis::InvalidArgument;
using hwmodel::LayerKind;
using hwmodel::Normalization;
using training::ConvolutionMethod;

constexpr std::array<std::pair<std::string_view, ConvolutionMethod>, 3> kConvolutionMethods{
    {{"winograd", ConvolutionMethod::kWinograd},
     {"direct", ConvolutionMethod::kDirect},
     {"reference", ConvolutionMethod::kReference}}};

// The key of an option of the trainer, its rule or learning rate.
std::string KeyOf(const Configuration& c, std::string_view name) {
  static const std::map<std::string_view, std::string_view> kKeys{
      {"base", "optimizer.lr"},
      {"batch", "optimizer.batch"},
      {"by_delay", "optimizer.file"},
      {"compensate", "schedule.compensate"},
      {"delays", "schedule.delays"},
      {"drops", "optimizer.decay_points"},
      {"factor", "optimizer.decay_factor"},
      {"forward_lag", "schedule.delay"},
      {"gradient_parts", "schedule.gradient_parts"},
      {"gradient_shrink", "schedule.gradient_shrink"},
      {"microbatch", "schedule.microbatch"},
      {"network", "network.name"},
      {"optimizer", "optimizer.kind"},
      {"peak_fraction", "optimizer.peak"},
      {"recompute", "schedule.recompute"},
      {"recomputed_workers", "schedule.recompute_stages"},
      {"replicas", "schedule.replicas"},
      {"rule", "rule.name"},
      {"samples", "run.samples"},
      {"warm_up_samples", "optimizer.warmup_samples"},
      {"workers", "schedule.workers"},
  };
  // The number that is refused is not the one that was given.
  if (c.optimizer.reference_lr && (name == "base" || name == "momentum")) {
    return fmt::format("optimizer.reference_{}, scaled to the batch",
                       name == "base" ? "lr" : "momentum");
  }
  if (const auto key = kKeys.find(name); key != kKeys.end()) return std::string(key->second);
  if (name.starts_with("sc_") || name.starts_with("horizon")) return fmt::format("rule.{}", name);
  if (name == "weights" || name == "schedule" || name == "actions") {
    return c.schedule.kind == "file" ? "schedule.file" : "schedule.kind";
  }
  return fmt::format("optimizer.{}", name);  // with the name of the key
}

analysis::RuleSpec RuleOf(const Configuration& c) {
  analysis::RuleSpec spec{analysis::FindRule(c.rule.name), c.rule.options};
  InSection("rule", [&] { analysis::Validate(spec); });
  const auto refuse_both = [](const char* key, const auto& number, double scale) {
    RefuseIf(number && scale != 1, fmt::format("rule.{}_scale", key), scale,
             fmt::format("nothing together with rule.{}", key));
  };
  refuse_both("sc_delay", spec.options.sc_delay, spec.options.sc_delay_scale);
  refuse_both("horizon", spec.options.horizon, spec.options.horizon_scale);
  return spec;
}

UsageError OtherLabels(const Configuration& c, const DataShape& shape, const std::string& network) {
  return UsageError(
      "data.name", c.data.name,
      fmt::format("data with {} of a sample, as the loss of {} takes them",
                  shape.labels > 1 ? "one label" : "a label for each token", network));
}

hwmodel::Network FileNetwork(const Configuration& c, const DataShape& shape) {
  const std::string& path = c.network.file;
  Configuration plain = c;
  plain.network = {};
  if (const auto given = FirstDifference(c, plain)) {
    throw UsageError(given->key, "a value", "nothing with network.file, which says it");
  }
  hwmodel::Network network = ReadNetworkFile("network.file", path);
  RefuseIf(network.input != shape.image || network.classes != shape.classes, "network.file",
           fmt::format("{}, for {} and {} classes", path, ToText(network.input), network.classes),
           fmt::format("a network for {} and {} classes, as {} has them", ToText(shape.image),
                       shape.classes, c.data.name));
  return network;
}

hwmodel::Network NamedNetwork(const Configuration& c, const DataShape& shape) {
  RefuseIf(c.network.name == "gpt" && shape.labels == 1, "data.name", c.data.name,
           "text, markov or tokens with network.name = gpt");
  hwmodel::NetworkOptions options;
  options.name = c.network.name.value_or("resnet20");
  if (c.network.norm == "group") options.normalization = Normalization::kGroup;
  if (c.network.norm == "batch") options.normalization = Normalization::kBatch;
  if (c.network.norm == "none") options.normalization = Normalization::kNone;
  // The library's own limits are below this one.
  const auto narrow = [](std::string_view key, std::int64_t value) {
    constexpr int kMost = std::numeric_limits<int>::max();
    RefuseIf(value > kMost, key, value, fmt::format("at most {}", kMost));
    return static_cast<int>(value);
  };
  options.groups = narrow("network.groups", c.network.groups.value_or(0));
  for (const std::int64_t width : c.network.hidden) {
    options.hidden.push_back(narrow("network.hidden", width));
  }
  options.layers = narrow("network.layers", c.network.layers.value_or(0));
  options.width = narrow("network.width", c.network.width.value_or(0));
  options.heads = narrow("network.heads", c.network.heads.value_or(0));
  options.rms_norm = c.network.token_norm == "rms";
  options.norm_first = c.network.norm_first;
  options.squared_relu = c.network.activation == "squared_relu";
  options.tied_embeddings = c.network.tie_word_embeddings;
  options.input = shape.image;
  options.classes = shape.classes;
  try {
    return hwmodel::MakeNetwork(options);
  } catch (const InvalidArgument& error) {
    // The data say how many classes there are, how large an image is, and tokens are none.
    if (error.name() == "network.classes") {
      const bool is_folder = c.data.name == "imagefolder";
      throw UsageError(
          is_folder ? "data.root" : "data.file",
          fmt::format("{}, of {} classes", is_folder ? c.data.root : c.data.file, error.value()),
          error.accepted());
    }
    if (error.name() != "network.input") throw;
    if (shape.labels > 1) throw OtherLabels(c, shape, options.name);
    if (c.data.name == "imagefolder") {
      throw UsageError("data.image_size", error.value(), error.accepted());
    }
    throw UsageError("data.name", fmt::format("{}, of {}", c.data.name, error.value()),
                     error.accepted());
  }
}

// Samples of the run, before they are rounded up to whole mini-batches.
double RunSamples(const Configuration& c, std::int64_t epoch_size) {
  RefuseIf(c.run.epochs && c.run.samples, "run.epochs", c.run.epochs,
           "either run.epochs or run.samples");
  constexpr double kMost = 1e15;
  const double samples =
      c.run.samples ? static_cast<double>(*c.run.samples)
                    : CeilOfProduct(c.run.epochs.value_or(1), static_cast<double>(epoch_size));
  RefuseIf(samples > kMost, c.run.samples ? "run.samples" : "run.epochs",
           fmt::format("{} samples", samples), "at most 1e+15 samples");
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
  options.recompute = c.schedule.recompute;
  options.gradient_shrink = c.schedule.gradient_shrink;
  for (const std::int64_t stage : c.schedule.recompute_stages) {
    options.recomputed_workers.push_back(
        static_cast<int>(std::min<std::int64_t>(stage, std::numeric_limits<int>::max())));
  }
  options.watchdog_seconds = c.run.watchdog_seconds;
  options.batch = c.optimizer.batch;
  const bool is_whole = UpdatesEach(c.schedule.kind) ||
                        HasLayer(options.network, hwmodel::LayerKind::kBatchNormalization);
  options.microbatch = c.schedule.microbatch.value_or(is_whole ? c.optimizer.batch : 1);
  options.schedule = ScheduleOf(c, options);
  options.random_delays = RandomDelaysOf(c);
  if (c.schedule.compensate == "own") options.compensation = analysis::DelayCompensation::kOwn;
  CheckRateSchedule(c);
  options.rule = RuleOf(c);
  options.optimizer = OptimizerOf(c);
  RefuseIf(c.schedule.weight_stashing && options.optimizer.optimizer.sets_backward_weights,
           "schedule.weight_stashing", "true",
           fmt::format("false with optimizer.kind = {}, whose backwards read weights of "
                       "their own",
                       c.optimizer.kind));
  options.momentum = RateAndMomentumOf(c).momentum;
  options.deepest_momentum = c.optimizer.deepest_momentum;
  options.samples = options.batch;  // until SetLengths
  options.weight_decay = c.optimizer.weight_decay;
  options.max_gradient_norm = c.optimizer.max_gradient_norm;
  options.seed = static_cast<std::uint64_t>(c.run.seed);
  const bool is_double = c.run.precision == "double";
  options.precision = is_double ? training::Precision::kDouble : training::Precision::kSingle;
  RefuseIf(is_double && c.run.convolution.value_or("reference") != "reference", "run.convolution",
           c.run.convolution, "reference with run.precision = double");
  if (is_double) options.convolution = ConvolutionMethod::kReference;
  for (const auto& [name, method] : kConvolutionMethods) {
    if (c.run.convolution == name) options.convolution = method;
  }
  ByKeys([&](std::string_view name) { return KeyOf(c, name); },
         [&] { training::Validate(options); });
  return options;
}

// What a built-in network was made of.
void FillInNetwork(Configuration& c, const hwmodel::Network& network) {
  c.network.name = network.name;
  c.network.norm = Name(Normalization::kNone);
  std::vector<std::int64_t> widths;  // of its linear layers
  std::int64_t blocks = 0;
  for (const hwmodel::Stage& stage : network.stages) {
    for (const hwmodel::Layer& layer : stage.layers) {
      const Normalization normalization = hwmodel::TraitsOf(layer.kind).normalization;
      if (normalization != Normalization::kNone) c.network.norm = Name(normalization);
      if (normalization == Normalization::kGroup) c.network.groups = layer.groups;
      if (layer.kind == LayerKind::kLinear) widths.push_back(layer.output.channels);
      if (layer.kind != LayerKind::kAttention) continue;
      c.network.heads = layer.heads;
      ++blocks;
    }
  }
  if (c.network.name == "mlp") {
    widths.pop_back();  // the classes
    c.network.hidden = widths;
  }
  if (c.network.name == "gpt") {
    c.network.context = network.input.height;
    c.network.vocabulary = network.classes;
    c.network.width = network.values[network.stages[0].outputs[0]].shape.channels;
    c.network.layers = blocks;
  }
}

void FillInPhase(Configuration& c, const training::TrainerOptions& options,
                 std::int64_t epoch_size) {
  if (c.network.file.empty()) FillInNetwork(c, options.network);
  if (c.data.name == "imagefolder" && !c.data.image_size) c.data.image_size = kDefaultImageSize;
  if (c.data.name == "synthetic" || c.data.name == "markov") c.data.seed = DataSeedOf(c);
  c.schedule.microbatch = options.microbatch;
  if (options.random_delays && !c.schedule.compensate) c.schedule.compensate = "mean";
  FillInOptimizer(c, options.optimizer.optimizer, {options.learning_rate.base, options.momentum});
  if (!c.run.samples && !c.run.epochs && epoch_size > 0) c.run.epochs = 1;
  for (const auto& [name, method] : kConvolutionMethods) {
    if (options.convolution == method) c.run.convolution = name;
  }
  const auto default_to = [](std::optional<std::int64_t>& interval, std::int64_t value) {
    if (!interval) interval = value;
  };
  if (epoch_size == 0) return;
  default_to(c.run.checkpoint_every_samples, epoch_size);
  default_to(c.run.log_every_samples, (epoch_size + 9) / 10);
  default_to(c.run.validate_every_samples, epoch_size);
}

// A run on samples of the caller's own, who has not said how many there will be.
void SetEndless(const Configuration& c, std::vector<training::TrainerOptions>& phases) {
  const auto refuse = [](const std::string& key, const std::string& value) {
    throw UsageError(key, value, "run.samples with it, for samples of your own");
  };
  if (c.run.epochs) refuse("run.epochs", analysis::ToText(*c.run.epochs));
  if (phases.size() > 1) refuse("phase", fmt::format("{} phases", phases.size()));
  if (c.optimizer.schedule != "steps") refuse("optimizer.schedule", c.optimizer.schedule);
  if (!c.optimizer.decay_points.empty()) {
    refuse("optimizer.decay_points",
           fmt::format("[{}]", fmt::join(c.optimizer.decay_points, ", ")));
  }
  phases.front().samples = 0;
  phases.front().learning_rate = LearningRateOf(c, std::numeric_limits<std::int64_t>::max());
}

}  // namespace

hwmodel::Network NetworkOf(const Configuration& c, const DataShape& shape) {
  hwmodel::Network network =
      c.network.file.empty() ? NamedNetwork(c, shape) : FileNetwork(c, shape);
  if (hwmodel::LabelsOf(network) != shape.labels) throw OtherLabels(c, shape, network.name);
  return network;
}

std::vector<training::TrainerOptions> TrainerOptionsOf(
    const Configuration& c, const DataShape& shape,
    const std::shared_ptr<training::ProcessGroup>& processes) {
  std::vector<training::TrainerOptions> phases;
  ForEachPhase(c, [&](const Configuration& settings, std::size_t) {
    phases.push_back(PhaseOptionsOf(settings, shape, processes));
    const training::TrainerOptions& phase = phases.back();
    RefuseIf(
        !c.phases.empty() && phase.deepest_momentum && phase.optimizer.optimizer.counts_updates,
        "optimizer.deepest_momentum", phase.deepest_momentum,
        fmt::format("nothing in a run of several phases with optimizer.kind = {}, whose "
                    "stages would have counted with betas of their own",
                    settings.optimizer.kind));
  });
  return phases;
}

void SetLengths(const Configuration& c, std::int64_t epoch_size,
                std::vector<training::TrainerOptions>& phases) {
  if (epoch_size == 0 && !c.run.samples) {
    SetEndless(c, phases);
    return;
  }
  const double samples = RunSamples(c, epoch_size);
  std::int64_t end = 0;
  for (std::size_t p = 0; p < phases.size(); ++p) {
    training::TrainerOptions& phase = phases[p];
    const double until = c.phases.empty() ? 1 : c.phases[p].until;
    const auto goal = static_cast<std::int64_t>(CeilOfProduct(until, samples));
    if (goal <= end) {
      const double ended = static_cast<double>(end) / samples;
      if (ended >= 1) {
        throw UsageError(fmt::format("phase.{}.until", p), analysis::ToText(c.phases[p - 1].until),
                         "a share whose mini-batches leave samples for the phases after it");
      }
      throw UsageError(fmt::format("phase.{}.until", p + 1), analysis::ToText(until),
                       fmt::format("more than {}, where the mini-batches of the phase before end",
                                   analysis::ToText(ended)));
    }
    phase.first_sample = end;
    phase.samples = (goal - end + phase.batch - 1) / phase.batch * phase.batch;
    end += phase.samples;
    if (p == 0) continue;
    const training::TrainerOptions& before = phases[p - 1];
    const std::int64_t updates = before.samples / before.batch;
    phase.past = training::PastAfter(before.optimizer, before.past, updates, phase.optimizer, 2);
    phase.past_of_vectors =
        training::PastAfter(before.optimizer, before.past_of_vectors, updates, phase.optimizer, 1);
  }
  ForEachPhase(c, [&](const Configuration& settings, std::size_t p) {
    phases[p].learning_rate = LearningRateOf(settings, end);
    ByKeys([&](std::string_view name) { return KeyOf(settings, name); },
           [&] {
             training::Validate(phases[p].learning_rate);
             training::ValidatePrecision(phases[p]);
           });
  });
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
