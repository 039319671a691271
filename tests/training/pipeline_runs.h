// What several tests of pipelined training need: data, options, a run, an engine's options.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "batchless/analysis/rule.h"
#include "batchless/hwmodel/network.h"
#include "batchless/hwmodel/schedule_kinds.h"
#include "batchless/hwmodel/stage_groups.h"
#include "batchless/training/dataset.h"
#include "batchless/training/trainer.h"
#include "engine/pipeline.h"
#include "runs.h"
#include "test_networks.h"
#include "test_schedules.h"

namespace batchless::training {

inline constexpr const char* kRules[] = {"sgdm",  "nesterov", "sc",       "lwp-v",
                                         "lwp-w", "lwp-v+sc", "lwp-w+sc", "msnag"};

inline std::shared_ptr<const Dataset> Data() {
  static const std::shared_ptr<const Dataset> kData = MakeSynthetic(3, Split::kTrain, 256, 16);
  return kData;
}

inline DatasetSource Source() {
  return {Data(), {.seed = 2, .order = Order::kShuffled, .augment = true}};
}

inline TrainerOptions Options(const std::string& network, std::int64_t samples) {
  TrainerOptions options;
  options.network = TestNetwork(network);
  options.schedule = PbOf(options.network);
  options.batch = 1;
  options.samples = samples;
  // (0.1, 0.9, 128) scaled to one sample, in round numbers.
  options.learning_rate.base = 6.4e-6;
  options.momentum = 0.9992;
  options.weight_decay = 1e-4;
  options.seed = 11;
  return options;
}

inline Outcome Run(Trainer& trainer, std::int64_t to) { return Train(trainer, to, Source()); }

template <class Real>
typename Pipeline<Real>::Options EngineOptions(const hwmodel::Network& network,
                                               const Program& program, std::int64_t samples) {
  typename Pipeline<Real>::Options options;
  options.run.network = network;
  options.backend = MakeReferenceBackend<Real>();
  options.plan.program = program;
  options.microbatches = samples;
  options.plan.version_ages.resize(network.stage_count());
  options.plan.forward_lags.resize(network.stage_count());
  options.coefficients = [](int, std::int64_t) { return StageCoefficients<Real>(); };
  return options;
}

inline Program SequentialProgram(int stages) {
  const std::vector<int> all{stages};
  return SteadyProgram(hwmodel::FindSteadyState(hwmodel::MiniBatches(all, 1)), all);
}

}  // namespace batchless::training
