// The vector backend's linear layers of a few samples, W (out, in) row-major, for each instruction set that
// the including file is compiled for. A weight is read once for several samples, and each sample's sums are
// those that it has by itself.
#if defined(BATCHLESS_TRAINING_LINEAR_LAYER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATCHLESS_TRAINING_LINEAR_LAYER_INL_H_
#undef BATCHLESS_TRAINING_LINEAR_LAYER_INL_H_
#else
#define BATCHLESS_TRAINING_LINEAR_LAYER_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "backends/lanes-inl.h"
#include "backends/matrix_product-inl.h"
#include "batchless/training/backend.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

struct VectorLinear : Backend<float> {
  using L = Lanes<B>;

  // Four rows of so many blocks of sums, or four sums of so many samples, fill half of the registers.
  static constexpr int kBlocks = std::max(RegisterTiles::kRegisters / 8 / L::kVectors, 1);

  // The lanes of several samples, for SumOver.
  template <int kSamples>
  struct Several {
    L of[kSamples];

    static HWY_INLINE Several Zero() {
      Several zero;
      for (L& lanes : zero.of) lanes = L::Zero();
      return zero;
    }
    static HWY_INLINE Several Add(Several a, const Several& b) {
      for (int s = 0; s < kSamples; ++s) a.of[s] = L::Add(a.of[s], b.of[s]);
      return a;
    }
  };

  // y of kSamples samples for outputs 0 to count-1 of `out`.
  template <int kSamples>
  static HWY_NOINLINE void Outputs(std::int64_t in, std::int64_t out, std::int64_t count,
                                   const float* x, const float* w, const float* b, float* y) {
    const std::int64_t whole = in / B;
    for (std::int64_t o = 0; o < count; ++o) {
      const float* row = w + o * in;
      using Sums = Several<kSamples>;
      const Sums sums = SumOver<Sums>(whole, [&](std::int64_t i, Sums partial) HWY_ATTR {
        const L weights = L::Load(row + i * B);
        for (int s = 0; s < kSamples; ++s) {
          partial.of[s] = L::MulAdd(L::Load(x + s * in + i * B), weights, partial.of[s]);
        }
        return partial;
      });
      for (int s = 0; s < kSamples; ++s) {
        float sum = sums.of[s].Sum();
        for (std::int64_t i = whole * B; i < in; ++i) sum += x[s * in + i] * row[i];
        y[s * out + o] = sum + b[o];
      }
    }
  }

  // The nearest caches keep so many rows of weights that all samples pass them before the next ones come.
  void Linear(std::int64_t n, std::int64_t in, std::int64_t out, const float* x, const float* w,
              const float* b, float* y) const override {
    constexpr std::int64_t kCached = 65536;
    const std::int64_t rows = std::max<std::int64_t>(kCached / in, 1);
    for (std::int64_t o = 0; o < out; o += rows) {
      const std::int64_t count = std::min(rows, out - o);
      std::int64_t s = 0;
      for (; s + kBlocks <= n; s += kBlocks) {
        Outputs<kBlocks>(in, out, count, x + s * in, w + o * in, b + o, y + s * out + o);
      }
      for (; s < n; ++s) {
        Outputs<1>(in, out, count, x + s * in, w + o * in, b + o, y + s * out + o);
      }
    }
  }

  // c[r][i] += sum over k of a[r][k] b[k][i], one k after the other; a[r][k] at a + r a_row + k a_step, a
  // row of b and c of `width` numbers.
  struct AddedProduct {
    std::int64_t width;
    std::int64_t steps;
    const float* a;
    std::int64_t a_row;
    std::int64_t a_step;
    const float* b;
    float* c;
  };

