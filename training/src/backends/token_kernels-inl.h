// The vector backend's functions of sequences, for each instruction set that the including file is compiled
// for. A vector's lanes are columns of the result, so the order of every sum depends on the block alone.
#if defined(BATCHLESS_TRAINING_TOKEN_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BATCHLESS_TRAINING_TOKEN_KERNELS_INL_H_
#undef BATCHLESS_TRAINING_TOKEN_KERNELS_INL_H_
#else
#define BATCHLESS_TRAINING_TOKEN_KERNELS_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "backends/lanes-inl.h"
#include "backends/linear_layer-inl.h"
#include "backends/packed_product-inl.h"
#include "batchless/training/backend.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

struct VectorTokens : VectorLinear {
  using L = Lanes<B>;
  using P = PackedProducts;

  static HWY_INLINE L Exp(const L& x) {
    return L::Make([&](int i) { return hn::Exp(typename L::D(), x.v[i]); });
  }

  // f(position, load, store) of every block of `size` numbers; the last one may be part of a block, with what
  // load is told to fill it with behind that part.
  template <class F>
  static HWY_INLINE void ForEach(std::int64_t size, F f) {
    std::int64_t i = 0;
    for (; i + B <= size; i += B) {
      f(
          i, [](const float* from, float = 0) HWY_ATTR { return L::Load(from); },
          [](const L& x, float* to) HWY_ATTR { x.Store(to); });
    }
    const std::int64_t rest = size - i;
    if (rest == 0) return;
    f(
        i,
        [=](const float* from, float fill = 0) HWY_ATTR { return L::LoadPart(from, rest, fill); },
        [=](const L& x, float* to) HWY_ATTR { x.StorePart(rest, to); });
  }

  static float LargestOf(std::int64_t size, const float* x) {
    constexpr float kLeast = -std::numeric_limits<float>::infinity();
    L most = L::Set(kLeast);
    ForEach(size, [&](std::int64_t i, auto load, auto)
                      HWY_ATTR { most = L::Max(most, load(x + i, kLeast)); });
    return most.Largest();
  }

  std::int64_t ProductWorkspace(std::int64_t rows, std::int64_t columns,
                                std::int64_t steps) const override {
    return P::PackedSize(columns, steps) + P::TailSize(rows, columns);
  }

  void Multiply(const Product<float>& p, float* workspace) const override {
    const std::int64_t packed_size = P::PackedSize(p.columns, p.steps);
    P::Pack(p.columns, p.steps, p.b, p.b_step, p.b_column, workspace);
    P::Multiply(p, workspace, p.steps * B, workspace + packed_size);
  }

  void SumRows(std::int64_t rows, std::int64_t columns, const float* y, bool add,
               float* sums) const override {
    ForEach(columns, [&](std::int64_t c, auto load, auto store) HWY_ATTR {
      L even = add ? load(sums + c) : L::Zero();
      L odd = L::Zero();
      std::int64_t r = 0;
      for (; r + 2 <= rows; r += 2) {
        even = L::Add(even, load(y + r * columns + c));
        odd = L::Add(odd, load(y + (r + 1) * columns + c));
      }
      if (r < rows) even = L::Add(even, load(y + r * columns + c));
      store(L::Add(even, odd), sums + c);
    });
  }

  void RowStatistics(const RowNormalization<float>& norm) const override {
    const auto width = static_cast<float>(norm.width);
    for (std::int64_t r = 0; r < norm.rows; ++r) {
      const float* x = norm.x + r * norm.width;
      L sum = L::Zero();
      ForEach(norm.width,
              [&](std::int64_t c, auto load, auto) HWY_ATTR { sum = L::Add(sum, load(x + c)); });
      const float mean = norm.is_centered ? sum.Sum() / width : 0.0F;
      const L center = L::Set(mean);
      L squares = L::Zero();
      ForEach(norm.width, [&](std::int64_t c, auto load, auto) HWY_ATTR {
        const L distance = L::Sub(load(x + c, mean), center);
        squares = L::MulAdd(distance, distance, squares);
      });
      norm.mean[r] = mean;
      norm.inverse_standard_deviation[r] =
          1 / std::sqrt(squares.Sum() / width + static_cast<float>(kNormalizationEpsilon));
    }
  }

