#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <sstream>

#include "batchless/hwmodel/schedule_summary.h"
#include "catch.h"
#include "pipeline_runs.h"
#include "plan.h"
#include "refusal.h"

namespace batchless::training {

using analysis::FindRule;
using hwmodel::ActionKind;
using hwmodel::WeightVersions;

namespace {

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
    options.schedule = ScheduleOf(kind, stages, 1);
    options.rule.rule = FindRule("spectrain");
    CHECK(WhyNot(options).empty());
    const PipelinePlan plan = MakePlan(options);
    for (int s = 0; s < stages; ++s) {
      const int backward = is_pb ? s : (s + 1) / 2;
      CHECK(plan.horizons[s].backward == backward);
      CHECK(plan.horizons[s].forward == static_cast<double>(plan.delays[s] + backward));
    }
    // Its authors' second version predicts forwards alone.
    options.schedule.weights = WeightVersions::kStashed;
    const PipelinePlan stashed = MakePlan(options);
    for (int s = 0; s < stages; ++s) {
      CHECK(stashed.horizons[s].forward == static_cast<double>(plan.delays[s]));
      CHECK(stashed.horizons[s].backward == 0);
    }
  }
}

TEST_CASE("With stashed weights, or one delay for all stages, SpecTrain is LWPv bit for bit",
          "[pb]") {
  for (const std::string kind : {"pb", "1f1b", "2bw", "one delay"}) {
    TrainerOptions options = Options("lenet5", 96);
    const int stages = options.network.stage_count();
    const std::int64_t per_update = kind == "2bw" ? 12 : 1;
    options.batch = per_update;
    options.schedule = {.forward_lag = 5};
    if (kind != "one delay") {
      options.schedule = hwmodel::MakeSchedule(
          kind, {.stages = stages,
                 .microbatches = hwmodel::EnoughMicrobatches(stages, per_update),
                 .microbatches_per_update = per_update,
                 .weight_stashing = per_update == 1});
    }
    options.learning_rate.base = 1e-3;
    options.momentum = 0.9;
    std::vector<std::string> digests;
    for (const char* rule : {"lwp-v", "spectrain", "sgdm"}) {
      options.rule.rule = FindRule(rule);
      digests.push_back(Run(*MakeTrainer(options), 96).weights);
    }
    INFO(kind);
    CHECK(digests[0] == digests[1]);
    CHECK(digests[0] != digests[2]);
  }
}