  // kRows rows and kBlocks blocks of columns, from column i.
  template <int kRows, int kBlocks>
  static HWY_INLINE void AddTile(const AddedProduct& p, std::int64_t row, std::int64_t i) {
    const float* a = p.a + row * p.a_row;
    const float* b = p.b + i;
    float* c = p.c + row * p.width + i;
    L sums[kRows][kBlocks];
    for (int r = 0; r < kRows; ++r) {
      for (int n = 0; n < kBlocks; ++n) sums[r][n] = L::Load(c + r * p.width + n * B);
    }
    for (std::int64_t k = 0; k < p.steps; ++k, a += p.a_step, b += p.width) {
      L blocks[kBlocks];
      for (int n = 0; n < kBlocks; ++n) blocks[n] = L::Load(b + n * B);
      for (int r = 0; r < kRows; ++r) {
        const L factor = L::Set(a[r * p.a_row]);
        for (int n = 0; n < kBlocks; ++n) sums[r][n] = L::MulAdd(factor, blocks[n], sums[r][n]);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int n = 0; n < kBlocks; ++n) sums[r][n].Store(c + r * p.width + n * B);
    }
  }

  // kRows rows, columns `first` to `last`-1.
  template <int kRows>
  static HWY_NOINLINE void AddRows(const AddedProduct& p, std::int64_t row, std::int64_t first,
                                   std::int64_t last) {
    std::int64_t i = first;
    for (; i + kBlocks * B <= last; i += kBlocks * B) AddTile<kRows, kBlocks>(p, row, i);
    for (; i + B <= last; i += B) AddTile<kRows, 1>(p, row, i);
    for (; i < last; ++i) {
      for (int r = 0; r < kRows; ++r) {
        float& sum = p.c[(row + r) * p.width + i];
        for (std::int64_t k = 0; k < p.steps; ++k) {
          sum += p.a[(row + r) * p.a_row + k * p.a_step] * p.b[k * p.width + i];
        }
      }
    }
  }

  // In panels of columns that the first cache holds.
  static void AddProduct(std::int64_t rows, const AddedProduct& p) {
    constexpr std::int64_t kPanel = kBlocks * B;
    constexpr std::int64_t kCached = 4096;
    const std::int64_t panel = std::max<std::int64_t>(kCached / p.steps / kPanel, 1) * kPanel;
    for (std::int64_t i = 0; i < p.width; i += panel) {
      const std::int64_t last = std::min(i + panel, p.width);
      std::int64_t row = 0;
      for (; row + 4 <= rows; row += 4) AddRows<4>(p, row, i, last);
      for (; row < rows; ++row) AddRows<1>(p, row, i, last);
    }
  }

  void LinearBackwardInput(std::int64_t n, std::int64_t in, std::int64_t out, const float* dy,
                           const float* w, float* dx) const override {
    std::fill_n(dx, n * in, 0.0F);
    // Four outputs at a time are a quarter of the passes over dx; with several samples their sums have to
    // stay in the registers for longer.
    const std::int64_t steps = n == 1 ? 4 : 64;
    for (std::int64_t o = 0; o < out; o += steps) {
      AddProduct(n, {.width = in,
                     .steps = std::min(steps, out - o),
                     .a = dy + o,
                     .a_row = out,
                     .a_step = 1,
                     .b = w + o * in,
                     .c = dx});
    }
  }

  void LinearBackwardWeights(std::int64_t n, std::int64_t in, std::int64_t out, const float* x,
                             const float* dy, bool add, float* dw, float* db) const override {
    for (std::int64_t o = 0; o < out; ++o) {
      float sum = (add ? db[o] : 0.0F) + dy[o];
      for (std::int64_t s = 1; s < n; ++s) sum += dy[s * out + o];
      db[o] = sum;
    }
    const std::int64_t first = add ? 0 : 1;
    for (std::int64_t o = 0; o < first * out; ++o) {
      float* row = dw + o * in;
      const L gradient = L::Set(dy[o]);
      std::int64_t i = 0;
      for (; i + B <= in; i += B) L::Mul(gradient, L::Load(x + i)).Store(row + i);
      for (; i < in; ++i) row[i] = dy[o] * x[i];
    }
    if (first == n) return;
    AddProduct(out, {.width = in,
                     .steps = n - first,
                     .a = dy + first * out,
                     .a_row = 1,
                     .a_step = out,
                     .b = x + first * in,
                     .c = dw});
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#endif  // include guard that each target toggles
