#include "batchless/training/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "batchless/analysis/argument.h"

namespace batchless::training {

using analysis::CheckNumber;
using analysis::InvalidArgument;
using analysis::RefuseIf;

double LearningRate::At(std::int64_t sample) const {
  const std::int64_t i = samples > 0 ? std::min(sample, samples) : sample;
  double scale = 1;
  switch (shape) {
    case LearningRateShape::kSteps:
      for (const LearningRateDrop& drop : drops) {
        if (i >= drop.sample) scale *= drop.factor;
      }
      break;
    case LearningRateShape::kCosine:
    case LearningRateShape::kWarmUpCosine: {
      const std::int64_t begin = shape == LearningRateShape::kCosine ? 0 : warm_up_samples;
      if (i < begin || begin == samples) break;
      const double share = static_cast<double>(i - begin) / static_cast<double>(samples - begin);
      scale = final + (1 - final) * (1 + std::cos(std::numbers::pi * share)) / 2;
      break;
    }
    case LearningRateShape::kOneCycle: {
      const double n = static_cast<double>(samples);
      const double peak = peak_fraction * n;
      const auto place = static_cast<double>(i);
      scale = place < peak ? start + (1 - start) * (place / peak)
                           : final + (1 - final) * ((n - place) / (n - peak));
      break;
    }
  }
  if (i + 1 < warm_up_samples) {
    scale *= static_cast<double>(i + 1) / static_cast<double>(warm_up_samples);
  }
  return base * scale;
}

void Validate(const LearningRate& rate) {
  // Factors and rates multiply to a finite number.
  constexpr double kMax = 1e6;
  CheckNumber("base", rate.base, 0, kMax);
  RefuseIf(rate.warm_up_samples < 0, "warm_up_samples", rate.warm_up_samples, "an integer from 0");
  if (rate.shape == LearningRateShape::kSteps) {
    std::int64_t previous = 0;
    for (const LearningRateDrop& drop : rate.drops) {
      RefuseIf(drop.sample < previous, "drops", drop.sample,
               "drops in ascending order, none before sample 0");
      previous = drop.sample;
      CheckNumber("factor", drop.factor, 0, 1);
    }
    return;
  }
  RefuseIf(rate.samples < 1, "samples", rate.samples,
           "at least 1 with the schedules cosine, warmup-cosine and one-cycle");
  CheckNumber("final", rate.final, 0, 1);
  if (rate.shape == LearningRateShape::kOneCycle) {
    CheckNumber("start", rate.start, 0, 1);
    RefuseIf(!(rate.peak_fraction > 0 && rate.peak_fraction < 1), "peak_fraction",
             rate.peak_fraction, "a number between 0 and 1");
  }
}

bool LearningRate::IsValid(std::string* why) const {
  try {
    Validate(*this);
    return true;
  } catch (const InvalidArgument& error) {
    if (why != nullptr) *why = error.what();
    return false;
  }
}

}  // namespace batchless::training
