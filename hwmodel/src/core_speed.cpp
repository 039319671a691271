#include "batchless/hwmodel/core_speed.h"

#include <unistd.h>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core_speed.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace batchless::hwmodel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Independent chains: two units with a latency of four or five steps, and some to spare.
constexpr int kChains = 12;

// Returns the number of FLOPs done.
double RunChains(int rounds, volatile float* sink) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.999F);
  const auto summand = hn::Set(d, 0.001F);
  // Different starts keep the compiler from making one chain of all.
  auto s0 = hn::Iota(d, 0), s1 = hn::Iota(d, 1), s2 = hn::Iota(d, 2), s3 = hn::Iota(d, 3);
  auto s4 = hn::Iota(d, 4), s5 = hn::Iota(d, 5), s6 = hn::Iota(d, 6), s7 = hn::Iota(d, 7);
  auto s8 = hn::Iota(d, 8), s9 = hn::Iota(d, 9), s10 = hn::Iota(d, 10), s11 = hn::Iota(d, 11);
  for (int i = 0; i < rounds; ++i) {
    s0 = hn::MulAdd(s0, factor, summand);
    s1 = hn::MulAdd(s1, factor, summand);
    s2 = hn::MulAdd(s2, factor, summand);
    s3 = hn::MulAdd(s3, factor, summand);
    s4 = hn::MulAdd(s4, factor, summand);
    s5 = hn::MulAdd(s5, factor, summand);
    s6 = hn::MulAdd(s6, factor, summand);
    s7 = hn::MulAdd(s7, factor, summand);
    s8 = hn::MulAdd(s8, factor, summand);
    s9 = hn::MulAdd(s9, factor, summand);
    s10 = hn::MulAdd(s10, factor, summand);
    s11 = hn::MulAdd(s11, factor, summand);
  }
  const auto sum = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)),
                           hn::Add(hn::Add(hn::Add(s4, s5), hn::Add(s6, s7)),
                                   hn::Add(hn::Add(s8, s9), hn::Add(s10, s11))));
  *sink = hn::GetLane(sum);
  return 2.0 * kChains * rounds * static_cast<double>(hn::Lanes(d));
}

}  // namespace HWY_NAMESPACE
}  // namespace batchless::hwmodel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace batchless::hwmodel {
namespace {

HWY_EXPORT(RunChains);

using Bytes = std::unique_ptr<unsigned char, decltype(&std::free)>;

// In large pages where there are some, as a trainer's arrays are.
Bytes MakeBytes(std::size_t size, int value) {
  constexpr std::size_t kLargePage = std::size_t{2} << 20;
  const std::size_t pages = (size + kLargePage - 1) / kLargePage * kLargePage;
  Bytes bytes(static_cast<unsigned char*>(std::aligned_alloc(kLargePage, pages)), &std::free);
  if (bytes == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  madvise(bytes.get(), pages, MADV_HUGEPAGE);
#endif
  std::memset(bytes.get(), value, size);
  return bytes;
}

}  // namespace

using Clock = std::chrono::steady_clock;

double MeasureFmaPeak() {
  constexpr int kRuns = 8;
  constexpr int kRounds = 400'000;
  double best = 0;
  volatile float sink = 0;
  for (int run = 0; run < kRuns; ++run) {
    const Clock::time_point start = Clock::now();
    const double flops = HWY_DYNAMIC_DISPATCH(RunChains)(kRounds, &sink);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, flops / seconds);
  }
  return best;
}

double MeasureCopyBandwidth(std::int64_t bytes) {
  constexpr std::int64_t kLeast = 128;
  constexpr double kRunSeconds = 0.004;
  constexpr int kRuns = 5;
  RefuseIf(bytes < kLeast, "bytes", bytes, "at least 128");
  const auto half = static_cast<std::size_t>(bytes / 2);
  const Bytes from = MakeBytes(half, 1);
  const Bytes to = MakeBytes(half, 2);
  double best = 0;
  std::int64_t copies = 1;
  for (int run = 0; run < kRuns;) {
    const Clock::time_point start = Clock::now();
    for (std::int64_t i = 0; i < copies; ++i) {
      std::memcpy(to.get(), from.get(), half);
      // The compiler may not leave out a copy whose result the next one overwrites.
      asm volatile("" : : "r"(to.get()), "r"(from.get()) : "memory");
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
#endif
