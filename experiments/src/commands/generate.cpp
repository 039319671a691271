#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "batchless/hwmodel/network.h"
#include "batchless/training/forward_pass.h"
#include "batchless/training/random.h"
#include "batchless/training/token_dataset.h"
#include "commands/commands.h"
#include "durable_file.h"
#include "run_directory.h"
#include "training_run.h"
#include "values.h"
#include "weights_file.h"

namespace batchless {
namespace {

using hwmodel::Network;
using training::NamedTensor;

class GenerateCommand final : public Command {
 public:
  explicit GenerateCommand(CLI::App& root)
      : Command(
            root, "generate", "Let a trained gpt go on with a text",
            R"(Draws one token after the other, each from what the network says of the text before
it, as much of that as its context holds. The network is that of the run in DIR, with
the weights of its checkpoint or of --weights; without --run it is the gpt whose
tensors --weights has, with --heads and GELU. Of a vocabulary of 256 tokens are bytes, of any other
--prompt and the result are numbers. --temperature divides the scores before they
become probabilities; at 0 the most probable token is taken. The run's data may be gone
or others; where the run was as many epochs long, data as many as those are needed.)",
            {"generate --run runs/gpt --prompt \"In the beginning\" --tokens 200",
             "generate --run runs/gpt --weights gpt.npz --prompt \"3 1 4\" --temperature 0 "
             "--json"}) {}

  void Run() override {
    const std::string& prompt = prompt_.Text("the text to go on with");
    const std::int64_t count = tokens_.IntegerOr(256, {1, 1'000'000});
    const double temperature = temperature_.NumberOr(1, {0, 100});
    const auto seed = static_cast<std::uint64_t>(seed_.IntegerOr(1, kSeedRange));
    std::vector<NamedTensor> weights;
    const Network network = run_.given() ? NetworkOfRun(weights) : NetworkOfWeights(weights);
    if (network.stages.front().layers.front().kind != hwmodel::LayerKind::kEmbedding) {
      throw UsageError(run_.name(), run_.Text(""),
                       "a run of a network of tokens, gpt for instance");
    }
    const Argument& from = weights_.given() ? weights_ : run_;
    training::ForwardPass pass = Within(fmt::format("{}: {}", from.name(), from.Text("")),
                                        [&] { return training::ForwardPass(network, weights); });
    std::vector<int> tokens = TokensOf(prompt, network.classes);
    const std::size_t given = tokens.size();
    training::CounterRandom random(seed, training::RandomStream::kMarkov, 1U << 20);
    for (std::int64_t i = 0; i < count; ++i) {
      tokens.push_back(Next(network, pass, tokens, temperature, random));
    }
    const auto drawn = std::span(tokens).subspan(given);
    if (json()) {
      json().Put({{"network", network.name}, {"prompt", prompt}, {"tokens", drawn}});
    } else if (network.classes == training::kTextVocabulary) {
      PrintText("{}{}\n", prompt, std::string(drawn.begin(), drawn.end()));
    } else {
      PrintText("{} {}\n", prompt, fmt::join(drawn, " "));
    }
  }

 private:
  // The run's configuration says what network it is; its folder is left as it is.
  Network NetworkOfRun(std::vector<NamedTensor>& weights) const {
    heads_.Refuse("nothing together with --run, whose configuration says it");
    const std::string& folder = run_.Text("the folder of a run");
    const RunDirectory directory(folder);
    const bool is_trained = Exists(directory.checkpoint()) || weights_.given();
    RefuseIf(!Exists(directory.config()) || !is_trained, run_.name(), folder,
             "the folder of a run, with config.toml and checkpoint");
    TrainingRunOptions options;
    options.configuration = LoadConfiguration(directory.config());
    const auto set_alone = [](Configuration& configuration) {
      configuration.schedule.replicas = 1;
      // What a checkpoint holds of values that are made again depends on how workers share the stages.
      if (configuration.schedule.recompute) return;
      configuration.schedule.workers = 1;
      configuration.schedule.machine.clear();
    };
    set_alone(options.configuration);
    for (Configuration::Phase& phase : options.configuration.phases) set_alone(phase.settings);
    options.out = folder;
    options.resume = true;
    options.resumed_by = run_.name();
    options.for_weights = true;
    weights = weights_.given() ? ReadTensors(weights_.name(), weights_.Text(""))
                               : TrainingRun(options).trainer().ExportWeights();
    return NetworkOf(options.configuration, DataShapeOf(options.configuration));
  }

