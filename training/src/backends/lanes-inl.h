// Vectors of one block's channels, for each instruction set that the including file is compiled for.
#if defined(BATCHLESS_TRAINING_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATCHLESS_TRAINING_LANES_INL_H_
#undef BATCHLESS_TRAINING_LANES_INL_H_
#else
#define BATCHLESS_TRAINING_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "batchless/training/backend.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int B = kBlock;  // NOLINT(readability-identifier-naming): as equations have it

// kCount numbers, of a block's channels one behind another: as many vectors as that takes.
template <int kCount>
struct Lanes {
  using Real = float;
  static constexpr int kSize = kCount;
  using D = hn::CappedTag<float, kCount>;
  using V = hn::Vec<D>;
  static constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
  static constexpr int kVectors = kCount / kLanes;

  V v[kVectors];

  static HWY_INLINE Lanes Zero() { return Set(0); }
  static HWY_INLINE Lanes Set(float value) {
    return Make([&](int) { return hn::Set(D(), value); });
  }
  static HWY_INLINE Lanes Load(const float* from) {
    return Make([&](int i) { return hn::LoadU(D(), from + i * kLanes); });
  }
  HWY_INLINE void Store(float* to) const {
    ForEach([&](int i) { hn::StoreU(v[i], D(), to + i * kLanes); }, kIndices);
  }
  // The first 1 to kCount numbers, with `fill` in the lanes behind; what lies behind in memory is not touched.
  static HWY_INLINE Lanes LoadPart(const float* from, std::int64_t count, float fill = 0) {
#if HWY_MEM_OPS_MIGHT_FAULT
    alignas(64) std::array<float, kCount> lanes;
    lanes.fill(fill);
    std::copy_n(from, count, lanes.begin());
    return Load(lanes.data());
#else
    return Make([&](int i) {
      const auto first = First(i, count);
      return hn::IfThenElse(first, hn::MaskedLoad(first, D(), from + i * kLanes),
                            hn::Set(D(), fill));
    });
#endif
  }
  HWY_INLINE void StorePart(std::int64_t count, float* to) const {
#if HWY_MEM_OPS_MIGHT_FAULT
    alignas(64) std::array<float, kCount> lanes;
    Store(lanes.data());
    std::copy_n(lanes.begin(), count, to);
#else
    for (int i = 0; i < kVectors; ++i) {
      hn::BlendedStore(v[i], First(i, count), D(), to + i * kLanes);
    }
#endif
  }
  // x in so many lanes, 0 in those behind them.
  static HWY_INLINE Lanes Part(const Lanes& x, std::int64_t count) {
    return Make([&](int i) { return hn::IfThenElseZero(First(i, count), x.v[i]); });
  }
  // Past the caches, to an aligned place; hwy::FlushStream() makes it seen by other threads.
  HWY_INLINE void Stream(float* to) const {
    ForEach([&](int i) { hn::Stream(v[i], D(), to + i * kLanes); }, kIndices);
  }
  static HWY_INLINE Lanes Add(const Lanes& a, const Lanes& b) {
    return Make([&](int i) { return hn::Add(a.v[i], b.v[i]); });
  }
  static HWY_INLINE Lanes Sub(const Lanes& a, const Lanes& b) {
    return Make([&](int i) { return hn::Sub(a.v[i], b.v[i]); });
  }
  static HWY_INLINE Lanes Mul(const Lanes& a, const Lanes& b) {
    return Make([&](int i) { return hn::Mul(a.v[i], b.v[i]); });
  }
  static HWY_INLINE Lanes Div(const Lanes& a, const Lanes& b) {
    return Make([&](int i) { return hn::Div(a.v[i], b.v[i]); });
  }
  static HWY_INLINE Lanes Sqrt(const Lanes& a) {
    return Make([&](int i) { return hn::Sqrt(a.v[i]); });
  }
  // b where one is no number, as x86 has it; without vectors Highway has a.
  static HWY_INLINE Lanes Max(const Lanes& a, const Lanes& b) {
#if HWY_TARGET == HWY_SCALAR
    return Make([&](int i) { return hn::IfThenElse(hn::Gt(a.v[i], b.v[i]), a.v[i], b.v[i]); });
#else
    return Make([&](int i) { return hn::Max(a.v[i], b.v[i]); });
#endif
  }
  static HWY_INLINE Lanes Min(const Lanes& a, const Lanes& b) {
    return Make([&](int i) { return hn::Min(a.v[i], b.v[i]); });
  }
  // a * b + c with one rounding where the machine has it.
  static HWY_INLINE Lanes MulAdd(const Lanes& a, const Lanes& b, const Lanes& c) {
    return Make([&](int i) { return hn::MulAdd(a.v[i], b.v[i], c.v[i]); });
  }
  // y where x > 0, else 0.
  static HWY_INLINE Lanes WherePositive(const Lanes& x, const Lanes& y) {
    return Make([&](int i) { return hn::IfThenElseZero(hn::Gt(x.v[i], hn::Zero(D())), y.v[i]); });
  }
  // Sum of all lanes: the upper half is added to the lower one until there is one, whatever a vector holds.
  HWY_INLINE float Sum() const {
    Lanes sums = *this;
    for (int n = kVectors / 2; n > 0; n /= 2) {
      for (int i = 0; i < n; ++i) sums.v[i] = hn::Add(sums.v[i], sums.v[i + n]);
    }
    return SumOf(D(), sums.v[0]);
  }

