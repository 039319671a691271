// The vector backend, compiled for several instruction sets of which one is chosen when the program runs. A
// vector's lanes are channels, so the order of every sum, and with it every bit, depends on the block alone
// and not on the width of the machine's vectors.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "backends/direct_kernels.h"
#include "backends/small_image_kernels.h"
#include "backends/winograd_kernels.h"
#include "batchless/training/backend.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/vector_kernels.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "backends/lanes-inl.h"
#include "backends/token_kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

struct VectorBackend final : VectorTokens {
  using L = Lanes<B>;
  using Gradient = Backend<float>::NormalizationGradient;

  explicit VectorBackend(ConvolutionMethod method) : method_(method) {}

  int block() const override { return B; }

  std::unique_ptr<Convolution<float>> MakeConvolution(
      const ConvolutionShape& shape) const override {
    if (method_ == ConvolutionMethod::kWinograd) {
      if (SuitsSmallImage(shape)) return MakeSmallImageConvolution(shape);
      if (const int edge = WinogradEdge(shape); edge != 0) {
        return MakeWinogradConvolution(shape, edge);
      }
    }
    return MakeDirectConvolution(shape);
  }

  static std::int64_t Elements(const NormalizationShape& s) {
    return s.microbatch * s.stored_channels() * s.pixels;
  }
  // The position of a sample's channel block.
  static std::int64_t Start(const NormalizationShape& s, std::int64_t sample, std::int64_t block) {
    return (sample * s.stored_channels() + block * B) * s.pixels;
  }