  // From the shapes of a gpt's tensors.
  Network NetworkOfWeights(std::vector<NamedTensor>& weights) const {
    const std::string& path = weights_.Text("weights, or --run DIR");
    weights = ReadTensors(weights_.name(), path);
    const auto shape_of = [&](std::string_view name) {
      for (const NamedTensor& tensor : weights) {
        if (tensor.name == name && tensor.shape.size() == 2) return tensor.shape;
      }
      throw UsageError(weights_.name(), path, fmt::format("a gpt's weights, with {}", name));
    };
    const std::vector<std::int64_t> words = shape_of("wte.weight");
    const std::vector<std::int64_t> places = shape_of("wpe.weight");
    int layers = 0;
    bool has_bias = false;
    bool has_last_norm = false;
    bool is_tied = true;
    for (const NamedTensor& tensor : weights) {
      if (tensor.name.ends_with(".attn.c_attn.weight")) ++layers;
      if (tensor.name == "h.0.ln_1.bias") has_bias = true;
      if (tensor.name == "ln_f.weight") has_last_norm = true;
      if (tensor.name == "lm_head.weight") is_tied = false;
    }
    try {
      return hwmodel::MakeNetwork({.name = "gpt",
                                   .input = {1, static_cast<int>(places[0]), 1},
                                   .classes = static_cast<int>(words[0]),
                                   .layers = layers,
                                   .width = static_cast<int>(words[1]),
                                   .heads = static_cast<int>(heads_.IntegerOr(0, {1, 1 << 20})),
                                   .rms_norm = !has_bias,
                                   .norm_first = has_last_norm,
                                   .tied_embeddings = is_tied});
    } catch (const analysis::InvalidArgument& error) {
      if (error.name() == "network.heads") {
        throw UsageError(heads_.name(), error.value(), error.accepted());
      }
      throw UsageError(weights_.name(), path, fmt::format("a gpt's weights ({})", error.what()));
    }
  }

  std::vector<int> TokensOf(const std::string& prompt, int vocabulary) const {
    std::vector<int> tokens;
    if (vocabulary == training::kTextVocabulary) {
      for (const char c : prompt) tokens.push_back(static_cast<unsigned char>(c));
    } else {
      for (const std::string_view word : SplitList(prompt, ' ')) {
        if (word.empty()) continue;
        tokens.push_back(static_cast<int>(ParseInteger(prompt_.name(), word, {0, vocabulary - 1})));
      }
    }
    if (tokens.empty()) throw UsageError(prompt_.name(), prompt, "at least one token");
    return tokens;
  }

  // What comes behind the last tokens; no token sees those behind it, whatever they are.
  static int Next(const Network& network, training::ForwardPass& pass, std::span<const int> tokens,
                  double temperature, training::CounterRandom& random) {
    const auto context = static_cast<std::size_t>(network.input.height);
    const std::span<const int> seen = tokens.last(std::min(context, tokens.size()));
    std::vector<float> input(context);
    std::copy(seen.begin(), seen.end(), input.begin());
    const auto classes = static_cast<std::size_t>(network.classes);
    const std::span<const float> scores =
        pass.Scores(input).subspan((seen.size() - 1) * classes, classes);
    const auto best = std::max_element(scores.begin(), scores.end());
    if (temperature == 0) return static_cast<int>(best - scores.begin());
    std::vector<double> weights;
    double sum = 0;
    for (const float score : scores) {
      weights.push_back(std::exp((double{score} - *best) / temperature));
      sum += weights.back();
    }
    double rest = random.Uniform() * sum;
    std::size_t token = 0;
    while (token + 1 < classes && rest >= weights[token]) rest -= weights[token++];
    return static_cast<int>(token);
  }

  Argument run_{app(), "--run", "DIR", "Folder of the run"};
  Argument weights_{app(), "--weights", "W.npz|safetensors",
                    "Weights in place of those of the run's checkpoint, or of a gpt"};
  Argument heads_{app(), "--heads", "H",
                  "Of the gpt of --weights, which does not say it (default: width / 32)"};
  Argument prompt_{app(), "--prompt", "TEXT", "Text to go on with, or numbers of tokens; required"};
  Argument tokens_{app(), "--tokens", "N", "How many to draw (default: 256)"};
  Argument temperature_{app(), "--temperature", "T", "0 to 100 (default: 1)"};
  Argument seed_{app(), "--seed", "S", "Of the random draws (default: 1)"};
};

}  // namespace

const CommandMaker kGenerateCommand = MakeCommand<GenerateCommand>;

}  // namespace batchless