double Ratio(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

TEST_CASE("Values made again are the same, in less memory, for any schedule and workers", "[pb]") {
  struct Case {
    const char* name;
    const char* network;
    std::int64_t per_update;
    std::vector<int> ends;  // of the pipeline's stages; none: each of the network's
    hwmodel::Schedule (*make)(int stages, std::int64_t per_update);
    bool saves = true;  // with few micro-batches in flight there is nothing to save
  };
  const auto gpipe = [](int stages, std::int64_t n) { return hwmodel::Gpipe(stages, 2 * n, n); };
  const Case cases[] = {
      {"gpipe over four", "resnet20", 8, {8, 16, 25, 34}, gpipe},
      {"gpipe", "resnet20", 6, {}, gpipe, false},
      {"dropout", "vgg11", 4, {10, 20, 29}, gpipe},
      {"zb-h1",
       "resnet20",
       6,
       {8, 16, 34},
       [](int stages, std::int64_t n) { return hwmodel::ZeroBubbleH1(stages, 2 * n, n); },
       false},
      {"2bw",
       "lenet5",
       4,
       {4, 8, 12},
       [](int stages, std::int64_t n) { return hwmodel::PipeDream2Bw(stages, 6 * n, n); },
       false},
      {"pb, stashed",
       "lenet5",
       1,
       {3, 6, 9, 12},
       [](int stages, std::int64_t) {
         return With(WeightVersions::kStashed,
                     hwmodel::PipelinedBackpropagation(stages, 8 * stages));
       }},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    TrainerOptions options = Options(c.network, 24);
    options.batch = c.per_update;
    options.rule.rule = FindRule("lwp-v+sc");
    const int stages = options.network.stage_count();
    options.schedule =
        c.make(c.ends.empty() ? stages : static_cast<int>(c.ends.size()), c.per_update);
    if (!c.ends.empty()) options.schedule = hwmodel::ExpandGroups(options.schedule, c.ends);
    const auto kept = MakeTrainer(options);
    const Outcome expected = Run(*kept, 24);
    const auto kept_predicted = PredictMemory(options).total();
    options.recompute = true;
    for (const int workers : {1, 2, 3}) {
      INFO("workers " << workers);
      options.workers = workers;
      const auto trainer = MakeTrainer(options);
      CHECK(Run(*trainer, 24) == expected);
      if (workers > 1) continue;
      if (c.saves) CHECK(trainer->memory_bytes() < kept->memory_bytes());
      // A small network takes 20 % more than is predicted, with or without recomputation.
      const double saved = Ratio(trainer->memory_bytes(), kept->memory_bytes());
      CHECK(Ratio(PredictMemory(options).total(), kept_predicted) == Approx(saved).epsilon(0.1));
    }
  }
  TrainerOptions late = Options("lenet5", 24);
  late.recompute = true;
  CHECK(WhyNot(late).starts_with(
      "recompute: got true, accepted: false with a schedule whose backwards"));
}

TEST_CASE("The pipeline's stages that recompute are chosen, and no result depends on it", "[pb]") {
  TrainerOptions options = Options("narrow-vgg", 8);
  options.batch = 4;
  const int stages = options.network.stage_count();
  options.schedule = hwmodel::ExpandGroups(hwmodel::Gpipe(3, 8, 4), std::vector<int>{3, 7, stages});
  const auto kept = MakeTrainer(options);
  const Outcome expected = Run(*kept, 8);
  const auto saved = [&](std::vector<int> chosen) {
    options.recompute = true;
    options.recomputed_workers = std::move(chosen);
    const auto trainer = MakeTrainer(options);
    CHECK(Run(*trainer, 8) == expected);
    return kept->memory_bytes() - trainer->memory_bytes();
  };
  const std::int64_t first = saved({0});
  const std::int64_t second = saved({1});
  CHECK(first > 0);
  CHECK(second > 0);
  CHECK(saved({0, 1}) == first + second);
  CHECK(saved({}) == saved({0, 1, 2}));
  const auto refused = [&](std::vector<int> chosen, bool recompute) {
    options.recompute = recompute;
    options.recomputed_workers = std::move(chosen);
    return WhyNot(options);
  };
  CHECK(
      refused({3}, true) ==
      "recomputed_workers: got 3, accepted: ascending numbers from 0 to 2, the pipeline's stages");
  CHECK(refused({1, 1}, true).starts_with("recomputed_workers: got 1, accepted: ascending"));
  CHECK(refused({1}, false) == "recomputed_workers: got 1, accepted: nothing without recompute");
}

TEST_CASE("A state in flight goes on where the same stages make values again", "[pb]") {
  TrainerOptions options = Options("lenet5", 24);
  options.schedule = hwmodel::ExpandGroups(
      With(WeightVersions::kStashed, hwmodel::PipelinedBackpropagation(4, 32)),
      std::vector<int>{3, 6, 9, options.network.stage_count()});
  options.recompute = true;
  const std::string whole = Run(*MakeTrainer(options), 24).weights;
  const auto half = [&] {
    const auto trainer = MakeTrainer(options);
    Run(*trainer, 12);
    std::ostringstream state;
    trainer->Save(state);
    return state.str();
  };
  const auto end_of = [&](const std::string& state) {
    const auto trainer = MakeTrainer(options);
    std::istringstream from(state);
    trainer->Load(from);
    return Run(*trainer, 24).weights;
  };
  const auto other = Catch::Matchers::StartsWith("a state of another configuration: lenet5");
  const std::string of_groups = half();
  CHECK(end_of(of_groups) == whole);
  // Five workers divide one of the four groups.
  options.workers = 5;
  CHECK_THROWS_WITH(end_of(of_groups), other);
  CHECK(end_of(half()) == whole);
  options.workers = 1;
  options.recomputed_workers = {0, 3};
  const std::string of_outer = half();
  CHECK(end_of(of_outer) == whole);
  options.recomputed_workers = {1, 2};
  CHECK_THROWS_WITH(end_of(of_outer), other);
}

TEST_CASE("Statistics of batch normalisation count a micro-batch that is made again once", "[pb]") {
  TrainerOptions options = Options("resnet8", 24);
  options.network =
      hwmodel::MakeNetwork({.name = "resnet8", .normalization = hwmodel::Normalization::kBatch});
  options.batch = options.microbatch = 8;
  options.schedule = hwmodel::ExpandGroups(hwmodel::Gpipe(2, 2, 1), std::vector<int>{8, 16});
  const auto kept = MakeTrainer(options);
  const Outcome outcome = Run(*kept, 24);
  options.recompute = true;
  const auto again = MakeTrainer(options);
  CHECK(Run(*again, 24) == outcome);
  const std::vector<NamedTensor> expected = kept->ExportWeights();
  const std::vector<NamedTensor> found = again->ExportWeights();
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i].values == expected[i].values);
}