  void NormalizeRows(const RowNormalization<float>& norm, const float* gamma, const float* beta,
                     float* y) const override {
    for (std::int64_t r = 0; r < norm.rows; ++r) {
      const L mean = L::Set(norm.mean[r]);
      const L inverse = L::Set(norm.inverse_standard_deviation[r]);
      const std::int64_t row = r * norm.width;
      ForEach(norm.width, [&](std::int64_t c, auto load, auto store) HWY_ATTR {
        const L x_hat = L::Mul(L::Sub(load(norm.x + row + c), mean), inverse);
        const L shift = beta == nullptr ? L::Zero() : load(beta + c);
        store(L::MulAdd(x_hat, load(gamma + c), shift), y + row + c);
      });
    }
  }

  // With g = dy gamma:  dx = inverse (g - mean(g) - x_hat mean(g x_hat)), mean(g) where it is centred.
  void NormalizeRowsBackward(const RowNormalization<float>& norm, const float* gamma,
                             const float* dy, bool add_dx, float* dx, bool add_gradient,
                             float* dgamma, float* dbeta) const override {
    const std::int64_t width = norm.width;
    ForEach(width, [&](std::int64_t c, auto load, auto store) HWY_ATTR {
      L scale = add_gradient ? load(dgamma + c) : L::Zero();
      L shift = add_gradient && dbeta != nullptr ? load(dbeta + c) : L::Zero();
      for (std::int64_t r = 0; r < norm.rows; ++r) {
        const L x_hat = L::Mul(L::Sub(load(norm.x + r * width + c), L::Set(norm.mean[r])),
                               L::Set(norm.inverse_standard_deviation[r]));
        const L gradient = load(dy + r * width + c);
        scale = L::MulAdd(gradient, x_hat, scale);
        shift = L::Add(gradient, shift);
      }
      store(scale, dgamma + c);
      if (dbeta != nullptr) store(shift, dbeta + c);
    });
    if (dx == nullptr) return;
    for (std::int64_t r = 0; r < norm.rows; ++r) {
      const float* x = norm.x + r * width;
      const float* dy_row = dy + r * width;
      float* dx_row = dx + r * width;
      const L mean = L::Set(norm.mean[r]);
      const L inverse = L::Set(norm.inverse_standard_deviation[r]);
      L sum = L::Zero();
      L sum_x_hat = L::Zero();
      ForEach(width, [&](std::int64_t c, auto load, auto) HWY_ATTR {
        const L g = L::Mul(load(dy_row + c), load(gamma + c));
        const L x_hat = L::Mul(L::Sub(load(x + c), mean), inverse);
        sum = L::Add(sum, g);
        sum_x_hat = L::MulAdd(g, x_hat, sum_x_hat);
      });
      const L offset =
          norm.is_centered ? L::Set(-sum.Sum() / static_cast<float>(width)) : L::Zero();
      const L slope = L::Set(-sum_x_hat.Sum() / static_cast<float>(width));
      ForEach(width, [&](std::int64_t c, auto load, auto store) HWY_ATTR {
        const L x_hat = L::Mul(L::Sub(load(x + c), mean), inverse);
        const L g = L::MulAdd(load(dy_row + c), load(gamma + c), offset);
        const L gradient = L::Mul(L::MulAdd(x_hat, slope, g), inverse);
        store(add_dx ? L::Add(load(dx_row + c), gradient) : gradient, dx_row + c);
      });
    }
  }

  // (1 + tanh(z)) / 2 = 1 / (1 + exp(-2 z)), z = sqrt(2 / pi) (x + 0.044715 x^3).
  static constexpr float kTwiceRoot = 1.5957691216057308F;
  static constexpr float kGeluCubic = 0.044715F;

  static HWY_INLINE L Gate(const L& x, const L& square) {
    const L z = L::Mul(x, L::MulAdd(square, L::Set(-kTwiceRoot * kGeluCubic), L::Set(-kTwiceRoot)));
    // Larger arguments would overflow; 1 / (1 + exp(88)) is 0 beside any x.
    return L::Div(L::Set(1), L::Add(L::Set(1), Exp(L::Min(L::Set(88), z))));
  }

  void Gelu(std::int64_t size, const float* x, float* y) const override {
    ForEach(size, [&](std::int64_t i, auto load, auto store) HWY_ATTR {
      const L u = load(x + i);
      store(L::Mul(u, Gate(u, L::Mul(u, u))), y + i);
    });
  }

