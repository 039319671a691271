#include "batchless/training/trainer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <sstream>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/partition.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/stage_groups.h"
#include "batchless/training/dataset.h"
#include "batchless/training/forward_pass.h"
#include "batchless/training/own_optimizer.h"
#include "catch.h"
#include "refusal.h"
#include "runs.h"
#include "test_networks.h"
#include "test_schedules.h"

namespace batchless::training {
namespace {

using analysis::InvalidArgument;

TrainerOptions Options(const std::string& network, std::int64_t batch, int workers = 1) {
  TrainerOptions options;
  options.network = TestNetwork(network);
  options.batch = batch;
  options.workers = workers;
  options.learning_rate.base = 0.05;
  options.weight_decay = 1e-3;
  options.seed = 11;
  return options;
}

TEST_CASE("A run is a function of its options, whatever the threads and slices", "[trainer]") {
  // A VGG drops values by their positions in the run.
  for (const char* network : {"resnet20", "narrow-vgg"}) {
    const Outcome expected = Train(Options(network, 8), 24);
    CHECK(expected.results.size() == 24);
    CHECK(Train(Options(network, 8), 24) == expected);
    Outcome slices;
    const auto sliced = MakeTrainer(Options(network, 8));
    for (const std::int64_t to : {8, 16, 24}) slices += Train(*sliced, to);
    CHECK(slices == expected);
    for (const int workers : {2, 3, 8}) {
      INFO(network << ", workers " << workers);
      CHECK(Train(Options(network, 8, workers), 24) == expected);
    }
    TrainerOptions other = Options(network, 8);
    other.seed += 1;
    CHECK(Train(other, 24) != expected);
  }
}

// Trains with each of the options in turn, handing over between them.
Outcome TrainInPhases(std::span<const TrainerOptions> phases) {
  std::vector<NamedTensor> state;
  Outcome all;
  for (const TrainerOptions& options : phases) {
    const std::unique_ptr<Trainer> trainer = MakeTrainer(options);
    if (!state.empty()) trainer->ImportState(state);
    all += Train(*trainer, options.first_sample + options.samples);
    state = trainer->ExportState();
  }
  return all;
}

TEST_CASE("A run in two phases of the same settings is the run", "[trainer]") {
  for (const auto& [network, optimizer] : {std::pair{"narrow-vgg", "sgdm"},
                                           {"resnet8", "adam"},
                                           {"resnet8", "muon"},
                                           {"resnet8", "basis-rotation"}}) {
    TrainerOptions whole = Options(network, 4);
    whole.optimizer = {FindOptimizer(optimizer), {}};
    whole.learning_rate.base = 1e-3;
    whole.learning_rate.drops = {{12, 0.1}};
    whole.samples = 20;
    std::vector<TrainerOptions> phases(2, whole);
    phases[0].samples = 8;
    phases[1].first_sample = 8;
    for (const std::size_t dimensions : {1, 2}) {
      PastUpdates& past = dimensions == 1 ? phases[1].past_of_vectors : phases[1].past;
      past = PastAfter(whole.optimizer, {}, 2, whole.optimizer, dimensions);
    }
    phases[1].samples = 12;
    phases[1].workers = 2;
    INFO(network << ", " << optimizer);
    CHECK(TrainInPhases(phases) == Train(whole, 20));
  }
}

// Two phases of ResNet-8, of 4 and 3 updates; where the optimizer changes what it knows of the past.
std::vector<TrainerOptions> TwoPhases(const OptimizerSpec& first, const OptimizerSpec& second) {
  std::vector<TrainerOptions> phases(2, Options("resnet8", 4));
  for (TrainerOptions& phase : phases) {
    phase.learning_rate.base = 1e-3;
    phase.weight_decay = 0;
  }
  phases[0].samples = 16;
  phases[0].optimizer = first;
  phases[1].first_sample = 16;
  phases[1].samples = 12;
  phases[1].optimizer = second;
  phases[1].past = PastAfter(first, {}, 4, second, 2);
  phases[1].past_of_vectors = PastAfter(first, {}, 4, second, 1);
  return phases;
}

TEST_CASE("Moments go on with the number of updates in them", "[trainer]") {
  const OptimizerSpec adam{FindOptimizer("adam"), {}};
  const OptimizerSpec adamw{FindOptimizer("adamw"), {}};
  // Without decay they are one optimizer.
  const Outcome expected = TrainInPhases(TwoPhases(adam, adam));
  CHECK(TrainInPhases(TwoPhases(adam, adamw)) == expected);
  CHECK(TrainInPhases(TwoPhases(adamw, adam)) == expected);
}

TEST_CASE("Optimizers that count updates take all over from another one or nothing", "[trainer]") {
  using Names = std::vector<std::string_view>;
  const auto shared = [](const char* before, const char* after, std::size_t dimensions) {
    return ArraysThatGoOn(FindOptimizer(before), FindOptimizer(after), dimensions);
  };
  const Names moments{"mean gradient", "mean square"};
  CHECK(shared("adam", "nadamw", 2) == moments);
  CHECK(shared("sgdm", "pipemare", 2) == Names{"velocity"});
  CHECK(shared("sgdm", "muon", 2) == Names{"velocity"});
  CHECK(shared("sgdm", "muon", 1).empty());
  for (const char* other : {"muon", "basis-rotation"}) {
    for (const auto& [before, after] : {std::pair{"adam", other}, {other, "adam"}}) {
      INFO(before << ", " << after);
      CHECK(shared(before, after, 2).empty());
      CHECK(shared(before, after, 1) == moments);
      const OptimizerSpec first{FindOptimizer(before), {}};
      const OptimizerSpec second{FindOptimizer(after), {}};
      CHECK(PastAfter(first, {.count = 5, .alike = 2}, 4, second, 2) == PastUpdates{});
      CHECK(PastAfter(first, {.count = 5, .alike = 2}, 4, second, 1) ==
            PastUpdates{.count = 9, .alike = 6});
    }
  }
  // Matrices begin anew though one of their arrays has a namesake: the phase is that of a trainer which
  // has got the arrays of the vectors alone.
  std::vector<TrainerOptions> phases =
      TwoPhases({FindOptimizer("adam"), {}}, {FindOptimizer("basis-rotation"), {}});
  const std::unique_ptr<Trainer> adam = MakeTrainer(phases[0]);
  Train(*adam, 16);
  std::vector<NamedTensor> state = adam->ExportState();
  const std::unique_ptr<Trainer> taken = MakeTrainer(phases[1]);
  taken->ImportState(state);
  std::erase_if(state, [](const NamedTensor& tensor) {
    return tensor.name.find('/') != std::string::npos && tensor.shape.size() > 1;
  });
  const std::unique_ptr<Trainer> begun = MakeTrainer(phases[1]);
  begun->ImportState(state);
  CHECK(Train(*taken, 28) == Train(*begun, 28));
}

TEST_CASE("What two optimizers keep by the same name goes on, the rest begins at 0", "[trainer]") {
  const auto after = [](const char* first, const char* second, auto change) {
    std::vector<TrainerOptions> phases(2, Options("lenet5", 8));
    for (TrainerOptions& phase : phases) phase.samples = 16;
    phases[0].optimizer = {FindOptimizer(first), {}};
    phases[1].optimizer = {FindOptimizer(second), {}};
    phases[1].first_sample = 16;
    change(phases[1]);
    return TrainInPhases(phases).weights;
  };
  const auto nothing = [](TrainerOptions& /*options*/) {};
  // Without delay pipemare is sgdm, velocity and all.
  CHECK(after("sgdm", "pipemare", nothing) == after("sgdm", "sgdm", nothing));
  // No velocity comes from adam: the second phase's first update is that of a new run.
  CHECK(after("adam", "sgdm", nothing) != after("sgdm", "sgdm", nothing));
  std::vector<TrainerOptions> phases(2, Options("lenet5", 8));
  phases[0].samples = 16;
  phases[0].optimizer = {FindOptimizer("adam"), {}};
  phases[1].first_sample = 16;
  phases[1].samples = 8;
  const std::unique_ptr<Trainer> adam = MakeTrainer(phases[0]);
  Train(*adam, 16);
  const std::unique_ptr<Trainer> taken = MakeTrainer(phases[1]);
  taken->ImportState(adam->ExportState());
  const std::unique_ptr<Trainer> begun = MakeTrainer(phases[1]);
  begun->ImportWeights(adam->ExportWeights());
  CHECK(Train(*taken, 24) == Train(*begun, 24));
}

TEST_CASE("An optimizer begins anew with weights that are replaced on the way", "[trainer]") {
  for (const char* optimizer : {"adam", "nadamw", "basis-rotation"}) {
    INFO(optimizer);
    TrainerOptions whole = Options("resnet8", 4);
    whole.optimizer = {FindOptimizer(optimizer), {}};
    whole.learning_rate.base = 1e-3;
    TrainerOptions rest = whole;
    rest.first_sample = 12;
    const auto trainer = MakeTrainer(whole);
    Train(*trainer, 12);
    trainer->ImportWeights(trainer->ExportWeights());
    const auto resumed = GoOn(*trainer, whole);
    const auto begun = MakeTrainer(rest);
    begun->ImportWeights(trainer->ExportWeights());
    const Outcome expected = Train(*begun, 28);
    CHECK(Train(*trainer, 28) == expected);
    CHECK(Train(*resumed, 28) == expected);
  }
}

TEST_CASE("Each stage counts its updates from where weights were replaced", "[trainer]") {
  // By delay, which no two stages have alike, the number of the first update of those with parameters.
  static std::map<analysis::Delay, std::int64_t> first;
  TrainerOptions options = Options("mlp", 1);
  options.network = hwmodel::MakeNetwork({.name = "mlp", .hidden = {4}});
  options.schedule = PbOf(options.network);
  options.learning_rate.base = 1e-4;
  options.samples = 40;
  options.optimizer.optimizer = MakeOptimizer(
      {.name = "counting", .arrays = {"sum"}},
      [](const OptimizerSpec& /*spec*/, const UpdatePoint& point) -> OwnNumbers<double> {
        first.emplace(point.delay, point.update);
        return {};
      },
      [](const auto& /*numbers*/, auto& w) {
        w.states[0] += w.gradient;
        w.u = w.states[0];
        w.p = w.gradient;
      });
  const auto trainer = MakeTrainer(options);
  Train(*trainer, 12);
  trainer->ImportWeights(trainer->ExportWeights());
  first.clear();
  Train(*trainer, 16);
  CHECK(first == std::map<analysis::Delay, std::int64_t>{{2, 1}, {6, 1}});
  const auto resumed = GoOn(*trainer, options);
  first.clear();
  Train(*resumed, 20);
  CHECK(first == std::map<analysis::Delay, std::int64_t>{{2, 5}, {6, 5}});
}

TEST_CASE("Fill and drain in micro-batches of one order gives the sequential bits", "[trainer]") {
  for (const std::int64_t microbatch : {2, 4}) {
    TrainerOptions sequential = Options("resnet8", 8);
    sequential.microbatch = microbatch;
    TrainerOptions pipelined = Options("resnet8", 8, 4);
    pipelined.microbatch = microbatch;
    CHECK(Train(sequential, 16) == Train(pipelined, 16));
  }
}

// Ten channels of one pixel, which kernels store in whole blocks, and what reads them before the loss.
hwmodel::Network PixelNetwork(bool has_pool, bool has_norm) {
  using hwmodel::LayerKind;
  std::vector<hwmodel::Layer> layers = {{.kind = LayerKind::kConvolution,
                                         .name = "conv",
                                         .output = {.channels = 10},
                                         .kernel = has_pool ? 31 : 32}};
  if (has_pool) layers.push_back({.kind = LayerKind::kMaxPool, .kernel = 2, .stride = 2});
  if (has_norm) layers.push_back({.kind = LayerKind::kLayerNormalization, .name = "norm"});
  layers.push_back({.kind = LayerKind::kLoss});
  return NetworkOf({.channels = 3, .height = 32, .width = 32}, 10, layers);
}

TEST_CASE("Padded scores come to the loss sample by sample", "[trainer]") {
  // Single precision over two updates.
  constexpr double kRounding = 1e-4;
  for (const bool has_pool : {false, true}) {
    TrainerOptions one = Options("resnet8", 4);
    one.network = PixelNetwork(has_pool, /*has_norm=*/false);
    one.learning_rate.base = 1e-4;
    TrainerOptions four = one;
    four.microbatch = 4;
    CheckNear(Train(one, 8).losses(), Train(four, 8).losses(), kRounding);
  }
}

TEST_CASE("Layers on tokens take padded channels of one sample alone", "[trainer]") {
  TrainerOptions options = Options("resnet8", 4);
  options.network = PixelNetwork(/*has_pool=*/false, /*has_norm=*/true);
  CHECK_NOTHROW(MakeTrainer(options));
  options.microbatch = 4;
  CHECK_THROWS_WITH(MakeTrainer(options),
                    Catch::Matchers::StartsWith("network: got norm of channels in blocks"));
}

TEST_CASE("A saved state goes on to the same bits, with any number of workers", "[trainer]") {
  const Outcome whole = Train(Options("resnet8", 4), 24);
  const auto first = MakeTrainer(Options("resnet8", 4));
  const Outcome half = Train(*first, 12);
  for (const int workers : {1, 3}) {
    const auto second = GoOn(*first, Options("resnet8", 4, workers));
    CHECK(second->samples_done() == 12);
    Outcome both = half;
    both += Train(*second, 24);
    CHECK(both == whole);
  }
  // A damaged or foreign state is refused, and changes nothing.
  std::ostringstream state;
  first->Save(state);
  const std::string saved = state.str();
  const auto third = MakeTrainer(Options("resnet8", 4));
  const std::string before = third->WeightsSha256();
  for (const std::size_t left : {saved.size() / 2, saved.size() - 1}) {
    std::istringstream cut(saved.substr(0, left));
    CHECK_THROWS_AS(third->Load(cut), std::runtime_error);
  }
  std::istringstream text("something else altogether");
  CHECK_THROWS_AS(third->Load(text), std::runtime_error);
  const auto other = MakeTrainer(Options("resnet8", 8));
  std::istringstream foreign(saved);
  CHECK_THROWS_AS(other->Load(foreign), std::runtime_error);
  CHECK(third->WeightsSha256() == before);
  CHECK(third->samples_done() == 0);
}

// A text of which only the first bytes are left when it is read from some place once more.
class CutOnTheWay final : public std::stringbuf {
 public:
  CutOnTheWay(const std::string& text, std::size_t left)
      : std::stringbuf(text), left_(text.substr(0, left)) {}