  HWY_INLINE float Largest() const {
    V most = v[0];
    for (int i = 1; i < kVectors; ++i) most = hn::Max(most, v[i]);
    return hn::GetLane(hn::MaxOfLanes(D(), most));
  }

  template <class F>
  static HWY_INLINE Lanes Make(F f) {
    return Make(f, kIndices);
  }

 private:
  // Without loops, of which compilers leave a tile's sums in memory.
  static constexpr std::make_integer_sequence<int, kVectors> kIndices{};
  template <class F, int... kIndex>
  static HWY_INLINE Lanes Make(F f, std::integer_sequence<int, kIndex...> /*indices*/) {
    return {{f(kIndex)...}};
  }
  template <class F, int... kIndex>
  static HWY_INLINE void ForEach(F f, std::integer_sequence<int, kIndex...> /*indices*/) {
    (f(kIndex), ...);
  }

  // Which lanes of vector i have the first `count` numbers.
  static HWY_INLINE hn::Mask<D> First(int i, std::int64_t count) {
    const std::int64_t rest = std::clamp<std::int64_t>(count - i * kLanes, 0, kLanes);
    return hn::FirstN(D(), static_cast<std::size_t>(rest));
  }

  template <class Tag>
  static HWY_INLINE float SumOf([[maybe_unused]] Tag tag, hn::Vec<Tag> x) {
#if HWY_TARGET != HWY_SCALAR
    if constexpr (hn::MaxLanes(tag) > 4) {
      const hn::Half<Tag> half;
      return SumOf(half, hn::Add(hn::LowerHalf(half, x), hn::UpperHalf(half, x)));
    } else if constexpr (hn::MaxLanes(tag) == 4) {
      x = hn::Add(x, hn::Shuffle1032(x));
      x = hn::Add(x, hn::Shuffle2301(x));
    }
#endif
    return hn::GetLane(x);
  }
};