TEST_CASE("Vertical sync trains as one delay for all stages does, bit for bit", "[pb]") {
  TrainerOptions options = Options("lenet5", 64);
  const int stages = options.network.stage_count();
  options.learning_rate.base = 1e-3;
  options.momentum = 0.9;
  options.rule.rule = FindRule("lwp-v+sc");
  TrainerOptions uniform = options;
  uniform.schedule = {.weights = WeightVersions::kStashed, .forward_lag = stages - 1};
  const Outcome expected = Run(*MakeTrainer(uniform), 64);
  options.schedule =
      hwmodel::MakeSchedule("1f1b", {.stages = stages,
                                     .microbatches = hwmodel::EnoughMicrobatches(stages, 1),
                                     .weight_stashing = true,
                                     .vertical_sync = true});
  for (const int workers : {1, 3}) {
    options.workers = workers;
    CHECK(Run(*MakeTrainer(options), 64) == expected);
  }
  // With several micro-batches an update a stage's lag is no one number.
  options.batch = 2;
  options.schedule = hwmodel::Paci(stages, hwmodel::EnoughMicrobatches(stages, 2), 2);
  options.schedule.weights = WeightVersions::kVerticalSync;
  CHECK(WhyNot(options).starts_with("weights: got vertical-sync"));
}

TEST_CASE("SpecTrain's horizons are the latest micro-batch's where several make an update",
          "[pb]") {
  TrainerOptions options = Options("lenet5", 64);
  const int stages = options.network.stage_count();
  constexpr int kPerUpdate = 2;
  options.batch = kPerUpdate;
  options.schedule =
      hwmodel::Paci(stages, hwmodel::EnoughMicrobatches(stages, kPerUpdate), kPerUpdate);
  options.rule.rule = FindRule("spectrain");
  const PipelinePlan plan = MakePlan(options);
  for (int s = 0; s < stages; ++s) {
    // A stage does a micro-batch in every second step, and its last backward is s steps later.
    const auto updates_of = [](int microbatches) {
      return (microbatches + kPerUpdate - 1) / kPerUpdate;
    };
    const int backward = (s + 1) / 2;
    CHECK(plan.delays[s] == updates_of(stages - 1 - s));
    CHECK(plan.horizons[s].backward == updates_of(backward));
    CHECK(plan.horizons[s].forward == updates_of(stages - 1 - s + backward));
  }
}

TEST_CASE("Values are made again by the version that the forward read and the backward will",
          "[pb]") {
  constexpr std::int64_t kPerUpdate = 4, kUpdates = 6;
  TrainerOptions options = Options("lenet5", kPerUpdate * kUpdates);
  options.batch = kPerUpdate;
  options.recompute = true;
  const int stages = options.network.stage_count();
  options.schedule =
      hwmodel::ExpandGroups(hwmodel::PipeDream2Bw(4, kUpdates * kPerUpdate, kPerUpdate),
                            std::vector<int>{3, 6, 9, stages});
  const PipelinePlan plan = MakePlan(options);
  auto engine = EngineOptions<float>(options.network, plan.program, options.samples);
  engine.plan = plan;
  engine.microbatches_per_update = kPerUpdate;
  std::map<std::pair<int, std::int64_t>, std::vector<std::int64_t>> reads;
  engine.on_read = [&](const VersionRead& read) {
    reads[{read.stage, read.microbatch}].push_back(read.version);
  };
  Pipeline<float> pipeline(engine);
  std::vector<SampleResult> results;
  pipeline.Run(Source(), 0, kUpdates + DrainCycles(plan.program), results);
  REQUIRE(results.size() == static_cast<std::size_t>(options.samples));
  bool is_old = false;
  for (int s = 0; s < stages; ++s) {
    for (std::int64_t i = 0; i < options.samples; ++i) {
      const std::int64_t version = std::max<std::int64_t>(0, i / kPerUpdate - 1);
      CHECK(reads[{s, i}] == std::vector<std::int64_t>{version, version, version});
      is_old = is_old || version < i / kPerUpdate;
    }
  }
  CHECK(is_old);
}

