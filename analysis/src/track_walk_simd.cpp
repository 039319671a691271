// The walk over tracks compiled for AVX2, AVX-512 and WebAssembly, chosen when the program runs.
#include "track_group.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "track_walk_simd.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "track_walk-inl.h"

// Highway 1.0 has no vectors of doubles for WebAssembly. Clang turns part of its portable ones, arrays
// of two, into that machine's instructions: an eighth off the time of a map, 102 ms in place of 118 for
// 512 x 512 points by V8 on an Intel Xeon.
#if defined(__wasm_simd128__)
#define BATCHLESS_WALKS_PORTABLY (HWY_TARGETS & HWY_EMU128)
#else
#define BATCHLESS_WALKS_PORTABLY 0
#endif

// Two lanes gain nothing over the scalar walk elsewhere, and the finer AVX-512 sets nothing over the
// first.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || \
    (HWY_TARGET == HWY_EMU128 && BATCHLESS_WALKS_PORTABLY)
HWY_BEFORE_NAMESPACE();
namespace batchless::analysis {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The root kernel's arithmetic on vectors of doubles.
struct SimdLanes {
  using D = hn::CappedTag<double, TrackGroup::kMaxLanes>;
  using V = hn::Vec<D>;
  using M = hn::Mask<D>;
  static constexpr std::size_t kLanes = hn::MaxLanes(D());

  static HWY_INLINE V Set(double value) { return hn::Set(D(), value); }
  static HWY_INLINE V Pi() { return Set(3.14159265358979323846); }
  static HWY_INLINE V Ln2() { return Set(0.69314718055994530942); }
  // Highway's functions are right to 4 ulp, which is four times 2^-53.
  static HWY_INLINE V Unit() { return Set(0x1p-51); }
  static HWY_INLINE V Settled() { return Set(0x1p-56); }
  static HWY_INLINE V Load(const double* from) { return hn::Load(D(), from); }
  static HWY_INLINE const double* Store(V v, double* to) {
    hn::Store(v, D(), to);
    return to;
  }

  static HWY_INLINE V Select(M m, V yes, V no) { return hn::IfThenElse(m, yes, no); }
  static HWY_INLINE M Lt(V a, V b) { return hn::Lt(a, b); }
  static HWY_INLINE M And(M a, M b) { return hn::And(a, b); }
  static HWY_INLINE M Or(M a, M b) { return hn::Or(a, b); }
  static HWY_INLINE M Xor(M a, M b) { return hn::Xor(a, b); }
  static HWY_INLINE M Not(M a) { return hn::Not(a); }
  static HWY_INLINE bool Any(M a) { return !hn::AllFalse(D(), a); }

  static HWY_INLINE V Min(V a, V b) { return hn::Min(a, b); }
  static HWY_INLINE V Max(V a, V b) { return hn::Max(a, b); }
  static HWY_INLINE V Abs(V a) { return hn::Abs(a); }
  static HWY_INLINE V Sqrt(V a) { return hn::Sqrt(a); }
  static HWY_INLINE V Exp(V a) { return hn::Exp(D(), a); }
  static HWY_INLINE V Expm1(V a) { return hn::Expm1(D(), a); }
  static HWY_INLINE V Log(V a) { return hn::Log(D(), a); }
  static HWY_INLINE V Log1p(V a) { return hn::Log1p(D(), a); }
  static HWY_INLINE V Atan(V a) { return hn::Atan(D(), a); }
  static HWY_INLINE V Sin(V a) { return hn::Sin(D(), a); }
  static HWY_INLINE V Cos(V a) { return hn::Cos(D(), a); }
  static HWY_INLINE V Floor(V a) { return hn::Floor(a); }
  static HWY_INLINE V Round(V a) { return hn::Round(a); }
};

void Walk(const TrackGroup& group) { WalkTracks<SimdLanes>(group); }

}  // namespace HWY_NAMESPACE
}  // namespace batchless::analysis
HWY_AFTER_NAMESPACE();
#endif  // AVX-512, AVX2 or WebAssembly

#if HWY_ONCE
namespace batchless::analysis {
bool IsAvailable(Simd simd) {
  // Highway asks the processor at every call, and a virtual machine's host answers: tens of microseconds
  // for what a walk over a few rates takes.
  static const auto supported = hwy::SupportedTargets();
  if (simd == Simd::kAvx512) return (HWY_TARGETS & HWY_AVX3 & supported) != 0;
  if (simd == Simd::kAvx2) return (HWY_TARGETS & HWY_AVX2 & supported) != 0;
  return true;
}

Walker WalkerOf(Simd simd) {
  [[maybe_unused]] const bool best = simd == Simd::kBest;
#if HWY_TARGETS & HWY_AVX3
  if (simd == Simd::kAvx512 || (best && IsAvailable(Simd::kAvx512))) {
    return {&N_AVX3::Walk, N_AVX3::SimdLanes::kLanes, Simd::kAvx512};
  }
#endif
#if HWY_TARGETS & HWY_AVX2
  if (simd == Simd::kAvx2 || (best && IsAvailable(Simd::kAvx2))) {
    return {&N_AVX2::Walk, N_AVX2::SimdLanes::kLanes, Simd::kAvx2};
  }
#endif
#if BATCHLESS_WALKS_PORTABLY
  if (best) return {&N_EMU128::Walk, N_EMU128::SimdLanes::kLanes, Simd::kBest};
#endif
  return ScalarWalker();
}

}  // namespace batchless::analysis
#endif
