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

// out[r][n] = start[r][n] + sum over runs and steps of a[r] b[n], where a[r] is a number at
// a + r a_row + step a_step and b[n] a block of B numbers at b + n b_panel + step B. The sums start
// with what `out` holds (add), or with a block of `bias` for each panel, or where it is null with 0. Or each
// outer run has sums of its own, which are added to those before them (apart; neither add nor bias).
struct MatrixProduct {
  const float* a;
  std::int64_t a_row;
  std::int64_t a_step;
  const float* b;
  std::int64_t b_panel;
  float* out;
  std::int64_t out_row;
  std::int64_t out_panel;
  std::int64_t steps;
  const float* bias = nullptr;
  bool add = false;
  bool apart = false;
};

// Runs of steps in two dimensions: a's run starts at outer a_outer + inner a_inner; b's steps go on
// from run to run, and every outer run begins b_outer after the one before. Rows may be broken into
// lines: after `line` of them the next one is a_line and out_line from where this one began.
struct Runs {
  std::int64_t outer = 1;
  std::int64_t a_outer = 0;
  std::int64_t b_outer = 0;
  std::int64_t inner = 1;
  std::int64_t a_inner = 0;
  std::int64_t line = 0;
  std::int64_t a_line = 0;
  std::int64_t out_line = 0;
};

// Tiles of a product whose sums fit in the registers beside the operands.
struct RegisterTiles {
  static constexpr int kRegisters = HWY_MAX_BYTES >= 64 ? 32 : 16;
  static constexpr int kVectors = Lanes<B>::kVectors;
  static constexpr int kPanels = kVectors == 1 ? 2 : 1;

  static constexpr int Rows(int panels) {
    const int vectors = panels * kVectors;
    return std::clamp((kRegisters - vectors - 1) / vectors, 1, 16);
  }
};

// The tiles of a product of `rows` by `panels`, chosen once for many. `Kernels` has
// Tiles<kRows, kWidth>(product, row, panel, count) for `count` tiles of kRows x kWidth panels, one below the
// other, where a product may be more than one argument.
template <class Kernels>
class Tiling {
 public:
  Tiling(std::int64_t rows, std::int64_t panels) : panels_(panels) {
    if (panels >= T::kPanels) wide_ = Column<T::kPanels>(rows);
    if (panels % T::kPanels != 0) narrow_ = Column<1>(rows);
  }

  template <class... Product>
  void Multiply(const Product&... p) const {
    std::int64_t panel = 0;
    for (; panel + T::kPanels <= panels_; panel += T::kPanels) wide_.Multiply(panel, p...);
    if (panel < panels_) narrow_.Multiply(panel, p...);
  }

 private:
  using T = RegisterTiles;
  using TilesFunction = decltype(&Kernels::template Tiles<1, 1>);

  template <int kRows, int kWidth>
  static TilesFunction TilesOf(std::int64_t rows) {
    if constexpr (kRows > 1) {
      if (rows < kRows) return TilesOf<kRows - 1, kWidth>(rows);
    }
    return Kernels::template Tiles<kRows, kWidth>;
  }

  // The tiles of some rows by kWidth panels: almost equal in height, the last `low` of them lower by one row.
  template <int kWidth>
  struct Column {
    std::int64_t height = 0;
    std::int64_t tall = 0;
    std::int64_t low = 0;
    TilesFunction tall_tiles = nullptr;
    TilesFunction low_tiles = nullptr;

    Column() = default;
    explicit Column(std::int64_t rows) {
      constexpr int kRows = T::Rows(kWidth);
      const std::int64_t tiles = (rows + kRows - 1) / kRows;
      height = (rows + tiles - 1) / tiles;
      low = tiles * height - rows;
      tall = tiles - low;
      tall_tiles = TilesOf<kRows, kWidth>(height);
      low_tiles = TilesOf<kRows, kWidth>(height - 1);
    }

    template <class... Product>
    void Multiply(std::int64_t panel, const Product&... p) const {
      tall_tiles(p..., 0, panel, tall);
      if (low > 0) low_tiles(p..., tall * height, panel, low);
    }
  };

  std::int64_t panels_;
  Column<T::kPanels> wide_;
  Column<1> narrow_;
};

