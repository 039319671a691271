#include "backends/direct_kernels.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/direct_kernels.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/highway.h>

#include "backends/convolution_kernels.h"
#include "backends/lanes-inl.h"
#include "backends/matrix_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

struct Direct {
  template <int kRow>
  using RowTiling = Tiling<Products<kRow>>;

  static constexpr int kColours = 3;  // of an image in planes
  // Channels whose sums are in the registers together.
  static constexpr std::int64_t kSums = RegisterTiles::kPanels * B;

  // Gradients of 1x1 kernels are added up by samples, and those of inputs by blocks of outputs where these are few, as
  // in the programs that most rows of the studies come from: ResNets of CIFAR have such layers.
  static bool AddsSamplesApart(const DirectShape& s) { return s.kernel == 1; }
  static bool AddsBlocksApart(const DirectShape& s) {
    return s.kernel == 1 && s.out_channels <= 64;
  }

  // --- frames ---

  // x with zeros around it: (microbatch, C / Bi, framed height, framed width, Bi). Made in `framed`, unless x is
  // that itself.
  static HWY_NOINLINE const float* FrameInput(const DirectShape& s, const float* x, float* framed) {
    if (!s.frames_input()) return x;
    std::fill_n(framed, s.framed_size(), 0.0F);
    const std::int64_t block = s.in_block;
    const std::int64_t row_size = s.framed_width() * block;
    const std::int64_t images = s.microbatch * s.in_channels / block;
    for (std::int64_t image = 0; image < images; ++image) {
      float* to = framed + (image * s.framed_height() + s.padding) * row_size + s.padding * block;
      const float* from = x + image * s.height * s.width * block;
      for (std::int64_t h = 0; h < s.height; ++h, to += row_size) {
        if (s.planar_input) {
          for (std::int64_t c = 0; c < block; ++c) {
            const float* plane = from + (c * s.height + h) * s.width;
            for (std::int64_t w = 0; w < s.width; ++w) to[w * block + c] = plane[w];
          }
        } else {
          std::copy_n(from + h * s.width * block, s.width * block, to);
        }
      }
    }
    return framed;
  }

  // dy with zeros around it: (microbatch, K / B, framed height, framed width, B); made as x's.
  static HWY_NOINLINE const float* FrameOutputGradient(const DirectShape& s, const float* dy,
                                                       float* framed) {
    if (!s.frames_output()) return dy;
    std::fill_n(framed, s.framed_out_size(), 0.0F);
    const std::int64_t before = s.reach() - 1;
    const std::int64_t row_size = s.framed_out_width() * B;
    for (std::int64_t image = 0; image < s.microbatch * s.out_channels / B; ++image) {
      float* to = framed + (image * s.framed_out_height() + before) * row_size + before * B;
      for (std::int64_t h = 0; h < s.out_height; ++h, to += row_size, dy += s.out_width * B) {
        std::copy_n(dy, s.out_width * B, to);
      }
    }
    return framed;
  }

  // --- products of matrices ---

  // Some pixels of an image: `columns` of each of `lines` lines.
  struct Patch {
    std::int64_t line;
    std::int64_t lines;
    std::int64_t column;
    std::int64_t columns;
  };

  // visit(patch) for patches of lines or of a line, whose pixels of so many channels stay in the second cache while
  // all weights pass by, but enough of them to be worth the weights' coming.
  template <class Visit>
  static void ForEachPatch(std::int64_t lines, std::int64_t columns, std::int64_t channels,
                           Visit visit) {
    constexpr std::int64_t kNumbers = 1 << 15;
    constexpr std::int64_t kLeastPixels = 64;
    const std::int64_t most = std::max(kNumbers / channels, kLeastPixels);
    // Patches of about one size.
    const auto step = [](std::int64_t size, std::int64_t largest) {
      const std::int64_t parts = (size + largest - 1) / largest;
      return (size + parts - 1) / parts;
    };
    const std::int64_t high = step(lines, std::max<std::int64_t>(most / columns, 1));
    const std::int64_t wide = step(columns, most);
    for (std::int64_t line = 0; line < lines; line += high) {
      for (std::int64_t column = 0; column < columns; column += wide) {
        visit(Patch{line, std::min(high, lines - line), column, std::min(wide, columns - column)});
      }
    }
  }