 protected:
  pos_type seekpos(pos_type place, std::ios_base::openmode which) override {
    str(left_);
    return std::stringbuf::seekpos(place, which);
  }

 private:
  std::string left_;
};

TEST_CASE("After a state that could not be read to its end another one goes on", "[trainer]") {
  TrainerOptions options = Options("mlp", 4);
  options.network = hwmodel::MakeNetwork({.name = "mlp", .hidden = {4}});
  const auto trainer = MakeTrainer(options);
  Train(*trainer, 8);
  std::stringstream state;
  trainer->Save(state);
  const Outcome expected = Train(*trainer, 24);

  const std::string saved = state.str();
  const auto failing = MakeTrainer(options);
  for (const std::size_t left : {saved.size() / 2, saved.size() - 1}) {
    CutOnTheWay buffer(saved, left);
    std::istream cut(&buffer);
    CHECK_THROWS_WITH(failing->Load(cut), "the trainer's state could not be read to its end");
    CHECK_THROWS_AS(Train(*failing, 24), std::runtime_error);
  }
  failing->Load(state);
  CHECK(Train(*failing, 24) == expected);
}

// The samples, one of which cannot be read.
class DamagedSource final : public SampleSource {
 public:
  explicit DamagedSource(std::int64_t bad) : bad_(bad) {}

