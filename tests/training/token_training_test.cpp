// Sequences and their training: data, every optimizer and schedule, the same bits however the work is
// shared, single precision beside double.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/training/data_error.h"
#include "batchless/training/forward_pass.h"
#include "batchless/training/token_dataset.h"
#include "batchless/training/trainer.h"
#include "catch.h"
#include "refusal.h"
#include "runs.h"
#include "temporary_folder.h"
#include "test_schedules.h"
#include "thread_group.h"

namespace batchless::training {
namespace {

constexpr int kContext = 16;

std::vector<std::int64_t> Counted(std::int64_t count, std::int64_t vocabulary) {
  std::vector<std::int64_t> tokens(count);
  for (std::int64_t i = 0; i < count; ++i) tokens[i] = i * i % vocabulary;
  return tokens;
}

TEST_CASE("Windows lie one behind the other, labels one later, the last tenth apart", "[token]") {
  const std::vector<std::int64_t> tokens = Counted(1005, 97);
  const auto train = MakeTokens("text", "f", tokens, Split::kTrain, 10, 97);
  const auto validation = MakeTokens("text", "f", tokens, Split::kValidation, 10, 97);
  CHECK(train->size() == (905 - 1) / 10);
  CHECK(validation->size() == (100 - 1) / 10);
  CHECK(train->labels_per_sample() == 10);
  CHECK(train->digest() != validation->digest());
  for (const auto order : {Order::kSequential, Order::kShuffled}) {
    const DatasetSource source(train, {.seed = 4, .order = order, .augment = true});
    std::set<std::int64_t> seen;
    for (std::int64_t p = 0; p < 2 * train->size(); ++p) {
      const Sample sample = source.At(p);
      if (order == Order::kSequential) CHECK(sample.index == p % train->size());
      if (p < train->size()) seen.insert(sample.index);
      std::vector<float> input(10);
      std::vector<std::int32_t> labels(10);
      source.Read(p, input);
      source.ReadLabels(p, labels);
      for (int t = 0; t < 10; ++t) {
        REQUIRE(input[t] == static_cast<float>(tokens[sample.index * 10 + t]));
        REQUIRE(labels[t] == tokens[sample.index * 10 + t + 1]);
      }
      CHECK(sample.label == labels.back());
    }
    CHECK(std::ssize(seen) == train->size());
  }
}

TEST_CASE("Texts that cannot be read are refused by name", "[token]") {
  const test::TemporaryFolder folder;
  folder.Write("empty", test::Bytes{});
  folder.Write("text", test::Bytes{72, 105, 255, 0});
  const auto message = [](auto work) { return test::MessageOf<std::exception>(work); };
  CHECK(ReadTextTokens(folder.path() / "text") == std::vector<std::int64_t>{72, 105, 255, 0});
  CHECK(message([&] { ReadTextTokens(folder.path() / "empty"); }).ends_with("the file is empty"));
  CHECK(message([&] { ReadTextTokens(folder.path() / "none"); }).ends_with("no such file"));
  CHECK(
      message([&] { MakeTokens("t", "f", Counted(109, 7), Split::kTrain, 10, 7); }) ==
      "f: 109 tokens, whose last tenth is shorter than a window of 10 and the token behind it: at "
      "least 110");
  CHECK(MakeTokens("t", "f", Counted(110, 7), Split::kValidation, 10, 7)->size() == 1);
  std::vector<std::int64_t> tokens = Counted(200, 7);
  tokens[150] = 7;
  CHECK(message([&] { MakeTokens("t", "f", tokens, Split::kTrain, 10, 7); }) ==
        "f: record 150: the token is 7, not 0 to 6");
  CHECK_THROWS_AS(MakeMarkov(1, Split::kTrain, 16, 16), analysis::InvalidArgument);
  CHECK_THROWS_AS(MakeMarkov(1, Split::kTrain, 0, 16), analysis::InvalidArgument);
}

TEST_CASE("The Markov source has the entropy that it says, and an order of two", "[token]") {
  constexpr std::int64_t kTokens = 1 << 20;
  const auto data = MakeMarkov(3, Split::kTrain, kTokens - 1, kTokens);
  CHECK(data->digest() != MakeMarkov(4, Split::kTrain, kTokens - 1, kTokens)->digest());
  std::vector<std::int32_t> tokens(kTokens);
  data->ReadTokens(0, tokens);
  std::vector<std::int32_t> prefix(101);
  MakeMarkov(3, Split::kTrain, 100, 500)->ReadTokens(0, prefix);
  CHECK(std::equal(prefix.begin(), prefix.end(), tokens.begin()));
  // Conditional entropies of counts: of a token alone, after one, after two.
  const auto entropy = [&](std::size_t order) {
    std::map<std::int64_t, std::map<int, std::int64_t>> counts;
    for (std::size_t i = 2; i < tokens.size(); ++i) {
      std::int64_t before = 0;
      for (std::size_t k = 1; k <= order; ++k) before = before * kMarkovVocabulary + tokens[i - k];
      ++counts[before][tokens[i]];
    }
    double bits = 0;
    for (const auto& [before, after] : counts) {
      double all = 0;
      for (const auto& [token, count] : after) all += static_cast<double>(count);
      for (const auto& [token, count] : after) {
        bits -= static_cast<double>(count) * std::log2(static_cast<double>(count) / all);
      }
    }
    return bits / (kTokens - 2);
  };
  CHECK(entropy(0) > 5.9);
  CHECK(entropy(1) > 3);
  // Counts of N tokens after 4096 pairs fall short by some k / (2 N ln 2) bits of k cells seen, 12 a pair.
  CHECK(std::abs(entropy(2) - data->entropy_bits()) < 4096 * 12 / (2 * kTokens * 0.69) + 0.005);
}

hwmodel::Network SmallGpt(int layers = 1, bool is_tied = false) {
  return hwmodel::MakeNetwork({.name = "gpt",
                               .input = {1, kContext, 1},
                               .classes = kMarkovVocabulary,
                               .layers = layers,
                               .width = 16,
                               .heads = 2,
                               .tied_embeddings = is_tied});
}

DatasetSource Tokens() {
  static const std::shared_ptr<const Dataset> kData =
      MakeMarkov(1, Split::kTrain, kContext, 40 * kContext + 1);
  return {kData, {.seed = 2, .order = Order::kShuffled}};
}

TrainerOptions Options(const std::string& kind, std::int64_t batch, std::int64_t samples,
                       const hwmodel::Network& network = SmallGpt()) {
  TrainerOptions options;
  options.network = network;
  if (kind != "sequential") options.schedule = ScheduleOf(kind, network.stage_count(), batch);
  options.batch = batch;
  options.samples = samples;
  options.learning_rate.base = 1e-3;
  options.seed = 11;
  return options;
}

Outcome Run(const TrainerOptions& options) { return Train(options, options.samples, Tokens()); }

TEST_CASE("Every optimizer and every schedule trains sequences, with any number of workers",
          "[token]") {
  // Without delay, with one, and with two versions every optimizer; elsewhere one for numbers and one for matrices.
  struct Kind {
    std::string name;
    std::int64_t batch;
    bool has_all = false;
  };
  std::set<std::string> weights;
  int runs = 0;
  for (const Kind& kind : {Kind{"sequential", 4, true},
                           {"gpipe", 4},
                           {"pipedream-flush", 4},
                           {"zb-h1", 8},
                           {"pb", 1, true},
                           {"1f1b", 1},
                           {"2bw", 8, true},
                           {"paci", 2}}) {
    for (const Optimizer& optimizer : Optimizers()) {
      // Its quotients are a design's.
      if (optimizer.takes_quotients) continue;
      if (!kind.has_all && optimizer.name != "adamw" && optimizer.name != "muon") continue;
      INFO(kind.name << ", " << optimizer.name);
      TrainerOptions options = Options(kind.name, kind.batch, 24);
      options.optimizer.optimizer = optimizer;
      // Backwards cannot read weights of their own and those of two versions.
      if (kind.name == "2bw" && optimizer.sets_backward_weights) {
        CHECK_FALSE(options.IsValid(nullptr));
        continue;
      }
      const Outcome alone = Run(options);
      CHECK(alone.results.size() == 24);
      // An untrained network knows nothing: the logarithm of 64.
      CHECK(alone.results.front().loss == Approx(std::log(64)).epsilon(0.02));
      options.workers = 3;
      CHECK(Run(options) == alone);
      weights.insert(alone.weights);
      ++runs;
    }
  }
  // The schedules that drain sum the same gradients in the same order, and some optimizers are SGDM there.
  CHECK(std::ssize(weights) >= runs / 2);
}

// Two processes, and other workers after `half` samples from a saved state.
void CheckShared(const TrainerOptions& options, const Outcome& alone, std::int64_t half,
                 int workers) {
  RunAsProcesses(2, [&](const std::shared_ptr<ProcessGroup>& group) {
    TrainerOptions own = options;
    own.processes = group;
    const bool same = Run(own) == alone;
    if (group->rank() == 0) CHECK(same);
  });
  CHECK(TrainInHalves(options, half, options.samples, workers, Tokens()) == alone);
}

TEST_CASE("Processes share sequences, and a saved state goes on, with the bits of one", "[token]") {
  TrainerOptions options = Options("pb", 1, 60);
  options.optimizer.optimizer = FindOptimizer("adamw");
  options.rule.rule = analysis::FindRule("lwp-v+sc");
  CheckShared(options, Run(options), /*half=*/33, /*workers=*/2);
}

TEST_CASE("Blocks made again in the backward change no bit, and the memory is as predicted",
          "[token]") {
  TrainerOptions options = Options("gpipe", 8, 16, SmallGpt(2));
  const Outcome kept = Run(options);
  const std::int64_t before = MakeTrainer(options)->memory_bytes();
  options.recompute = true;
  CHECK(Run(options) == kept);
  const std::int64_t again = MakeTrainer(options)->memory_bytes();
  CHECK(again < before);
  for (const bool recompute : {false, true}) {
    options.recompute = recompute;
    const double predicted = static_cast<double>(PredictMemory(options).total());
    const double actual = static_cast<double>(recompute ? again : before);
    CHECK(predicted == Approx(actual).epsilon(0.1));
  }
}

NamedTensor& TensorNamed(std::vector<NamedTensor>& tensors, std::string_view name) {
  return *std::find_if(tensors.begin(), tensors.end(),
                       [&](const NamedTensor& tensor) { return tensor.name == name; });
}

TEST_CASE("The gradient of tied rows is that of both their uses, however backwards are split",
          "[token]") {
  const hwmodel::Network network = SmallGpt(2, /*is_tied=*/true);
  TrainerOptions options = Options("sequential", 1, 1, network);
  options.momentum = 0;
  options.precision = Precision::kDouble;
  options.convolution = ConvolutionMethod::kReference;
  const std::unique_ptr<Trainer> trainer = MakeTrainer(options);
  std::vector<NamedTensor> start = trainer->ExportWeights();
  CHECK(std::none_of(start.begin(), start.end(),
                     [](const NamedTensor& tensor) { return tensor.name == "lm_head.weight"; }));
  // Larger ones, so that neither use's gradient is lost beside the other's.
  CounterRandom random(3, RandomStream::kSynthetic, 1);
  for (NamedTensor& tensor : start) {
    for (double& value : tensor.values) value += 0.3 * (random.Uniform() - 0.5);
  }
  const auto loss_at = [&](const std::vector<NamedTensor>& weights, const TrainerOptions& own) {
    const std::unique_ptr<Trainer> other = MakeTrainer(own);
    other->ImportWeights(weights);
    std::vector<SampleResult> results;
    other->Advance(Tokens(), own.samples, results);
    return std::pair(results.front().loss, other->ExportWeights());
  };
  std::vector<NamedTensor> after = loss_at(start, options).second;
  const NamedTensor& rows = TensorNamed(start, "wte.weight");
  const NamedTensor& moved = TensorNamed(after, "wte.weight");
  constexpr double kStep = 1e-5;
  double largest = 0;
  for (std::size_t i = 0; i < rows.values.size(); i += 13) {
    const double gradient = (rows.values[i] - moved.values[i]) / options.learning_rate.base;
    std::vector<NamedTensor> nudged = start;
    double& value = TensorNamed(nudged, "wte.weight").values[i];
    value += kStep;
    const double above = loss_at(nudged, options).first;
    value -= 2 * kStep;
    const double below = loss_at(nudged, options).first;
    CHECK(gradient == Approx((above - below) / (2 * kStep)).margin(1e-8).epsilon(1e-6));
    largest = std::max(largest, std::abs(gradient));
  }
  CHECK(largest > 1e-2);

  // Mini-batches that drain: one sum, whatever the order of passes and with weight gradients apart.
  const auto drained = [&](const std::string& kind, int microbatch) {
    TrainerOptions own = Options(kind, 8, 24, network);
    own.microbatch = microbatch;
    return Run(own);
  };
  const Outcome fused = drained("pipedream-flush", 1);
  CHECK(drained("sequential", 1) == fused);
  CHECK(drained("gpipe", 1) == fused);
  // Added up in another order, the same numbers.
  for (const Outcome& other : {drained("zb-h1", 1), drained("sequential", 2)}) {
    CheckNear(other.losses(), fused.losses(), 1e-5);
  }
}

TEST_CASE("Equal matrices of a file stay two, tied rows stay one, and what is missing is named",
          "[token]") {
  TrainerOptions options = Options("pb", 1, 4);
  std::vector<NamedTensor> own = MakeTrainer(options)->ExportWeights();
  TensorNamed(own, "lm_head.weight").values = TensorNamed(own, "wte.weight").values;
  const std::unique_ptr<Trainer> untied = MakeTrainer(options);
  untied->ImportWeights(own);
  Train(*untied, options.samples, Tokens());
  own = untied->ExportWeights();
  CHECK(TensorNamed(own, "lm_head.weight").values != TensorNamed(own, "wte.weight").values);

  options = Options("sequential", 1, 1, SmallGpt(2, /*is_tied=*/true));
  const std::unique_ptr<Trainer> tied = MakeTrainer(options);
  std::vector<NamedTensor> tensors = tied->ExportWeights();
  std::vector<NamedTensor> two = tensors;
  two.push_back(TensorNamed(tensors, "wte.weight"));
  two.back().name = "lm_head.weight";
  CHECK_THROWS_WITH(tied->ImportWeights(two), Catch::Matchers::StartsWith("lm_head.weight"));
  CHECK_THROWS_WITH(ForwardPass(options.network, two),
                    Catch::Matchers::StartsWith("lm_head.weight"));
  std::erase_if(tensors, [](const NamedTensor& tensor) { return tensor.name == "wte.weight"; });
  CHECK_THROWS_WITH(tied->ImportWeights(tensors), Catch::Matchers::StartsWith("wte.weight"));
  CHECK_THROWS_WITH(ForwardPass(options.network, tensors),
                    Catch::Matchers::StartsWith("wte.weight"));
  std::vector<NamedTensor> bad = tied->ExportWeights();
  bad[1].values[0] = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH(ForwardPass(options.network, bad), Catch::Matchers::StartsWith(bad[1].name));
}

TEST_CASE(
    "Tied rows go through every pipeline, to other workers and processes, and on from a state",
    "[token]") {
  for (const auto& [kind, batch] : {std::pair("pb", 1), {"1f1b", 1}, {"gpipe", 8}, {"zb-h1", 8}}) {
    INFO(kind);
    TrainerOptions options = Options(kind, batch, 48, SmallGpt(2, /*is_tied=*/true));
    options.optimizer.optimizer = FindOptimizer("adamw");
    options.rule.rule = analysis::FindRule("lwp-v+sc");
    const Outcome alone = Run(options);
    options.recompute = kind == std::string("gpipe");
    CHECK(Run(options) == alone);
    const double predicted = static_cast<double>(PredictMemory(options).total());
    CHECK(predicted == Approx(MakeTrainer(options)->memory_bytes()).epsilon(0.1));
    CheckShared(options, alone, /*half=*/24, /*workers=*/3);
  }
}

// Rounding of 24 bits through a hundred updates at an ordinary rate.
constexpr double kSingleTolerance = 1e-4;

TEST_CASE("Single precision follows double over a hundred steps", "[token]") {
  for (const std::string optimizer : {"sgdm", "adamw"}) {
    for (const std::string kind : {"sequential", "pb"}) {
      TrainerOptions options = Options(kind, 1, 100);
      options.optimizer.optimizer = FindOptimizer(optimizer);
      const Outcome single = Run(options);
      options.precision = Precision::kDouble;
      options.convolution = ConvolutionMethod::kReference;
      const Outcome exact = Run(options);
      INFO(optimizer << ", " << kind);
      CheckNear(single.losses(), exact.losses(), kSingleTolerance);
      CHECK(single.results.back().loss < single.results.front().loss);
    }
  }
}

TEST_CASE("A sequence's loss and accuracy are means over its tokens", "[token]") {
  TrainerOptions options = Options("sequential", 1, 1);
  const std::unique_ptr<Trainer> trainer = MakeTrainer(options);
  ForwardPass pass(options.network, trainer->ExportWeights());
  const DatasetSource source = Tokens();
  const Evaluation evaluation = trainer->Evaluate(source, 3);
  double loss = 0;
  double won = 0;
  for (std::int64_t p = 0; p < 3; ++p) {
    std::vector<float> input(kContext);
    std::vector<std::int32_t> labels(kContext);
    source.Read(p, input);
    source.ReadLabels(p, labels);
    const std::span<const float> scores = pass.Scores(input);
    for (int t = 0; t < kContext; ++t) {
      const auto row = scores.subspan(t * kMarkovVocabulary, kMarkovVocabulary);
      double sum = 0;
      for (const float score : row) sum += std::exp(double{score});
      loss += std::log(sum) - row[labels[t]];
      won += std::max_element(row.begin(), row.end()) - row.begin() == labels[t] ? 1 : 0;
    }
  }
  CHECK(evaluation.loss == Approx(loss / (3 * kContext)).epsilon(1e-5));
  CHECK(evaluation.accuracy == Approx(won / (3 * kContext)));
}

TEST_CASE("Data of one label are no sequences, and the other way round", "[token]") {
  const DatasetSource images(MakeSynthetic(1, Split::kTrain, 8, 8), {});
  std::vector<SampleResult> results;
  CHECK_THROWS_AS(MakeTrainer(Options("sequential", 1, 1))->Advance(images, 1, results),
                  analysis::InvalidArgument);
  const auto tokens = MakeTokens("t", "f", Counted(400, 300), Split::kTrain, kContext, 300);
  // More tokens than the embedding has rows.
  CHECK_THROWS_WITH(
      MakeTrainer(Options("sequential", 1, 1))->Advance(DatasetSource(tokens, {}), 1, results),
      Catch::Matchers::Contains("classes"));
}

}  // namespace
}  // namespace batchless::training
