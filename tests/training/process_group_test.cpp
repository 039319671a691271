#include <sstream>

#include "batchless/hwmodel/schedule_kinds.h"
#include "collective_runs.h"
#include "pipeline_runs.h"
#include "refusal.h"

namespace batchless::training {
namespace {

using test::MessageOf;

constexpr std::int64_t kSamples = 72;
constexpr std::int64_t kMiddle = 36;

struct Case {
  const char* name;
  const char* network;
  void (*set)(TrainerOptions& options);
};

// Residual networks have values that pass a process by.
constexpr Case kCases[] = {
    {"pb, ResNet-20", "resnet20",
     [](TrainerOptions& o) { o.rule.rule = analysis::FindRule("lwp-v+sc"); }},
    {"pb with stashing, ResNet-20", "resnet20",
     [](TrainerOptions& o) {
       o.rule.rule = analysis::FindRule("lwp-w");
       o.schedule.weights = hwmodel::WeightVersions::kStashed;
     }},
    {"SpecTrain, LeNet-5", "lenet5",
     [](TrainerOptions& o) { o.rule.rule = analysis::FindRule("spectrain"); }},
    {"fill-drain, ResNet-20", "resnet20",
     [](TrainerOptions& o) {
       o.schedule = {};
       o.batch = 12;
       o.microbatch = 2;
     }},
    {"2bw, LeNet-5", "lenet5",
     [](TrainerOptions& o) {
       const int stages = o.network.stage_count();
       o.schedule = hwmodel::PipeDream2Bw(stages, 4 * stages, stages);
       o.batch = stages;
     }},
};

constexpr bool kShort = false, kLong = true;

// Short forms have ResNet-8 for ResNet-20.
TrainerOptions OptionsOf(const Case& test, bool form = kLong) {
  const std::string network = test.network;
  TrainerOptions options =
      Options(form == kShort && network == "resnet20" ? "resnet8" : network, kSamples);
  test.set(options);
  return options;
}

void CompareProcesses(bool form) {
  for (const Case& test : kCases) {
    TrainerOptions options = OptionsOf(test, form);
    const Outcome expected = Alone(options);
    REQUIRE(expected.results.size() == static_cast<std::size_t>(kSamples));
    for (const auto& [processes, workers] : {std::pair{1, 2}, {2, 1}, {3, 2}, {5, 1}}) {
      std::vector<Outcome> outcomes(processes);
      options.workers = workers;
      TrainAsProcesses(processes, options, [&](Trainer& trainer, int rank) {
        outcomes[rank] = Finish(trainer, kSamples);
      });
      for (const Outcome& outcome : outcomes) {
        INFO(test.name << ", processes " << processes << ", workers " << workers);
        CHECK(outcome == expected);
      }
    }
  }
}

TEST_CASE("Processes give the bits of one, every process the same", "[processes]") {
  CompareProcesses(kShort);
}

TEST_CASE("Processes give the bits of one, ResNet-20", "[processes][.long]") {
  CompareProcesses(kLong);
}

void CheckHandOver(bool form) {
  struct Shape {
    int processes;
    int workers;
  };
  for (const Case& test : kCases) {
    const TrainerOptions options = OptionsOf(test, form);
    const Outcome expected = Alone(options);
    std::string reference;
    for (const auto& [before, after] : {std::pair{Shape{1, 1}, Shape{3, 1}},
                                        {Shape{2, 2}, Shape{1, 3}},
                                        {Shape{2, 1}, Shape{4, 1}}}) {
      TrainerOptions first = options;
      TrainerOptions second = options;
      first.workers = before.workers;
      second.workers = after.workers;
      const auto [state, outcomes] =
          HandOver(before.processes, first, kMiddle, after.processes, second, /*forgotten=*/24);
      INFO(test.name << ", processes " << before.processes << " then " << after.processes);
      // A state in flight does not show the processes.
      if (reference.empty()) reference = state;
      if (&test == &kCases[0]) CHECK((state == reference));
      for (const Outcome& outcome : outcomes) CHECK(outcome == expected);
    }
  }
}

TEST_CASE("A state goes from processes to others, in the middle of a run", "[processes]") {
  CheckHandOver(kShort);
}

TEST_CASE("A state goes from processes to others, ResNet-20", "[processes][.long]") {
  CheckHandOver(kLong);
}

TEST_CASE("Processes share the stages by their costs, and anew, with the bits of one",
          "[processes]") {
  TrainerOptions options = OptionsOf(kCases[0]);
  const Outcome expected = Alone(options);
  const auto as_three = [&](const std::vector<double>& costs, auto work) {
    options.stage_costs = costs;
    TrainAsProcesses(3, options, work);
  };
  // All that costs lies in front: the last process has most of the stages.
  std::vector<double> costs(34, 1);
  costs[0] = 60;
  costs[1] = 50;
  std::vector<Outcome> outcomes(3);
  std::string saved;
  as_three(costs, [&](Trainer& trainer, int rank) {
    outcomes[rank] = Train(trainer, kMiddle);
    std::stringstream state;
    trainer.Save(state);
    if (rank == 0) saved = state.str();
    const std::vector<WorkerTimes> times = trainer.worker_times();
    CheckInProcess(times[0].end_stage == 1);
    CheckInProcess(times[1].end_stage == 2);
  });
  as_three(std::vector<double>(34, 1), [&](Trainer& trainer, int rank) {
    std::istringstream state(rank == 0 ? saved : "");
    trainer.Load(state);
    CheckInProcess(trainer.worker_times()[0].end_stage == 11);
    outcomes[rank] += Finish(trainer, kSamples);
  });
  for (const Outcome& outcome : outcomes) CHECK(outcome == expected);
}

TEST_CASE("Weights go in, and a divergence is everybody's", "[processes]") {
  TrainerOptions options = OptionsOf(kCases[0]);
  options.seed = 12;
  const std::vector<NamedTensor> weights = MakeTrainer(options)->ExportWeights();
  const std::string digest = MakeTrainer(options)->WeightsSha256();
  options.seed = 11;
  options.learning_rate.base = 1e6;
  const std::string where = MessageOf<Diverged>([&] { Alone(options); });
  REQUIRE(!where.empty());
  std::vector<std::string> said(3);
  RunAsProcesses(3, [&](const std::shared_ptr<ProcessGroup>& group) {
    TrainerOptions own = options;
    own.processes = group;
    {
      const auto trainer = MakeTrainer(own);
      trainer->ImportWeights(weights);
      CheckInProcess(trainer->WeightsSha256() == digest);
    }
    const auto trainer = MakeTrainer(own);
    said[group->rank()] = MessageOf<Diverged>([&] { Finish(*trainer, kSamples); });
  });
  for (const std::string& line : said) CHECK(line == where);
}

TEST_CASE("A damaged state is everybody's error and changes nothing", "[processes]") {
  const TrainerOptions options = OptionsOf(kCases[2]);
  TrainAsProcesses(2, options, [&](Trainer& trainer, int /*rank*/) {
    std::stringstream state;
    trainer.Save(state);
    const std::string before = trainer.WeightsSha256();
    std::istringstream cut(state.str().substr(0, state.str().size() / 2));
    CheckInProcess(!MessageOf<std::runtime_error>([&] { trainer.Load(cut); }).empty());
    CheckInProcess(trainer.WeightsSha256() == before);
  });
}

TEST_CASE("Every process keeps its part alone", "[processes]") {
  const TrainerOptions options = OptionsOf(kCases[1]);
  const std::int64_t alone = MakeTrainer(options)->memory_bytes();
  RunAsProcesses(2, [&](const std::shared_ptr<ProcessGroup>& group) {
    TrainerOptions own = options;
    own.processes = group;
    const auto trainer = MakeTrainer(own);
    const std::int64_t all = trainer->memory_bytes();
    // Both together: the same, what crosses the boundary twice, and a second worker's scratch.
    CheckInProcess(all > alone);
    CheckInProcess(all < alone + alone / 4);
    CheckInProcess(trainer->worker_times().size() == 2);
    // Predicted with their links; the first one has the large images, and more of them in flight.
    const std::vector<hwmodel::TrainingMemory> predicted = PredictMemoryByProcess(own);
    CheckInProcess(predicted.size() == 2);
    CheckInProcess(predicted[0].links > 0 && predicted[0].links == predicted[1].links);
    CheckInProcess(predicted[0].activations > 2 * predicted[1].activations);
    CheckInProcess(std::abs(PredictMemory(own).total() - all) < all / 20);
  });
}

TEST_CASE("A process whose options differ says which", "[processes]") {
  struct Change {
    std::function<void(TrainerOptions&)> make;
    std::string_view said;
  };
  const std::vector<Change> changes{
      {[](TrainerOptions& o) { o.seed = 9; }, "(seed 9)"},
      {[](TrainerOptions& o) { o.momentum = 0.5; }, "(momentum 0.5)"},
      {[](TrainerOptions& o) { o.weight_decay = 0.25; }, "(weight_decay 0.25)"},
      {[](TrainerOptions& o) { o.learning_rate.base = 0.5; }, "(learning_rate.base 0.5)"}};
  for (const Change& change : changes) {
    std::vector<std::string> said(2);
    RunAsProcesses(2, [&](const std::shared_ptr<ProcessGroup>& group) {
      TrainerOptions own = OptionsOf(kCases[2]);
      own.processes = group;
      if (group->rank() == 1) change.make(own);
      said[group->rank()] = MessageOf<std::runtime_error>([&] { MakeTrainer(own); });
    });
    CHECK(said[0].empty());
    INFO(said[1]);
    CHECK(said[1].find(change.said) != std::string::npos);
  }
}

TEST_CASE("More processes than stages, and schedules of one process, are refused", "[processes]") {
  TrainerOptions options = OptionsOf(kCases[2]);
  const auto exchange = std::make_shared<ThreadExchange>();
  options.processes = std::make_shared<ThreadGroup>(0, 100, exchange);
  CHECK(WhyNot(options) ==
        "workers: got 1 in each of 100 processes, accepted: fewer processes, a thread for "
        "at least one of the 12 stages each");
}

}  // namespace
}  // namespace batchless::training
