#include "backends/vector_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/vector_kernels.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "backends/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {
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

template <int B>
struct Loops {
  using L = Lanes<B>;

  static constexpr int kRegisters = HWY_MAX_BYTES >= 64 ? 32 : 16;
  // Blocks of four rows' sums, in half of the registers.
  static constexpr int kBlocks = std::max(kRegisters / 8 / L::kVectors, 1);

  // Samples that share a set of constants, and the position of a sample's channel block.
  static std::int64_t SamplesInSet(const NormalizationShape& s) {
    return s.kind == hwmodel::Normalization::kGroup ? 1 : s.microbatch;
  }
  static std::int64_t Start(const NormalizationShape& s, std::int64_t sample, std::int64_t block) {
    return (sample * s.stored_channels() + block * B) * s.pixels;
  }

  // visit(first channel, one past the last) of the channels that share statistics.
  template <class Visit>
  static void ForEachGroup(const NormalizationShape& s, Visit visit) {
    const int width = s.kind == hwmodel::Normalization::kGroup ? s.channels / s.groups : 1;
    for (int c = 0; c < s.channels; c += width) visit(c, c + width);
  }

  static void Statistics(const NormalizationShape& s, const float* x, const float* gamma,
                         const float* beta, const ChannelConstants<float>& constants) {
    const std::int64_t samples = SamplesInSet(s);
    const std::int64_t blocks = s.stored_channels() / B;
    for (std::int64_t set = 0; set < s.sets(); ++set) {
      const std::int64_t first = set * s.stored_channels();
      float* mean = constants.mean + first;
      float* inverse_standard_deviation = constants.inverse_standard_deviation + first;
      float* scale = constants.scale + first;
      float* shift = constants.shift + first;
      // Sums by channel in `scale`, until it is known.
      for (std::int64_t block = 0; block < blocks; ++block) {
        L sum = L::Zero();
        for (std::int64_t sample = set; sample < set + samples; ++sample) {
          const float* from = x + Start(s, sample, block);
          sum = L::Add(sum, SumOver<L>(s.pixels, [&](std::int64_t p, const L& partial) {
                         return L::Add(partial, L::Load(from + p * B));
                       }));
        }
        sum.Store(scale + block * B);
      }
      std::fill(mean + s.channels, mean + s.stored_channels(), 0.0F);
      ForEachGroup(s, [&](int begin, int end) {
        double sum = 0;
        for (int c = begin; c < end; ++c) sum += scale[c];
        const auto count = static_cast<double>((end - begin) * samples * s.pixels);
        std::fill(mean + begin, mean + end, static_cast<float>(sum / count));
      });
      // Sums of squared distances from the mean.
      for (std::int64_t block = 0; block < blocks; ++block) {
        const L center = L::Load(mean + block * B);
        L sum = L::Zero();
        for (std::int64_t sample = set; sample < set + samples; ++sample) {
          const float* from = x + Start(s, sample, block);
          sum = L::Add(sum, SumOver<L>(s.pixels, [&](std::int64_t p, const L& partial) {
                         const L distance = L::Sub(L::Load(from + p * B), center);
                         return L::MulAdd(distance, distance, partial);
                       }));
        }
        sum.Store(scale + block * B);
      }
      ForEachGroup(s, [&](int begin, int end) {
        double sum = 0;
        for (int c = begin; c < end; ++c) sum += scale[c];
        const auto count = static_cast<double>((end - begin) * samples * s.pixels);
        const double inverse = 1 / std::sqrt(sum / count + kNormalizationEpsilon);
        for (int c = begin; c < end; ++c) {
          const double factor = gamma[c] * inverse;
          inverse_standard_deviation[c] = static_cast<float>(inverse);
          scale[c] = static_cast<float>(factor);
          shift[c] = static_cast<float>(beta[c] - factor * mean[c]);
        }
      });
      for (std::int64_t c = s.channels; c < s.stored_channels(); ++c) {
        inverse_standard_deviation[c] = scale[c] = shift[c] = 0;
      }
    }
  }

