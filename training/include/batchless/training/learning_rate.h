// The learning rate as a function of the samples seen.
//
//   eta(i) = base * warm(i) * shape(i),   i samples seen before the update, n samples in the run
//
//   warm      min(1, (i + 1) / warm_up_samples), 1 without warm-up
//   steps     shape = product of the factors of all drops at or before i
//   cosine    shape = final + (1 - final) (1 + cos(pi i / n)) / 2
//   warmup-cosine, the same from the end of the warm-up on, w = warm_up_samples:
//             shape = final + (1 - final) (1 + cos(pi (i - w) / (n - w))) / 2, before it 1
//   one-cycle from `start` up to 1 at peak_fraction * n, down to `final` at n, both linear
//             (Smith and Topin, arXiv 1708.07120)
//
// In units of samples, so that a schedule means the same at every batch size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace batchless::training {

enum class LearningRateShape : unsigned char { kSteps, kCosine, kWarmUpCosine, kOneCycle };

struct LearningRateDrop {
  std::int64_t sample = 0;
  double factor = 0.1;
};

struct LearningRate {
  double base = 0.1;
  LearningRateShape shape = LearningRateShape::kSteps;
  std::int64_t samples = 0;             ///< n; all but steps need it
  std::vector<LearningRateDrop> drops;  ///< steps: in ascending order of samples
  double start = 0.1;                   ///< one-cycle: at sample 0, in units of base
  double final = 0;                     ///< all but steps: at sample n, in units of base
  double peak_fraction = 0.3;           ///< one-cycle
  std::int64_t warm_up_samples = 0;

  /// eta(sample); from n on it is eta(n).
  double At(std::int64_t sample) const;

  /// False with one line in `why` that names the member.
  bool IsValid(std::string* why) const;
};

/// Throws analysis::InvalidArgument with that line.
void Validate(const LearningRate& rate);

}  // namespace batchless::training

// Example
//   LearningRate rate;
//   rate.base = 0.1;
//   rate.drops = {{.sample = 1000, .factor = 0.1}};
//   rate.warm_up_samples = 100;
//   CHECK(rate.At(49) == Approx(0.05));
//   CHECK(rate.At(999) == 0.1);
//   CHECK(rate.At(1000) == Approx(0.01));
