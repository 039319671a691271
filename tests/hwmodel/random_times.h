// Times of stages drawn at random, for tests of what depends on them.
#pragma once

#include <random>

#include "batchless/hwmodel/pipeline_times.h"

namespace batchless::hwmodel {

/// Without `links` messages take no time.
inline PipelineTimes RandomTimes(int stages, std::mt19937& random, bool links) {
  std::uniform_real_distribution<double> seconds(0.5, 2);
  PipelineTimes times;
  for (int s = 0; s < stages; ++s) {
    times.stages.push_back(
        {seconds(random), 2 * seconds(random), seconds(random), 0.1 * seconds(random)});
  }
  if (links) {
    for (int b = 0; b + 1 < stages; ++b) {
      times.link_seconds.push_back(seconds(random));
      times.latency_seconds.push_back(3 * seconds(random));
    }
  }
  return times;
}

inline PipelineTimes EqualTimes(int stages, const StageTimes& stage) {
  PipelineTimes times;
  times.stages.assign(static_cast<std::size_t>(stages), stage);
  return times;
}

}  // namespace batchless::hwmodel
