#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <sstream>

#include "batchless/analysis/argument.h"
#include "batchless/analysis/pipeline_stability.h"
#include "batchless/analysis/simulation.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/stage_groups.h"
#include "batchless/training/dataset.h"
#include "batchless/training/trainer.h"
#include "catch.h"
#include "engine/pipeline.h"
#include "literal_pipeline.h"
#include "pb.h"
#include "plan.h"

namespace batchless::training {
namespace {

using analysis::FindRule;
using hwmodel::ActionKind;
using hwmodel::WeightVersions;

constexpr const char* kRules[] = {"sgdm",  "nesterov", "sc",      "lwp-v",
                                  "lwp-w", "lwp-v+sc", "lwp-w+sc"};

std::shared_ptr<const Dataset> Data() {
  static const std::shared_ptr<const Dataset> kData = MakeSynthetic(3, Split::kTrain, 256, 16);
  return kData;
}

SampleSource Source() { return {Data(), {.seed = 2, .order = Order::kShuffled, .augment = true}}; }

// A network for the synthetic images; VGG without dropout, which the literal emulation leaves out.
hwmodel::Network MakeTestNetwork(const std::string& name) {
  hwmodel::NetworkOptions options{.name = name};
  if (name == "lenet5") options.input = {3, 32, 32};
  hwmodel::Network network = hwmodel::MakeNetwork(options);
  for (hwmodel::Stage& stage : network.stages) {
    for (hwmodel::Layer& layer : stage.layers) layer.dropout_probability = 0;
  }
  return network;
}

TrainerOptions Options(const std::string& network, std::int64_t samples) {
  TrainerOptions options;
  options.network = MakeTestNetwork(network);
  options.schedule = PbOf(options.network);
  options.batch = 1;
  options.samples = samples;
  // (0.1, 0.9, 128) scaled to one sample, in round numbers.
  options.learning_rate.base = 6.4e-6;
  options.momentum = 0.9992;
  options.weight_decay = 1e-4;
  options.seed = 11;
  return options;
}

std::vector<double> Losses(Trainer& trainer, std::int64_t samples) {
  std::vector<SampleResult> results;
  trainer.Advance(Source(), samples, results);
  std::vector<double> losses;
  losses.reserve(results.size());
  for (const SampleResult& result : results) losses.push_back(result.loss);
  return losses;
}

template <class Real>
typename Pipeline<Real>::Options EngineOptions(const hwmodel::Network& network,
                                               const Program& program, std::int64_t samples) {
  typename Pipeline<Real>::Options options;
  options.network = &network;
  options.backend = MakeReferenceBackend<Real>();
  options.plan.program = program;
  options.microbatches = samples;
  options.plan.version_ages.resize(network.stage_count());
  options.coefficients = [](int, std::int64_t) { return StageCoefficients<Real>(); };
  return options;
}

Program SequentialProgram(int stages) {
  const std::vector<int> all{stages};
  return SteadyProgram(hwmodel::FindSteadyState(hwmodel::MiniBatches(all, 1)), all);
}

TEST_CASE("Delays are those of the schedule", "[pb]") {
  for (const char* name : {"resnet20", "vgg11", "linear"}) {
    const TrainerOptions options = Options(name, 1);
    const std::vector<std::int64_t> delays = MakePlan(options).delays;
    const int stages = options.network.stage_count();
    for (int s = 0; s < stages; ++s) CHECK(delays[s] == 2 * (stages - 1 - s));
  }
}

TEST_CASE("SpecTrain's horizons are a stage's updates until the sample's last backward", "[pb]") {
  // By the schedules' formulas: a stage of PB updates in every step, one of 1F1B in every second.
  for (const char* kind : {"pb", "1f1b"}) {
    TrainerOptions options = Options("lenet5", 60);
    const int stages = options.network.stage_count();
    const bool is_pb = kind == std::string("pb");
    options.schedule = hwmodel::MakeSchedule(
        kind, {.stages = stages, .microbatches = hwmodel::EnoughMicrobatches(stages, 1)});
    options.rule.rule = FindRule("spectrain");
    std::string why;
    CHECK(options.IsValid(&why));
    INFO(why);
    const PipelinePlan plan = MakePlan(options);
    for (int s = 0; s < stages; ++s) {
      const int backward = is_pb ? s : (s + 1) / 2;
      CHECK(plan.spectrain[s].backward == backward);
      CHECK(plan.spectrain[s].forward == static_cast<double>(plan.delays[s] + backward));
    }
    options.schedule.weights = WeightVersions::kStashed;
    CHECK_FALSE(options.IsValid(&why));
    CHECK(why.starts_with("rule: got spectrain"));
  }
}

TEST_CASE("With one delay for all stages SpecTrain is LWPv bit for bit", "[pb]") {
  TrainerOptions options = Options("lenet5", 48);
  options.learning_rate.base = 1e-3;
  options.momentum = 0.9;
  options.schedule = {};
  options.schedule.forward_lag = 5;
  std::vector<std::string> digests;
  for (const char* rule : {"lwp-v", "spectrain", "sgdm"}) {
    options.rule.rule = FindRule(rule);
    const auto trainer = MakeTrainer(options);
    Losses(*trainer, 48);
    digests.push_back(trainer->WeightsSha256());
  }
  CHECK(digests[0] == digests[1]);
  CHECK(digests[0] != digests[2]);
}

TEST_CASE("Every pass reads the version that it should", "[pb]") {
  for (const bool stashing : {false, true}) {
    for (const int workers : {1, 3}) {
      TrainerOptions options = Options("lenet5", 60);
      options.workers = workers;
      const PipelinePlan plan = MakePlan(options);
      auto engine = EngineOptions<float>(options.network, plan.program, options.samples);
      engine.plan.version_ages.clear();
      for (const std::int64_t delay : plan.delays) {
        engine.plan.version_ages.push_back(stashing ? delay : 0);
      }
      if (stashing) engine.plan.schedule.weights = WeightVersions::kStashed;
      std::mutex mutex;
      std::map<std::tuple<ActionKind, int, std::int64_t>, std::int64_t> reads;
      engine.on_read = [&](const VersionRead& read) {
        const std::lock_guard lock(mutex);
        reads[{read.kind, read.stage, read.microbatch}] = read.version;
      };
      Pipeline<float> pipeline(engine);
      std::vector<SampleResult> results;
      pipeline.Run(Source(), 0, options.samples + DrainCycles(plan.program), results);
      const int stages = options.network.stage_count();
      CHECK(results.size() == static_cast<std::size_t>(options.samples));
      CHECK(reads.size() == 2 * stages * static_cast<std::size_t>(options.samples));
      for (int s = 0; s < stages; ++s) {
        for (std::int64_t i = 0; i < options.samples; ++i) {
          const std::int64_t forward = std::max<std::int64_t>(0, i - 2 * (stages - 1 - s));
          CHECK(reads[{ActionKind::kForward, s, i}] == forward);
          CHECK(reads[{ActionKind::kBackward, s, i}] == (stashing ? forward : i));
        }
      }
    }
  }
}

TEST_CASE("Without delay every rule is SGDM bit for bit", "[pb]") {
  TrainerOptions sequential = Options("resnet20", 24);
  sequential.schedule = {};
  sequential.batch = 4;
  const auto expected = MakeTrainer(sequential);
  Losses(*expected, 24);
  for (const char* rule : kRules) {
    // Nesterov compensates for a delay of one whatever the delay is.
    if (std::string(rule) == "nesterov") continue;
    for (const bool consistent : {false, true}) {
      TrainerOptions options = sequential;
      options.rule.rule = FindRule(rule);
      if (consistent) options.schedule.weights = WeightVersions::kStashed;
      const auto trainer = MakeTrainer(options);
      Losses(*trainer, 24);
      INFO(rule);
      CHECK(trainer->WeightsSha256() == expected->WeightsSha256());
    }
  }
}

void CompareWorkers(const char* network) {
  for (const bool stashing : {false, true}) {
    TrainerOptions options = Options(network, 100);
    options.rule.rule = FindRule("lwp-v+sc");
    if (stashing) options.schedule.weights = WeightVersions::kStashed;
    const auto whole = MakeTrainer(options);
    const std::vector<double> losses = Losses(*whole, 100);
    REQUIRE(losses.size() == 100);
    for (const int workers : {2, 3, 8}) {
      options.workers = workers;
      const auto trainer = MakeTrainer(options);
      CHECK(Losses(*trainer, 100) == losses);
      CHECK(trainer->WeightsSha256() == whole->WeightsSha256());
    }
    // Saved in the middle, with the pipeline full, and resumed with other numbers of workers.
    for (const auto& [before, after] : {std::pair{1, 1}, {3, 1}, {1, 4}}) {
      options.workers = before;
      const auto first = MakeTrainer(options);
      std::vector<double> both = Losses(*first, 71);
      std::stringstream state;
      first->Save(state);
      options.workers = after;
      const auto second = MakeTrainer(options);
      second->Load(state);
      CHECK(second->samples_done() == 71);
      const std::vector<double> rest = Losses(*second, 100);
      both.insert(both.end(), rest.begin(), rest.end());
      INFO("stashing " << stashing << ", workers " << before << " then " << after);
      CHECK(both == losses);
      CHECK(second->WeightsSha256() == whole->WeightsSha256());
    }
  }
}

TEST_CASE("Pipelined training gives the same bits on any number of workers, resumed or not",
          "[pb]") {
  CompareWorkers("resnet8");
}

TEST_CASE("Pipelined training of ResNet-20 gives the same bits on any number of workers",
          "[pb][.long]") {
  CompareWorkers("resnet20");
}

// Per-sample losses of the engine against the literal emulation, whose arithmetic is the same but
// for where the compiler may take another instruction.
constexpr double kEmulationTolerance = 1e-5;

// `list`: the schedule of that many samples, from the empty pipeline to the empty pipeline.
void CompareWithEmulation(TrainerOptions options, std::int64_t samples,
                          const hwmodel::Schedule& list) {
  options.samples = samples;
  const auto trainer = MakeTrainer(options);
  // The same initial weights, in the stages' order.
  std::map<std::string, NamedTensor> initial;
  for (NamedTensor& tensor : trainer->ExportWeights()) initial[tensor.name] = std::move(tensor);
  std::vector<LiteralPipeline::Block> blocks;
  for (int s = 0; s < options.network.stage_count(); ++s) {
    const auto stage = MakeStage<float>(options.network, s, 1, MakeVectorBackend());
    LiteralPipeline::Block block(stage->layout().parameter_size);
    for (const ParameterTensor& tensor : stage->layout().parameters) {
      const std::vector<double>& values = initial.at(tensor.name).values;
      Pack<float>(tensor, std::vector<float>(values.begin(), values.end()), block.data());
    }
    blocks.push_back(std::move(block));
  }
  LiteralPipeline literal(options.network, blocks,
                          {.rule = options.rule,
                           .versions = hwmodel::Summarize(list),
                           .backward_as_forward = list.weights != WeightVersions::kNewest,
                           .samples_per_update = options.batch,
                           .spectrain = options.rule.rule.predicts_to_last_backward,
                           .learning_rate = options.learning_rate.base,
                           .momentum = options.momentum,
                           .weight_decay = options.weight_decay});
  const std::vector<double> losses = Losses(*trainer, samples);
  REQUIRE(losses.size() == static_cast<std::size_t>(samples));
  const SampleSource source = Source();
  double worst = 0;
  std::int64_t where = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    const double expected = literal.Step(source, i);
    const double difference = std::abs(losses[i] - expected) / std::max(1.0, expected);
    if (difference > worst) where = i;
    worst = std::max(worst, difference);
  }
  INFO("largest difference " << worst << " at sample " << where);
  CHECK(worst <= kEmulationTolerance);
}

void CompareWithEmulation(const TrainerOptions& options, std::int64_t samples) {
  hwmodel::Schedule list =
      hwmodel::PipelinedBackpropagation(options.network.stage_count(), samples);
  list.weights = options.schedule.weights;
  CompareWithEmulation(options, samples, list);
}

void CompareResNetWithEmulation(const char* network, std::int64_t samples) {
  for (const char* rule : kRules) {
    INFO(rule);
    TrainerOptions options = Options(network, samples);
    options.rule.rule = FindRule(rule);
    CompareWithEmulation(options, samples);
  }
  const auto compare = [&](const char* name, const auto& change) {
    INFO(name);
    TrainerOptions options = Options(network, samples);
    change(options);
    CompareWithEmulation(options, samples);
  };
  compare("stashing", [](TrainerOptions& o) { o.schedule.weights = WeightVersions::kStashed; });
  compare("stashing, lwp-v+sc", [](TrainerOptions& o) {
    o.schedule.weights = WeightVersions::kStashed;
    o.rule.rule = FindRule("lwp-v+sc");
  });
  compare("spectrain", [](TrainerOptions& o) { o.rule.rule = FindRule("spectrain"); });
  compare("twice the horizon", [](TrainerOptions& o) {
    o.rule.rule = FindRule("lwp-v");
    o.rule.options.horizon_scale = 2;
  });
}

// Three times the first stage's delay.
TEST_CASE("ResNet-8 follows the literal emulation, every rule", "[pb][emulation]") {
  CompareResNetWithEmulation("resnet8", 80);
}

TEST_CASE("ResNet-20 follows the literal emulation, every rule", "[pb][emulation][.long]") {
  CompareResNetWithEmulation("resnet20", 200);
}

// A schedule made twice: short, as the trainer takes it, and for all samples of a run.
struct ListCase {
  const char* name;
  std::int64_t samples_per_update;
  hwmodel::Schedule (*make)(int stages, std::int64_t samples);
  std::int64_t enough = 48;
};

const ListCase kLists[] = {
    {"pb as a list", 1,
     [](int stages, std::int64_t n) { return hwmodel::PipelinedBackpropagation(stages, n); }},
    {"1f1b", 1,
     [](int stages, std::int64_t n) { return hwmodel::OneForwardOneBackward(stages, n); }},
    {"1f1b, stashed", 1,
     [](int stages, std::int64_t n) {
       hwmodel::Schedule list = hwmodel::OneForwardOneBackward(stages, n);
       list.weights = WeightVersions::kStashed;
       return list;
     }},
    {"2bw", 12, [](int stages, std::int64_t n) { return hwmodel::PipeDream2Bw(stages, n, 12); }},
    {"pipedream-flush", 6,
     [](int stages, std::int64_t n) { return hwmodel::PipeDreamFlush(stages, n, 6); }},
    {"interleaved", 6,
     [](int stages, std::int64_t n) { return hwmodel::Interleaved(stages, 4, n, 6); }},
    {"pb, updates a step late", 1,
     [](int stages, std::int64_t n) {
       hwmodel::Schedule list = hwmodel::PipelinedBackpropagation(stages, n);
       std::erase_if(list.actions, [](const hwmodel::TimedAction& timed) {
         return timed.action.kind == ActionKind::kUpdate;
       });
       hwmodel::Schedule late = list;
       late.actions.clear();
       std::int64_t step = -1;
       std::vector<hwmodel::Action> updates;
       for (const hwmodel::TimedAction& timed : list.actions) {
         if (timed.step != step) {
           for (const hwmodel::Action& update : updates)
             late.actions.push_back({timed.step, update});
           updates.clear();
           step = timed.step;
         }
         late.actions.push_back(timed);
         if (timed.action.kind != ActionKind::kBackward) continue;
         updates.push_back({timed.action.stage, ActionKind::kUpdate, timed.action.microbatch});
       }
       for (const hwmodel::Action& update : updates) late.actions.push_back({step + 1, update});
       return late;
     }},
    {"pb, the first stage's backward 60 steps late", 1,
     [](int stages, std::int64_t n) {
       hwmodel::Schedule list = hwmodel::PipelinedBackpropagation(stages, n);
       for (hwmodel::TimedAction& timed : list.actions) {
         const bool comes_back = timed.action.kind != ActionKind::kForward;
         if (timed.action.stage == 0 && comes_back) timed.step += 60;
       }
       std::stable_sort(list.actions.begin(), list.actions.end(),
                        [](const hwmodel::TimedAction& a, const hwmodel::TimedAction& b) {
                          return a.step < b.step;
                        });
       return list;
     },
     200},
    {"pb over three groups", 1,
     [](int stages, std::int64_t n) {
       return hwmodel::ExpandGroups(hwmodel::PipelinedBackpropagation(3, n),
                                    std::vector<int>{2, 7, stages});
     }},
    {"2bw over four groups", 4, [](int stages, std::int64_t n) {
       return hwmodel::ExpandGroups(hwmodel::PipeDream2Bw(4, n, 4),
                                    std::vector<int>{1, 3, 8, stages});
     }}};

TrainerOptions ListOptions(const ListCase& list, std::int64_t samples) {
  TrainerOptions options = Options("lenet5", samples);
  options.batch = list.samples_per_update;
  options.rule.rule = FindRule("lwp-v+sc");
  options.schedule = list.make(options.network.stage_count(), list.enough);
  return options;
}

TEST_CASE("Every schedule follows the literal emulation", "[list][emulation]") {
  for (const ListCase& list : kLists) {
    for (const int workers : {1, 3}) {
      INFO(list.name << ", workers " << workers);
      TrainerOptions options = ListOptions(list, 96);
      options.workers = workers;
      CompareWithEmulation(options, 96, list.make(options.network.stage_count(), 96));
    }
  }
}

TEST_CASE("A schedule's state goes on in the middle with other workers", "[list]") {
  for (const ListCase& list : kLists) {
    INFO(list.name);
    TrainerOptions options = ListOptions(list, 96);
    const auto whole = MakeTrainer(options);
    Losses(*whole, 96);
    options.workers = 2;
    const auto first = MakeTrainer(options);
    Losses(*first, 41);
    std::stringstream state;
    first->Save(state);
    options.workers = 5;
    const auto second = MakeTrainer(options);
    second->Load(state);
    Losses(*second, 96);
    CHECK(second->WeightsSha256() == whole->WeightsSha256());
    // A trainer that has gone further goes back.
    Losses(*first, 96);
    CHECK(first->WeightsSha256() == whole->WeightsSha256());
    std::istringstream earlier(state.str());
    first->Load(earlier);
    Losses(*first, 96);
    CHECK(first->WeightsSha256() == whole->WeightsSha256());
  }
}

// 1F1B whose weight gradients come right after their backwards, or after the next ones.
hwmodel::Schedule SplitOneForwardOneBackward(int stages, bool later) {
  hwmodel::Schedule whole = hwmodel::OneForwardOneBackward(stages, 4 * stages);
  hwmodel::Schedule split = whole;
  split.actions.clear();
  std::vector<std::vector<std::int64_t>> backwards(stages);  // steps, by stage
  for (const auto& [step, action] : whole.actions) {
    if (action.kind == ActionKind::kBackward) backwards[action.stage].push_back(2 * step);
  }
  for (const auto& [step, action] : whole.actions) {
    const auto& [stage, kind, k] = action;
    if (kind == ActionKind::kForward || kind == ActionKind::kBackward) {
      split.actions.push_back({2 * step, action});
      continue;
    }
    const bool is_last = k + 1 == whole.microbatches;
    std::int64_t at = backwards[stage][k] + 1;
    if (later) at = is_last ? at + 2 : backwards[stage][k + 1] + 1;
    split.actions.push_back({at, {stage, ActionKind::kWeightGradient, k}});
    split.actions.push_back({at, action});
  }
  std::stable_sort(split.actions.begin(), split.actions.end(),
                   [](const auto& a, const auto& b) { return a.step < b.step; });
  return split;
}

// Of a run that is resumed in the middle with other workers.
std::string ResumedDigest(TrainerOptions options, std::int64_t samples, int before, int after) {
  options.workers = before;
  const auto first = MakeTrainer(options);
  Losses(*first, samples / 2);
  std::stringstream state;
  first->Save(state);
  options.workers = after;
  const auto second = MakeTrainer(options);
  second->Load(state);
  Losses(*second, samples);
  return second->WeightsSha256();
}

TEST_CASE("Split backwards give the bits of whole ones", "[list]") {
  for (const char* network : {"lenet5", "resnet20"}) {
    constexpr std::int64_t kSamples = 48;
    TrainerOptions options = Options(network, kSamples);
    options.learning_rate.base = 1e-3;
    options.momentum = 0.9;
    const int stages = options.network.stage_count();
    const auto digest = [](const TrainerOptions& o) {
      const auto trainer = MakeTrainer(o);
      Losses(*trainer, kSamples);
      return trainer->WeightsSha256();
    };
    // Mini-batches that drain: zero bubble against one worker's forwards and backwards in turn.
    TrainerOptions minibatches = options;
    minibatches.batch = 12;
    minibatches.schedule = {};
    const std::string expected = digest(minibatches);
    minibatches.schedule = hwmodel::ZeroBubbleH1(stages, 36, 12);
    CHECK(digest(minibatches) == expected);
    minibatches.workers = 3;
    CHECK(digest(minibatches) == expected);
    // Without a flush.
    options.schedule = hwmodel::OneForwardOneBackward(stages, 4 * stages);
    options.rule.rule = FindRule("lwp-v+sc");
    const std::string whole = digest(options);
    options.schedule = SplitOneForwardOneBackward(stages, /*later=*/false);
    INFO(network);
    CHECK(digest(options) == whole);
    CHECK(ResumedDigest(options, kSamples, 2, 1) == whole);
    // Later by an update, and with what is held for it in the saved state.
    options.schedule = SplitOneForwardOneBackward(stages, /*later=*/true);
    const std::string later = digest(options);
    CHECK(later != whole);
    CHECK(ResumedDigest(options, kSamples, 1, 3) == later);
    CHECK(MakePlan(options).delays[stages - 1] == 1);
  }
}

TEST_CASE("Lists that a network cannot follow are refused", "[list]") {
  const TrainerOptions good = ListOptions(kLists[3], 96);
  std::string why;
  CHECK(good.IsValid(&why));
  TrainerOptions options = good;
  options.batch = 6;
  CHECK(!options.IsValid(&why));
  CHECK(why.starts_with("batch: got 6, accepted: 12"));
  options = good;
  options.schedule = hwmodel::PipelinedBackpropagation(5, 20);
  CHECK(!options.IsValid(&why));
  CHECK(why.starts_with("schedule: got 5, accepted: a list of 12 stages"));
  options = good;
  options.schedule.microbatches = 1;
  options.schedule.actions.resize(2);
  CHECK(!options.IsValid(&why));
}

void CompareVggWithEmulation(const char* rule, std::int64_t samples) {
  INFO(rule);
  TrainerOptions options = Options("vgg11", samples);
  options.rule.rule = FindRule(rule);
  CompareWithEmulation(options, samples);
}

TEST_CASE("VGG-11 follows the literal emulation", "[pb][emulation]") {
  CompareVggWithEmulation("lwp-v+sc", 40);
}

// Takes several minutes and 4 GB.
TEST_CASE("VGG-11 follows the literal emulation, every rule", "[pb][emulation][.long]") {
  for (const char* rule : kRules) CompareVggWithEmulation(rule, 200);
}

// f = |sum_s c_s w_s - t|^2 / 2 as a network: each stage adds c_s w_s to what passes through, and the
// last one is the loss. Quadratic, with Hessian c c', each block read by its own stage.
class ShiftStage final : public Stage<double> {
 public:
  explicit ShiftStage(double factor) : factor_(factor) {
    ParameterTensor tensor;
    tensor.name = "w";
    tensor.shape = {1};
    tensor.sizes = {1, 1, 1, 1};
    tensor.order.out_outer = 1;
    tensor.stored_size = 1;
    layout_.parameters = {tensor};
    layout_.parameter_size = 1;
  }
  void Forward(const ForwardArguments<double>& arguments) override {
    arguments.outputs[0][0] = arguments.inputs[0][0] + factor_ * arguments.parameters[0];
  }
  void Backward(const BackwardArguments<double>& arguments) override {
    const double gradient = arguments.output_gradients[0][0];
    arguments.gradient[0] =
        (arguments.add_gradient ? arguments.gradient[0] : 0) + factor_ * gradient;
    if (arguments.input_gradient != nullptr) arguments.input_gradient[0] = gradient;
  }

