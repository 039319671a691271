// Calls each installed library once and checks an answer that is known in closed form.
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "batchless/analysis/rule.h"
#include "batchless/hwmodel/network.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "batchless/training/hyperparameter_scaling.h"
#include "batchless/training/trainer.h"

using namespace batchless;

// A perceptron behind a pipeline register for each stage learns which corner of its images is bright, from
// samples that are made one by one. Whether the loss has fallen.
static bool Learns() {
  training::TrainerOptions options;
  options.network = hwmodel::MakeNetwork({.name = "mlp", .hidden = {16}});
  const int stages = options.network.stage_count();
  options.schedule =
      hwmodel::PipelinedBackpropagation(stages, hwmodel::EnoughMicrobatches(stages, 1));
  options.batch = 1;
  options.rule.rule = analysis::FindRule("sc");
  options.learning_rate.base = 1e-3;
  const std::unique_ptr<training::Trainer> trainer = training::MakeTrainer(options);

  std::vector<training::SampleResult> results;
  const auto keep = [&](const std::vector<training::SampleResult>& more) {
    results.insert(results.end(), more.begin(), more.end());
  };
  constexpr int kSamples = 400;
  for (int i = 0; i < kSamples; ++i) {
    const int label = i % 4;
    std::vector<float> image(options.network.input.elements());
    image[label < 2 ? label * 31 : 992 + (label - 2) * 31] = 5;
    keep(trainer->Learn(image, label));  // of samples that met their loss by now
  }
  keep(trainer->Finish());  // what was still on its way

  const auto mean_loss = [&](int first) {
    double sum = 0;
    for (int i = first; i < first + 100; ++i) sum += results[i].loss;
    return sum / 100;
  };
  return results.size() == kSamples && trainer->samples_done() == kSamples &&
         mean_loss(300) < 0.5 * mean_loss(0);
}

int main() {
  double a = 0;
  double b = 0;
  analysis::SpikeCoefficients(0.5, 2.0, a, b);
  const bool spike = a == 0.25 && b == 1.5 && analysis::FindRule("sc").name == "sc";

  const auto summary = hwmodel::Summarize(hwmodel::PipelinedBackpropagation(4, 20));
  const bool delays = summary.stages.front().forward_delay_updates == 6;

  const auto scaled = training::ScaleToBatch({0.1, 0.9, 256}, 32);
  const bool scaling = std::abs(scaled.momentum - 0.98691628) < 1e-8;

  const bool learning = Learns();

  std::printf("analysis %d hwmodel %d training %d learning %d\n", spike, delays, scaling, learning);
  return spike && delays && scaling && learning ? 0 : 1;
}