  // A product whose rows are the pixels of a patch; runs.line is the patch's.
  static void MultiplyPixels(MatrixProduct p, Runs runs, const Patch& patch, std::int64_t panels) {
    p.a += patch.line * runs.a_line + patch.column * p.a_row;
    p.out += patch.line * runs.out_line + patch.column * p.out_row;
    runs.line = patch.columns;
    // Shorter lines do not keep the machine busy one by one.
    constexpr std::int64_t kLongLine = 8;
    const std::int64_t row = runs.line < kLongLine ? 0 : p.a_row;
    if (row == B) return MultiplyLines<B>(p, runs, patch.lines, panels);
    if (row == 2 * B) return MultiplyLines<2 * B>(p, runs, patch.lines, panels);
    if (row == kColours) return MultiplyLines<kColours>(p, runs, patch.lines, panels);
    const RowTiling<0> tiling(patch.lines * runs.line, panels);
    tiling.Multiply(p, runs);
  }

  // The same line by line, the pixels in them kRow apart.
  template <int kRow>
  static void MultiplyLines(MatrixProduct p, const Runs& runs, std::int64_t lines,
                            std::int64_t panels) {
    const RowTiling<kRow> tiling(runs.line, panels);
    for (std::int64_t line = 0; line < lines; ++line) {
      tiling.Multiply(p, runs);
      p.a += runs.a_line;
      p.out += runs.out_line;
    }
  }

  // --- the three convolutions ---

  static void Forward(const DirectShape& s, const float* x, const float* weights, const float* bias,
                      float* y, float* workspace, Prefetcher* /*ahead*/) {
    const float* framed = FrameInput(s, x, workspace);
    const std::int64_t row_size = s.framed_width() * s.in_block;
    const std::int64_t pixels = s.out_height * s.out_width;
    const std::int64_t panel = s.in_channels * s.kernel * s.kernel * B;
    const Runs runs{.outer = s.in_channels / s.in_block,
                    .a_outer = s.framed_height() * row_size,
                    .b_outer = s.kernel * s.kernel * s.in_block * B,
                    .inner = s.kernel,
                    .a_inner = row_size,
                    .a_line = s.stride * row_size,
                    .out_line = s.out_width * B};
    ForEachPatch(s.out_height, s.out_width, s.in_channels, [&](const Patch& patch) {
      for (std::int64_t k = 0; k < s.out_channels; k += kSums) {
        for (std::int64_t n = 0; n < s.microbatch; ++n) {
          MultiplyPixels({.a = framed + n * s.in_channels * s.framed_height() * s.framed_width(),
                          .a_row = s.stride * s.in_block,
                          .a_step = 1,
                          .b = weights + k / B * panel,
                          .b_panel = panel,
                          .out = y + (n * s.out_channels + k) * pixels,
                          .out_row = B,
                          .out_panel = pixels * B,
                          .steps = s.kernel * s.in_block,
                          .bias = bias == nullptr ? nullptr : bias + k},
                         runs, patch, std::min(kSums, s.out_channels - k) / B);
        }
      }
    });
  }

  static void BackwardWeights(const DirectShape& s, const float* x, const float* dy, float* dw,
                              float* workspace, Prefetcher* /*ahead*/,
                              GradientConsumer<float>* consumer) {
    const float* framed = FrameInput(s, x, workspace);
    // Pieces that the nearest caches hold together with what a consumer reads beside them.
    constexpr std::int64_t kPieceChannels = 64;
    const std::int64_t ins = std::max(kPieceChannels / s.in_block, std::int64_t{1}) * s.in_block;
    const std::int64_t taps = s.kernel * s.kernel;
    ForEachPiece(s, kSums, ins, [&](const WeightPiece& piece) {
      const std::int64_t first = taps * (piece.out * s.in_channels + piece.in * B);
      if (consumer == nullptr) {
        WeightGradients(s, piece, framed, dy, dw + first, taps * s.in_channels * B);
        return;
      }
      const std::int64_t panel = taps * piece.ins * B;
      WeightGradients(s, piece, framed, dy, dw, panel);
      for (std::int64_t k = 0; k < piece.outs; k += B) {
        consumer->Take(first + taps * k * s.in_channels, panel, dw + taps * k * piece.ins);
      }
    });
  }

