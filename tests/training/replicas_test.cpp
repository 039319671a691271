// Replicas of a pipeline: the order in which gradients are summed, and that nobody can tell how many
// pipelines there were.
#include <cmath>
#include <limits>
#include <span>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/partition.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/stage_groups.h"
#include "batchless/training/random.h"
#include "collective_runs.h"
#include "engine/gradient_exchange.h"
#include "engine/gradient_sum.h"
#include "engine/group_part.h"
#include "refusal.h"
#include "test_networks.h"
#include "test_schedules.h"

namespace batchless::training {
namespace {

// The definition of the tree, from its root down.
template <class Value, class Add>
Value Tree(const std::vector<Value>& parts, std::size_t first, std::size_t count, Add add) {
  if (count == 1) return parts[first];
  std::size_t half = 1;
  while (2 * half < count) half *= 2;
  return add(Tree(parts, first, half, add), Tree(parts, first + half, count - half, add));
}

std::string Plus(const std::string& a, const std::string& b) { return "(" + a + "+" + b + ")"; }

TEST_CASE("Whoever sums the parts sums them as one tree", "[replicas]") {
  for (int parts = 1; parts <= 40; ++parts) {
    std::vector<std::string> leaves(parts);
    for (int p = 0; p < parts; ++p) leaves[p] = std::to_string(p);
    const std::string expected = Tree(leaves, 0, leaves.size(), Plus);
    for (int replicas = 1; replicas <= parts; ++replicas) {
      if (parts % replicas != 0) continue;
      PartialSums all;
      std::vector<std::string> terms;
      const auto add_last_two = [&](std::vector<std::string>& from) {
        const std::string last = from.back();
        from.pop_back();
        from.back() = Plus(from.back(), last);
      };
      for (int r = 0; r < replicas; ++r) {
        const GradientParts share(parts, replicas, r);
        REQUIRE(share.count() == parts / replicas);
        std::vector<std::string> slots;
        for (std::int64_t p = 0; p < share.count(); ++p) {
          REQUIRE(share.slot(p) == static_cast<std::int64_t>(slots.size()));
          REQUIRE(share.slot(p) < share.slots());
          slots.push_back(leaves[r * share.count() + p]);
          for (int i = 0; i < share.additions(p); ++i) add_last_two(slots);
        }
        REQUIRE(slots.size() == share.sums().size());
        for (std::size_t i = 0; i < slots.size(); ++i) {
          terms.push_back(slots[i]);
          for (int n = all.Append(share.sums()[i]); n > 0; --n) add_last_two(terms);
        }
        const bool is_power = (share.count() & (share.count() - 1)) == 0;
        if (is_power) CHECK(slots.size() == 1);
      }
      while (terms.size() > 1) add_last_two(terms);
      INFO(parts << " parts, " << replicas << " replicas");
      CHECK(terms[0] == expected);
    }
  }
}

TEST_CASE("An exchange leaves the tree's sum with every replica", "[replicas]") {
  struct Shape {
    int parts;
    int replicas;
  };
  for (const auto& [parts, replicas] :
       {Shape{2, 2}, {4, 2}, {6, 2}, {3, 3}, {6, 3}, {5, 5}, {8, 4}, {12, 4}, {10, 5}}) {
    // Small ones in one round, large ones in two, with ranges that are empty or not whole.
    for (const std::int64_t size : {std::int64_t{16}, std::int64_t{4096}, std::int64_t{4112},
                                    std::int64_t{10'000 / 16 * 16}}) {
      // Twice: the second one must not see the first one's messages.
      std::vector<std::vector<std::vector<float>>> values(2);
      std::vector<std::vector<float>> expected(2);
      for (int round = 0; round < 2; ++round) {
        CounterRandom random(7, RandomStream::kDropout, static_cast<std::uint64_t>(round));
        for (int p = 0; p < parts; ++p) {
          values[round].emplace_back(size);
          for (float& value : values[round].back()) {
            value = static_cast<float>(std::exp(4 * random.Normal()) * (random.Uniform() - 0.5));
          }
        }
        expected[round] = Tree(values[round], 0, values[round].size(),
                               [](std::vector<float> a, const std::vector<float>& b) {
                                 for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
                                 return a;
                               });
      }
      std::vector<int> right(replicas);
      RunAsProcesses(replicas, [&, parts = parts,
                                replicas = replicas](const std::shared_ptr<ProcessGroup>& group) {
        const int replica = group->rank();
        const GradientParts share(parts, replicas, replica);
        AlignedBuffer<float> sums(share.slots() * size);
        GradientExchange<float> exchange(*group, MakeVectorBackend(), parts, 2, sums.data(), size);
        for (int round = 0; round < 2; ++round) {
          for (std::int64_t p = 0; p < share.count(); ++p) {
            float* slot = sums.data() + share.slot(p) * size;
            const std::vector<float>& part = values[round][replica * share.count() + p];
            std::copy(part.begin(), part.end(), slot);
            for (int i = 0; i < share.additions(p); ++i, slot -= size) {
              for (std::int64_t j = 0; j < size; ++j) slot[j - size] += slot[j];
            }
          }
          exchange.Start();
          while (!exchange.Progress()) std::this_thread::yield();
          if (std::equal(expected[round].begin(), expected[round].end(), sums.data())) {
            ++right[replica];
          }
        }
      });
      INFO(parts << " parts, " << replicas << " replicas, " << size << " numbers");
      for (const int count : right) CHECK(count == 2);
    }
  }
}

constexpr int kBatch = 12;
constexpr std::int64_t kSamples = 60;
constexpr std::int64_t kMiddle = 36;

// The list of one replica's share, of the whole network in groups of equal work.
void SetList(TrainerOptions& options, hwmodel::Schedule (*make)(int, std::int64_t, std::int64_t)) {
  constexpr int kGroups = 3;
  const std::int64_t share = options.batch / options.microbatch / options.replicas;
  options.schedule = hwmodel::ExpandGroups(make(kGroups, 8 * share, share),
                                           hwmodel::BalancedPartition(options.network, kGroups));
}

// 2bw with a micro-batch more in flight: a mini-batch's first forward comes right after the update that
// makes the version it reads. Of M >= 4 micro-batches.
hwmodel::Schedule TightDoubleBuffered(int stages, std::int64_t microbatches, std::int64_t share) {
  hwmodel::Schedule list = hwmodel::PipeDream2Bw(stages, microbatches, share);
  list.actions.clear();
  for (std::int64_t k = 0; k < microbatches; ++k) {
    for (int s = 0; s < stages; ++s) {
      list.actions.push_back({2 * (k + s), {s, hwmodel::ActionKind::kForward, k}});
      const std::int64_t step = 2 * (k + share) + 1 - 2 * s;
      list.actions.push_back({step, {s, hwmodel::ActionKind::kBackward, k}});
      if ((k + 1) % share != 0) continue;
      list.actions.push_back({step, {s, hwmodel::ActionKind::kUpdate, k}});
    }
  }
  SortBySteps(list);
  return list;
}

struct Case {
  const char* name;
  const char* network;
  bool is_pipeline;
  void (*set)(TrainerOptions& options);
};

constexpr Case kCases[] = {
    {"fill-drain, LeNet-5", "lenet5", true,
     [](TrainerOptions& o) { o.rule.rule = analysis::FindRule("nesterov"); }},
    {"fill-drain in double precision", "lenet5", true,
     [](TrainerOptions& o) {
       o.precision = Precision::kDouble;
       o.convolution = ConvolutionMethod::kReference;
     }},
    {"fill-drain, micro-batches of two, ResNet-8", "resnet8", true,
     [](TrainerOptions& o) { o.microbatch = 2; }},
    {"flush, LeNet-5", "lenet5", true,
     [](TrainerOptions& o) {
       SetList(o, [](int stages, std::int64_t n, std::int64_t share) {
         return hwmodel::PipeDreamFlush(stages, n, share);
       });
     }},
    {"2bw with prediction, LeNet-5", "lenet5", true,
     [](TrainerOptions& o) {
       o.rule.rule = analysis::FindRule("lwp-w+sc");
       SetList(o, [](int stages, std::int64_t n, std::int64_t share) {
         return hwmodel::PipeDream2Bw(stages, n, share);
       });
     }},
    {"2bw that reads a version right after its update", "lenet5", true,
     [](TrainerOptions& o) { SetList(o, TightDoubleBuffered); }},
    {"sequential, with dropout", "narrow-vgg", false, [](TrainerOptions& /*o*/) {}},
    {"uniform delay, consistent", "lenet5", false,
     [](TrainerOptions& o) {
       o.schedule.forward_lag = 2;
       o.schedule.weights = hwmodel::WeightVersions::kStashed;
       o.rule.rule = analysis::FindRule("lwp-v+sc");
     }},
    {"random delays, each compensated by its own", "lenet5", false,
     [](TrainerOptions& o) {
       o.random_delays = analysis::UniformDelays(0, 3);
       o.compensation = analysis::DelayCompensation::kOwn;
       o.rule.rule = analysis::FindRule("lwp-w+sc");
     }},
};

struct Shape {
  int replicas;
  int processes;  // of each
  int workers;    // of each
};

// Stages, replicas, and both among processes and workers come first.
constexpr Shape kShapes[] = {{1, 2, 1}, {2, 1, 1}, {2, 2, 1}, {3, 1, 2},
                             {2, 1, 2}, {3, 1, 1}, {3, 2, 2}, {6, 1, 1}};

TrainerOptions OptionsOf(const Case& test, const Shape& shape) {
  TrainerOptions options;
  options.network = TestNetwork(test.network);
  options.workers = shape.workers;
  options.replicas = shape.replicas;
  options.gradient_parts = 6;
  options.batch = kBatch;
  options.samples = kSamples;
  options.learning_rate.base = 0.01;
  options.momentum = 0.9;
  options.weight_decay = 1e-4;
  options.seed = 11;
  test.set(options);
  return options;
}

void RunAs(const Case& test, const Shape& shape,
           const std::function<void(Trainer& trainer, int rank)>& work) {
  TrainAsProcesses(shape.replicas * shape.processes, OptionsOf(test, shape), work);
}

Outcome Alone(const Case& test) { return Alone(OptionsOf(test, {1, 1, 1})); }

std::string Text(const Case& test, const Shape& shape) {
  return std::string(test.name) + ", replicas " + std::to_string(shape.replicas) + ", processes " +
         std::to_string(shape.processes) + ", workers " + std::to_string(shape.workers);
}

void CompareReplicas(std::span<const Shape> shapes) {
  for (const Case& test : kCases) {
    const Outcome expected = Alone(test);
    REQUIRE(expected.results.size() == static_cast<std::size_t>(kSamples));
    for (std::int64_t i = 0; i < kSamples; ++i) REQUIRE(expected.results[i].sample == i);
    for (const Shape& shape : shapes) {
      if (!test.is_pipeline && (shape.processes > 1 || shape.workers > 1)) continue;
      // The groups of a list need as many micro-batches.
      if (std::string(test.name).starts_with("2bw") && shape.replicas > 3) continue;
      std::vector<Outcome> outcomes(shape.replicas * shape.processes);
      RunAs(test, shape,
            [&](Trainer& trainer, int rank) { outcomes[rank] = Finish(trainer, kSamples); });
      INFO(Text(test, shape));
      for (const Outcome& outcome : outcomes) CHECK(outcome == expected);
    }
  }
}

TEST_CASE("Replicas give the bits of one pipeline, every process the same", "[replicas]") {
  CompareReplicas(std::span(kShapes).first(4));
}

TEST_CASE("Replicas of every shape give the bits of one pipeline", "[replicas][.long]") {
  CompareReplicas(kShapes);
}

TEST_CASE("Parts change no more than the rounding", "[replicas]") {
  for (const Case& test : {kCases[0], kCases[4]}) {
    TrainerOptions options = OptionsOf(test, {1, 1, 1});
    std::vector<Outcome> outcomes;
    for (const int parts : {1, 2, 12}) {
      options.gradient_parts = parts;
      outcomes.push_back(Alone(options));
    }
    // Five updates with sums in single precision.
    constexpr double kRounding = 1e-4;
    for (std::size_t i = 0; i < outcomes[0].results.size(); ++i) {
      CHECK(std::abs(outcomes[1].results[i].loss - outcomes[0].results[i].loss) < kRounding);
      CHECK(std::abs(outcomes[2].results[i].loss - outcomes[0].results[i].loss) < kRounding);
    }
    // As many parts as micro-batches are another order.
    CHECK(outcomes[2].weights != outcomes[0].weights);
  }
}

TEST_CASE("A state goes from replicas to others, in the middle of a run", "[replicas]") {
  for (const Case& test : {kCases[0], kCases[3], kCases[4], kCases[7]}) {
    const Outcome expected = Alone(test);
    std::string reference;
    for (const auto& [before, after] : {std::pair{Shape{1, 1, 1}, Shape{3, 1, 1}},
                                        {Shape{3, 1, 1}, Shape{1, 1, 1}},
                                        {Shape{2, 2, 1}, Shape{3, 1, 2}},
                                        {Shape{2, 1, 2}, Shape{1, 2, 2}}}) {
      const bool is_wide = before.processes * before.workers * after.processes * after.workers > 1;
      if (!test.is_pipeline && is_wide) continue;
      INFO(Text(test, before) << "; " << Text(test, after));
      // Further on than the state, or not so far.
      const std::int64_t forgotten = (after.replicas == 3 ? 4 : 2) * kBatch;
      const auto [state, outcomes] =
          HandOver(before.replicas * before.processes, OptionsOf(test, before), kMiddle,
                   after.replicas * after.processes, OptionsOf(test, after), forgotten);
      // Nothing is in flight: the states are equal byte for byte.
      if (reference.empty()) reference = state;
      CHECK(state == reference);
      for (const Outcome& outcome : outcomes) CHECK(outcome == expected);
    }
  }
}

TEST_CASE("A divergence is every replica's", "[replicas]") {
  const Case diverging{"diverging", "lenet5", true,
                       [](TrainerOptions& o) { o.learning_rate.base = 1e6; }};
  const std::string where = test::MessageOf<Diverged>([&] { Alone(diverging); });
  REQUIRE(!where.empty());
  std::vector<std::string> said(4);
  RunAs(diverging, {2, 2, 1}, [&](Trainer& trainer, int rank) {
    said[rank] = test::MessageOf<Diverged>([&] { Finish(trainer, kSamples); });
  });
  for (const std::string& line : said) CHECK(line == where);
}

TEST_CASE("Weights go in, and times and traces are those of all replicas", "[replicas]") {
  const Case& test = kCases[0];
  TrainerOptions other = OptionsOf(test, {1, 1, 1});
  other.seed = 12;
  const std::vector<NamedTensor> weights = MakeTrainer(other)->ExportWeights();
  const std::string digest = MakeTrainer(other)->WeightsSha256();
  const Shape shape{3, 2, 2};
  RunAsProcesses(6, [&](const std::shared_ptr<ProcessGroup>& group) {
    TrainerOptions options = OptionsOf(test, shape);
    options.processes = group;
    options.traced_microbatches = kSamples;
    const auto trainer = MakeTrainer(options);
    trainer->ImportWeights(weights);
    CheckInProcess(trainer->WeightsSha256() == digest);
    Train(*trainer, kSamples);
    CheckInProcess(trainer->worker_times().size() == 12);
    // Every stage's forward of each micro-batch of the run once, by a worker of its replica.
    std::vector<int> forwards(kSamples);
    bool is_owners = true;
    for (const TraceEvent& event : trainer->trace()) {
      if (event.is_wait || event.kind != hwmodel::ActionKind::kForward) continue;
      ++forwards[event.microbatch];
      is_owners = is_owners && event.worker / 4 == event.microbatch % kBatch / 4;
    }
    CheckInProcess(is_owners);
    for (const int count : forwards) CheckInProcess(count == options.network.stage_count());
  });
}

TEST_CASE("Memory is predicted for all replicas", "[replicas]") {
  for (const int replicas : {1, 2, 3}) {
    RunAsProcesses(replicas, [&](const std::shared_ptr<ProcessGroup>& group) {
      TrainerOptions options = OptionsOf(kCases[2], {replicas, 1, 1});
      options.network = TestNetwork("resnet20");
      options.processes = group;
      const std::int64_t all = MakeTrainer(options)->memory_bytes();
      CheckInProcess(std::abs(PredictMemory(options).total() - all) < all / 10);
    });
  }
}

TEST_CASE("A replica that does not come is named", "[replicas]") {
  const Case watched{"watched", "lenet5", true, [](TrainerOptions& o) { o.watchdog_seconds = 5; }};
  std::vector<std::string> said(2);
  RunAs(watched, {2, 1, 1}, [&](Trainer& trainer, int rank) {
    if (rank == 1) return;
    said[rank] = test::MessageOf<std::runtime_error>([&] { Train(trainer, kSamples); });
  });
  INFO(said[0]);
  CHECK(said[0].starts_with("worker 0 (stages 0 to 11) of replica 0 has waited "));
  CHECK(said[0].find(" s for replica 1 to exchange the gradient of stage ") != std::string::npos);
}

TEST_CASE("What replicas cannot share is refused", "[replicas]") {
  const auto exchange = std::make_shared<ThreadExchange>();
  struct Refusal {
    void (*set)(TrainerOptions& options);
    std::string why;
  };
  const std::vector<Refusal> refusals = {
      {[](TrainerOptions& o) { o.gradient_parts = 5; },
       "gradient_parts: got 5, accepted: a divisor of the number of micro-batches of an "
       "update, 12"},
      {[](TrainerOptions& o) { o.gradient_parts = 0; },
       "gradient_parts: got 0, accepted: a divisor of the number of micro-batches of an "
       "update, 12"},
      {[](TrainerOptions& o) { o.replicas = 4; },
       "replicas: got 4, accepted: a divisor of gradient_parts, 6"},
      {[](TrainerOptions& o) { o.replicas = 0; },
       "replicas: got 0, accepted: a divisor of gradient_parts, 6"},
      {[](TrainerOptions& o) { o.replicas = 6; },
       "replicas: got 6 in 4 processes, accepted: a divisor of the number of processes"},
      {[](TrainerOptions& o) {
         o.schedule = PbOf(o.network);
         o.microbatch = kBatch;
         o.gradient_parts = 1;
         o.replicas = 2;
       },
       "replicas: got 2, accepted: 1 where an update is one micro-batch, which replicas "
       "cannot share"},
      {[](TrainerOptions& o) {
         o.replicas = 2;
         const int stages = o.network.stage_count();
         o.schedule = hwmodel::PipeDreamFlush(stages, 48, 4);
       },
       "batch: got 12, accepted: 8, which stage 0 of the schedule updates after: 4 "
       "micro-batches of 1 in each of 2 replicas"},
      {[](TrainerOptions& o) {
         // 2BW's actions, whose passes read the newest weights: what they read depends on when.
         const int stages = o.network.stage_count();
         o.schedule = hwmodel::PipeDream2Bw(stages, 4 * kBatch, kBatch);
         o.schedule.weights = hwmodel::WeightVersions::kNewest;
       },
       "gradient_parts: got 6, accepted: 1 with a schedule that neither drains after each "
       "update nor double-buffers its weights"},
  };
  for (const Refusal& refusal : refusals) {
    TrainerOptions options = OptionsOf(kCases[0], {1, 1, 1});
    options.processes = std::make_shared<ThreadGroup>(0, 4, exchange);
    refusal.set(options);
    CHECK(WhyNot(options) == refusal.why);
  }
  TrainerOptions options = OptionsOf(kCases[0], {2, 1, 1});
  CHECK(WhyNot(options).empty());
  CHECK_THROWS_WITH(MakeTrainer(options),
                    "replicas: got 2 in one process, accepted: 1, or as many processes or "
                    "a multiple");
}

}  // namespace
}  // namespace batchless::training
