#include "backends/winograd_kernels.h"

#include <algorithm>
#include <array>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/winograd_kernels.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "backends/lanes-inl.h"
#include "backends/matrix_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

// Distances from one position's matrices to the next one's.
struct Planes {
  std::int64_t a;
  std::int64_t b;
  std::int64_t out;
};

template <int B>
struct Winograd {
  using L = Lanes<B>;
  using P = Products<B>;
  using Four = std::array<L, 4>;

  static constexpr int kTaps = 9;
  static constexpr int kPositions = 16;

  // --- transforms of one dimension ---

  static HWY_INLINE Four Input(const L& d0, const L& d1, const L& d2, const L& d3) {
    return {L::Sub(d0, d2), L::Add(d1, d2), L::Sub(d2, d1), L::Sub(d3, d1)};
  }
  static HWY_INLINE std::array<L, 2> Output(const L& m0, const L& m1, const L& m2, const L& m3) {
    return {L::Add(m0, L::Add(m1, m2)), L::Add(m3, L::Sub(m1, m2))};
  }
  static HWY_INLINE Four OutputGradient(const L& y0, const L& y1) {
    return {y0, L::Add(y0, y1), L::Sub(y0, y1), y1};
  }
  static HWY_INLINE Four Filter(const L& g0, const L& g1, const L& g2) {
    const L half = L::Set(0.5F);
    const L even = L::Mul(half, L::Add(g0, g2));
    const L odd = L::Mul(half, g1);
    return {g0, L::Add(even, odd), L::Sub(even, odd), g2};
  }
  static HWY_INLINE std::array<L, 3> FilterGradient(const L& m0, const L& m1, const L& m2,
                                                    const L& m3) {
    const L half = L::Set(0.5F);
    const L even = L::Mul(half, L::Add(m1, m2));
    return {L::Add(m0, even), L::Mul(half, L::Sub(m1, m2)), L::Add(even, m3)};
  }

  // --- positions ---

  // The compiler would keep the distances of all 16 positions and run out of registers; from a
  // pointer that it cannot see through it needs three.
  template <class T>
  static HWY_INLINE T* Opaque(T* pointer) {
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
    asm("" : "+r"(pointer));  // NOLINT(hicpp-no-assembler)
#endif
    return pointer;
  }

  // The four positions of each row of the 4 x 4, `plane` apart.
  static HWY_INLINE void StoreRow(const Four& row, std::int64_t plane, float* to) {
    row[0].Store(to);
    row[1].Store(to + plane);
    row[2].Store(to + 2 * plane);
    row[3].Store(to + 3 * plane);
  }

  // The four positions of column `w`, as many rows of four planes apart.
  static HWY_INLINE Four LoadColumn(const float* from, std::int64_t plane) {
    return {L::Load(from), L::Load(from + 4 * plane), L::Load(from + 8 * plane),
            L::Load(from + 12 * plane)};
  }

  // --- weights ---

  // Weights that are transformed, multiplied and dropped together: `outs` output channels from
  // `out` on by `ins` input channels from `in` on.
  struct Chunk {
    std::int64_t out;
    std::int64_t outs;
    std::int64_t in;
    std::int64_t ins;
  };

  // visit(chunk), all input channels of some outputs before the next outputs.
  template <class Visit>
  static HWY_INLINE void ForEachChunk(const WinogradShape& s, Visit visit) {
    for (std::int64_t out = 0; out < s.out_channels; out += s.out_chunk()) {
      const std::int64_t outs = std::min(s.out_chunk(), s.out_channels - out);
      for (std::int64_t in = 0; in < s.in_channels; in += s.in_chunk()) {
        visit(Chunk{
            .out = out, .outs = outs, .in = in, .ins = std::min(s.in_chunk(), s.in_channels - in)});
      }
    }
  }

  // Has weights of a block on their way that the block after next is: their rows are too short for
  // the machine to see where they go on, and waiting took most of the transform's time.
  static HWY_INLINE void PrefetchRow(const float* block, int row) {
    constexpr int kLine = 16;
    for (int i = 0; i < kTaps * B; i += kLine) hwy::Prefetch(block + row * kTaps * B + i);
  }

  // U of B input channels and one block of output channels; `tap` gives where a tap's B rows of B
  // output channels start, and `coming` where a later block does.
  template <class Tap>
  static HWY_INLINE void FilterBlock(Tap tap, const float* coming, std::int64_t plane, float* u) {
    for (int c = 0; c < B; ++c) {
      PrefetchRow(coming, c);
      std::array<Four, 3> columns;
      for (int w = 0; w < 3; ++w) {
        columns[w] = Filter(L::Load(tap(w) + c * B), L::Load(tap(3 + w) + c * B),
                            L::Load(tap(6 + w) + c * B));
      }
      float* to = u + c * B;
      for (int h = 0; h < 4; ++h, to = Opaque(to + 4 * plane)) {
        StoreRow(Filter(columns[0][h], columns[1][h], columns[2][h]), plane, to);
      }
    }
  }

