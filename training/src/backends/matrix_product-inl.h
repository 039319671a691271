// Products of small matrices whose sums stay in registers, for each instruction set that the
// including file is compiled for.
#if defined(BATCHLESS_TRAINING_MATRIX_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATCHLESS_TRAINING_MATRIX_PRODUCT_INL_H_
#undef BATCHLESS_TRAINING_MATRIX_PRODUCT_INL_H_
#else
#define BATCHLESS_TRAINING_MATRIX_PRODUCT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "backends/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

// out[r][n] = start + sum over runs and steps of a[r] b[n], where a[r] is a number at
// a + r a_row + step a_step and b[n] a block of B numbers at b + n b_panel + step b_step.
struct MatrixProduct {
  const float* a;
  std::int64_t a_row;
  std::int64_t a_step;
  const float* b;
  std::int64_t b_panel;
  std::int64_t b_step;
  float* out;
  std::int64_t out_row;
  std::int64_t out_panel;
  std::int64_t steps;
};

// Runs of steps in two dimensions: a's run starts at outer a_outer + inner a_inner; b's steps go on
// from run to run, and every outer run begins b_outer after the one before. Rows may be broken into
// lines: after `line` of them the next one is a_line and out_line from where this one began.
struct Runs {
  std::int64_t outer;
  std::int64_t a_outer;
  std::int64_t b_outer;
  std::int64_t inner;
  std::int64_t a_inner;
  std::int64_t line;
  std::int64_t a_line;
  std::int64_t out_line;
};

// What the sums begin with: nothing, what `out` holds, or a block for each panel.
enum class Start : unsigned char { kZero, kOut, kBias };

template <int B>
struct Products {
  using L = Lanes<B>;

  static constexpr int kRegisters = HWY_MAX_BYTES >= 64 ? 32 : 16;
  static constexpr int kPanels = L::kVectors == 1 ? 2 : 1;

  // Rows of a tile of `panels` panels whose sums fit in the registers beside the operands.
  static constexpr int Rows(int panels) {
    const int vectors = panels * L::kVectors;
    return std::clamp((kRegisters - vectors - 1) / vectors, 1, 16);
  }

  template <int kRows, int kWidth>
  struct Sums {
    L of[kRows][kWidth];

    // At least one step: the sums then never leave the registers. rows: where those of a begin.
    template <class RowStart>
    HWY_INLINE void Add(const MatrixProduct& p, const float* a, RowStart rows, const float*& b) {
      const std::int64_t a_step = p.a_step;
      const std::int64_t b_panel = p.b_panel;
      const std::int64_t b_step = p.b_step;
      std::int64_t step = p.steps;
      do {
        L blocks[kWidth];
        for (int n = 0; n < kWidth; ++n) blocks[n] = L::Load(b + n * b_panel);
        for (int r = 0; r < kRows; ++r) {
          const L factor = L::Set(a[rows(r)]);
          for (int n = 0; n < kWidth; ++n) of[r][n] = L::MulAdd(factor, blocks[n], of[r][n]);
        }
        a += a_step;
        b += b_step;
      } while (--step > 0);
    }
  };

