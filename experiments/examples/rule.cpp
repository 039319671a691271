// A rule of one's own, by its coefficients: analysed, and trained with under the same delay.
#include <array>
#include <cstdio>
#include <random>

#include "batchless/analysis/rates.h"
#include "batchless/training/trainer.h"

using namespace batchless;

// SGDM whose steps lead the velocity by k of its changes: C(z) = (z + k (z - 1)) / ((z - 1)(z - m)).
static analysis::RuleSpec Lead(double k) {
  return analysis::LinearSpec({1 + k, -k}, {1, -1.9, 0.9});
}

int main() {
  constexpr analysis::Delay kDelay = 2;
  for (const double k : {0.0, 2.0}) {
    const auto worst = analysis::WorstSpectralRadius(Lead(k), 0, kDelay, /*rate=*/0.1, 100);
    std::printf("k = %g: worst radius %.6f, %s\n", k, worst.radius,
                worst.stable() ? "stable" : "not stable");
  }

  training::TrainerOptions options;
  options.network = hwmodel::MakeNetwork({.name = "linear", .input = {2, 1, 1}, .classes = 2});
  options.schedule.forward_lag = kDelay;
  options.batch = 1;
  options.optimizer.optimizer = training::FindOptimizer("linear");
  options.optimizer.by_delay[kDelay] = Lead(2);
  options.learning_rate.base = 0.01;
  const auto trainer = training::MakeTrainer(options);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> number(0, 1);
  double right = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::array point = {number(random), 0.5F};
    for (const auto& r : trainer->Learn(point, point[0] > point[1])) right += r.correct;
  }
  std::printf("k = 2: %.3f of 2000 samples were right before they were learned\n", right / 2000);
}