  static HWY_NOINLINE void Filters(const WinogradShape& s, const Chunk& chunk, const float* weights,
                                   float* u) {
    for (std::int64_t k = 0; k < chunk.outs; k += B) {
      for (std::int64_t c = 0; c < chunk.ins; c += B) {
        const float* block =
            weights + kTaps * ((chunk.out + k) * s.in_channels + (chunk.in + c) * B);
        FilterBlock([&](int tap) { return block + tap * B * B; }, block + 2 * kTaps * B * B,
                    s.filter_plane(), u + k * chunk.ins + c * B);
      }
    }
  }

  // Those of the input's gradient, where `s` has in and out exchanged already.
  static HWY_NOINLINE void TurnedFilters(const WinogradShape& s, const Chunk& chunk,
                                         const float* weights, float* u) {
    alignas(64) std::array<float, kTaps * B * B> turned;
    for (std::int64_t k = 0; k < chunk.outs; k += B) {
      for (std::int64_t c = 0; c < chunk.ins; c += B) {
        const float* block =
            weights + kTaps * ((chunk.in + c) * s.out_channels + (chunk.out + k) * B);
        for (int tap = 0; tap < kTaps; ++tap) {
          std::array<L, B> rows;
          for (int r = 0; r < B; ++r) rows[r] = L::Load(block + (tap * B + r) * B);
          Transpose<B>(rows);
          float* to = turned.data() + (kTaps - 1 - tap) * B * B;
          for (int r = 0; r < B; ++r) rows[r].Store(to + r * B);
        }
        FilterBlock([&](int tap) { return turned.data() + tap * B * B; },
                    block + kTaps * 2 * B * s.out_channels, s.filter_plane(),
                    u + k * chunk.ins + c * B);
      }
    }
  }

  // dw of a chunk's weights from the gradient of its U.
  static HWY_NOINLINE void FilterGradients(const WinogradShape& s, const Chunk& chunk,
                                           const float* du, float* dw) {
    const std::int64_t plane = s.filter_plane();
    for (std::int64_t k = 0; k < chunk.outs; k += B) {
      float* panel = dw + kTaps * ((chunk.out + k) * s.in_channels + chunk.in * B);
      for (std::int64_t c = 0; c < chunk.ins; ++c) {
        const float* from = du + k * chunk.ins + c * B;
        std::array<std::array<L, 3>, 4> columns;
        for (int w = 0; w < 4; ++w, from = Opaque(from + plane)) {
          const Four column = LoadColumn(from, plane);
          columns[w] = FilterGradient(column[0], column[1], column[2], column[3]);
        }
        float* to = panel + kTaps * (c / B * B * B) + c % B * B;
        for (int h = 0; h < 3; ++h) {
          const auto row =
              FilterGradient(columns[0][h], columns[1][h], columns[2][h], columns[3][h]);
          for (int w = 0; w < 3; ++w) row[w].Store(to + (3 * h + w) * B * B);
        }
      }
    }
  }

  // --- images ---

  // The pixels of one image of B channels, zero around it.
  struct Image {
    Image(const float* data, std::int64_t h, std::int64_t w) : pixels(data), height(h), width(w) {}

    HWY_INLINE L At(std::int64_t h, std::int64_t w) const {
      if (h < 0 || h >= height || w < 0 || w >= width) return L::Zero();
      return L::Load(pixels + (h * width + w) * B);
    }

    const float* pixels;
    std::int64_t height;
    std::int64_t width;
  };

  // visit(sample, row, first tile) of the rows of tiles from `first` on, as many as a block has.
  template <class Visit>
  static HWY_INLINE std::int64_t ForEachRow(const WinogradShape& s, std::int64_t first,
                                            Visit visit) {
    const std::int64_t end = std::min(first + s.block_rows(), s.microbatch * s.tile_rows());
    for (std::int64_t row = first; row < end; ++row) {
      visit(row / s.tile_rows(), row % s.tile_rows(), (row - first) * s.row_tiles());
    }
    return (end - first) * s.row_tiles();
  }