  static void NormalizedRelu(const NormalizationShape& s, const float* x,
                             const ChannelConstants<float>& constants, float* h) {
    s.rectifies ? Normalize<true>(s, x, constants, h) : Normalize<false>(s, x, constants, h);
  }

  template <bool kRelu>
  static void Normalize(const NormalizationShape& s, const float* x,
                        const ChannelConstants<float>& constants, float* h) {
    const std::int64_t blocks = s.stored_channels() / B;
    for (std::int64_t sample = 0; sample < s.microbatch; ++sample) {
      const std::int64_t set = s.sets() > 1 ? sample : 0;
      for (std::int64_t block = 0; block < blocks; ++block) {
        const std::int64_t start = Start(s, sample, block);
        const std::int64_t channel = set * s.stored_channels() + block * B;
        const L scale = L::Load(constants.scale + channel);
        const L shift = L::Load(constants.shift + channel);
        for (std::int64_t p = 0; p < s.pixels; ++p) {
          const L value = L::MulAdd(L::Load(x + start + p * B), scale, shift);
          (kRelu ? L::Max(value, L::Zero()) : value).Store(h + start + p * B);
        }
      }
    }
  }

  using Gradient = Backend<float>::NormalizationGradient;

  static void NormalizedReluBackward(const NormalizationShape& s, const Gradient& g) {
    if (!s.rectifies) {
      NormalizedReluBackwardSums<false, false>(s, g);
    } else if (g.dh_extra != nullptr) {
      NormalizedReluBackwardSums<true, true>(s, g);
    } else {
      NormalizedReluBackwardSums<false, true>(s, g);
    }
  }

  // The gradient of norm(x): h's, where the ReLU let it through.
  template <bool kExtra, bool kRelu>
  static HWY_INLINE L Rectified(const Gradient& g, const L& x, const L& scale, const L& shift,
                                std::int64_t i) {
    L dh = L::Load(g.dh + i);
    if constexpr (kExtra) dh = L::Add(dh, L::Load(g.dh_extra + i));
    return kRelu ? L::WherePositive(L::MulAdd(x, scale, shift), dh) : dh;
  }