  // With s the gate:  dx = dy (s + x s (1 - s) 2 dz/dx).
  void GeluBackward(std::int64_t size, const float* x, const float* dy, bool add,
                    float* dx) const override {
    ForEach(size, [&](std::int64_t i, auto load, auto store) HWY_ATTR {
      const L u = load(x + i);
      const L square = L::Mul(u, u);
      const L s = Gate(u, square);
      const L slope =
          L::Mul(u, L::MulAdd(square, L::Set(3 * kTwiceRoot * kGeluCubic), L::Set(kTwiceRoot)));
      const L derivative = L::MulAdd(L::Mul(s, L::Sub(L::Set(1), s)), slope, s);
      const L gradient = L::Mul(load(dy + i), derivative);
      store(add ? L::Add(load(dx + i), gradient) : gradient, dx + i);
    });
  }

  // L::Max takes its second operand where one is no number: a NaN stays one, as in the reference.
  void SquaredRelu(std::int64_t size, const float* x, float* y) const override {
    ForEach(size, [&](std::int64_t i, auto load, auto store) HWY_ATTR {
      const L u = L::Max(L::Zero(), load(x + i));
      store(L::Mul(u, u), y + i);
    });
  }

  void SquaredReluBackward(std::int64_t size, const float* x, const float* dy, bool add,
                           float* dx) const override {
    ForEach(size, [&](std::int64_t i, auto load, auto store) HWY_ATTR {
      const L u = L::Max(L::Zero(), load(x + i));
      const L gradient = L::Mul(load(dy + i), L::Add(u, u));
      store(add ? L::Add(load(dx + i), gradient) : gradient, dx + i);
    });
  }

  // Queries go through in strips, each against all keys up to its last query: a tile of so many rows.
  static constexpr std::int64_t kStrip = 32;

  // Scratch of an attention, for one head at a time.
  struct AttentionScratch {
    std::int64_t strip_row;  // numbers from row to row of a strip
    float* keys;             // panels of keys; the steps are channels
    float* values;           // panels of the values' channels; the steps are keys
    float* values_across;    // panels of values; the steps are channels
    float* keys_across;      // panels of the keys' channels; the steps are keys
    float* rows;             // panels of a strip's queries or output gradients, by channels
    float* strip;            // a strip of the softmax
    float* strip_gradient;
    float* tail;
    std::int64_t size;

    AttentionScratch(const AttentionShape& s, float* workspace) {
      strip_row = P::Rounded(s.tokens);
      const std::int64_t across = P::PackedSize(s.tokens, s.head_width);
      const std::int64_t along = P::PackedSize(s.head_width, s.tokens);
      float* next = workspace;
      const auto take = [&](std::int64_t count) {
        float* here = next;
        if (workspace != nullptr) next += count;
        size += count;
        return here;
      };
      size = 0;
      keys = take(across);
      values = take(along);
      values_across = take(across);
      keys_across = take(along);
      rows = take(P::PackedSize(s.head_width, kStrip));
      strip = take(kStrip * strip_row);
      strip_gradient = take(kStrip * strip_row);
      tail = take((std::max(kStrip, s.tokens) + 1) * B);
    }
  };

  std::int64_t AttentionWorkspace(const AttentionShape& s) const override {
    return AttentionScratch(s, nullptr).size;
  }

  static float Scale(const AttentionShape& s) {
    return 1 / std::sqrt(static_cast<float>(s.head_width));
  }

  // A check of pointers overlooks what is written through one that went into a struct, here and below.
  // strip[r][k] = query r . key k, for whole blocks of keys.
  static void Scores(const AttentionShape& s, std::int64_t rows, std::int64_t keys, const float* a,
                     std::int64_t a_row, const float* packed, std::int64_t strip_row,
                     float* strip,  // NOLINT(readability-non-const-parameter)
                     float* tail) {
    P::Multiply({.rows = rows,
                 .columns = P::Rounded(keys),
                 .steps = s.head_width,
                 .a = a,
                 .a_row = a_row,
                 .c = strip,
                 .c_row = strip_row},
                packed, s.head_width * B, tail);
  }

