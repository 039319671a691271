// Training: a perceptron behind a pipeline register for each stage learns, sample by sample, which
// points of a square are inside a circle.
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "batchless/hwmodel/network.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/training/trainer.h"

using namespace batchless;

int main() {
  training::TrainerOptions options;
  options.network = hwmodel::MakeNetwork(
      {.name = "mlp", .input = {.channels = 2}, .classes = 2, .hidden = {32, 32}});
  const int stages = options.network.stage_count();
  options.schedule =
      hwmodel::PipelinedBackpropagation(stages, hwmodel::EnoughMicrobatches(stages, 1));
  options.batch = 1;
  options.rule.rule = analysis::FindRule("lwp-v+sc");
  options.learning_rate.base = 1e-3;
  const std::unique_ptr<training::Trainer> trainer = training::MakeTrainer(options);
  std::printf("%d stages, the first one's gradients %d updates late\n", stages,
              static_cast<int>(trainer->delays().front()));

  std::mt19937 random(1);
  std::uniform_real_distribution<float> coordinate(-1, 1);
  double correct = 0;
  for (int i = 1; i <= 20'000; ++i) {
    const std::vector<float> point = {coordinate(random), coordinate(random)};
    const bool inside = point[0] * point[0] + point[1] * point[1] < 0.6F;
    for (const auto& result : trainer->Learn(point, inside)) correct += result.correct;
    if (i % 5000 != 0) continue;
    std::printf("after %d samples %.3f of the last 5000 were right\n", i, correct / 5000);
    correct = 0;
  }
  trainer->Finish();  // with what is still on its way
}