  template <bool kExtra, bool kRelu>
  static void NormalizedReluBackwardSums(const NormalizationShape& s, const Gradient& g) {
    const std::int64_t samples = SamplesInSet(s);
    const std::int64_t blocks = s.stored_channels() / B;
    if (!g.add_gradient) {
      std::fill_n(g.dgamma, s.stored_channels(), 0.0F);
      std::fill_n(g.dbeta, s.stored_channels(), 0.0F);
    }
    // By channel: sums of dy and of dy x_hat, then the coefficients of dx.
    float* sums = g.workspace;
    float* sums_x_hat = sums + s.stored_channels();
    float* offset = sums_x_hat + s.stored_channels();
    float* slope = offset + s.stored_channels();
    for (std::int64_t set = 0; set < s.sets(); ++set) {
      const std::int64_t first = set * s.stored_channels();
      const float* inverse_standard_deviation = g.constants.inverse_standard_deviation + first;
      for (std::int64_t block = 0; block < blocks; ++block) {
        const std::int64_t c = block * B;
        const L scale = L::Load(g.constants.scale + first + c);
        const L shift = L::Load(g.constants.shift + first + c);
        const L mean = L::Load(g.constants.mean + first + c);
        L sum = L::Zero();
        L sum_distance = L::Zero();
        for (std::int64_t sample = set; sample < set + samples; ++sample) {
          const std::int64_t start = Start(s, sample, block);
          // Two sums of two partial ones each.
          L a0 = L::Zero();
          L a1 = L::Zero();
          L b0 = L::Zero();
          L b1 = L::Zero();
          const auto accumulate = [&](std::int64_t p, L& a, L& b) {
            const std::int64_t i = start + p * B;
            const L x = L::Load(g.x + i);
            const L dy = Rectified<kExtra, kRelu>(g, x, scale, shift, i);
            a = L::Add(a, dy);
            b = L::MulAdd(dy, L::Sub(x, mean), b);
          };
          std::int64_t p = 0;
          for (; p + 2 <= s.pixels; p += 2) {
            accumulate(p, a0, b0);
            accumulate(p + 1, a1, b1);
          }
          if (p < s.pixels) accumulate(p, a0, b0);
          sum = L::Add(sum, L::Add(a0, a1));
          sum_distance = L::Add(sum_distance, L::Add(b0, b1));
        }
        const L sum_x_hat = L::Mul(sum_distance, L::Load(inverse_standard_deviation + c));
        sum.Store(sums + c);
        sum_x_hat.Store(sums_x_hat + c);
        L::Add(L::Load(g.dbeta + c), sum).Store(g.dbeta + c);
        L::Add(L::Load(g.dgamma + c), sum_x_hat).Store(g.dgamma + c);
      }
      if (g.dx == nullptr) continue;

      // dx = inverse (gamma dy - mean(gamma dy) - x_hat mean(gamma dy x_hat))
      std::fill_n(offset, s.stored_channels(), 0.0F);
      std::fill_n(slope, s.stored_channels(), 0.0F);
      ForEachGroup(s, [&](int begin, int end) {
        double sum = 0;
        double sum_x_hat = 0;
        for (int c = begin; c < end; ++c) {
          sum += double{g.gamma[c]} * sums[c];
          sum_x_hat += double{g.gamma[c]} * sums_x_hat[c];
        }
        const auto count = static_cast<double>((end - begin) * samples * s.pixels);
        const double inverse = inverse_standard_deviation[begin];
        std::fill(offset + begin, offset + end, static_cast<float>(-inverse * sum / count));
        std::fill(slope + begin, slope + end,
                  static_cast<float>(-inverse * inverse * sum_x_hat / count));
      });
      for (std::int64_t sample = set; sample < set + samples; ++sample) {
        if (g.add_dx) {
          InputGradient<kExtra, kRelu, true>(s, g, first, sample, offset, slope);
        } else {
          InputGradient<kExtra, kRelu, false>(s, g, first, sample, offset, slope);
        }
      }
    }
  }

  template <bool kExtra, bool kRelu, bool kAdd>
  static void InputGradient(const NormalizationShape& s, const Gradient& g, std::int64_t first,
                            std::int64_t sample, const float* offsets, const float* slopes) {
    for (std::int64_t c = 0; c < s.stored_channels(); c += B) {
      const std::int64_t start = Start(s, sample, c / B);
      const L scale = L::Load(g.constants.scale + first + c);
      const L shift = L::Load(g.constants.shift + first + c);
      const L mean = L::Load(g.constants.mean + first + c);
      const L factor =
          L::Mul(L::Load(g.gamma + c), L::Load(g.constants.inverse_standard_deviation + first + c));
      const L offset = L::Load(offsets + c);
      const L slope = L::Load(slopes + c);
      for (std::int64_t p = 0; p < s.pixels; ++p) {
        const std::int64_t i = start + p * B;
        const L x = L::Load(g.x + i);
        const L dy = Rectified<kExtra, kRelu>(g, x, scale, shift, i);
        L dx = L::MulAdd(dy, factor, L::MulAdd(L::Sub(x, mean), slope, offset));
        if constexpr (kAdd) dx = L::Add(L::Load(g.dx + i), dx);
        dx.Store(g.dx + i);
      }
    }
  }

  static void BiasGradient(const NormalizationShape& s, const float* dy, bool add, float* sums) {
    for (std::int64_t c = 0; c < s.stored_channels(); c += B) {
      L sum = add ? L::Load(sums + c) : L::Zero();
      for (std::int64_t sample = 0; sample < s.microbatch; ++sample) {
        const float* from = dy + Start(s, sample, c / B);
        sum = L::Add(sum, SumOver<L>(s.pixels, [&](std::int64_t p, const L& partial) {
                       return L::Add(partial, L::Load(from + p * B));
                     }));
      }
      sum.Store(sums + c);
    }
  }

