// The products of matrices at every position of Winograd's tiles, for each instruction set that the
// including file is compiled for. They are many and short: distances and steps are fixed when they
// are compiled, so that a tile's sums are one run of instructions without a branch.
#if defined(BATCHLESS_TRAINING_POSITION_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATCHLESS_TRAINING_POSITION_PRODUCT_INL_H_
#undef BATCHLESS_TRAINING_POSITION_PRODUCT_INL_H_
#else
#define BATCHLESS_TRAINING_POSITION_PRODUCT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/lanes-inl.h"
#include "backends/matrix_product-inl.h"
#include "batchless/training/prefetcher.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

// At each of `positions`, whose matrices are a_plane, b_plane and out_plane apart:
// out[r][n] (+)= sum over runs and steps of a[r] b[n], where a[r] is a number at
// a + r kRow + run a_run + step kStep, b[n] a block of B numbers at
// b + n b_panel + (run steps + step) B and out[r][n] one at out + r B + n out_panel.
struct PositionProduct {
  std::int64_t positions;
  const float* a;
  std::int64_t a_plane;
  std::int64_t a_run;
  const float* b;
  std::int64_t b_plane;
  std::int64_t b_panel;
  float* out;
  std::int64_t out_plane;
  std::int64_t out_panel;
  std::int64_t runs;
  std::int64_t steps;
  bool add;
  Prefetcher* ahead;  // may be null
};

template <int B, int kRow, int kStep>
struct PositionProducts {
  using L = Lanes<B>;

  static constexpr int kUnrolled = 8;

  template <int kRows, int kWidth>
  struct Sums {
    L of[kRows][kWidth];

    template <int kSteps>
    HWY_INLINE void Add(const float* a, const float* b, std::int64_t b_panel) {
      HWY_UNROLL(8)
      for (int step = 0; step < kSteps; ++step) {
        L blocks[kWidth];
        for (int n = 0; n < kWidth; ++n) blocks[n] = L::Load(b + step * B + n * b_panel);
        for (int r = 0; r < kRows; ++r) {
          const L factor = L::Set(a[r * kRow + step * kStep]);
          for (int n = 0; n < kWidth; ++n) of[r][n] = L::MulAdd(factor, blocks[n], of[r][n]);
        }
        // Else the compiler gathers the loads of all steps and runs out of registers.
        HWY_FENCE;
      }
    }
  };

  // `count` tiles of kRows x kWidth panels, one below the other, at every position.
  template <int kRows, int kWidth>
  static HWY_NOINLINE void Tiles(const PositionProduct& p, std::int64_t row, std::int64_t panel,
                                 std::int64_t count) {
    const float* a_position = p.a + row * kRow;
    const float* b_position = p.b + panel * p.b_panel;
    float* out_position = p.out + row * B + panel * p.out_panel;
    const std::int64_t b_panel = p.b_panel;
    const std::int64_t out_panel = p.out_panel;
    // For each tile, in proportion to its time: measured.
    const auto lines = static_cast<std::size_t>(std::max<std::int64_t>(4, p.runs * p.steps / 2));
    for (std::int64_t position = 0; position < p.positions; ++position) {
      const float* a_tile = a_position;
      float* out = out_position;
      for (std::int64_t tile = 0; tile < count; ++tile) {
        if (p.ahead != nullptr) p.ahead->Fetch(lines);
        Sums<kRows, kWidth> sums;
        for (int r = 0; r < kRows; ++r) {
          for (int n = 0; n < kWidth; ++n) sums.of[r][n] = L::Zero();
        }
        if (p.add) {
          for (int r = 0; r < kRows; ++r) {
            for (int n = 0; n < kWidth; ++n) {
              sums.of[r][n] = L::Load(out + r * B + n * out_panel);
            }
          }
        }
        const float* b = b_position;
        for (std::int64_t run = 0; run < p.runs; ++run) {
          const float* a = a_tile + run * p.a_run;
          std::int64_t step = 0;
          for (; step + kUnrolled <= p.steps; step += kUnrolled) {
            sums.template Add<kUnrolled>(a, b, b_panel);
            a += kUnrolled * kStep;
            b += kUnrolled * B;
          }
          for (; step < p.steps; ++step) {
            sums.template Add<1>(a, b, b_panel);
            a += kStep;
            b += B;
          }
        }
        for (int r = 0; r < kRows; ++r) {
          for (int n = 0; n < kWidth; ++n) sums.of[r][n].Store(out + r * B + n * out_panel);
        }
        a_tile += kRows * kRow;
        out += kRows * B;
      }
      a_position += p.a_plane;
      b_position += p.b_plane;
      out_position += p.out_plane;
    }
  }

  static void Multiply(const PositionProduct& p, std::int64_t rows, std::int64_t panels) {
    Tiling<B, PositionProducts>(rows, panels).Multiply(p);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#endif  // include guard that each target toggles