 private:
  double factor_;
};

// Half the squared distance from where the input started, the value of the first pixel.
class SquareStage final : public Stage<double> {
 public:
  explicit SquareStage(double target) : target_(target) { layout_.saved_size = 16; }
  void Forward(const ForwardArguments<double>& arguments) override {
    arguments.saved[0] = arguments.inputs[0][0] - target_;
    arguments.microbatch->losses[0] = arguments.saved[0];
    arguments.microbatch->correct[0] = 0;
  }
  void Backward(const BackwardArguments<double>& arguments) override {
    arguments.input_gradient[0] = arguments.saved[0] * arguments.microbatch->gradient_scale;
  }

 private:
  double target_;
};

// One image of one pixel.
class OnePixel final : public Dataset {
 public:
  OnePixel()
      : Dataset({.name = "pixel",
                 .shape = {1, 1, 1},
                 .classes = 1,
                 .mean = {0.0F},
                 .deviation = {1.0F},
                 .labels = {0},
                 .digest = ""}) {}

 private:
  void DoRead(std::int64_t /*sample*/, std::span<std::uint8_t> pixels) const override {
    pixels[0] = 0;
  }
  void DoReadAugmented(std::int64_t /*sample*/, CounterRandom& /*random*/,
                       std::span<std::uint8_t> pixels) const override {
    pixels[0] = 0;
  }
};

hwmodel::Network ChainNetwork(int stages) {
  hwmodel::Network network;
  network.name = "chain";
  network.input = {1, 1, 1};
  network.classes = 1;
  network.values.push_back({.shape = {1, 1, 1}});
  for (int s = 0; s < stages; ++s) {
    hwmodel::Stage stage;
    stage.layers.push_back({.kind = hwmodel::LayerKind::kLinear});
    stage.inputs = {s};
    network.values[s].consumers = {s};
    if (s + 1 < stages) {
      stage.outputs = {s + 1};
      network.values.push_back({.shape = {1, 1, 1}, .producer = s});
    }
    network.stages.push_back(stage);
  }
  return network;
}

// Residuals sum_s c_s w_hat_s of a run on the chain, all weights starting at 1.
std::vector<double> RunChain(const std::vector<double>& factors, const Program& program,
                             const std::vector<std::int64_t>& delays,
                             const analysis::RuleSpec& rule, double rate, double momentum,
                             std::int64_t lag, std::int64_t steps) {
  const int stages = static_cast<int>(factors.size()) + 1;
  const hwmodel::Network network = ChainNetwork(stages);
  auto options = EngineOptions<double>(network, program, steps);
  options.plan.schedule.forward_lag = lag;
  options.plan.version_ages.assign(stages, lag);
  options.predicts_forward = rule.rule.prediction != analysis::Prediction::kNone;
  options.coefficients = [&](int stage, std::int64_t) {
    return MakeCoefficients<double>({}, rule,
                                    {.rate = rate, .momentum = momentum, .delay = delays[stage]});
  };
  options.make_stage = [&](int stage) -> std::unique_ptr<Stage<double>> {
    if (stage + 1 == stages) return std::make_unique<SquareStage>(0);
    return std::make_unique<ShiftStage>(factors[stage]);
  };
  Pipeline<double> pipeline(options);
  for (int s = 0; s + 1 < stages; ++s) pipeline.parameters(s).Reset({1.0}, {});
  const SampleSource source(std::make_shared<OnePixel>(), {.order = Order::kSequential});
  std::vector<SampleResult> results;
  pipeline.Run(source, 0, steps + DrainCycles(program), results);
  std::vector<double> residuals;
  residuals.reserve(results.size());
  for (const SampleResult& result : results) residuals.push_back(result.loss);
  return residuals;
}

// Rounding over a few hundred stable steps.
constexpr double kTrajectoryTolerance = 1e-10;

TEST_CASE("On a quadratic with one delay the trainer follows the analyzer, every rule", "[pb]") {
  constexpr std::int64_t kSteps = 150;
  constexpr double kMomentum = 0.8;
  for (const char* name : kRules) {
    for (int delay = 0; delay <= 20; ++delay) {
      analysis::RuleSpec rule{FindRule(name), {}};
      const double rate = 0.3 / (1 + delay) / (1 + delay);
      analysis::SimulationOptions simulation;
      simulation.rule = rule;
      simulation.momentum = kMomentum;
      simulation.delay = delay;
      simulation.learning_rate = rate;
      simulation.updates = kSteps;
      const auto expected = analysis::SimulateQuadratic(simulation);
      const std::vector<double> residuals = RunChain({1.0}, SequentialProgram(2), {delay, delay},
                                                     rule, rate, kMomentum, delay, kSteps);
      INFO(name << ", delay " << delay);
      REQUIRE(residuals.size() == kSteps);
      double worst = 0;
      for (std::int64_t i = 0; i < kSteps; ++i) {
        worst = std::max(worst, std::abs(residuals[i] - expected[i].predicted_weight));
      }
      CHECK(worst <= kTrajectoryTolerance);
    }
  }
}

TEST_CASE("On a linear chain with the delays of its stages the trainer follows the state matrix",
          "[pb]") {
  constexpr std::int64_t kSteps = 120;
  constexpr double kMomentum = 0.7;
  const std::vector<double> factors{0.9, -0.4, 0.6, 0.3};
  const int stages = static_cast<int>(factors.size()) + 1;
  const hwmodel::Schedule schedule = hwmodel::PipelinedBackpropagation(stages, 2 * stages);
  for (const char* name : kRules) {
    for (const std::vector<int>& boundaries :
         {std::vector<int>{stages}, std::vector<int>{2, stages}}) {
      const analysis::RuleSpec rule{FindRule(name), {}};
      const Program program = SteadyProgram(
          hwmodel::FindSteadyState(schedule, WorkersOfStages(boundaries)), boundaries);
      constexpr double kRate = 0.02;
      std::vector<std::int64_t> delays;
      delays.reserve(stages);
      for (int s = 0; s < stages; ++s) delays.push_back(2 * (stages - 1 - s));
      const std::vector<double> residuals =
          RunChain(factors, program, delays, rule, kRate, kMomentum, 0, kSteps);

      analysis::PipelineOptions options;
      options.rule = rule;
      options.momentum = kMomentum;
      options.learning_rate = kRate;
      const auto blocks = static_cast<Eigen::Index>(factors.size());
      options.hessian.resize(blocks, blocks);
      for (Eigen::Index i = 0; i < blocks; ++i) {
        for (Eigen::Index j = 0; j < blocks; ++j) {
          options.hessian(i, j) = factors[i] * factors[j];
        }
        options.delays.push_back(delays[i]);
        options.widths.push_back(1);
      }
      // The state holds, stage after stage, w, v, (w before), and the last D predictions; the
      // forward of step i reads the prediction of D updates ago, which is the last of them.
      const Eigen::MatrixXd matrix = analysis::StateMatrix(options);
      Eigen::VectorXd state = Eigen::VectorXd::Zero(matrix.rows());
      const bool weight_form = rule.rule.prediction == analysis::Prediction::kWeight;
      std::vector<Eigen::Index> oldest;
      std::vector<Eigen::Index> first;
      Eigen::Index at = 0;
      for (std::size_t s = 0; s < factors.size(); ++s) {
        const Eigen::Index size = 2 + delays[s] + (weight_form ? 1 : 0);
        first.push_back(at);
        for (Eigen::Index i = 0; i < size; ++i) state(at + i) = i == 1 ? 0 : 1;
        at += size;
        oldest.push_back(at - 1);
      }
      REQUIRE(at == matrix.rows());
      REQUIRE(residuals.size() == kSteps);
      double worst = 0;
      for (std::int64_t i = 0; i < kSteps; ++i) {
        double expected = 0;
        for (std::size_t s = 0; s < factors.size(); ++s) {
          expected += factors[s] * state(oldest[s]);
        }
        worst = std::max(worst, std::abs(residuals[i] - expected));
        state = matrix * state;
      }
      INFO(name << ", workers " << boundaries.size());
      CHECK(worst <= kTrajectoryTolerance);
    }
  }
}

TEST_CASE("What pipelined training cannot do is refused by name", "[pb]") {
  const auto why = [](auto change) {
    TrainerOptions options = Options("resnet20", 10);
    change(options);
    std::string text;
    CHECK_FALSE(options.IsValid(&text));
    CHECK_THROWS_AS(MakeTrainer(options), analysis::InvalidArgument);
    return text.substr(0, text.find(':'));
  };
  CHECK(why([](TrainerOptions& o) { o.batch = 2; }) == "batch");
  CHECK(why([](TrainerOptions& o) { o.samples = 0; }) == "samples");
  CHECK(why([](TrainerOptions& o) { o.schedule.forward_lag = -1; }) == "forward_lag");
  CHECK(why([](TrainerOptions& o) {
          o.rule.rule = FindRule("spectrain");
          o.schedule.weights = WeightVersions::kStashed;
        }) == "rule");
  CHECK(why([](TrainerOptions& o) {
          o.rule.rule = FindRule("spectrain");
          o.schedule = {};
        }) == "rule");
}

}  // namespace
}  // namespace batchless::training