// kRow: the distance between the rows of a, which are all in one line then; or 0, where p and runs say it: the
// machine has too few registers to hold where many rows are.
template <int kRow>
struct Products {
  using L = Lanes<B>;

  template <int kRows, int kWidth>
  struct Sums {
    L of[kRows][kWidth];

    // At least one step: the sums then never leave the registers. rows: where those of a begin.
    template <class RowStart>
    HWY_INLINE void Add(const MatrixProduct& p, const float* a, RowStart rows, const float*& b) {
      const std::int64_t a_step = p.a_step;
      const std::int64_t b_panel = p.b_panel;
      std::int64_t step = p.steps;
      do {
        L blocks[kWidth];
        for (int n = 0; n < kWidth; ++n) blocks[n] = L::Load(b + n * b_panel);
        for (int r = 0; r < kRows; ++r) {
          const L factor = L::Set(a[rows(r)]);
          for (int n = 0; n < kWidth; ++n) of[r][n] = L::MulAdd(factor, blocks[n], of[r][n]);
        }
        a += a_step;
        b += B;
      } while (--step > 0);
    }
  };

  template <int kRows, int kWidth>
  static HWY_NOINLINE void Tiles(const MatrixProduct& p, const Runs& runs, std::int64_t row,
                                 std::int64_t panel, std::int64_t count) {
    [[maybe_unused]] std::int64_t place = 0;  // of the next row in its line
    [[maybe_unused]] std::int64_t a_line = 0;
    [[maybe_unused]] std::int64_t out_line = 0;
    if constexpr (kRow == 0) {
      const std::int64_t line = row / runs.line;
      place = row - line * runs.line;
      a_line = line * runs.a_line;
      out_line = line * runs.out_line;
    }
    for (std::int64_t tile = 0; tile < count; ++tile, row += kRows) {
      float* out = p.out + panel * p.out_panel;
      const float* a = p.a;
      const float* b = p.b + panel * p.b_panel;
      std::array<std::int64_t, kRows> out_rows;
      std::array<std::int64_t, kRows> a_rows;
      if constexpr (kRow == 0) {
        for (int r = 0; r < kRows; ++r) {
          out_rows[r] = out_line + place * p.out_row;
          a_rows[r] = a_line + place * p.a_row;
          if (++place == runs.line) {
            place = 0;
            out_line += runs.out_line;
            a_line += runs.a_line;
          }
        }
      } else {
        out += row * p.out_row;
        a += row * kRow;
        for (int r = 0; r < kRows; ++r) {
          out_rows[r] = r * p.out_row;
          a_rows[r] = std::int64_t{r} * kRow;
        }
      }
      Sums<kRows, kWidth> sums;
      for (int n = 0; n < kWidth; ++n) {
        const L start = p.bias == nullptr ? L::Zero() : L::Load(p.bias + (panel + n) * B);
        for (int r = 0; r < kRows; ++r) sums.of[r][n] = start;
      }
      if (p.add) {
        for (int r = 0; r < kRows; ++r) {
          for (int n = 0; n < kWidth; ++n) {
            sums.of[r][n] = L::Load(out + out_rows[r] + n * p.out_panel);
          }
        }
      }
      for (std::int64_t outer = 0; outer < runs.outer; ++outer) {
        const float* run = b + outer * runs.b_outer;
        for (std::int64_t inner = 0; inner < runs.inner; ++inner) {
          const float* from = a + outer * runs.a_outer + inner * runs.a_inner;
          if constexpr (kRow == 0) {
            sums.Add(
                p, from, [&](int r) { return a_rows[r]; }, run);
          } else {
            sums.Add(
                p, from, [](int r) { return std::int64_t{r} * kRow; }, run);
          }
        }
        if (!p.apart) continue;
        for (int r = 0; r < kRows; ++r) {
          for (int n = 0; n < kWidth; ++n) {
            L& sum = sums.of[r][n];
            float* total = out + out_rows[r] + n * p.out_panel;
            (outer == 0 ? sum : L::Add(sum, L::Load(total))).Store(total);
            sum = L::Zero();
          }
        }
      }
      if (p.apart) continue;
      for (int r = 0; r < kRows; ++r) {
        for (int n = 0; n < kWidth; ++n) {
          sums.of[r][n].Store(out + out_rows[r] + n * p.out_panel);
        }
      }
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#endif  // include guard that each target toggles
