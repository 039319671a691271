#include "backends/small_image_kernels.h"

#include <algorithm>
#include <array>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/small_image_kernels.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/highway.h>

#include "backends/convolution_kernels.h"
#include "backends/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

template <int kEdge>
struct SmallImage {
  // The sums of a block's lanes, one machine vector of them at a time: those of all its pixels would not fit in
  // the registers where a block is several vectors.
  static constexpr int kWidth = Lanes<B>::kLanes;
  using L = Lanes<kWidth>;

  static constexpr int kTaps = 9;
  static constexpr int kPixels = kEdge * kEdge;
  static constexpr int kBlockWeights = kTaps * B * B;  // of B outputs by B inputs
  static constexpr int kBlockImage = kPixels * B;      // of B channels

  // The pixel of x that `tap` takes to the pixel `out` of y; -1 outside of the image.
  static constexpr int InputOf(int tap, int out) {
    const int h = out / kEdge + tap / 3 - 1;
    const int w = out % kEdge + tap % 3 - 1;
    return h < 0 || h >= kEdge || w < 0 || w >= kEdge ? -1 : h * kEdge + w;
  }

  // visit(out, in) for all pairs of pixels of one tap: without a loop, so that sums stay in
  // registers.
  template <int kTap, class Visit, int... kOut>
  static HWY_INLINE void ForEachPair(Visit visit, std::integer_sequence<int, kOut...> /*outs*/) {
    (VisitPair<kTap, kOut>(visit), ...);
  }
  template <int kTap, int kOut, class Visit>
  static HWY_INLINE void VisitPair(Visit& visit) {
    constexpr int kIn = InputOf(kTap, kOut);
    if constexpr (kIn >= 0) visit(kOut, kIn);
  }
  template <class Start, class Visit, int... kTap>
  static HWY_INLINE void ForEachTap(Start start, Visit visit,
                                    std::integer_sequence<int, kTap...> /*taps*/) {
    (ForEachPair<kTap>(
         [&, operand = start(kTap)](int out, int in) { visit(kTap, operand, out, in); },
         std::make_integer_sequence<int, kPixels>()),
     ...);
  }
  // visit(tap, start(tap), out, in) for all taps and pairs of pixels.
  template <class Start, class Visit>
  static HWY_INLINE void ForEachTap(Start start, Visit visit) {
    ForEachTap(start, visit, std::make_integer_sequence<int, kTaps>());
  }

  // Every pixel's lanes from those of the first on.
  static HWY_INLINE std::array<L, kPixels> LoadPixels(const float* from) {
    std::array<L, kPixels> lanes;
    for (int p = 0; p < kPixels; ++p) lanes[p] = L::Load(from + p * B);
    return lanes;
  }
  static HWY_INLINE void StorePixels(const std::array<L, kPixels>& lanes, float* to) {
    for (int p = 0; p < kPixels; ++p) lanes[p].Store(to + p * B);
  }

  static void Forward(const SmallImageShape& s, const float* x, const float* weights,
                      const float* bias, float* y, float* /*workspace*/, Prefetcher* /*ahead*/) {
    for (std::int64_t k = 0; k < s.out_channels; k += B, y += kBlockImage) {
      const Lanes<B> start = bias == nullptr ? Lanes<B>::Zero() : Lanes<B>::Load(bias + k);
      for (int p = 0; p < kPixels; ++p) start.Store(y + p * B);
      const float* image = x;
      for (std::int64_t c = 0; c < s.in_channels; c += B, image += kBlockImage) {
        for (int first = 0; first < B; first += kWidth) {
          std::array<L, kPixels> sums = LoadPixels(y + first);
          for (int lane = 0; lane < B; ++lane) {
            if (first == 0) {
              PrefetchWeights(weights + 2 * kBlockWeights + lane * kTaps * B, kTaps * B);
            }
            ForEachTap([&](int tap) { return L::Load(weights + (tap * B + lane) * B + first); },
                       [&](int /*tap*/, const L& weight, int out, int in) {
                         sums[out] = L::MulAdd(L::Set(image[in * B + lane]), weight, sums[out]);
                       });
          }
          StorePixels(sums, y + first);
        }
        weights += kBlockWeights;
      }
    }
  }