  void NormalizationStatistics(const NormalizationShape& s, const float* x, const float* gamma,
                               const float* beta,
                               const ChannelConstants<float>& constants) const override {
    const std::int64_t samples = s.samples_in_set();
    const int width = s.group_width();
    const auto count = static_cast<double>(width * samples * s.pixels);
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
      for (int begin = 0; begin < s.channels; begin += width) {
        const int end = begin + width;
        double sum = 0;
        for (int c = begin; c < end; ++c) sum += scale[c];
        std::fill(mean + begin, mean + end, static_cast<float>(sum / count));
      }
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
      for (int begin = 0; begin < s.channels; begin += width) {
        const int end = begin + width;
        double sum = 0;
        for (int c = begin; c < end; ++c) sum += scale[c];
        const double inverse = 1 / std::sqrt(sum / count + kNormalizationEpsilon);
        for (int c = begin; c < end; ++c) {
          const double factor = gamma[c] * inverse;
          inverse_standard_deviation[c] = static_cast<float>(inverse);
          scale[c] = static_cast<float>(factor);
          shift[c] = static_cast<float>(beta[c] - factor * mean[c]);
        }
      }
      for (std::int64_t c = s.channels; c < s.stored_channels(); ++c) {
        inverse_standard_deviation[c] = scale[c] = shift[c] = 0;
      }
    }
  }

  // What is no number stays none, as in the reference: a run that has come to that ends by its loss.
  // L::Max takes its second operand where one is no number.
  static HWY_INLINE L Rectify(const L& x) { return L::Max(L::Zero(), x); }

  void NormalizedRelu(const NormalizationShape& s, const float* x,
                      const ChannelConstants<float>& constants, float* h) const override {
    if (constants.scale == nullptr) {
      Relu(Elements(s), x, h);
    } else if (s.rectifies) {
      Normalize<true>(s, x, constants, h);
    } else {
      Normalize<false>(s, x, constants, h);
    }
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
          (kRelu ? Rectify(value) : value).Store(h + start + p * B);
        }
      }
    }
  }

  void NormalizedReluBackward(const NormalizationShape& s, const Gradient& g) const override {
    if (g.constants.scale == nullptr) {
      if (g.dx == nullptr) return;
      ReluBackward(Elements(s), g.x, g.dh, g.add_dx, g.dx);
      if (g.dh_extra != nullptr) ReluBackward(Elements(s), g.x, g.dh_extra, true, g.dx);
    } else if (!s.rectifies) {
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
    const std::int64_t samples = s.samples_in_set();
    const int width = s.group_width();
    const auto count = static_cast<double>(width * samples * s.pixels);
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
      for (int begin = 0; begin < s.channels; begin += width) {
        const int end = begin + width;
        double sum = 0;
        double sum_x_hat = 0;
        for (int c = begin; c < end; ++c) {
          sum += double{g.gamma[c]} * sums[c];
          sum_x_hat += double{g.gamma[c]} * sums_x_hat[c];
        }
        const double inverse = inverse_standard_deviation[begin];
        std::fill(offset + begin, offset + end, static_cast<float>(-inverse * sum / count));
        std::fill(slope + begin, slope + end,
                  static_cast<float>(-inverse * inverse * sum_x_hat / count));
      }
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

  void BiasGradient(const NormalizationShape& s, const float* dy, bool add,
                    float* sums) const override {
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

  void MaxPool(const PoolShape& shape, const float* x, float* y,
               std::uint8_t* winners) const override {
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

  void MaxPoolBackward(const PoolShape& shape, const std::uint8_t* winners, const float* dy,
                       float* dx) const override {
    const hwmodel::Layer& l = shape.layer;
    const std::int64_t blocks = shape.microbatch * std::int64_t{(l.input.channels + B - 1) / B};
    const std::int64_t image = l.input.pixels() * B;
    std::fill_n(dx, blocks * image, 0.0F);
    // From the window's first pixel to the one that a winner's byte stands for.
    std::array<std::int32_t, kMostMaxPoolKernel * kMostMaxPoolKernel> offsets{};
    for (int k = 0; k < l.kernel * l.kernel; ++k) {
      offsets[k] = (k / l.kernel * l.input.width + k % l.kernel) * B;
    }
    for (std::int64_t b = 0; b < blocks; ++b) {
      for (int oh = 0; oh < l.output.height; ++oh) {
        for (int ow = 0; ow < l.output.width; ++ow) {
          const std::int64_t top = oh * l.stride - l.padding;
          const std::int64_t left = ow * l.stride - l.padding;
          const std::int64_t first = b * image + (top * l.input.width + left) * B;
          for (int lane = 0; lane < B; ++lane, ++winners, ++dy) {
            dx[first + offsets[*winners] + lane] += *dy;
          }
        }
      }
    }
  }

  void AveragePool(const PoolShape& shape, const float* x, float* y) const override {
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

  void AveragePoolBackward(const PoolShape& shape, const float* dy, float* dx) const override {
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

  void Add(std::int64_t size, const float* a, const float* b, float* sum) const override {
    ForEach(size, [&](std::int64_t i, auto load, auto store)
                      HWY_ATTR { store(L::Add(load(a + i), load(b + i)), sum + i); });
  }

  static void Relu(std::int64_t size, const float* x, float* y) {
    ForEach(size, [&](std::int64_t i, auto load, auto store)
                      HWY_ATTR { store(Rectify(load(x + i)), y + i); });
  }

  static void ReluBackward(std::int64_t size, const float* y, const float* dy, bool add,
                           float* dx) {
    ForEach(size, [&](std::int64_t i, auto load, auto store) HWY_ATTR {
      const L gradient = L::WherePositive(load(y + i), load(dy + i));
      store(add ? L::Add(load(dx + i), gradient) : gradient, dx + i);
    });
  }

 private:
  ConvolutionMethod method_;
};

std::shared_ptr<const Backend<float>> MakeVectors(ConvolutionMethod method) {
  return std::make_shared<VectorBackend>(method);
}

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace batchless::training {
namespace {

HWY_EXPORT(MakeVectors);

}  // namespace

std::shared_ptr<const Backend<float>> MakeVectorBackend(ConvolutionMethod method) {
  return HWY_DYNAMIC_DISPATCH(MakeVectors)(method);
}

std::string VectorInstructions() {
  // The best target is the lowest bit.
  const std::int64_t targets = hwy::SupportedTargets();
  return (targets & HWY_AVX3) != 0 ? "AVX-512" : hwy::TargetName(targets & -targets);
}

}  // namespace batchless::training
#endif
