// The most multiply-adds that one core of this machine does, as a yardstick for kernels.
#pragma once

namespace batchless::hwmodel {

/// FLOPs per second of independent single-precision fused multiply-adds (two FLOPs each) on the
/// widest vectors of this machine, by the calling thread: the best of several short runs, about
/// 20 milliseconds in all. Other programs on the same core lower it, as they lower everything.
double MeasureFmaPeak();

}  // namespace batchless::hwmodel
