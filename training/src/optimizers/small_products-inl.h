// Transposes and products of small matrices for optimizers that update a whole tensor, for each instruction
// set that the including file is compiled for. Rows lie one behind another; sums stay in registers.
#if defined(BATCHLESS_TRAINING_SMALL_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATCHLESS_TRAINING_SMALL_PRODUCTS_INL_H_
#undef BATCHLESS_TRAINING_SMALL_PRODUCTS_INL_H_
#else
#define BATCHLESS_TRAINING_SMALL_PRODUCTS_INL_H_
#endif

#include <cstdint>

#include "optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

// out[r][c] = out[c][r] = the product of rows r of `a` and c of `b`, matrices of that many columns.
template <class L, int kRows, int kColumns, class Real = typename L::Real>
HWY_INLINE void DotTile(std::int64_t columns, const Real* a, const Real* b, Real* out, Real* mirror,
                        std::int64_t rows) {
  L sums[kRows][kColumns];
  for (auto& row : sums) {
    for (L& sum : row) sum = L::Set(0);
  }
  std::int64_t i = 0;
  for (; i + L::kSize <= columns; i += L::kSize) {
    L right[kColumns];
    for (int c = 0; c < kColumns; ++c) right[c] = L::Load(b + c * columns + i);
    for (int r = 0; r < kRows; ++r) {
      const L left = L::Load(a + r * columns + i);
      for (int c = 0; c < kColumns; ++c) sums[r][c] = L::MulAdd(left, right[c], sums[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      Real total = sums[r][c].Sum();
      for (std::int64_t k = i; k < columns; ++k) total += a[r * columns + k] * b[c * columns + k];
      out[r * rows + c] = total;
      mirror[c * rows + r] = total;
    }
  }
}

// out = x x', (rows, rows).
template <class L, class Real = typename L::Real>
void Gram(std::int64_t rows, std::int64_t columns, const Real* x, Real* out) {
  constexpr int kRows = 4;
  constexpr int kColumns = 2;
  std::int64_t r = 0;
  for (; r + kRows <= rows; r += kRows) {
    std::int64_t c = 0;
    for (; c + kColumns <= r + kRows; c += kColumns) {
      DotTile<L, kRows, kColumns>(columns, x + r * columns, x + c * columns, out + r * rows + c,
                                  out + c * rows + r, rows);
    }
  }
  for (; r < rows; ++r) {
    for (std::int64_t c = 0; c <= r; ++c) {
      DotTile<L, 1, 1>(columns, x + r * columns, x + c * columns, out + r * rows + c,
                       out + c * rows + r, rows);
    }
  }
}

// out = x', x of (rows, columns).
template <class Real>
void Transpose(std::int64_t rows, std::int64_t columns, const Real* x, Real* out) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) out[c * rows + r] = x[r * columns + c];
  }
}

// kRows rows of out = factors x, L::kSize kColumns numbers of each.
template <class L, int kRows, int kColumns, class Real = typename L::Real>
HWY_INLINE void ProductTile(std::int64_t inner, std::int64_t columns, const Real* factors,
                            const Real* x, Real* out) {
  L sums[kRows][kColumns];
  for (auto& row : sums) {
    for (L& sum : row) sum = L::Set(0);
  }
  for (std::int64_t k = 0; k < inner; ++k) {
    L right[kColumns];
    for (int c = 0; c < kColumns; ++c) right[c] = L::Load(x + k * columns + c * L::kSize);
    for (int r = 0; r < kRows; ++r) {
      const L factor = L::Set(factors[r * inner + k]);
      for (int c = 0; c < kColumns; ++c) sums[r][c] = L::MulAdd(factor, right[c], sums[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) sums[r][c].Store(out + r * columns + c * L::kSize);
  }
}

// The same for all columns.
template <class L, int kRows, class Real = typename L::Real>
HWY_INLINE void ProductRows(std::int64_t inner, std::int64_t columns, const Real* factors,
                            const Real* x, Real* out) {
  constexpr int kColumns = 4;
  std::int64_t c = 0;
  for (; c + kColumns * L::kSize <= columns; c += kColumns * L::kSize) {
    ProductTile<L, kRows, kColumns>(inner, columns, factors, x + c, out + c);
  }
  for (; c + L::kSize <= columns; c += L::kSize) {
    ProductTile<L, kRows, 1>(inner, columns, factors, x + c, out + c);
  }
  for (; c < columns; ++c) ProductTile<Rest<L>, kRows, 1>(inner, columns, factors, x + c, out + c);
}

// out = factors x; factors (rows, inner), x (inner, columns).
template <class L, class Real = typename L::Real>
void Product(std::int64_t rows, std::int64_t inner, std::int64_t columns, const Real* factors,
             const Real* x, Real* out) {
  constexpr int kRows = 4;
  std::int64_t r = 0;
  for (; r + kRows <= rows; r += kRows) {
    ProductRows<L, kRows>(inner, columns, factors + r * inner, x, out + r * columns);
  }
  for (; r < rows; ++r) {
    ProductRows<L, 1>(inner, columns, factors + r * inner, x, out + r * columns);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#endif  // BATCHLESS_TRAINING_SMALL_PRODUCTS_INL_H_