  // `count` tiles of kRows x kWidth panels, one below the other. `runs` and `bias` may be null.
  template <int kRows, int kWidth, Start kStart, bool kRuns>
  static HWY_NOINLINE void Tiles(const MatrixProduct& p, const Runs* runs, const float* bias,
                                 std::int64_t row, std::int64_t panel, std::int64_t count) {
    [[maybe_unused]] std::int64_t place = 0;  // of the next row in its line
    [[maybe_unused]] std::int64_t a_line = 0;
    [[maybe_unused]] std::int64_t out_line = 0;
    if constexpr (kRuns) {
      const std::int64_t line = row / runs->line;
      place = row - line * runs->line;
      a_line = line * runs->a_line;
      out_line = line * runs->out_line;
    }
    for (std::int64_t tile = 0; tile < count; ++tile, row += kRows) {
      float* out = p.out + panel * p.out_panel;
      const float* a = p.a;
      const float* b = p.b + panel * p.b_panel;
      std::array<std::int64_t, kRows> out_rows;
      std::array<std::int64_t, kRows> a_rows;
      if constexpr (kRuns) {
        for (int r = 0; r < kRows; ++r) {
          out_rows[r] = out_line + place * p.out_row;
          a_rows[r] = a_line + place * p.a_row;
          if (++place == runs->line) {
            place = 0;
            out_line += runs->out_line;
            a_line += runs->a_line;
          }
        }
      } else {
        out += row * p.out_row;
        a += row * p.a_row;
        for (int r = 0; r < kRows; ++r) out_rows[r] = r * p.out_row;
      }
      Sums<kRows, kWidth> sums;
      for (int r = 0; r < kRows; ++r) {
        for (int n = 0; n < kWidth; ++n) {
          if constexpr (kStart == Start::kOut) {
            sums.of[r][n] = L::Load(out + out_rows[r] + n * p.out_panel);
          } else if constexpr (kStart == Start::kBias) {
            sums.of[r][n] = L::Load(bias + (panel + n) * B);
          } else {
            sums.of[r][n] = L::Zero();
          }
        }
      }
      if constexpr (kRuns) {
        for (std::int64_t outer = 0; outer < runs->outer; ++outer) {
          const float* run = b + outer * runs->b_outer;
          for (std::int64_t inner = 0; inner < runs->inner; ++inner) {
            sums.Add(
                p, a + outer * runs->a_outer + inner * runs->a_inner,
                [&](int r) { return a_rows[r]; }, run);
          }
        }
      } else {
        const std::int64_t a_row = p.a_row;
        sums.Add(
            p, a, [&](int r) { return r * a_row; }, b);
      }
      for (int r = 0; r < kRows; ++r) {
        for (int n = 0; n < kWidth; ++n) {
          sums.of[r][n].Store(out + out_rows[r] + n * p.out_panel);
        }
      }
    }
  }

  using TilesFunction = void (*)(const MatrixProduct&, const Runs*, const float* bias,
                                 std::int64_t row, std::int64_t panel, std::int64_t count);

  template <int kRows, int kWidth, bool kRuns>
  static TilesFunction TilesOf(std::int64_t rows, Start start) {
    if constexpr (kRows > 1) {
      if (rows < kRows) return TilesOf<kRows - 1, kWidth, kRuns>(rows, start);
    }
    if (start == Start::kZero) return Tiles<kRows, kWidth, Start::kZero, kRuns>;
    if constexpr (kRuns) return Tiles<kRows, kWidth, Start::kBias, kRuns>;
    return Tiles<kRows, kWidth, Start::kOut, kRuns>;
  }

  // How `rows` rows split into tiles of almost equal height.
  template <int kWidth, bool kRuns>
  struct Columns {
    std::int64_t height;
    std::int64_t tall;  // tiles of `height` rows
    std::int64_t low;   // tiles below them, of one row less
    TilesFunction tall_tiles;
    TilesFunction low_tiles;

    Columns(std::int64_t rows, Start start) {
      const std::int64_t tiles = (rows + Rows(kWidth) - 1) / Rows(kWidth);
      height = (rows + tiles - 1) / tiles;
      low = tiles * height - rows;
      tall = tiles - low;
      tall_tiles = TilesOf<Rows(kWidth), kWidth, kRuns>(height, start);
      low_tiles =
          TilesOf<Rows(kWidth), kWidth, kRuns>(std::max<std::int64_t>(height - 1, 1), start);
    }

    void Multiply(const MatrixProduct& p, const Runs* runs, const float* bias,
                  std::int64_t panel) const {
      tall_tiles(p, runs, bias, 0, panel, tall);
      if (low > 0) low_tiles(p, runs, bias, tall * height, panel, low);
    }
  };

  // The tiles of a product of `rows` by `panels`, chosen once for many.
  template <bool kRuns = false>
  class Tiling {
   public:
    Tiling(std::int64_t rows, std::int64_t panels, Start start)
        : panels_(panels), wide_(rows, start), narrow_(rows, start) {}

    void Multiply(const MatrixProduct& p, const Runs* runs = nullptr,
                  const float* bias = nullptr) const {
      std::int64_t panel = 0;
      for (; panel + kPanels <= panels_; panel += kPanels) wide_.Multiply(p, runs, bias, panel);
      if (panel < panels_) narrow_.Multiply(p, runs, bias, panel);
    }

   private:
    std::int64_t panels_;
    Columns<kPanels, kRuns> wide_;
    Columns<1, kRuns> narrow_;
  };
};

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#endif  // include guard that each target toggles
