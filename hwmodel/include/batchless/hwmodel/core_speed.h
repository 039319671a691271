// What one core of this machine computes and copies a second, by the calling thread: the best of several
// short runs, about 20 milliseconds in all. Other programs on the same core lower it.
#pragma once

#include <cstdint>

namespace batchless::hwmodel {

/// FLOPs per second of independent single-precision fused multiply-adds (two FLOPs each) on the
/// widest vectors of this machine: a yardstick for kernels.
double MeasureFmaPeak();

/// Bytes read and written a second by copying blocks of `bytes` / 2 to another place, again and
/// again, at least three times. `bytes` that fit a cache give that cache's. Throws
/// analysis::InvalidArgument naming bytes unless there are at least 128.
double MeasureCopyBandwidth(std::int64_t bytes);

/// Bytes of this core's first-, second- or third-level cache (level 1, 2, 3); 0 where the system
/// does not say.
std::int64_t CacheBytes(int level);

}  // namespace batchless::hwmodel

// Example
//   const double flops_per_second = MeasureFmaPeak();
//   CHECK(flops_per_second > 0);
//   CHECK(MeasureCopyBandwidth(1 << 16) > 0);