TEST_CASE("Without delay every rule is SGDM bit for bit", "[pb]") {
  TrainerOptions sequential = Options("resnet8", 24);
  sequential.schedule = {};
  sequential.batch = 4;
  const std::string expected = Run(*MakeTrainer(sequential), 24).weights;
  for (const char* rule : kRules) {
    // Nesterov compensates for a delay of one whatever the delay is.
    if (std::string(rule) == "nesterov") continue;
    for (const bool consistent : {false, true}) {
      TrainerOptions options = sequential;
      options.rule.rule = FindRule(rule);
      if (consistent) options.schedule.weights = WeightVersions::kStashed;
      INFO(rule);
      CHECK(Run(*MakeTrainer(options), 24).weights == expected);
    }
  }
}

void CompareWorkers(const char* network) {
  for (const bool stashing : {false, true}) {
    TrainerOptions options = Options(network, 100);
    options.rule.rule = FindRule("lwp-v+sc");
    if (stashing) options.schedule.weights = WeightVersions::kStashed;
    const Outcome whole = Run(*MakeTrainer(options), 100);
    REQUIRE(whole.results.size() == 100);
    for (const int workers : {2, 3, 8}) {
      options.workers = workers;
      CHECK(Run(*MakeTrainer(options), 100) == whole);
    }
    // Saved in the middle, with the pipeline full, and resumed with other numbers of workers.
    for (const auto& [before, after] : {std::pair{1, 1}, {3, 1}, {1, 4}}) {
      options.workers = before;
      INFO("stashing " << stashing << ", workers " << before << " then " << after);
      CHECK(TrainInHalves(options, 71, 100, after, Source()) == whole);
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
       return With(WeightVersions::kStashed, hwmodel::OneForwardOneBackward(stages, n));
     }},
    {"2bw", 12, [](int stages, std::int64_t n) { return hwmodel::PipeDream2Bw(stages, n, 12); }},
    {"pb, stashed", 1,
     [](int stages, std::int64_t n) {
       return With(WeightVersions::kStashed, hwmodel::PipelinedBackpropagation(stages, n));
     },
     96},
    {"pipedream-flush", 6,
     [](int stages, std::int64_t n) { return hwmodel::PipeDreamFlush(stages, n, 6); }},
    {"interleaved", 6,
     [](int stages, std::int64_t n) { return hwmodel::Interleaved(stages, 4, n, 6); }},
    {"pb, updates a step late", 1,
     [](int stages, std::int64_t n) {
       return WithLateUpdates(hwmodel::PipelinedBackpropagation(stages, n));
     }},
    {"pb, the first stage's backward 60 steps late", 1,
     [](int stages, std::int64_t n) {
       hwmodel::Schedule list = hwmodel::PipelinedBackpropagation(stages, n);
       for (hwmodel::TimedAction& timed : list.actions) {
         const bool comes_back = timed.action.kind != ActionKind::kForward;
         if (timed.action.stage == 0 && comes_back) timed.step += 60;
       }
       SortBySteps(list);
       return list;
     },
     200},
    {"pb over three groups", 1,
     [](int stages, std::int64_t n) {
       return hwmodel::ExpandGroups(hwmodel::PipelinedBackpropagation(3, n),
                                    std::vector<int>{2, 7, stages});
     }},
    {"1f1b, vertical sync", 1,
     [](int stages, std::int64_t n) {
       return With(WeightVersions::kVerticalSync, hwmodel::OneForwardOneBackward(stages, n));
     },
     96},
    {"paci", 3, [](int stages, std::int64_t n) { return hwmodel::Paci(stages, n, 3); }},
    {"amdp", 1, [](int stages, std::int64_t n) { return hwmodel::Amdp(stages, n, 1); }},
    {"amdp, updates of three", 3,
     [](int stages, std::int64_t n) { return hwmodel::Amdp(stages, n, 3); }},
    {"zb-v", 12, [](int stages, std::int64_t n) { return hwmodel::ZeroBubbleV(stages, n, 12); }},
    {"dualpipe-v", 16,
     [](int stages, std::int64_t n) { return hwmodel::DualPipeV(stages, n, 16); }},
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

TEST_CASE("Every pass of every schedule reads the version that its list says", "[list]") {
  constexpr std::int64_t kSamples = 96;
  for (const ListCase& list : kLists) {
    for (const int workers : {1, 3}) {
      TrainerOptions options = ListOptions(list, kSamples);
      options.rule.rule = FindRule("sgdm");
      options.workers = workers;
      const int stages = options.network.stage_count();
      const PipelinePlan plan = MakePlan(options);
      auto engine = EngineOptions<float>(options.network, plan.program, kSamples);
      engine.backend = MakeVectorBackend();
      engine.plan = plan;
      engine.microbatches_per_update = options.batch;
      std::mutex mutex;
      std::map<std::tuple<ActionKind, int, std::int64_t>, std::int64_t> reads;
      engine.on_read = [&](const VersionRead& read) {
        const std::lock_guard lock(mutex);
        reads[{read.kind, read.stage, read.microbatch}] = read.version;
      };
      Pipeline<float> pipeline(engine);
      std::vector<SampleResult> results;
      const std::int64_t cycle = plan.program.microbatches_per_cycle;
      pipeline.Run(Source(), 0, (kSamples + cycle - 1) / cycle + DrainCycles(plan.program),
                   results);
      REQUIRE(results.size() == static_cast<std::size_t>(kSamples));
      CHECK(reads.size() == 2 * stages * static_cast<std::size_t>(kSamples));
      const hwmodel::ScheduleSummary versions = hwmodel::Summarize(list.make(stages, kSamples));
      for (int s = 0; s < stages; ++s) {
        for (std::int64_t i = 0; i < kSamples; ++i) {
          INFO(list.name << ", workers " << workers << ", stage " << s << ", sample " << i);
          const hwmodel::MicrobatchVersions& expected = versions.stages[s].microbatches[i];
          CHECK(reads[{ActionKind::kForward, s, i}] == expected.forward);
          CHECK(reads[{ActionKind::kBackward, s, i}] == expected.backward);
        }
      }
    }
  }
}

TEST_CASE("A schedule's state goes on in the middle with other workers", "[list]") {
  for (const ListCase& list : kLists) {
    INFO(list.name);
    TrainerOptions options = ListOptions(list, 96);
    const std::string whole = Run(*MakeTrainer(options), 96).weights;
    options.workers = 2;
    const auto first = MakeTrainer(options);
    Run(*first, 41);
    std::stringstream state;
    first->Save(state);
    options.workers = 5;
    CHECK(Run(*GoOn(*first, options), 96).weights == whole);
    // A trainer that has gone further goes back.
    CHECK(Run(*first, 96).weights == whole);
    first->Load(state);
    CHECK(Run(*first, 96).weights == whole);
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
  SortBySteps(split);
  return split;
}

// Digests a run that is resumed in the middle with other workers.
std::string ResumedDigest(TrainerOptions options, std::int64_t samples, int before, int after) {
  options.workers = before;
  return TrainInHalves(options, samples / 2, samples, after, Source()).weights;
}

TEST_CASE("Split backwards give the bits of whole ones", "[list]") {
  for (const char* network : {"lenet5", "resnet8"}) {
    constexpr std::int64_t kSamples = 48;
    TrainerOptions options = Options(network, kSamples);
    options.learning_rate.base = 1e-3;
    options.momentum = 0.9;
    const int stages = options.network.stage_count();
    const auto digest = [](const TrainerOptions& o) {
      return Run(*MakeTrainer(o), kSamples).weights;
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
  CHECK(WhyNot(good).empty());
  TrainerOptions options = good;
  options.batch = 6;
  CHECK(WhyNot(options).starts_with("batch: got 6, accepted: 12"));
  options = good;
  options.schedule = hwmodel::PipelinedBackpropagation(5, 20);
  CHECK(WhyNot(options).starts_with("schedule: got 5, accepted: a list of 12 stages"));
  options = good;
  options.schedule.microbatches = 1;
  options.schedule.actions.resize(2);
  CHECK_FALSE(WhyNot(options).empty());
}

TEST_CASE("What pipelined training cannot do is refused by name", "[pb]") {
  const auto why = [](auto change) {
    TrainerOptions options = Options("resnet20", 10);
    change(options);
    CHECK_FALSE(WhyNot(options).empty());
    return test::RefusedName([&] { MakeTrainer(options); });
  };
  CHECK(why([](TrainerOptions& o) { o.batch = 2; }) == "batch");
  CHECK(why([](TrainerOptions& o) { o.samples = -1; }) == "samples");
  CHECK(why([](TrainerOptions& o) { o.schedule.forward_lag = -1; }) == "forward_lag");
  CHECK(why([](TrainerOptions& o) {
          o.rule.rule = FindRule("spectrain");
          o.schedule = {};
        }) == "rule");
}

}  // namespace
}  // namespace batchless::training