  static void BackwardInput(const SmallImageShape& s, const float* dy, const float* weights,
                            float* dx, float* /*workspace*/, Prefetcher* /*ahead*/) {
    const std::int64_t next = s.in_channels * kTaps * B;
    for (std::int64_t c = 0; c < s.in_channels; c += B, dx += kBlockImage) {
      // For every channel of the block and every pixel, lane i adds up the outputs k with k mod B = i.
      alignas(64) std::array<float, B * kBlockImage> partial{};
      const float* block = weights + c * kTaps * B;
      const float* gradient = dy;
      for (std::int64_t k = 0; k < s.out_channels; k += B, block += next, gradient += kBlockImage) {
        for (int lane = 0; lane < B; ++lane) {
          PrefetchWeights(block + 2 * next + lane * kTaps * B, kTaps * B);
          for (int first = 0; first < B; first += kWidth) {
            float* place = partial.data() + lane * kBlockImage + first;
            std::array<L, kPixels> sums = LoadPixels(place);
            ForEachTap([&](int tap) { return L::Load(block + (tap * B + lane) * B + first); },
                       [&](int /*tap*/, const L& weight, int out, int in) {
                         sums[in] =
                             L::MulAdd(L::Load(gradient + out * B + first), weight, sums[in]);
                       });
            StorePixels(sums, place);
          }
        }
      }
      for (int p = 0; p < kPixels; ++p) AddLanes(partial.data() + p * B, dx + p * B);
    }
  }

  // to[i] = sum of the lanes of the sums of channel i, which are at partial + i kBlockImage.
  static HWY_INLINE void AddLanes(const float* partial, float* to) {
    std::array<Lanes<B>, B> rows;
    for (int lane = 0; lane < B; ++lane) {
      rows[lane] = Lanes<B>::Load(partial + lane * kBlockImage);
    }
    Transpose(rows);
    for (int width = B / 2; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) rows[i] = Lanes<B>::Add(rows[i], rows[i + width]);
    }
    rows[0].Store(to);
  }

  // dw of a piece's weights, which all belong to one block of outputs.
  static void WeightGradients(const WeightPiece& piece, const float* x, const float* dy,
                              float* dw) {
    const float* image = x + piece.in * kPixels;
    for (std::int64_t c = 0; c < piece.ins; c += B, image += kBlockImage, dw += kBlockWeights) {
      for (int first = 0; first < B; first += kWidth) {
        const std::array<L, kPixels> gradients = LoadPixels(dy + piece.out * kPixels + first);
        for (int lane = 0; lane < B; ++lane) {
          std::array<L, kTaps> sums;
          sums.fill(L::Zero());
          ForEachTap([](int tap) { return tap; },
                     [&](int tap, int /*tap*/, int out, int in) {
                       sums[tap] =
                           L::MulAdd(L::Set(image[in * B + lane]), gradients[out], sums[tap]);
                     });
          for (int tap = 0; tap < kTaps; ++tap) sums[tap].Store(dw + (tap * B + lane) * B + first);
        }
      }
    }
  }

  static void BackwardWeights(const SmallImageShape& s, const float* x, const float* dy, float* dw,
                              float* /*workspace*/, Prefetcher* /*ahead*/,
                              GradientConsumer<float>* consumer) {
    // Pieces that the nearest caches hold together with what a consumer reads beside them.
    constexpr std::int64_t kPieceChannels = 64;
    ForEachPiece(s, B, kPieceChannels, [&](const WeightPiece& piece) {
      const std::int64_t first = kTaps * (piece.out * s.in_channels + piece.in * B);
      if (consumer == nullptr) return WeightGradients(piece, x, dy, dw + first);
      WeightGradients(piece, x, dy, dw);
      consumer->Take(first, kTaps * piece.ins * B, dw);
    });
  }
};

std::unique_ptr<Convolution<float>> MakeSmallImage(const ConvolutionShape& convolution,
                                                   const SmallImageShape& shape, int edge) {
  return edge == 4 ? MakeKernelConvolution<SmallImage<4>>(convolution, shape)
                   : MakeKernelConvolution<SmallImage<2>>(convolution, shape);
}

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace batchless::training {
namespace {

HWY_EXPORT(MakeSmallImage);

}  // namespace

bool SuitsSmallImage(const ConvolutionShape& shape) {
  // Measured at batch one (bench_convolution), speed relative to the next best, all three passes
  // together: 512-512x4 2.0 with AVX-512 and 1.4 with AVX2, 512-512x2 2.3 and 2.8.
  const hwmodel::Layer& layer = shape.layer;
  const hwmodel::FeatureShape& image = layer.input;
  if (layer.kernel != 3 || layer.stride != 1 || layer.padding != 1) return false;
  if (shape.microbatch != 1 || shape.input_block != shape.output_block) return false;
  return image.height == image.width && (image.width == 2 || image.width == 4);
}

std::unique_ptr<Convolution<float>> MakeSmallImageConvolution(const ConvolutionShape& shape) {
  const hwmodel::Layer& layer = shape.layer;
  return HWY_DYNAMIC_DISPATCH(MakeSmallImage)(
      shape,
      {.in_channels = RoundUp(layer.input.channels, shape.input_block),
       .out_channels = RoundUp(layer.output.channels, shape.output_block)},
      layer.input.width);
}

}  // namespace batchless::training
#endif