  // The types are those of Backend.
  // NOLINTNEXTLINE(readability-non-const-parameter)
  void Attention(const AttentionShape& s, const float* x, float* y, float* log_sums,
                 float* workspace) const override {  // NOLINT(readability-non-const-parameter)
    const AttentionScratch scratch(s, workspace);
    const std::int64_t width = s.width();
    const float scale = Scale(s);
    for (std::int64_t i = 0; i < s.sequences * s.heads; ++i, log_sums += s.tokens) {
      const std::int64_t first = i / s.heads * s.tokens;
      const std::int64_t channel = i % s.heads * s.head_width;
      const float* q = x + first * 3 * width + channel;
      P::Pack(s.tokens, s.head_width, q + width, 1, 3 * width, scratch.keys);
      P::Pack(s.head_width, s.tokens, q + 2 * width, 3 * width, 1, scratch.values);
      for (std::int64_t t = 0; t < s.tokens; t += kStrip) {
        const std::int64_t rows = std::min(kStrip, s.tokens - t);
        const std::int64_t keys = t + rows;
        Scores(s, rows, keys, q + t * 3 * width, 3 * width, scratch.keys, scratch.strip_row,
               scratch.strip, scratch.tail);
        for (std::int64_t r = 0; r < rows; ++r) {
          log_sums[t + r] =
              Softmax(t + r + 1, P::Rounded(keys), scale, scratch.strip + r * scratch.strip_row);
        }
        P::Multiply({.rows = rows,
                     .columns = s.head_width,
                     .steps = keys,
                     .a = scratch.strip,
                     .a_row = scratch.strip_row,
                     .c = y + (first + t) * width + channel,
                     .c_row = width},
                    scratch.values, s.tokens * B, scratch.tail);
      }
    }
  }

  // Makes scale z[0 .. count) its softmax in place, with 0 up to `size`, whole blocks, and returns the
  // logarithm of the denominator.
  static float Softmax(std::int64_t count, std::int64_t size, float scale, float* z) {
    const std::int64_t end = P::Rounded(count);
    std::fill(z + end, z + size, 0.0F);
    const float largest = LargestOf(count, z) * scale;
    const L factor = L::Set(scale);
    const L offset = L::Set(-largest);
    L sum = L::Zero();
    for (std::int64_t k = 0; k < end; k += B) {
      // Less, a softmax of floats cannot tell from 0. What is no number comes second, and goes through.
      L power = Exp(L::Max(L::Set(-87), L::MulAdd(L::Load(z + k), factor, offset)));
      if (k + B == end) power = L::Part(power, count - k);
      sum = L::Add(sum, power);
      power.Store(z + k);
    }
    const float total = sum.Sum();
    const L inverse = L::Set(1 / total);
    for (std::int64_t k = 0; k < end; k += B) L::Mul(L::Load(z + k), inverse).Store(z + k);
    return largest + std::log(total);
  }

  // With P the softmax and dP = dy v':  ds = P (dP - sum of P dP), dq = ds k, dk = ds' q, dv = P' dy.
  void AttentionBackward(const AttentionShape& s, const float* x, const float* log_sums,
                         const float* dy, float* dx,
                         float* workspace)  // NOLINT(readability-non-const-parameter)
      const override {
    const AttentionScratch scratch(s, workspace);
    const std::int64_t width = s.width();
    const std::int64_t row = 3 * width;
    for (std::int64_t i = 0; i < s.sequences * s.heads; ++i, log_sums += s.tokens) {
      const std::int64_t first = i / s.heads * s.tokens;
      const std::int64_t channel = i % s.heads * s.head_width;
      const float* q = x + first * row + channel;
      float* dq = dx + first * row + channel;
      P::Pack(s.tokens, s.head_width, q + width, 1, row, scratch.keys);
      P::Pack(s.tokens, s.head_width, q + 2 * width, 1, row, scratch.values_across);
      P::Pack(s.head_width, s.tokens, q + width, row, 1, scratch.keys_across);
      // The last strip has all keys, and the others add to what it makes.
      for (std::int64_t t = (s.tokens - 1) / kStrip * kStrip; t >= 0; t -= kStrip) {
        const std::int64_t rows = std::min(kStrip, s.tokens - t);
        const std::int64_t keys = t + rows;
        const float* dy_strip = dy + (first + t) * width + channel;
        Scores(s, rows, keys, q + t * row, row, scratch.keys, scratch.strip_row, scratch.strip,
               scratch.tail);
        Scores(s, rows, keys, dy_strip, width, scratch.values_across, scratch.strip_row,
               scratch.strip_gradient, scratch.tail);
        for (std::int64_t r = 0; r < rows; ++r) {
          ScoreGradient(t + r + 1, P::Rounded(keys), Scale(s), log_sums[t + r],
                        scratch.strip + r * scratch.strip_row,
                        scratch.strip_gradient + r * scratch.strip_row);
        }
        P::Multiply({.rows = rows,
                     .columns = s.head_width,
                     .steps = keys,
                     .a = scratch.strip_gradient,
                     .a_row = scratch.strip_row,
                     .c = dq + t * row,
                     .c_row = row},
                    scratch.keys_across, s.tokens * B, scratch.tail);
        const bool add = keys < s.tokens;
        const auto by_keys = [&](const float* weights, const float* from, std::int64_t from_row,
                                 float* to) {  // NOLINT(readability-non-const-parameter)
          P::Pack(s.head_width, rows, from, from_row, 1, scratch.rows);
          P::Multiply({.rows = keys,
                       .columns = s.head_width,
                       .steps = rows,
                       .a = weights,
                       .a_row = 1,
                       .a_step = scratch.strip_row,
                       .c = to,
                       .c_row = row,
                       .add = add},
                      scratch.rows, rows * B, scratch.tail);
        };
        by_keys(scratch.strip_gradient, q + t * row, row, dq + width);
        by_keys(scratch.strip, dy_strip, width, dq + 2 * width);
      }
    }
  }

