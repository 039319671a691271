// From a configuration to the optimizer, its learning rate and momentum.
//
//   rate   lr and momentum, or those of reference_batch scaled to batch (hyperparameter_scaling.h); of
//          Adam and its kin lr, or reference_lr, and the betas scaled to batch
//
// Everything throws UsageError, naming optimizer.key.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "batchless/training/learning_rate.h"
#include "batchless/training/optimizer.h"
#include "config.h"
#include "usage_error.h"

namespace batchless {

// Calls `work` and gives what it refuses the name that it has in a configuration: key(name).
template <class Key, class Work>
auto ByKeys(Key key, Work work) {
  try {
    return work();
  } catch (const analysis::InvalidArgument& error) {
    throw UsageError(key(error.name()), error.value(), error.accepted());
  }
}

// The library says "sc-delay" or "reference_lr" where the key is rule.sc_delay or optimizer.reference_lr.
template <class Work>
auto InSection(std::string_view section, Work work) {
  return ByKeys(
      [&](std::string name) {
        name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
        std::replace(name.begin(), name.end(), '-', '_');
        return fmt::format("{}.{}", section, name);
      },
      work);
}

// The least integer that is not below a * b, but for what rounding adds: 0.55 * 100 is 55.
double CeilOfProduct(double a, double b);

struct RateAndMomentum {
  double rate;
  double momentum;
};

// As it trains, its betas scaled to the batch.
training::OptimizerSpec OptimizerOf(const Configuration& configuration);

RateAndMomentum RateAndMomentumOf(const Configuration& configuration);

// The learning rate over a run of that many samples.
training::LearningRate LearningRateOf(const Configuration& configuration, std::int64_t samples);

// Refuses what the schedule of the learning rate has no use for.
void CheckRateSchedule(const Configuration& configuration);

// Fills in what was not given, unscaled where there is a reference batch.
void FillInOptimizer(Configuration& configuration, const training::Optimizer& optimizer,
                     const RateAndMomentum& trained);

}  // namespace batchless
