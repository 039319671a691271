// Calls each installed library once and checks an answer that is known in closed form.
#include <cmath>
#include <cstdio>

#include "batchless/analysis/rule.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/schedule_summary.h"
#include "batchless/training/hyperparameter_scaling.h"

int main() {
  using namespace batchless;

  double a = 0;
  double b = 0;
  analysis::SpikeCoefficients(0.5, 2.0, a, b);
  const bool spike = a == 0.25 && b == 1.5 && analysis::FindRule("sc").name == "sc";

  const auto summary = hwmodel::Summarize(hwmodel::PipelinedBackpropagation(4, 20));
  const bool delays = summary.stages.front().forward_delay_updates == 6;

  const auto scaled = training::ScaleToBatch({0.1, 0.9, 256}, 32);
  const bool scaling = std::abs(scaled.momentum - 0.98691628) < 1e-8;

  std::printf("analysis %d hwmodel %d training %d\n", spike, delays, scaling);
  return spike && delays && scaling ? 0 : 1;
}
