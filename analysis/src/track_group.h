// What one walk over a group of tracks reads and writes; no arithmetic, so that every instruction
// set can share it.
#pragma once

#include <cstddef>

#include "batchless/analysis/spectral_radius.h"

namespace batchless::analysis {

struct TrackGroup {
  static constexpr std::size_t kMaxLanes = 8;
  // A little less than promised: the rest is for rounding after the fact.
  static constexpr double kRadiusGoal = 0.9 * kRadiusTolerance;
  static constexpr double kLogGoal = 0.9 * kLogRadiusTolerance;

  static constexpr double kUncertified = 1e300;

  alignas(64) double n[kMaxLanes], m[kMaxLanes], mu[kMaxLanes];
  alignas(64) double kappa[kMaxLanes], beta[kMaxLanes], gamma[kMaxLanes];
  alignas(64) double kappa_size[kMaxLanes], beta_size[kMaxLanes];
  const double* rates[kMaxLanes];
  std::size_t points = 0;
  std::size_t used = 0;  ///< lanes beyond are copies of the last track and are not written

  double* log_radius[kMaxLanes];
  /// Negative where a point is to be finished in higher precision: minus its certified bound, or
  /// minus kUncertified.
  double* log_error[kMaxLanes];
  bool wants_radius = false;
  double* radius[kMaxLanes];
  double* error[kMaxLanes];

  void Put(double* const* rows, std::size_t j, const double* values, std::size_t lanes) const {
    const std::size_t count = used < lanes ? used : lanes;
    for (std::size_t i = 0; i < count; ++i) rows[i][j] = values[i];
  }
};

/// The walk of one instruction set, `lanes` tracks at a time.
struct Walker {
  void (*walk)(const TrackGroup&);
  std::size_t lanes;
  Simd simd;
};

Walker ScalarWalker();
/// The walker of `simd`, which has to be available.
Walker WalkerOf(Simd simd);

}  // namespace batchless::analysis