// The transpose of as many vectors as one has lanes.
template <class D, std::size_t kLanes>
HWY_INLINE void TransposeSquare([[maybe_unused]] D d,
                                [[maybe_unused]] std::array<hn::Vec<D>, kLanes>& rows) {
#if HWY_TARGET != HWY_SCALAR
  const hn::RepartitionToWide<D> d64;
  const auto wide = [&](auto v) HWY_ATTR { return hn::BitCast(d64, v); };
  const auto narrow = [&](auto v) HWY_ATTR { return hn::BitCast(d, v); };
  std::array<hn::Vec<D>, kLanes> columns;
  // Squares of four by four inside every 128 bits.
  for (std::size_t r = 0; r < kLanes; r += 4) {
    const auto low01 = hn::InterleaveLower(d, rows[r], rows[r + 1]);
    const auto high01 = hn::InterleaveUpper(d, rows[r], rows[r + 1]);
    const auto low23 = hn::InterleaveLower(d, rows[r + 2], rows[r + 3]);
    const auto high23 = hn::InterleaveUpper(d, rows[r + 2], rows[r + 3]);
    columns[r] = narrow(hn::InterleaveLower(d64, wide(low01), wide(low23)));
    columns[r + 1] = narrow(hn::InterleaveUpper(d64, wide(low01), wide(low23)));
    columns[r + 2] = narrow(hn::InterleaveLower(d64, wide(high01), wide(high23)));
    columns[r + 3] = narrow(hn::InterleaveUpper(d64, wide(high01), wide(high23)));
  }
  // Then the squares themselves: columns[4 g + k] holds column 4 b + k of rows 4 g .. 4 g + 3
  // in its 128-bit block b.
  for (std::size_t k = 0; k < 4; ++k) {
    if constexpr (kLanes == 4) {
      rows[k] = columns[k];
    } else if constexpr (kLanes == 8) {
      rows[k] = hn::ConcatLowerLower(d, columns[4 + k], columns[k]);
      rows[4 + k] = hn::ConcatUpperUpper(d, columns[4 + k], columns[k]);
    } else {
      const auto even = [&](std::size_t g) HWY_ATTR {
        return hn::OddEvenBlocks(hn::SwapAdjacentBlocks(columns[g + 4 + k]), columns[g + k]);
      };
      const auto odd = [&](std::size_t g) HWY_ATTR {
        return hn::OddEvenBlocks(columns[g + 4 + k], hn::SwapAdjacentBlocks(columns[g + k]));
      };
      rows[k] = hn::ConcatLowerLower(d, even(8), even(0));
      rows[4 + k] = hn::ConcatLowerLower(d, odd(8), odd(0));
      rows[8 + k] = hn::ConcatUpperUpper(d, even(8), even(0));
      rows[12 + k] = hn::ConcatUpperUpper(d, odd(8), odd(0));
    }
  }
#endif
}

// store(n, m, the transpose of load(m, n)) for the squares of B rows of B numbers, a machine vector wide: load and
// store take a square's place and its rows.
template <class Load, class Store>
HWY_INLINE void TransposeSquares(Load load, Store store) {
  using L = Lanes<B>;
  for (int m = 0; m < L::kVectors; ++m) {
    for (int n = 0; n < L::kVectors; ++n) {
      std::array<L::V, L::kLanes> square;
      load(m, n, square);
      TransposeSquare(L::D(), square);
      store(n, m, square);
    }
  }
}

// B vectors of B lanes become their transpose.
HWY_INLINE void Transpose(std::array<Lanes<B>, B>& rows) {
  using L = Lanes<B>;
  std::array<L, B> columns;
  TransposeSquares(
      [&](int m, int n, std::array<L::V, L::kLanes>& square) HWY_ATTR {
        for (int r = 0; r < L::kLanes; ++r) square[r] = rows[m * L::kLanes + r].v[n];
      },
      [&](int m, int n, const std::array<L::V, L::kLanes>& square) HWY_ATTR {
        for (int r = 0; r < L::kLanes; ++r) columns[m * L::kLanes + r].v[n] = square[r];
      });
  rows = columns;
}

// The transpose of B x B numbers.
HWY_INLINE void TransposeBlock(const float* from, float* to) {
  using L = Lanes<B>;
  const auto place = [](int m, int n, int r) { return (m * L::kLanes + r) * B + n * L::kLanes; };
  TransposeSquares(
      [&](int m, int n, std::array<L::V, L::kLanes>& square) HWY_ATTR {
        for (int r = 0; r < L::kLanes; ++r) square[r] = hn::LoadU(L::D(), from + place(m, n, r));
      },
      [&](int m, int n, const std::array<L::V, L::kLanes>& square) HWY_ATTR {
        for (int r = 0; r < L::kLanes; ++r) hn::StoreU(square[r], L::D(), to + place(m, n, r));
      });
}

// Sums of f(p), p = 0 .. count-1: four running sums hide the latency of an addition.
template <class L, class F>
HWY_INLINE L SumOver(std::int64_t count, F f) {
  L s0 = L::Zero();
  L s1 = L::Zero();
  L s2 = L::Zero();
  L s3 = L::Zero();
  std::int64_t p = 0;
  for (; p + 4 <= count; p += 4) {
    s0 = f(p, s0);
    s1 = f(p + 1, s1);
    s2 = f(p + 2, s2);
    s3 = f(p + 3, s3);
  }
  for (; p < count; ++p) s0 = f(p, s0);
  return L::Add(L::Add(s0, s1), L::Add(s2, s3));
}

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#endif  // include guard that each target toggles
