#include "batchless/hwmodel/memory_bandwidth.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "batchless/analysis/argument.h"

namespace batchless::hwmodel {

double MeasureCopyBandwidth(std::int64_t bytes) {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t kLeast = 128;
  constexpr double kRunSeconds = 0.004;
  constexpr int kRuns = 5;
  if (bytes < kLeast) {
    throw analysis::InvalidArgument("bytes", static_cast<double>(bytes), "at least 128");
  }
  const auto half = static_cast<std::size_t>(bytes / 2);
  std::vector<unsigned char> from(half, 1);
  std::vector<unsigned char> to(half, 2);
  double best = 0;
  std::int64_t copies = 1;
  for (int run = 0; run < kRuns;) {
    const Clock::time_point start = Clock::now();
    for (std::int64_t i = 0; i < copies; ++i) {
      std::memcpy(to.data(), from.data(), half);
      // The compiler may not leave out a copy whose result the next one overwrites.
      asm volatile("" : : "r"(to.data()), "r"(from.data()) : "memory");
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (seconds < kRunSeconds / 2 && copies < (std::int64_t{1} << 40)) {
      copies *= 2;
      continue;
    }
    best = std::max(best, 2.0 * static_cast<double>(half) * static_cast<double>(copies) / seconds);
    ++run;
  }
  return best;
}

std::int64_t CacheBytes(int level) {
  long bytes = 0;
#ifdef _SC_LEVEL1_DCACHE_SIZE
  if (level == 1) bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  if (level == 2) bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (level == 3) bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  return std::max(bytes, 0L);
}

}  // namespace batchless::hwmodel