  const std::string& name() const override { return source_.name(); }
  const ImageShape& shape() const override { return source_.shape(); }
  int classes() const override { return source_.classes(); }
  int Label(std::int64_t position) const override { return source_.Label(position); }
  void Read(std::int64_t position, std::span<float> image) const override {
    if (position == bad_) throw std::runtime_error("damaged");
    source_.Read(position, image);
  }

 private:
  DatasetSource source_ = SmallSource();
  std::int64_t bad_;
};

TEST_CASE("From a sample that cannot be read only an earlier state goes on", "[trainer]") {
  for (const bool is_pipelined : {false, true}) {
    TrainerOptions options = Options("mlp", is_pipelined ? 1 : 4);
    options.network = hwmodel::MakeNetwork({.name = "mlp", .hidden = {4}});
    if (is_pipelined) options.schedule = PbOf(options.network);
    options.learning_rate.base = 1e-4;
    const auto trainer = MakeTrainer(options);
    Train(*trainer, 8);
    std::stringstream state;
    trainer->Save(state);
    const Outcome expected = Train(*trainer, 24);

    const auto failing = MakeTrainer(options);
    std::vector<SampleResult> results;
    // In the midst of the fourth mini-batch of four.
    CHECK_THROWS_WITH(failing->Advance(DamagedSource(14), 24, results), "damaged");
    CHECK_THROWS_AS(Train(*failing, 24), std::runtime_error);
    CHECK_THROWS_AS(failing->Finish(), std::runtime_error);
    std::ostringstream unused;
    CHECK_THROWS_AS(failing->Save(unused), std::runtime_error);
    failing->Load(state);
    CHECK(Train(*failing, 24) == expected);
  }
}

TEST_CASE("Weights come back bit for bit, and wrong ones are refused by name", "[trainer]") {
  for (const char* network : {"resnet20", "narrow-vgg", "lenet5"}) {
    TrainerOptions options = Options(network, 4);
    const auto trained = MakeTrainer(options);
    std::vector<NamedTensor> weights = trained->ExportWeights();
    options.seed += 1;
    const auto fresh = MakeTrainer(options);
    CHECK(fresh->WeightsSha256() != trained->WeightsSha256());
    fresh->ImportWeights(weights);
    CHECK(fresh->WeightsSha256() == trained->WeightsSha256());

    const auto message = [&](const std::vector<NamedTensor>& tensors) {
      return test::MessageOf([&] { fresh->ImportWeights(tensors); });
    };
    std::vector<NamedTensor> missing(weights.begin() + 1, weights.end());
    CHECK(message(missing).find(weights[0].name + ": got") == 0);
    std::vector<NamedTensor> misshapen = weights;
    misshapen[0].shape[0] += 1;
    CHECK(message(misshapen).find(weights[0].name + ": got") == 0);
    std::vector<NamedTensor> infinite = weights;
    infinite[1].values[0] = std::numeric_limits<double>::infinity();
    CHECK(message(infinite).find(weights[1].name + ": got") == 0);
    std::vector<NamedTensor> unknown = weights;
    unknown.push_back({"extra.weight", {1}, {0.0}});
    CHECK(message(unknown).find("extra.weight: got") == 0);
    // A number of double that float does not hold.
    infinite[1].values[0] = 1e300;
    CHECK(message(infinite) == weights[1].name + ": got 1e+300, accepted: finite numbers of float");
    // As torch.nn.DataParallel names them.
    std::vector<NamedTensor> wrapped = weights;
    for (NamedTensor& tensor : wrapped) tensor.name = "module." + tensor.name;
    CHECK(message(wrapped) == "module." + weights[0].name +
                                  ": got the prefix module., accepted: names without a prefix, " +
                                  weights[0].name);
    CHECK(fresh->WeightsSha256() == trained->WeightsSha256());
  }
}

TEST_CASE("Buffers of PyTorch's modules beside the weights are passed over", "[trainer]") {
  const auto check = [](const TrainerOptions& options, const char* buffer, const char* unknown) {
    const auto trainer = MakeTrainer(options);
    const std::string digest = trainer->WeightsSha256();
    std::vector<NamedTensor> weights = trainer->ExportWeights();
    weights.push_back({buffer, {}, {7}});
    trainer->ImportWeights(weights);
    CHECK(trainer->WeightsSha256() == digest);
    // Not where nothing has such a buffer.
    weights.back().name = unknown;
    CHECK_THROWS_AS(trainer->ImportWeights(weights), InvalidArgument);
  };
  TrainerOptions options = Options("resnet20", 4);
  options.microbatch = 4;
  options.network =
      hwmodel::MakeNetwork({.name = "resnet20", .normalization = hwmodel::Normalization::kBatch});
  check(options, "group1.block0.norm1.num_batches_tracked", "conv1.num_batches_tracked");
  options.microbatch = 1;
  options.network = hwmodel::MakeNetwork(
      {.name = "gpt", .input = {1, 4, 1}, .classes = 5, .layers = 1, .width = 8, .heads = 2});
  check(options, "h.0.attn.bias", "h.0.mlp.bias");
  check(options, "h.0.attn.masked_bias", "ln_f.masked_bias");
}

TEST_CASE("Initial convolutions are He-normal by fan-out, linear layers PyTorch's", "[trainer]") {
  for (const NamedTensor& tensor : MakeTrainer(Options("resnet56", 1))->ExportWeights()) {
    double sum = 0;
    double squares = 0;
    double largest = 0;
    for (const double value : tensor.values) {
      sum += value;
      squares += value * value;
      largest = std::max(largest, std::abs(value));
    }
    const auto count = static_cast<double>(tensor.values.size());
    INFO(tensor.name);
    if (tensor.shape.size() == 4) {
      const double variance =
          2.0 / static_cast<double>(tensor.shape[0] * tensor.shape[2] * tensor.shape[3]);
      // Five standard deviations of the two sample moments.
      CHECK(std::abs(sum / count) < 5 * std::sqrt(variance / count));
      CHECK(std::abs(squares / count / variance - 1) < 5 * std::sqrt(2 / count));
    } else if (tensor.name == "fc.weight" || tensor.name == "fc.bias") {
      CHECK(largest <= 1 / std::sqrt(64.0));
      CHECK(largest > 0.5 / std::sqrt(64.0));
    } else {
      CHECK(sum == (tensor.name.ends_with("weight") ? count : 0));
    }
  }
}

TEST_CASE("A run that blows up says where and keeps what it has", "[trainer]") {
  TrainerOptions options = Options("vgg11", 2);
  options.network =
      hwmodel::MakeNetwork({.name = "vgg11", .normalization = hwmodel::Normalization::kNone});
  options.learning_rate.base = 1e6;
  const auto trainer = MakeTrainer(options);
  std::vector<SampleResult> results;
  try {
    trainer->Advance(SmallSource(), 64, results);
    FAIL("it did not blow up");
  } catch (const Diverged& error) {
    CHECK(!error.stage().empty());
    CHECK(error.sample() > 0);
    REQUIRE(static_cast<std::int64_t>(results.size()) > error.sample());
    CHECK(!std::isfinite(results[error.sample()].loss));
    CHECK(std::isfinite(results[error.sample() - 1].loss));
  }
}

TEST_CASE("Weights that the last update spoils end the run, and no state of them is saved",
          "[trainer]") {
  // The loss of the only mini-batch is finite; its update overflows.
  TrainerOptions options = Options("narrow-vgg", 8);
  options.samples = 8;
  options.learning_rate.base = 1e6;
  options.weight_decay = 1;
  options.momentum = 0;
  const auto trainer = MakeTrainer(options);
  std::vector<NamedTensor> weights = trainer->ExportWeights();
  weights.back().values[0] = 3e36;  // a bias of the classifier, which becomes -3e42
  trainer->ImportWeights(weights);
  std::vector<SampleResult> results;
  CHECK_THROWS_AS(trainer->Advance(SmallSource(), 8, results), Diverged);
  REQUIRE(results.size() == 8);
  for (const SampleResult& result : results) CHECK(std::isfinite(result.loss));
  std::stringstream state;
  CHECK_THROWS_AS(trainer->Save(state), Diverged);
  CHECK(state.str().empty());
}

TEST_CASE("An evaluation is the mean of forward passes by running statistics, on any threads",
          "[trainer]") {
  constexpr std::int64_t kCount = 21;
  const DatasetSource source(SmallData(), {.order = Order::kSequential});
  for (const auto norm : {hwmodel::Normalization::kGroup, hwmodel::Normalization::kBatch}) {
    TrainerOptions options = Options("resnet20", 4);
    options.network = hwmodel::MakeNetwork({.name = "resnet20", .normalization = norm});
    options.microbatch = 4;
    const auto trainer = MakeTrainer(options);
    const Outcome trained = Train(*trainer, 8);
    const std::vector<NamedTensor> weights = trainer->ExportWeights();
    ForwardPass pass(options.network, weights);
    double loss = 0;
    double won = 0;
    for (std::int64_t p = 0; p < kCount; ++p) {
      std::vector<float> image(options.network.input.elements());
      source.Read(p, image);
      const std::span<const float> scores = pass.Scores(image);
      const int label = source.Label(p);
      double sum = 0;
      for (const float score : scores) sum += std::exp(double{score});
      loss += std::log(sum) - scores[label];
      won += std::max_element(scores.begin(), scores.end()) - scores.begin() == label ? 1 : 0;
    }
    const Evaluation found = trainer->Evaluate(source, kCount);
    CHECK(found.loss == Approx(loss / kCount).epsilon(1e-5));
    CHECK(found.accuracy == Approx(won / kCount));
    CHECK(trainer->WeightsSha256() == trained.weights);

    options.workers = 4;
    const auto four = MakeTrainer(options);
    four->ImportWeights(weights);
    const Evaluation again = four->Evaluate(source, kCount);
    CHECK(again.loss == found.loss);
    CHECK(again.accuracy == found.accuracy);
  }
}

TEST_CASE("Workers share what the stages cost", "[trainer]") {
  const auto ends = [](const TrainerOptions& options) {
    std::vector<int> found;
    int first = 0;
    for (const WorkerTimes& times : MakeTrainer(options)->worker_times()) {
      CHECK(times.first_stage == first);
      first = times.end_stage;
      found.push_back(first);
    }
    return found;
  };
  TrainerOptions options = Options("resnet20", 8, 3);
  CHECK(ends(options) == hwmodel::BalancedPartition(options.network, 3));
  options.stage_costs.assign(34, 1);
  CHECK(ends(options) == std::vector<int>{11, 22, 34});
  // One stage costs more than all others together.
  options.stage_costs[4] = 100;
  CHECK(ends(options) == std::vector<int>{4, 5, 34});
}

TEST_CASE("Options that cannot be are refused by name", "[trainer]") {
  const auto why = [](auto change) {
    TrainerOptions options = Options("resnet20", 8);
    change(options);
    CHECK_FALSE(WhyNot(options).empty());
    return test::RefusedName([&] { MakeTrainer(options); });
  };
  CHECK(why([](TrainerOptions& o) { o.batch = 0; }) == "batch");
  CHECK(why([](TrainerOptions& o) { o.microbatch = 3; }) == "microbatch");
  CHECK(why([](TrainerOptions& o) { o.workers = 0; }) == "workers");
  CHECK(why([](TrainerOptions& o) { o.momentum = 1; }) == "momentum");
  CHECK(why([](TrainerOptions& o) { o.weight_decay = -1; }) == "weight_decay");
  CHECK(why([](TrainerOptions& o) { o.max_gradient_norm = 0; }) == "max_gradient_norm");
  CHECK(why([](TrainerOptions& o) { o.workers = 35; }) == "workers");
  CHECK(why([](TrainerOptions& o) {
          o.network = hwmodel::MakeNetwork(
              {.name = "resnet20", .normalization = hwmodel::Normalization::kBatch});
        }) == "microbatch");
  CHECK(why([](TrainerOptions& o) { o.stage_costs.assign(33, 1); }) == "stage_costs");
  CHECK(why([](TrainerOptions& o) { o.stage_costs.assign(34, -1); }) == "stage_costs");
  CHECK(why([](TrainerOptions& o) { o.stage_costs.assign(34, NAN); }) == "stage_costs");
  CHECK(why([](TrainerOptions& o) { o.learning_rate.base = NAN; }) == "base");
  TrainerOptions endless = Options("lenet5", 4);
  endless.learning_rate.shape = LearningRateShape::kCosine;
  CHECK_THROWS_AS(MakeTrainer(endless), InvalidArgument);
  TrainerOptions digits = Options("lenet5", 4);
  digits.network = hwmodel::MakeNetwork({.name = "lenet5"});
  CHECK_THROWS_AS(Train(digits, 4), InvalidArgument);
}

void CheckMemory(const TrainerOptions& options) {
  // What the model leaves out: padding to whole blocks, scratch, running statistics.
  constexpr double kTolerance = 0.1;
  const auto actual = static_cast<double>(MakeTrainer(options)->memory_bytes());
  const auto predicted = static_cast<double>(PredictMemory(options).total());
  INFO(options.network.name << ", batch " << options.batch << ", workers " << options.workers
                            << ", rule " << options.rule.rule.name << ", weights "
                            << Name(options.schedule.weights) << ": " << actual / predicted);
  CHECK(std::abs(actual / predicted - 1) < kTolerance);
}

void CheckMemoryOf(const char* network) {
  CheckMemory(Options(network, 128));
  CheckMemory(Options(network, 32, 2));
  TrainerOptions options = Options(network, 1);
  options.schedule = PbOf(options.network);
  options.samples = 1000;
  for (const int workers : {1, 2}) {
    options.workers = workers;
    CheckMemory(options);
  }
  options.rule.rule = analysis::FindRule("lwp-v+sc");
  CheckMemory(options);
  options.rule.rule = analysis::FindRule("sgdm");
  options.schedule.weights = hwmodel::WeightVersions::kStashed;
  CheckMemory(options);
}

TEST_CASE("the hardware model predicts the memory that a trainer takes", "[memory]") {
  for (const char* network : {"resnet20", "vgg11"}) CheckMemoryOf(network);
  TrainerOptions options = Options("resnet20", 32);
  options.schedule.forward_lag = 16;
  options.microbatch = 8;
  CheckMemory(options);
  options = Options("resnet20", 48);
  options.samples = 480;
  options.schedule = hwmodel::PipeDream2Bw(34, 192, 48);
  CheckMemory(options);
  // Gradients that wait for the second half of their backwards, in micro-batches of several samples.
  options = Options("resnet20", 4 * 34);
  options.microbatch = 4;
  options.samples = 4 * 68;
  options.schedule = hwmodel::ZeroBubbleH1(34, 68, 34);
  CheckMemory(options);
}

TEST_CASE("the hardware model predicts the memory of deep networks' trainers", "[memory][.long]") {
  CheckMemoryOf("resnet56");
  TrainerOptions deep = Options("resnet110", 1);
  deep.schedule = PbOf(deep.network);
  deep.samples = 1000;
  deep.schedule.weights = hwmodel::WeightVersions::kStashed;
  CheckMemory(deep);
}

// The gradient of one mini-batch, tensor after tensor: what plain SGD takes off the weights, over the rate.
std::vector<double> GradientOf(TrainerOptions options) {
  options.learning_rate.base = 1;
  options.momentum = 0;
  options.weight_decay = 0;
  options.samples = options.batch;
  options.precision = Precision::kDouble;
  options.convolution = ConvolutionMethod::kReference;
  const auto trainer = MakeTrainer(options);
  const std::vector<NamedTensor> before = trainer->ExportWeights();
  Train(*trainer, options.batch);
  const std::vector<NamedTensor> after = trainer->ExportWeights();
  std::vector<double> gradient;
  for (std::size_t t = 0; t < before.size(); ++t) {
    for (std::size_t i = 0; i < before[t].values.size(); ++i) {
      gradient.push_back(before[t].values[i] - after[t].values[i]);
    }
  }
  return gradient;
}

TEST_CASE("Each stage clips its gradient for itself", "[trainer]") {
  TrainerOptions options = Options("lenet5", 8);
  const std::vector<double> whole = GradientOf(options);
  std::map<std::string, double> squares;  // of a stage, by the name of its layer
  std::vector<std::string> stages;        // of the numbers
  for (const NamedTensor& tensor : MakeTrainer(options)->ExportWeights()) {
    stages.insert(stages.end(), tensor.values.size(),
                  tensor.name.substr(0, tensor.name.rfind('.')));
  }
  for (std::size_t i = 0; i < whole.size(); ++i) squares[stages[i]] += whole[i] * whole[i];
  std::vector<double> norms;
  norms.reserve(squares.size());
  for (const auto& [stage, square] : squares) norms.push_back(std::sqrt(square));
  std::sort(norms.begin(), norms.end());
  REQUIRE(norms.size() == 5);
  REQUIRE(norms.front() < norms.back());
  options.max_gradient_norm = norms[2] * 0.99;  // two are below
  for (const int workers : {1, 4}) {
    options.workers = workers;
    const std::vector<double> clipped = GradientOf(options);
    double largest = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const double norm = std::sqrt(squares[stages[i]]);
      const double factor = std::min(1.0, *options.max_gradient_norm / (norm + 1e-6));
      largest = std::max(largest, std::abs(clipped[i] - factor * whole[i]));
    }
    // What is left of weights less weights of an update later.
    CHECK(largest < 1e-14);
  }
}

TEST_CASE("Clipped runs are the same bits on any workers, and unclipped ones below the bound",
          "[trainer]") {
  TrainerOptions options = Options("resnet8", 1);
  options.schedule = PbOf(options.network);
  const auto train = [&](int workers, std::optional<double> bound) {
    options.workers = workers;
    options.max_gradient_norm = bound;
    return Train(options, 40);
  };
  const Outcome unclipped = train(1, std::nullopt);
  CHECK(train(1, 1e6) == unclipped);
  const Outcome clipped = train(1, 0.05);
  CHECK_FALSE(clipped == unclipped);
  CHECK(train(3, 0.05) == clipped);
}

TEST_CASE("A mini-batch has one gradient, however it is cut into micro-batches and stages") {
  TrainerOptions options = Options("lenet5", 64);
  const std::vector<double> whole = [&] {
    TrainerOptions one = options;
    one.microbatch = 64;
    return GradientOf(one);
  }();
  double norm = 0;
  for (const double g : whole) norm += g * g;
  REQUIRE(norm > 1e-4);
  for (const std::int64_t microbatch : {8, 32}) {
    for (const int stages : {1, 4}) {
      TrainerOptions cut = options;
      cut.microbatch = microbatch;
      cut.workers = stages;
      const std::int64_t n = options.batch / microbatch;
      for (const char* kind : {"gpipe", "pipedream-flush", "zb-v"}) {
        const std::vector<int> ends = hwmodel::BalancedPartition(cut.network, stages);
        if (kind == std::string("zb-v") && (stages == 1 || n < stages)) continue;
        cut.schedule = hwmodel::ExpandGroups(ScheduleOf(kind, stages, n), ends);
        const std::vector<double> gradient = GradientOf(cut);
        REQUIRE(gradient.size() == whole.size());
        double distance = 0;
        for (std::size_t i = 0; i < whole.size(); ++i) {
          distance += (gradient[i] - whole[i]) * (gradient[i] - whole[i]);
        }
        INFO(kind << ", micro-batches of " << microbatch << ", stages " << stages);
        // Sums of 64 samples in other orders, and the rounding of weights less gradients.
        CHECK(std::sqrt(distance / norm) < 1e-12);
      }
    }
  }
}

}  // namespace
}  // namespace batchless::training
