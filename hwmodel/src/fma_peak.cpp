#include "batchless/hwmodel/fma_peak.h"

#include <algorithm>
#include <array>
#include <chrono>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fma_peak.cpp"
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
double RunChains(int rounds, float* sink) {
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

}  // namespace

double MeasureFmaPeak() {
  using Clock = std::chrono::steady_clock;
  constexpr int kRuns = 8;
  constexpr int kRounds = 400'000;
  double best = 0;
  volatile float kept = 0;
  for (int run = 0; run < kRuns; ++run) {
    float sink = 0;
    const Clock::time_point start = Clock::now();
    const double flops = HWY_DYNAMIC_DISPATCH(RunChains)(kRounds, &sink);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    kept = sink;
    best = std::max(best, flops / seconds);
  }
  static_cast<void>(kept);
  return best;
}

}  // namespace batchless::hwmodel
#endif
