// Products whose second matrix is first copied into panels of a block's columns, in the order in which
// they are read, for each instruction set that the including file is compiled for.
#if defined(BATCHLESS_TRAINING_PACKED_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATCHLESS_TRAINING_PACKED_PRODUCT_INL_H_
#undef BATCHLESS_TRAINING_PACKED_PRODUCT_INL_H_
#else
#define BATCHLESS_TRAINING_PACKED_PRODUCT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "backends/lanes-inl.h"
#include "backends/matrix_product-inl.h"
#include "batchless/training/backend.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

struct PackedProducts {
  using L = Lanes<B>;

  static constexpr std::int64_t Rounded(std::int64_t size) { return (size + B - 1) / B * B; }

  // Numbers that Pack writes for so many columns and steps.
  static std::int64_t PackedSize(std::int64_t columns, std::int64_t steps) {
    return Rounded(columns) * steps;
  }
  // Scratch of a product with packed columns: of those that fill no block.
  static std::int64_t TailSize(std::int64_t rows, std::int64_t columns) {
    return columns % B == 0 ? 0 : (rows + 1) * B;
  }

  // Panel n, step k, lane j: b[k][n B + j], at `to` + (n steps + k) B + j; 0 past the last column.
  static void Pack(std::int64_t columns, std::int64_t steps, const float* b, std::int64_t b_step,
                   std::int64_t b_column, float* to) {
    for (std::int64_t n = 0; n < columns; n += B, to += steps * B) {
      const std::int64_t width = std::min<std::int64_t>(B, columns - n);
      if (b_column == 1) {
        PackRows(width, steps, b + n, b_step, to);
      } else {
        PackColumns(width, steps, b + n * b_column, b_column, to);
      }
    }
  }

  // c (+)= bias + a b. With `b_panel` numbers from panel to panel: more than the product's steps where
  // it takes the first of them alone.
  static void Multiply(const Product<float>& p, const float* packed, std::int64_t b_panel,
                       float* tail) {
    const std::int64_t whole = p.columns / B;
    MatrixProduct product{.a = p.a,
                          .a_row = p.a_row,
                          .a_step = p.a_step,
                          .b = packed,
                          .b_panel = b_panel,
                          .out = p.c,
                          .out_row = p.c_row,
                          .out_panel = B,
                          .steps = p.steps,
                          .bias = p.bias,
                          .add = p.add};
    if (whole > 0) Tile(p.rows, whole, product);
    const std::int64_t rest = p.columns - whole * B;
    if (rest == 0) return;
    // The last columns by way of a block of their own.
    float* out = tail + B;
    for (std::int64_t r = 0; p.add && r < p.rows; ++r) {
      L::LoadPart(p.c + r * p.c_row + whole * B, rest).Store(out + r * B);
    }
    if (p.bias != nullptr) {
      L::LoadPart(p.bias + whole * B, rest).Store(tail);
      product.bias = tail;
    }
    product.b = packed + whole * b_panel;
    product.out = out;
    product.out_row = B;
    Tile(p.rows, 1, product);
    for (std::int64_t r = 0; r < p.rows; ++r) {
      L::Load(out + r * B).StorePart(rest, p.c + r * p.c_row + whole * B);
    }
  }

 private:
  static void PackRows(std::int64_t width, std::int64_t steps, const float* b, std::int64_t b_step,
                       float* to) {
    for (std::int64_t k = 0; k < steps; ++k, b += b_step, to += B) {
      (width == B ? L::Load(b) : L::LoadPart(b, width)).Store(to);
    }
  }

  static void PackColumns(std::int64_t width, std::int64_t steps, const float* b,
                          std::int64_t b_column, float* to) {
    std::array<L, B> rows;
    std::int64_t k = 0;
    for (; k + B <= steps; k += B) {
      for (int j = 0; j < B; ++j) rows[j] = j < width ? L::Load(b + j * b_column + k) : L::Zero();
      Transpose(rows);
      for (int i = 0; i < B; ++i) rows[i].Store(to + (k + i) * B);
    }
    const std::int64_t rest = steps - k;
    if (rest == 0) return;
    for (int j = 0; j < B; ++j) {
      rows[j] = j < width ? L::LoadPart(b + j * b_column + k, rest) : L::Zero();
    }
    Transpose(rows);
    for (std::int64_t i = 0; i < rest; ++i) rows[i].Store(to + (k + i) * B);
  }

  static void Tile(std::int64_t rows, std::int64_t panels, const MatrixProduct& product) {
    if (product.a_row == 1) {
      Tiling<Products<1>>(rows, panels).Multiply(product, Runs());
    } else {
      Tiling<Products<0>>(rows, panels).Multiply(product, Runs{.line = rows + 1});
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#endif  // include guard that each target toggles