  // dw of one piece, the weights of every B output channels `panel` after those before.
  static void WeightGradients(const DirectShape& s, const WeightPiece& piece, const float* framed,
                              const float* dy, float* dw, std::int64_t panel) {
    const std::int64_t row_size = s.framed_width() * s.in_block;
    const std::int64_t pixels = s.out_height * s.out_width;
    const std::int64_t rows = s.kernel * s.in_block;
    const RowTiling<1> tiling(rows, piece.outs / B);
    const Runs runs{.outer = s.microbatch,
                    .a_outer = s.in_channels * s.framed_height() * s.framed_width(),
                    .b_outer = s.out_channels * pixels,
                    .inner = s.out_height,
                    .a_inner = s.stride * row_size};
    for (std::int64_t c = 0; c < piece.ins / s.in_block; ++c) {
      const std::int64_t block = piece.in / s.in_block + c;
      for (std::int64_t i = 0; i < s.kernel; ++i) {
        float* to = dw + (c * s.kernel + i) * rows * B;
        tiling.Multiply(MatrixProduct{.a = framed + (block * s.framed_height() + i) * row_size,
                                      .a_row = 1,
                                      .a_step = s.stride * s.in_block,
                                      .b = dy + piece.out * pixels,
                                      .b_panel = pixels * B,
                                      .out = to,
                                      .out_row = B,
                                      .out_panel = panel,
                                      .steps = s.out_width,
                                      .apart = AddsSamplesApart(s)},
                        runs);
      }
    }
  }

  // Taps i = first + stride t that reach the pixels of one remainder, in one dimension, and those
  // pixels: h = pixel + stride m, whose last tap is that of dy's pixel out + m.
  struct Remainder {
    std::int64_t first;
    std::int64_t taps;
    std::int64_t pixel;
    std::int64_t pixels;
    std::int64_t out;

    Remainder(const DirectShape& s, std::int64_t remainder, std::int64_t size)
        : first(remainder),
          taps(remainder < s.kernel ? (s.kernel - 1 - remainder) / s.stride + 1 : 0),
          pixel((remainder - s.padding % s.stride + s.stride) % s.stride),
          pixels(pixel < size ? (size - 1 - pixel) / s.stride + 1 : 0),
          // In the frame, dy's pixel p is at p + reach - 1.
          out((pixel + s.padding - remainder) / s.stride - (taps - 1) + s.reach() - 1) {}
  };

  // A piece's weights, of all outputs, of the taps of one pair of remainders, turned:
  // (piece / B, K / B, taps, taps, B of K, B of C).
  static HWY_NOINLINE void TurnWeights(const DirectShape& s, const WeightPiece& piece,
                                       const Remainder& row, const Remainder& column,
                                       const float* weights, float* turned) {
    const std::int64_t taps = row.taps * column.taps;
    const std::int64_t next = s.kernel * s.kernel * s.in_channels * B;
    for (std::int64_t k = 0; k < s.out_channels; k += B, weights += next) {
      for (std::int64_t c = 0; c < piece.ins; c += B) {
        const float* block = weights + s.kernel * s.kernel * (piece.in + c) * B;
        float* to = turned + taps * (c * s.out_channels + k * B);
        for (std::int64_t i = row.taps - 1; i >= 0; --i) {
          const std::int64_t line = (row.first + i * s.stride) * s.kernel + column.first;
          for (std::int64_t j = column.taps - 1; j >= 0; --j, to += B * B) {
            const float* tap = block + (line + j * s.stride) * B * B;
            PrefetchWeights(tap + 4 * next, B * B);
            TransposeBlock(tap, to);
          }
        }
      }
    }
  }

