// What one core of this machine copies a second, by how much it copies.
#pragma once

#include <cstdint>

namespace batchless::hwmodel {

/// Bytes read and written a second by copying blocks of `bytes` / 2 to another place, again and
/// again, by the calling thread: the best of several runs, about 20 milliseconds in all and at least
/// three copies. `bytes` that fit a cache give that cache's. Throws analysis::InvalidArgument naming
/// bytes unless there are at least 128.
double MeasureCopyBandwidth(std::int64_t bytes);

/// Bytes of this core's first-, second- or third-level cache (level 1, 2, 3); 0 where the system
/// does not say.
std::int64_t CacheBytes(int level);

}  // namespace batchless::hwmodel
