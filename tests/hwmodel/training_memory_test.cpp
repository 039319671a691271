// What a run keeps in memory, against counts by hand.
#include "batchless/hwmodel/training_memory.h"

#include <array>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "catch.h"

namespace batchless::hwmodel {
namespace {

constexpr std::int64_t kNumber = 4;

TEST_CASE("a linear network through a pipeline of two stages, by hand") {
  // Stage 0: 10 x 3072 weights and 10 biases; stage 1: the loss, which keeps 10 probabilities.
  const Network network = MakeNetwork({.name = "linear"});
  REQUIRE(network.stage_count() == 2);
  constexpr std::int64_t kParameters = 10 * 3072 + 10;
  Schedule schedule = PipelinedBackpropagation(2, 8);
  const TrainingMemory memory = PredictTrainingMemory(network, schedule, {});
  CHECK(memory.weights == 2 * kParameters * kNumber);
  CHECK(memory.versions == 0);
  CHECK(memory.gradients == kParameters * kNumber);
  // Delay 2: stage 0 keeps its input for 3 micro-batches, stage 1 reads its own at once.
  const std::int64_t saved = SavedBytes(network.stages[1], 4);
  CHECK(memory.activations == 3 * 3072 * kNumber + 10 * kNumber + saved);
  CHECK(memory.activation_gradients == 10 * kNumber);
  // One sample's input and outputs, and what the loss saves.
  CHECK(memory.evaluation == (3072 + 10) * kNumber + saved);
  CHECK(memory.peak() == memory.total() + memory.evaluation);

  // Stashed: the weights of three versions beside the newest.
  schedule.weights = WeightVersions::kStashed;
  CHECK(PredictTrainingMemory(network, schedule, {}).versions == 3 * kParameters * kNumber);
  // Double precision and micro-batches of five.
  schedule.weights = WeightVersions::kNewest;
  const TrainingMemory larger = PredictTrainingMemory(network, schedule,
                                                      {.microbatch = 5,
                                                       .bytes_per_number = 8,
                                                       .predicts_forward = true,
                                                       .predicts_backward = true});
  CHECK(larger.weights == 2 * memory.weights);
  CHECK(larger.versions == 2 * kParameters * 8);
  CHECK(larger.activation_gradients == 10 * memory.activation_gradients);
}

TEST_CASE("the same network in two processes, by hand") {
  const Network network = MakeNetwork({.name = "linear"});
  constexpr std::int64_t kParameters = 10 * 3072 + 10;
  const Schedule schedule = PipelinedBackpropagation(2, 8);
  const TrainingMemory alone = PredictTrainingMemory(network, schedule, {});
  const std::vector<StageSpan> spans = {{0, 1}, {1, 2}};
  const std::vector<TrainingMemory> two = PredictTrainingMemory(network, schedule, {}, spans);
  REQUIRE(two.size() == 2);
  CHECK(two[0].weights == alone.weights);
  CHECK(two[1].weights == 0);
  // Three micro-batches are between forward and backward of stage 0: so many messages of ten outputs
  // there, and of their gradients back, on either side.
  for (const TrainingMemory& process : two) {
    CHECK(process.links == 3 * 2 * 10 * kNumber);
    // All weights come together for an evaluation.
    CHECK(process.evaluation == alone.evaluation + kParameters * kNumber);
  }
  // The outputs are kept on both sides, and so are their gradients.
  TrainingMemory both = two[0];
  both += two[1];
  CHECK(both.activations == alone.activations + 10 * kNumber);
  CHECK(both.activation_gradients == alone.activation_gradients + 10 * kNumber);
  CHECK(both.total() == two[0].total() + two[1].total());
  CHECK(both.peak() == two[0].peak() + two[1].peak());
}

TEST_CASE("what several processes take is the sum of each kind") {
  TrainingMemory sum{1, 2, 3, 4, 5, 6, 7, 8};
  sum += TrainingMemory{10, 20, 30, 40, 50, 60, 70, 80};
  const std::array kinds = {
      sum.weights,   sum.versions, sum.gradients, sum.activations, sum.activation_gradients,
      sum.workspace, sum.links,    sum.evaluation};
  CHECK(kinds == std::array<std::int64_t, 8>{11, 22, 33, 44, 55, 66, 77, 88});
}

TEST_CASE("every micro-batch in flight counts") {
  const Network network = MakeNetwork({.name = "resnet20"});
  const int stages = network.stage_count();
  const auto predict = [&](const Schedule& schedule) {
    return PredictTrainingMemory(network, schedule, {});
  };
  const TrainingMemory pb = predict(PipelinedBackpropagation(stages, 2 * stages));
  const TrainingMemory one_f_one_b = predict(OneForwardOneBackward(stages, 2 * stages));
  const TrainingMemory gpipe = predict(Gpipe(stages, 128, 64));
  // 1F1B keeps about half of what PB does, GPipe a whole mini-batch everywhere.
  CHECK(10 * one_f_one_b.activations < 6 * pb.activations);
  CHECK(gpipe.activations > pb.activations);
  CHECK(one_f_one_b.weights == pb.weights);
  // Gradients of every stage wait for their mini-batch.
  CHECK(gpipe.gradients == gpipe.weights / 2);
  CHECK(pb.gradients < gpipe.gradients);
}

TEST_CASE("a schedule of other stages is refused") {
  const Network network = MakeNetwork({.name = "linear"});
  CHECK_THROWS_AS(PredictTrainingMemory(network, PipelinedBackpropagation(3, 8), {}),
                  analysis::InvalidArgument);
}

TEST_CASE("numbers by stage that are not one for each are refused by their name") {
  const Network network = MakeNetwork({.name = "linear"});
  const Schedule schedule = PipelinedBackpropagation(2, 8);
  CHECK_THROWS_WITH(PredictTrainingMemory(network, schedule, {.held = {1, 2, 3}}),
                    "held: got 3 numbers, accepted: one for each stage, or none");
  CHECK_THROWS_WITH(PredictTrainingMemory(network, schedule, {.kept_delays = {1}}),
                    "kept_delays: got 1 numbers, accepted: one for each stage, or none");
}

}  // namespace
}  // namespace batchless::hwmodel
