// An optimizer of one's own: Lion, which steps by the sign of a mean, ten updates late, with a look-ahead.
#include <array>
#include <cstdio>
#include <random>

#include "batchless/training/own_optimizer.h"
#include "batchless/training/trainer.h"

using namespace batchless;
int main() {
  training::TrainerOptions options;
  options.network = hwmodel::MakeNetwork(
      {.name = "mlp", .input = {.channels = 2}, .classes = 2, .hidden = {32, 32}});
  options.schedule.forward_lag = 10;
  options.batch = 1;
  options.rule.rule = analysis::FindRule("lwp-v");
  options.learning_rate.base = 1e-4;
  options.optimizer.optimizer = training::MakeOptimizer(
      {.name = "lion",
       .arrays = {"mean"},
       .hyperparameters = {{.name = "beta1", .initial = 0.9}, {.name = "beta2", .initial = 0.99}},
       .momentum = "beta1"},
      [](const auto& spec, const auto& /*point*/) -> training::OwnNumbers<double> {
        return {spec.Value("beta1"), spec.Value("beta2")};
      },
      [](const auto& beta, auto& w) {
        const auto mean = beta[0] * w.states[0] + (1 - beta[0]) * w.gradient;
        w.u = mean > 0 ? 1 : -1;
        w.states[0] = beta[1] * w.states[0] + (1 - beta[1]) * w.gradient;
      });
  const auto trainer = training::MakeTrainer(options);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> coordinate(-1, 1);
  double right = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::array point = {coordinate(random), coordinate(random)};
    for (const auto& r : trainer->Learn(point, point[0] > point[1])) right += r.correct;
  }
  std::printf("lion: %.3f of 20000 samples were right before they were learned\n", right / 20'000);
}