  // A larger logarithm is rounded so far that a softmax made of it no longer adds up to 1. What is too much
  // of the sum of P dP is then no small part of ds, near 0 where one key has almost all of the softmax.
  static constexpr float kLargestLogSum = 128;

  // For a query with `count` keys z becomes the softmax of scale z, and dp the gradient of z; 0 up to
  // `size`.
  static void ScoreGradient(std::int64_t count, std::int64_t size, float scale, float log_sum,
                            float* z, float* dp) {
    const std::int64_t end = P::Rounded(count);
    const L factor = L::Set(scale);
    L sum = L::Zero();
    if (std::abs(log_sum) > kLargestLogSum) {
      Softmax(count, size, scale, z);
      for (std::int64_t k = 0; k < end; k += B) {
        sum = L::MulAdd(L::Load(z + k), L::Load(dp + k), sum);
      }
    } else {
      const L offset = L::Set(-log_sum);
      for (std::int64_t k = 0; k < end; k += B) {
        L power = Exp(L::Max(L::Set(-87), L::MulAdd(L::Load(z + k), factor, offset)));
        if (k + B == end) power = L::Part(power, count - k);
        power.Store(z + k);
        sum = L::MulAdd(power, L::Load(dp + k), sum);
      }
      std::fill(z + end, z + size, 0.0F);
    }
    const L mean = L::Set(sum.Sum());
    for (std::int64_t k = 0; k < end; k += B) {
      L::Mul(L::Mul(L::Load(z + k), factor), L::Sub(L::Load(dp + k), mean)).Store(dp + k);
    }
    std::fill(dp + end, dp + size, 0.0F);
  }

  void CrossEntropy(std::int64_t rows, std::int64_t classes, const float* z,
                    const std::int32_t* labels, float* p, float* losses,
                    std::uint8_t* correct) const override {
    for (std::int64_t r = 0; r < rows; ++r, z += classes, p += classes) {
      const float largest = LargestOf(classes, z);
      const L offset = L::Set(largest);
      L sum = L::Zero();
      std::int64_t c = 0;
      for (; c + B <= classes; c += B) {
        const L power = Exp(L::Max(L::Set(-87), L::Sub(L::Load(z + c), offset)));
        sum = L::Add(sum, power);
        power.Store(p + c);
      }
      float total = sum.Sum();
      if (c < classes) {
        const std::int64_t rest = classes - c;
        const L power = Exp(L::Max(L::Set(-87), L::Sub(L::LoadPart(z + c, rest, largest), offset)));
        power.StorePart(rest, p + c);
        alignas(64) std::array<float, B> powers;
        power.Store(powers.data());
        for (std::int64_t k = 0; k < rest; ++k) total += powers[k];
      }
      const L inverse = L::Set(1 / total);
      ForEach(classes, [&](std::int64_t k, auto load, auto store)
                           HWY_ATTR { store(L::Mul(load(p + k), inverse), p + k); });
      const float label = z[labels[r]];
      losses[r] = std::log(total) + (largest - label);
      correct[r] =
          label == largest && std::find(z, z + labels[r], largest) == z + labels[r] ? 1 : 0;
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#endif  // include guard that each target toggles