  // A piece's dx of the pixels of one pair of remainders.
  static void BackwardPixels(const DirectShape& s, const WeightPiece& piece, const Remainder& row,
                             const Remainder& column, const Patch& patch, const float* framed,
                             const float* turned, float* dx) {
    const std::int64_t row_size = s.framed_out_width() * B;
    const std::int64_t pixels = s.height * s.width;
    const Runs runs{.outer = s.out_channels / B,
                    .a_outer = s.framed_out_height() * row_size,
                    .b_outer = row.taps * column.taps * B * B,
                    .inner = row.taps,
                    .a_inner = row_size,
                    .a_line = row_size,
                    .out_line = s.stride * s.width * B};
    for (std::int64_t n = 0; n < s.microbatch; ++n) {
      float* to =
          dx + (n * s.in_channels + piece.in) * pixels + (row.pixel * s.width + column.pixel) * B;
      MultiplyPixels(
          {.a = framed + n * runs.outer * runs.a_outer + row.out * row_size + column.out * B,
           .a_row = B,
           .a_step = 1,
           .b = turned,
           .b_panel = s.out_channels * row.taps * column.taps * B,
           .out = to,
           .out_row = s.stride * B,
           .out_panel = pixels * B,
           .steps = column.taps * B,
           .apart = AddsBlocksApart(s)},
          runs, patch, piece.ins / B);
    }
  }

  static void BackwardInput(const DirectShape& s, const float* dy, const float* weights, float* dx,
                            float* workspace, Prefetcher* /*ahead*/) {
    const float* framed = FrameOutputGradient(s, dy, workspace);
    float* turned = workspace + RoundUp(s.framed_out_size(), B);
    if (s.kernel < s.stride) {
      std::fill_n(dx, s.microbatch * s.in_channels * s.height * s.width, 0.0F);
    }
    const std::int64_t remainders = std::min(s.stride, s.kernel);
    for (std::int64_t i = 0; i < remainders; ++i) {
      const Remainder row(s, i, s.height);
      for (std::int64_t j = 0; j < remainders; ++j) {
        const Remainder column(s, j, s.width);
        if (row.pixels * column.pixels == 0) continue;
        ForEachPatch(row.pixels, column.pixels, s.out_channels, [&](const Patch& patch) {
          // Some inputs are taken at once, so that their turned weights stay near.
          ForEachPiece(s, s.out_channels, kSums, [&](const WeightPiece& piece) {
            TurnWeights(s, piece, row, column, weights, turned);
            BackwardPixels(s, piece, row, column, patch, framed, turned, dx);
          });
        });
      }
    }
  }
};

std::unique_ptr<Convolution<float>> MakeDirect(const ConvolutionShape& convolution,
                                               const DirectShape& shape) {
  return MakeKernelConvolution<Direct>(convolution, shape);
}

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace batchless::training {
namespace {

HWY_EXPORT(MakeDirect);

DirectShape ShapeOf(const ConvolutionShape& shape) {
  const hwmodel::Layer& layer = shape.layer;
  const bool planar = shape.input_block == 1;
  DirectShape direct{.microbatch = shape.microbatch,
                     .in_channels = RoundUp(layer.input.channels, shape.input_block),
                     .in_block = planar ? layer.input.channels : shape.input_block,
                     .out_channels = RoundUp(layer.output.channels, shape.output_block),
                     .planar_input = planar,
                     .height = layer.input.height,
                     .width = layer.input.width,
                     .out_height = layer.output.height,
                     .out_width = layer.output.width,
                     .kernel = layer.kernel,
                     .stride = layer.stride,
                     .padding = layer.padding};
  // Pixels by themselves: one long line of them.
  if (layer.kernel == 1 && layer.stride == 1 && layer.padding == 0) {
    direct.width = direct.out_width = layer.input.pixels();
    direct.height = direct.out_height = 1;
  }
  return direct;
}

}  // namespace

std::unique_ptr<Convolution<float>> MakeDirectConvolution(const ConvolutionShape& shape) {
  return HWY_DYNAMIC_DISPATCH(MakeDirect)(shape, ShapeOf(shape));
}

}  // namespace batchless::training
#endif
