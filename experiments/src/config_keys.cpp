// The table of keys.
#include <algorithm>
#include <iterator>
#include <span>
#include <variant>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/rule.h"
#include "batchless/hwmodel/network.h"
#include "batchless/training/optimizer.h"
#include "config.h"
#include "delays_argument.h"
#include "run_data.h"

namespace batchless {
namespace {

constexpr IntegerRange kAnyCount{0, std::int64_t{1} << 53};
constexpr IntegerRange kCount{1, std::int64_t{1} << 53};
constexpr NumberRange kFraction{0, 1};
constexpr NumberRange kRates{0, 1e6};
constexpr NumberRange kNorms{1e-30, 1e30};
constexpr NumberRange kScales{0, analysis::kMaxScale};
constexpr NumberRange kCoefficients{-analysis::kMaxCoefficient, analysis::kMaxCoefficient};
constexpr NumberRange kDelays{0, analysis::kMaxCoefficient};
constexpr std::monostate kAny{};  // any text; true and false of a flag

Choices RuleChoices() {
  Choices choices;
  for (const analysis::Rule& rule : analysis::AllRules()) {
    if (rule.name != analysis::LinearRule().name) choices.push_back(rule.name);
  }
  return choices;
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

}  // namespace

std::vector<ConfigurationKey> KeysOf(Configuration& c) {
  // changes_results of the keys that do not; of a file the content counts, whose digest a run keeps.
  constexpr bool kAnyResult = false;
  const std::span<const std::string_view> networks = hwmodel::NetworkNames();
  std::vector<ConfigurationKey> keys{
      {"network", "name", &c.network.name, Choices(networks.begin(), networks.end()),
       "which network; resnet20"},
      {"network", "file", &c.network.file, kAny,
       "in place of a name: a network of your own, PATH.toml or PATH.onnx (batchless network "
       "--help)",
       kAnyResult},
      {"network", "norm", &c.network.norm, Choices{"group", "batch", "none"},
       "normalisation; group for ResNet and VGG"},
      {"network", "groups", &c.network.groups, kCount,
       "groups of each group normalisation; half of the first width, at most 32"},
      {"network", "hidden", &c.network.hidden, kCount, "widths of the hidden layers of an MLP"},
      {"network", "layers", &c.network.layers, IntegerRange{1, 1000}, "blocks of a gpt; 6"},
      {"network", "width", &c.network.width, IntegerRange{1, 1 << 18},
       "channels of each token of a gpt; 128"},
      {"network", "heads", &c.network.heads, IntegerRange{1, 1 << 18},
       "of a gpt's attention; width / 32"},
      {"network", "token_norm", &c.network.token_norm, Choices{"layer", "rms"},
       "norm of a gpt, nn.LayerNorm or nn.RMSNorm(eps=1e-5)"},
      {"network", "norm_first", &c.network.norm_first, kAny,
       "a gpt's norms come before each branch and last, or else behind each sum"},
      {"network", "activation", &c.network.activation, Choices{"gelu", "squared_relu"},
       "of a gpt's MLPs, nn.GELU(approximate=\"tanh\") or max(0, x)^2"},
      {"network", "tie_word_embeddings", &c.network.tie_word_embeddings, kAny,
       "a gpt's scores are by the rows of its embedding, which go with each sample"},
      {"network", "context", &c.network.context, IntegerRange{2, 4096},
       "tokens of a sequence; 128, or the network file's"},
      {"network", "vocabulary", &c.network.vocabulary, IntegerRange{2, 1 << 20},
       "tokens that there are; 256 of text, 64 of markov, or one more than the largest"},

      {"data", "name", &c.data.name,
       Choices{"synthetic", "cifar10", "mnist", "imagefolder", "text", "markov", "tokens",
               kOwnSamples},
       "which data set; for gpt a text, a built-in Markov source of 2 bits a token, or a list of "
       "tokens; own: samples that a caller from Python learns one by one"},
      {"data", "root", &c.data.root, kAny, "folder that the data sets lie in", kAnyResult},
      {"data", "file", &c.data.file, kAny,
       "text: any file, whose bytes are tokens; tokens: a list of them, PATH.npy; the last tenth "
       "validates",
       kAnyResult},
      {"data", "image_size", &c.data.image_size, IntegerRange{1, 4096},
       "edge of the images of imagefolder, pixels; 224"},
      {"data", "seed", &c.data.seed, kSeedRange, "of the synthetic set or the Markov source; 1"},
      {"data", "augment", &c.data.augment, kAny, "crop and mirror training samples"},
      {"data", "order", &c.data.order, Choices{"shuffled", "sequential"},
       "anew in each epoch, or sample i mod n at step i"},
      {"data", "limit_train", &c.data.limit_train, kAnyCount,
       "training samples in an epoch, the first ones of the set; 0: all"},
      {"data", "limit_validation", &c.data.limit_validation, kAnyCount,
       "validation samples, the first ones; 0: all"},

      {"schedule", "kind", &c.schedule.kind,
       Choices{"sequential", "fill-drain", "gpipe", "pipedream-flush", "interleaved", "zb-h1",
               "zb-v", "dualpipe-v", "pb", "1f1b", "2bw", "paci", "amdp", "zhang", "uniform-delay",
               "random-delay", "file"},
       "who does what when; zhang: pb over groups of stages; interleaved: each worker of the list "
       "has two stages"},
      {"schedule", "microbatch", &c.schedule.microbatch, kCount,
       "samples that pass through a stage together; 1, or the whole batch with schedules that "
       "update after every micro-batch and with batch normalisation"},
      {"schedule", "workers", &c.schedule.workers, IntegerRange{1, 1024},
       "threads that share the stages, in each process", kAnyResult},
      {"schedule", "pin", &c.schedule.pin, kAny, "each of them stays on a processor of its own",
       kAnyResult},
      {"schedule", "balance", &c.schedule.balance, Choices{"measured", "flops"},
       "what they share equally: times of the stages, measured before long runs, or FLOPs",
       kAnyResult},
      {"schedule", "machine", &c.schedule.machine, kAny,
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
      {"schedule", "weight_stashing", &c.schedule.weight_stashing, kAny,
       "backwards read the weights of their forwards; pb, 1f1b, paci, amdp, zhang, uniform-delay; "
       "with random-delay they do"},
      {"schedule", "vertical_sync", &c.schedule.vertical_sync, kAny,
       "with weight_stashing: all stages read the version that the first one read; pb, 1f1b, "
       "zhang"},
      {"schedule", "recompute", &c.schedule.recompute, kAny,
       "backwards make what their stage's forwards made once more, in place of keeping it; gpipe, "
       "pipedream-flush, interleaved, zb-h1, zb-v, dualpipe-v, 2bw, random-delay, or with "
       "weight_stashing, where a run goes on with the same recompute_stages and, in groups of "
       "stages, which are shared by FLOPs then, the same workers",
       kAnyResult},
      {"schedule", "recompute_stages", &c.schedule.recompute_stages, kAnyCount,
       "with recompute: the pipeline's stages that do, ascending from 0; all", kAnyResult},
      {"schedule", "gradient_shrink", &c.schedule.gradient_shrink, kFraction,
       "what gradients are multiplied by that a stage of the pipeline hands to the one before it, "
       "as FDG does; each has to hand on one value only"},
      {"schedule", "delay", &c.schedule.delay, kAnyCount,
       "uniform-delay: age of the forwards' weights, updates"},
      {"schedule", "delays", &c.schedule.delays, kAny,
       "random-delay: age of the weights that both passes of an update read, drawn by run.seed for "
       "each update, the same for all stages: uniform:LO:HI, geometric:P, or F.csv with columns "
       "delay, probability"},
      {"schedule", "compensate", &c.schedule.compensate,
       Choices(std::begin(kCompensateChoices), std::end(kCompensateChoices)),
       "random-delay: the rule's coefficients are made for the mean delay, or for each gradient's "
       "own; mean"},
      {"schedule", "stages", &c.schedule.stages, kCount,
       "stages of the pipeline, groups of equal work; the network's own. Not for sequential, "
       "fill-drain, uniform-delay, random-delay, file"},
      {"schedule", "placement", &c.schedule.placement, kCount,
       "in place of stages: how many of the network's come before each pipeline register"},
      {"schedule", "file", &c.schedule.file, kAny,
       "with kind file: a list of actions as `batchless schedule --out F.csv` writes it",
       kAnyResult},

      {"rule", "name", &c.rule.name, RuleChoices(),
       "update rule; spectrain, with delays: sgdm, and both passes predict to the step of the "
       "sample's last backward, or forwards alone, to their update, with stashed weights; xpipe: "
       "both by the place of their stage in the pipeline"},
      {"rule", "sc_delay", &c.rule.options.sc_delay, kDelays,
       "delay that spike compensation is made for, updates"},
      {"rule", "horizon", &c.rule.options.horizon, kDelays,
       "horizon of weight prediction, updates"},
      {"rule", "sc_a", &c.rule.options.sc_a, kCoefficients, "coefficient a itself"},
      {"rule", "sc_b", &c.rule.options.sc_b, kCoefficients, "coefficient b itself"},
      {"rule", "sc_delay_scale", &c.rule.options.sc_delay_scale, kScales,
       "sc_delay in units of each stage's delay"},
      {"rule", "horizon_scale", &c.rule.options.horizon_scale, kScales,
       "horizon in units of each stage's delay"},

      {"optimizer", "kind", &c.optimizer.kind, analysis::NamesOf(training::Optimizers()),
       "what an update makes of a gradient; batchless optimizers lists them"},
      {"optimizer", "file", &c.optimizer.file, kAny,
       "with kind linear: quotients by delay, as `batchless design --json` writes them",
       kAnyResult},
      {"optimizer", "batch", &c.optimizer.batch, IntegerRange{1, 1 << 20}, "samples of one update"},
      {"optimizer", "lr", &c.optimizer.lr, kRates,
       "learning rate; 0.1, 0.001 with adam, adamw and basis-rotation, 0.002 with nadam and "
       "nadamw, 0.02 with muon"},
      {"optimizer", "momentum", &c.optimizer.momentum, kFraction,
       "momentum, below 1; 0.9; adam and its kin have beta1"},
      {"optimizer", "deepest_momentum", &c.optimizer.deepest_momentum, kFraction,
       "momentum, or beta1, that stages come the nearer the later their gradients: m + D (this - "
       "m) / (1 + the largest D); none: all have the same"},
      {"optimizer", "reference_lr", &c.optimizer.reference_lr, kRates,
       "in place of lr and momentum: those of another batch size, scaled to this one; with adam "
       "and its kin in place of lr, and beta1 and beta2 are those of reference_batch, too"},
      {"optimizer", "reference_momentum", &c.optimizer.reference_momentum, kFraction,
       "with reference_lr"},
      {"optimizer", "reference_batch", &c.optimizer.reference_batch, kCount, "with reference_lr"},
      {"optimizer", "reference_exponent", &c.optimizer.reference_exponent, kFraction,
       "with reference_lr and adam or its kin: the rate scales by (batch / reference_batch) to "
       "this power; 0.5"},
      {"optimizer", "weight_decay", &c.optimizer.weight_decay, kFraction,
       "L2 penalty; decoupled with adamw, nadamw, muon and basis-rotation"},
      {"optimizer", "max_gradient_norm", &c.optimizer.max_gradient_norm, kNorms,
       "each stage's gradient of a mini-batch is clipped to it; none: none is"},
      {"optimizer", "schedule", &c.optimizer.schedule,
       Choices{"steps", "cosine", "warmup-cosine", "one-cycle"},
       "shape of the learning rate over the run; cosine falls from the first sample on, "
       "warmup-cosine from the end of the warm-up"},
      {"optimizer", "decay_points", &c.optimizer.decay_points, kFraction,
       "steps: where the rate drops, in units of the run"},
      {"optimizer", "decay_factor", &c.optimizer.decay_factor, kFraction, "steps: by what"},
      {"optimizer", "start", &c.optimizer.start, kFraction,
       "one-cycle: first rate, in units of lr"},
      {"optimizer", "peak", &c.optimizer.peak, kFraction,
       "one-cycle: where the rate is lr, in units of the run"},
      {"optimizer", "final", &c.optimizer.final, kFraction,
       "cosine, warmup-cosine, one-cycle: last rate, in units of lr"},
      {"optimizer", "warmup_samples", &c.optimizer.warmup_samples, kAnyCount,
       "samples over which the rate rises from 0 first"},

      {"run", "epochs", &c.run.epochs, NumberRange{1e-6, 1e6}, "length of the run; 1"},
      {"run", "samples", &c.run.samples, kCount,
       "in place of epochs; either is rounded up to whole batches"},
      {"run", "seed", &c.run.seed, kSeedRange,
       "of initial weights, order, augmentation and dropout"},
      {"run", "precision", &c.run.precision, Choices{"float", "double"}, "of all arithmetic"},
      {"run", "convolution", &c.run.convolution, Choices{"winograd", "direct", "reference"},
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
      {"run", "log_samples", &c.run.log_samples, kAny,
       "write samples.csv, with label and loss of each sample"},
  };
  const std::vector<ConfigurationKey> hyperparameters = HyperparameterKeys(c);
  const auto after = std::find_if(keys.begin(), keys.end(), [](const ConfigurationKey& key) {
    return key.section == "optimizer" && key.name == "schedule";
  });
  keys.insert(after, hyperparameters.begin(), hyperparameters.end());
  return keys;
}

}  // namespace batchless