  static void MaxPool(const PoolShape& shape, const float* x, float* y, std::uint8_t* winners) {
    const hwmodel::Layer& l = shape.layer;
    const std::int64_t blocks = shape.microbatch * std::int64_t{(l.input.channels + B - 1) / B};
    for (std::int64_t block = 0; block < blocks; ++block) {
      const float* image = x + block * l.input.pixels() * B;
      for (int oh = 0; oh < l.output.height; ++oh) {
        for (int ow = 0; ow < l.output.width; ++ow) {
          const std::int64_t out =
              ((block * l.output.height + oh) * l.output.width + ow) * std::int64_t{B};
          const int top = oh * l.stride - l.padding;
          const int left = ow * l.stride - l.padding;
          std::array<float, B> best{};
          std::array<std::int32_t, B> winner{};
          bool found = false;
          for (int h = std::max(top, 0); h < std::min(top + l.kernel, l.input.height); ++h) {
            for (int w = std::max(left, 0); w < std::min(left + l.kernel, l.input.width); ++w) {
              const float* from = image + (std::int64_t{h} * l.input.width + w) * B;
              const int k = (h - top) * l.kernel + w - left;
              for (int lane = 0; lane < B; ++lane) {
                const bool is_larger = !found || from[lane] > best[lane];
                best[lane] = is_larger ? from[lane] : best[lane];
                winner[lane] = is_larger ? k : winner[lane];
              }
              found = true;
            }
          }
          for (int lane = 0; lane < B; ++lane) {
            y[out + lane] = best[lane];
            winners[out + lane] = static_cast<std::uint8_t>(winner[lane]);
          }
        }
      }
    }
  }

  static void AveragePool(const PoolShape& shape, const float* x, float* y) {
    const hwmodel::FeatureShape& in = shape.layer.input;
    const L factor = L::Set(1 / static_cast<float>(in.pixels()));
    alignas(64) std::array<float, B> means;
    for (std::int64_t sample = 0; sample < shape.microbatch; ++sample) {
      for (int c = 0; c < in.channels; c += B) {
        const L sum = SumOver<L>(in.pixels(), [&](std::int64_t p, const L& partial) {
          return L::Add(partial, L::Load(x + p * B));
        });
        L::Mul(sum, factor).Store(means.data());
        std::copy_n(means.data(), std::min(B, in.channels - c), y + c);
        x += in.pixels() * B;
      }
      y += in.channels;
    }
  }

  static void AveragePoolBackward(const PoolShape& shape, const float* dy, float* dx) {
    const hwmodel::FeatureShape& in = shape.layer.input;
    const L factor = L::Set(1 / static_cast<float>(in.pixels()));
    for (std::int64_t sample = 0; sample < shape.microbatch; ++sample) {
      for (int c = 0; c < in.channels; c += B) {
        alignas(64) std::array<float, B> gradients{};
        std::copy_n(dy + c, std::min(B, in.channels - c), gradients.data());
        const L gradient = L::Mul(L::Load(gradients.data()), factor);
        for (std::int64_t p = 0; p < in.pixels(); ++p) gradient.Store(dx + p * B);
        dx += in.pixels() * B;
      }
      dy += in.channels;
    }
  }

  // vectors(i) for every whole block of B of `size` elements, then scalar(i) for the rest.
  template <class Vectors, class Scalar>
  static HWY_INLINE void ForEach(std::int64_t size, Vectors vectors, Scalar scalar) {
    std::int64_t i = 0;
    for (; i + B <= size; i += B) vectors(i);
    for (; i < size; ++i) scalar(i);
  }

  static void Add(std::int64_t size, const float* a, const float* b, float* sum) {
    ForEach(
        size, [&](std::int64_t i) { L::Add(L::Load(a + i), L::Load(b + i)).Store(sum + i); },
        [&](std::int64_t i) { sum[i] = a[i] + b[i]; });
  }

  static void Relu(std::int64_t size, const float* x, float* y) {
    ForEach(
        size, [&](std::int64_t i) { L::Max(L::Load(x + i), L::Zero()).Store(y + i); },
        [&](std::int64_t i) { y[i] = std::max(x[i], 0.0F); });
  }

