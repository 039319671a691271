// Learning sample by sample gives the bits of advancing over a source, by every schedule.
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/network.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/training/dataset.h"
#include "batchless/training/sample_source.h"
#include "batchless/training/trainer.h"
#include "catch.h"
#include "collective_runs.h"
#include "refusal.h"
#include "test_networks.h"
#include "test_schedules.h"

namespace batchless::training {
namespace {

using analysis::InvalidArgument;
using test::RefusedName;

constexpr std::int64_t kSamples = 24;

hwmodel::Network SmallNetwork() {
  return hwmodel::MakeNetwork({.name = "mlp", .hidden = {16, 12, 8}});
}

TrainerOptions Options(const std::string& kind, std::int64_t batch) {
  TrainerOptions options;
  options.network = SmallNetwork();
  if (kind != "sequential") {
    const std::int64_t per_update = hwmodel::FindScheduleKind(kind).updates_each ? 1 : batch;
    options.schedule = ScheduleOf(kind, options.network.stage_count(), per_update);
  }
  options.batch = batch;
  options.samples = kSamples;
  options.rule.rule = analysis::FindRule("lwp-v+sc");
  options.learning_rate.base = 1e-3;
  options.learning_rate.drops = {{10, 0.5}};
  options.weight_decay = 1e-3;
  options.seed = 5;
  return options;
}

void LearnUpTo(Trainer& trainer, std::int64_t first, std::int64_t end, Outcome& course) {
  const DatasetSource source = SmallSource();
  std::vector<float> image(source.shape().size());
  for (std::int64_t p = first; p < end; ++p) {
    source.Read(p, image);
    const std::vector<SampleResult> results = trainer.Learn(image, source.Label(p));
    course.results.insert(course.results.end(), results.begin(), results.end());
  }
}

void FinishCourse(Trainer& trainer, Outcome& course) {
  const std::vector<SampleResult> results = trainer.Finish();
  course.results.insert(course.results.end(), results.begin(), results.end());
  course.weights = trainer.WeightsSha256();
}

Outcome ByLearning(Trainer& trainer, std::int64_t samples) {
  Outcome course;
  LearnUpTo(trainer, 0, samples, course);
  FinishCourse(trainer, course);
  return course;
}

struct Case {
  const char* kind;
  std::int64_t batch;
};

const Case kCases[] = {
    {"sequential", 1},      {"sequential", 4}, {"pb", 1},  {"1f1b", 1}, {"gpipe", 4},
    {"pipedream-flush", 4}, {"zb-h1", 4},      {"2bw", 8}, {"paci", 2}, {"amdp", 2}};

TEST_CASE("Learning samples one by one gives the bits of Advance", "[learn]") {
  for (const Case& c : kCases) {
    for (const int workers : {1, 3}) {
      TrainerOptions options = Options(c.kind, c.batch);
      options.workers = workers;
      INFO(c.kind << " by " << workers << " workers, batch " << c.batch);
      const Outcome expected = Train(options, kSamples);
      REQUIRE(expected.results.size() == kSamples);
      CHECK(ByLearning(*MakeTrainer(options), kSamples) == expected);
      // The same where nobody said how long the run is.
      options.samples = 0;
      CHECK(ByLearning(*MakeTrainer(options), kSamples) == expected);
    }
  }
}

TEST_CASE("A run that is finished early is the run of that length", "[learn]") {
  for (const Case& c : kCases) {
    TrainerOptions options = Options(c.kind, c.batch);
    INFO(c.kind << ", batch " << c.batch);
    const std::unique_ptr<Trainer> trainer = MakeTrainer(options);
    // All but a mini-batch, and with mini-batches a part of that: it is left out.
    const std::int64_t whole = kSamples - c.batch;
    const Outcome course = ByLearning(*trainer, whole + c.batch / 2);
    CHECK(trainer->samples_done() == whole);
    options.samples = whole;
    CHECK(course == Train(options, whole));
    CHECK(trainer->Finish().empty());
    CHECK_THROWS_AS(trainer->Learn(std::vector<float>(3072), 0), InvalidArgument);
  }
}

TEST_CASE("A sample's result comes when it has met its loss", "[learn]") {
  const std::unique_ptr<Trainer> batches = MakeTrainer(Options("sequential", 4));
  const std::vector<float> image(3072, 0.5F);
  for (int i = 0; i < 3; ++i) CHECK(batches->Learn(image, 1).empty());
  CHECK(batches->Learn(image, 1).size() == 4);
  CHECK(batches->samples_done() == 4);
  // In double precision, where images are converted, too.
  TrainerOptions options = Options("pb", 1);
  options.precision = Precision::kDouble;
  options.convolution = ConvolutionMethod::kReference;
  const std::unique_ptr<Trainer> pipeline = MakeTrainer(options);
  Outcome course;
  LearnUpTo(*pipeline, 0, 9, course);
  CHECK(course.results.size() <= 9);
  CHECK(pipeline->samples_done() == 9);
  FinishCourse(*pipeline, course);
  CHECK(course.results.size() == 9);
}

TEST_CASE("Processes and replicas learn the bits of one", "[learn]") {
  for (const Case& c : {Case{"pb", 1}, {"gpipe", 4}, {"2bw", 8}}) {
    const TrainerOptions options = Options(c.kind, c.batch);
    const Outcome expected = Train(options, kSamples);
    INFO(c.kind);
    TrainAsProcesses(2, options, [&](Trainer& trainer, int /*rank*/) {
      CheckInProcess(ByLearning(trainer, kSamples) == expected);
    });
  }
  TrainerOptions options = Options("sequential", 4);
  options.gradient_parts = 2;
  const Outcome expected = Train(options, kSamples);
  options.replicas = 2;
  TrainAsProcesses(2, options, [&](Trainer& trainer, int /*rank*/) {
    CheckInProcess(ByLearning(trainer, kSamples) == expected);
  });
}

TEST_CASE("A state goes on with samples in flight and samples that wait", "[learn]") {
  for (const Case& c : kCases) {
    for (const std::int64_t length : {std::int64_t{0}, kSamples}) {
      TrainerOptions options = Options(c.kind, c.batch);
      options.samples = length;
      INFO(c.kind << ", batch " << c.batch << ", length " << length);
      const Outcome expected = ByLearning(*MakeTrainer(options), kSamples);
      Outcome course;
      const std::unique_ptr<Trainer> first = MakeTrainer(options);
      LearnUpTo(*first, 0, 13, course);
      options.workers = 2;
      const std::unique_ptr<Trainer> second = GoOn(*first, options);
      LearnUpTo(*second, 13, kSamples, course);
      FinishCourse(*second, course);
      CHECK(course == expected);
    }
  }
}

TEST_CASE("A damaged state of waiting samples changes nothing", "[learn]") {
  const TrainerOptions options = Options("sequential", 4);
  const std::unique_ptr<Trainer> trainer = MakeTrainer(options);
  const std::vector<float> image(3072, 0.5F);
  trainer->Learn(image, 1);
  std::ostringstream saved;
  trainer->Save(saved);
  const std::string text = saved.str();
  const std::unique_ptr<Trainer> other = MakeTrainer(options);
  for (const std::size_t size : {text.size() / 2, text.size() - 1, std::size_t{300}}) {
    std::istringstream cut(text.substr(0, size));
    CHECK_THROWS_AS(other->Load(cut), std::runtime_error);
  }
  CHECK(other->WeightsSha256() == trainer->WeightsSha256());
  for (int i = 0; i < 3; ++i) CHECK(other->Learn(image, 1).empty());
  CHECK(other->Learn(image, 1).size() == 4);
}

TEST_CASE("Samples that cannot be learned are refused by name", "[learn]") {
  const std::unique_ptr<Trainer> trainer = MakeTrainer(Options("sequential", 4));
  std::vector<float> image(3072, 0.5F);
  CHECK(RefusedName([&] { trainer->Learn(std::span(image).first(3071), 0); }) == "image");
  CHECK(RefusedName([&] { trainer->Learn(image, -1); }) == "label");
  CHECK(RefusedName([&] { trainer->Learn(image, 10); }) == "label");
  image[7] = std::numeric_limits<float>::quiet_NaN();
  CHECK(RefusedName([&] { trainer->Learn(image, 0); }) == "image");
  image[7] = 0;
  CHECK(RefusedName([&] { trainer->Learn(image, 0); }).empty());
  std::vector<SampleResult> results;
  CHECK(RefusedName([&] { trainer->Advance(SmallSource(), 4, results); }) == "to");
  CHECK(trainer->samples_done() == 0);

  const std::vector<int> labels = {1, 2};
  const std::vector<float> images(2 * 3072);
  const ImageShape shape{3, 32, 32};
  CHECK(RefusedName([&] { MemorySource(shape, image, labels); }) == "images");
  CHECK(RefusedName([&] { MemorySource(shape, images, std::vector<int>{1, -1}); }) == "labels");
  const MemorySource source(shape, images, labels, 10);
  CHECK(source.classes() == 3);
  CHECK(source.Label(11) == 2);
  CHECK(RefusedName([&] { source.Label(9); }) == "position");
  CHECK(RefusedName([&] { source.Label(12); }) == "position");
  CHECK(RefusedName([&] { source.Read(10, std::span(image).first(5)); }) == "image");
}

TEST_CASE("Tokens of one's own are those of the vocabulary", "[learn]") {
  using hwmodel::LayerKind;
  TrainerOptions options;
  options.network =
      NetworkOf({1, 4, 1}, 8,
                {{.kind = LayerKind::kEmbedding, .name = "embedding", .output = {.channels = 16}},
                 {.kind = LayerKind::kLinear, .name = "linear", .output = {.channels = 8}},
                 {.kind = LayerKind::kLoss}});
  options.batch = 1;
  const std::unique_ptr<Trainer> trainer = MakeTrainer(options);
  std::vector<float> image = {0, 7, 2.5F, 1};
  const std::vector<int> labels = {3};
  const MemorySource source({1, 4, 1}, image, labels);
  CHECK(RefusedName([&] { trainer->Learn(image, 3); }) == "image");
  for (const float token : {8.0F, -1.0F, 1e6F, 1e30F}) {
    image[2] = token;
    INFO(token);
    CHECK(RefusedName([&] { trainer->Learn(image, 3); }) == "image");
    CHECK(RefusedName([&] { trainer->Evaluate(source, 1); }) == "image");
  }
  image[2] = 7;
  CHECK(trainer->Learn(image, 3).size() == 1);
  CHECK(trainer->Evaluate(source, 1).samples == 1);
}

}  // namespace
}  // namespace batchless::training