  // V of one row of tiles and one block of channels.
  static HWY_NOINLINE void InputRow(const Image& image, std::int64_t row, std::int64_t tiles,
                                    std::int64_t channels, std::int64_t plane, float* v) {
    // A column, transformed, serves two tiles.
    const bool inside = row > 0 && 2 * row + 2 < image.height;
    const float* top = image.pixels + (2 * row - 1) * image.width * B;
    const auto column = [&](std::int64_t w) -> Four {
      if (inside && w < image.width) {
        const float* from = top + w * B;
        const std::int64_t step = image.width * B;
        return Input(L::Load(from), L::Load(from + step), L::Load(from + 2 * step),
                     L::Load(from + 3 * step));
      }
      return Input(image.At(2 * row - 1, w), image.At(2 * row, w), image.At(2 * row + 1, w),
                   image.At(2 * row + 2, w));
    };
    Four c0 = {L::Zero(), L::Zero(), L::Zero(), L::Zero()};
    Four c1 = column(0);
    for (std::int64_t t = 0; t < tiles; ++t) {
      const Four c2 = column(2 * t + 1);
      const Four c3 = column(2 * t + 2);
      float* to = v + t * channels;
      for (int h = 0; h < 4; ++h, to = Opaque(to + 4 * plane)) {
        StoreRow(Input(c0[h], c1[h], c2[h], c3[h]), plane, to);
      }
      c0 = c2;
      c1 = c3;
    }
  }

  static HWY_NOINLINE std::int64_t InputBlock(const WinogradShape& s, std::int64_t first,
                                              const float* x, float* v) {
    return ForEachRow(s, first, [&](std::int64_t sample, std::int64_t row, std::int64_t tile) {
      for (std::int64_t c = 0; c < s.in_channels; c += B) {
        const Image image(x + (sample * s.in_channels + c) * s.height * s.width, s.height, s.width);
        InputRow(image, row, s.row_tiles(), s.in_channels, s.in_plane(),
                 v + tile * s.in_channels + c);
      }
    });
  }

  // Y of one row of tiles and one block of channels; `m` is the first tile's, `y` its first pixel.
  static HWY_NOINLINE void OutputRow(const float* m, std::int64_t plane, std::int64_t channels,
                                     const L& offset, std::int64_t rows, std::int64_t width,
                                     float* y) {
    const std::int64_t row_size = width * B;
    for (std::int64_t w = 0; w < width; w += 2, m += channels, y += 2 * B) {
      const float* from = m;
      std::array<std::array<L, 2>, 4> columns;
      for (int i = 0; i < 4; ++i, from = Opaque(from + plane)) {
        const Four column = LoadColumn(from, plane);
        columns[i] = Output(column[0], column[1], column[2], column[3]);
      }
      for (std::int64_t h = 0; h < rows; ++h) {
        const auto out = Output(columns[0][h], columns[1][h], columns[2][h], columns[3][h]);
        L::Add(out[0], offset).Store(y + h * row_size);
        if (w + 1 < width) L::Add(out[1], offset).Store(y + h * row_size + B);
      }
    }
  }

  static HWY_NOINLINE void OutputBlock(const WinogradShape& s, const Chunk& chunk,
                                       std::int64_t first, const float* m, const float* bias,
                                       float* y) {
    const std::int64_t image = s.height * s.width;
    ForEachRow(s, first, [&](std::int64_t sample, std::int64_t row, std::int64_t tile) {
      for (std::int64_t k = 0; k < chunk.outs; k += B) {
        const std::int64_t channel = chunk.out + k;
        OutputRow(m + tile * chunk.outs + k, s.out_plane(), chunk.outs,
                  bias == nullptr ? L::Zero() : L::Load(bias + channel),
                  std::min<std::int64_t>(s.height - 2 * row, 2), s.width,
                  y + (sample * s.out_channels + channel) * image + 2 * row * s.width * B);
      }
    });
  }

  static HWY_INLINE void OutputGradientTile(const L& y00, const L& y01, const L& y10, const L& y11,
                                            std::int64_t plane, float* to) {
    const Four left = OutputGradient(y00, y10);
    const Four right = OutputGradient(y01, y11);
    for (int h = 0; h < 4; ++h, to = Opaque(to + 4 * plane)) {
      StoreRow(OutputGradient(left[h], right[h]), plane, to);
    }
  }

  static HWY_NOINLINE void OutputGradientRow(const Image& image, std::int64_t row,
                                             std::int64_t channels, std::int64_t plane, float* m) {
    const std::int64_t row_size = image.width * B;
    const std::int64_t whole = 2 * row + 1 < image.height ? image.width / 2 : 0;
    const float* from = image.pixels + 2 * row * row_size;
    std::int64_t t = 0;
    for (; t < whole; ++t, from += 2 * B, m += channels) {
      OutputGradientTile(L::Load(from), L::Load(from + B), L::Load(from + row_size),
                         L::Load(from + row_size + B), plane, m);
    }
    for (; 2 * t < image.width; ++t, m += channels) {
      OutputGradientTile(image.At(2 * row, 2 * t), image.At(2 * row, 2 * t + 1),
                         image.At(2 * row + 1, 2 * t), image.At(2 * row + 1, 2 * t + 1), plane, m);
    }
  }