  static void ReluBackward(std::int64_t size, const float* y, const float* dy, bool add,
                           float* dx) {
    ForEach(
        size,
        [&](std::int64_t i) {
          L gradient = L::WherePositive(L::Load(y + i), L::Load(dy + i));
          if (add) gradient = L::Add(L::Load(dx + i), gradient);
          gradient.Store(dx + i);
        },
        [&](std::int64_t i) { dx[i] = (add ? dx[i] : 0.0F) + (y[i] > 0 ? dy[i] : 0.0F); });
  }

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

  // Samples whose sums, four for each, fit in the registers; rows of weights that the nearest caches keep
  // while all samples pass. A sample's sums are those that it has by itself.
  static void Linear(std::int64_t n, std::int64_t in, std::int64_t out, const float* x,
                     const float* w, const float* b, float* y) {
    constexpr int kSamples = std::max(kRegisters / 8 / L::kVectors, 1);
    constexpr std::int64_t kCached = 65536;
    const std::int64_t rows = std::max<std::int64_t>(kCached / in, 1);
    for (std::int64_t o = 0; o < out; o += rows) {
      const std::int64_t count = std::min(rows, out - o);
      std::int64_t s = 0;
      for (; s + kSamples <= n; s += kSamples) {
        Outputs<kSamples>(in, out, count, x + s * in, w + o * in, b + o, y + s * out + o);
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

  static void LinearBackwardInput(std::int64_t n, std::int64_t in, std::int64_t out,
                                  const float* dy, const float* w, float* dx) {
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

  static void LinearBackwardWeights(std::int64_t n, std::int64_t in, std::int64_t out,
                                    const float* x, const float* dy, bool add, float* dw,
                                    float* db) {
    for (std::int64_t o = 0; o < out; ++o) {
      float sum = (add ? db[o] : 0.0F) + dy[o];
      for (std::int64_t s = 1; s < n; ++s) sum += dy[s * out + o];
      db[o] = sum;
    }
    const std::int64_t first = add ? 0 : 1;
    for (std::int64_t o = 0; o < first * out; ++o) {
      float* row = dw + o * in;
      const L gradient = L::Set(dy[o]);
      ForEach(
          in, [&](std::int64_t i) { L::Mul(gradient, L::Load(x + i)).Store(row + i); },
          [&](std::int64_t i) { row[i] = dy[o] * x[i]; });
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

  static void TransposeBlocks(std::int64_t size, const float* from, float* to) {
    for (std::int64_t i = 0; i < size; i += B * B) {
      std::array<L, B> rows;
      for (int r = 0; r < B; ++r) rows[r] = L::Load(from + i + r * B);
      Transpose<B>(rows);
      for (int r = 0; r < B; ++r) rows[r].Store(to + i + r * B);
    }
  }

  static VectorKernels Table() {
    return {.statistics = Statistics,
            .normalized_relu = NormalizedRelu,
            .normalized_relu_backward = NormalizedReluBackward,
            .bias_gradient = BiasGradient,
            .max_pool = MaxPool,
            .average_pool = AveragePool,
            .average_pool_backward = AveragePoolBackward,
            .add = Add,
            .relu = Relu,
            .relu_backward = ReluBackward,
            .linear = Linear,
            .linear_backward_input = LinearBackwardInput,
            .linear_backward_weights = LinearBackwardWeights,
            .transpose_blocks = TransposeBlocks};
  }
};

VectorKernels Table(int block) { return block == 16 ? Loops<16>::Table() : Loops<8>::Table(); }

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace batchless::training {
namespace {

HWY_EXPORT(Table);

}  // namespace

VectorKernels FindVectorKernels(int block) { return HWY_DYNAMIC_DISPATCH(Table)(block); }

int PreferredBlock() { return (hwy::SupportedTargets() & HWY_AVX3) != 0 ? 16 : 8; }

}  // namespace batchless::training
#endif