  static HWY_NOINLINE void OutputGradientBlock(const WinogradShape& s, std::int64_t first,
                                               const float* dy, float* m) {
    ForEachRow(s, first, [&](std::int64_t sample, std::int64_t row, std::int64_t tile) {
      for (std::int64_t k = 0; k < s.out_channels; k += B) {
        const Image image(dy + (sample * s.out_channels + k) * s.height * s.width, s.height,
                          s.width);
        OutputGradientRow(image, row, s.out_channels, s.out_plane(), m + tile * s.out_channels + k);
      }
    });
  }

  // --- products of matrices ---

  // The products of all positions: `p` is that of the first, and the others follow at the planes'
  // distances.
  static void Multiply(MatrixProduct p, const Planes& planes, std::int64_t rows,
                       std::int64_t panels, bool add) {
    const typename P::template Tiling<> tiling(rows, panels, add ? Start::kOut : Start::kZero);
    for (int position = 0; position < kPositions; ++position) {
      tiling.Multiply(p);
      p.a += planes.a;
      p.b += planes.b;
      p.out += planes.out;
    }
  }

  // --- the three convolutions ---

  // `filters`: Filters or TurnedFilters.
  template <class FiltersOf>
  static HWY_INLINE void Convolve(const WinogradShape& s, FiltersOf filters, const float* x,
                                  const float* weights, const float* bias, float* y,
                                  float* workspace) {
    float* u = workspace;
    float* v = workspace + kPositions * s.filter_plane();
    float* m = v + kPositions * s.in_plane();
    for (std::int64_t first = 0; first < s.microbatch * s.tile_rows(); first += s.block_rows()) {
      const std::int64_t tiles = InputBlock(s, first, x, v);
      ForEachChunk(s, [&](const Chunk& chunk) {
        // Where there are several blocks of tiles, all weights are one chunk.
        if (first == 0) filters(s, chunk, weights, u);
        Multiply({.a = v + chunk.in,
                  .a_row = s.in_channels,
                  .a_step = 1,
                  .b = u,
                  .b_panel = chunk.ins * B,
                  .b_step = B,
                  .out = m,
                  .out_row = chunk.outs,
                  .out_panel = B,
                  .steps = chunk.ins},
                 {.a = s.in_plane(), .b = s.filter_plane(), .out = s.out_plane()}, tiles,
                 chunk.outs / B, chunk.in > 0);
        if (chunk.in + chunk.ins == s.in_channels) OutputBlock(s, chunk, first, m, bias, y);
      });
    }
  }

  static void Forward(const WinogradShape& s, const float* x, const float* weights,
                      const float* bias, float* y, float* workspace) {
    Convolve(s, Filters, x, weights, bias, y, workspace);
  }

  static void BackwardInput(const WinogradShape& s, const float* dy, const float* weights,
                            float* dx, float* workspace) {
    WinogradShape reverse = s;
    std::swap(reverse.in_channels, reverse.out_channels);
    Convolve(reverse, TurnedFilters, dy, weights, nullptr, dx, workspace);
  }

  static void BackwardWeights(const WinogradShape& s, const float* x, const float* dy, float* dw,
                              float* workspace) {
    float* du = workspace;
    float* v = workspace + kPositions * s.filter_plane();
    float* m = v + kPositions * s.in_plane();
    const std::int64_t end = s.microbatch * s.tile_rows();
    for (std::int64_t first = 0; first < end; first += s.block_rows()) {
      const std::int64_t tiles = InputBlock(s, first, x, v);
      OutputGradientBlock(s, first, dy, m);
      ForEachChunk(s, [&](const Chunk& chunk) {
        Multiply({.a = v + chunk.in,
                  .a_row = 1,
                  .a_step = s.in_channels,
                  .b = m + chunk.out,
                  .b_panel = B,
                  .b_step = s.out_channels,
                  .out = du,
                  .out_row = B,
                  .out_panel = chunk.ins * B,
                  .steps = tiles},
                 {.a = s.in_plane(), .b = s.out_plane(), .out = s.filter_plane()}, chunk.ins,
                 chunk.outs / B, first > 0);
        if (first + s.block_rows() >= end) FilterGradients(s, chunk, du, dw);
      });
    }
  }

  static WinogradKernels Table() {
    return {
        .forward = Forward, .backward_input = BackwardInput, .backward_weights = BackwardWeights};
  }
};

WinogradKernels WinogradTable(int block) {
  return block == 16 ? Winograd<16>::Table() : Winograd<8>::Table();
}

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace batchless::training {
namespace {

HWY_EXPORT(WinogradTable);

}  // namespace

WinogradKernels FindWinogradKernels(int block) {
  return HWY_DYNAMIC_DISPATCH(WinogradTable)(block);
}

}  // namespace batchless::training
#endif
