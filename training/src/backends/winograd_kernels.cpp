#include "backends/winograd_kernels.h"

#include <algorithm>
#include <array>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/winograd_kernels.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/highway.h>

#include "backends/convolution_kernels.h"
#include "backends/lanes-inl.h"
#include "backends/matrix_product-inl.h"
#include "batchless/training/prefetcher.h"

HWY_BEFORE_NAMESPACE();
namespace batchless::training {
namespace HWY_NAMESPACE {

// The products of matrices at every position of the tiles are many and short: distances and steps are fixed when
// they are compiled, so that a tile's sums are one run of instructions without a branch.

// At each of `positions`, whose matrices are a_plane, b_plane and out_plane apart:
// out[r][n] (+)= sum over runs and steps of a[r] b[n], where a[r] is a number at
// a + r kRow + run a_run + step kStep, b[n] a block of B numbers at
// b + n b_panel + (run steps + step) B and out[r][n] one at out + r B + n out_panel.
struct PositionProduct {
  std::int64_t positions;
  const float* a;
  std::int64_t a_plane;
  std::int64_t a_run;
  const float* b;
  std::int64_t b_plane;
  std::int64_t b_panel;
  float* out;
  std::int64_t out_plane;
  std::int64_t out_panel;
  std::int64_t runs;
  std::int64_t steps;
  bool add;
  Prefetcher* ahead;  // may be null
};

template <int kRow, int kStep>
struct PositionProducts {
  using L = Lanes<B>;

  static constexpr int kUnrolled = 8;

  template <int kRows, int kWidth>
  struct Sums {
    L of[kRows][kWidth];

    template <int kSteps>
    HWY_INLINE void Add(const float* a, const float* b, std::int64_t b_panel) {
      HWY_UNROLL(8)
      for (int step = 0; step < kSteps; ++step) {
        L blocks[kWidth];
        for (int n = 0; n < kWidth; ++n) blocks[n] = L::Load(b + step * B + n * b_panel);
        for (int r = 0; r < kRows; ++r) {
          const L factor = L::Set(a[r * kRow + step * kStep]);
          for (int n = 0; n < kWidth; ++n) of[r][n] = L::MulAdd(factor, blocks[n], of[r][n]);
        }
        // Else the compiler gathers the loads of all steps and runs out of registers.
        HWY_FENCE;
      }
    }
  };

  // `count` tiles of kRows x kWidth panels, one below the other, at every position.
  template <int kRows, int kWidth>
  static HWY_NOINLINE void Tiles(const PositionProduct& p, std::int64_t row, std::int64_t panel,
                                 std::int64_t count) {
    const float* a_position = p.a + row * kRow;
    const float* b_position = p.b + panel * p.b_panel;
    float* out_position = p.out + row * B + panel * p.out_panel;
    const std::int64_t b_panel = p.b_panel;
    const std::int64_t out_panel = p.out_panel;
    // For each tile, in proportion to its time: measured.
    const auto lines = static_cast<std::size_t>(std::max<std::int64_t>(4, p.runs * p.steps / 2));
    for (std::int64_t position = 0; position < p.positions; ++position) {
      const float* a_tile = a_position;
      float* out = out_position;
      for (std::int64_t tile = 0; tile < count; ++tile) {
        if (p.ahead != nullptr) p.ahead->Fetch(lines);
        Sums<kRows, kWidth> sums;
        for (int r = 0; r < kRows; ++r) {
          for (int n = 0; n < kWidth; ++n) sums.of[r][n] = L::Zero();
        }
        if (p.add) {
          for (int r = 0; r < kRows; ++r) {
            for (int n = 0; n < kWidth; ++n) {
              sums.of[r][n] = L::Load(out + r * B + n * out_panel);
            }
          }
        }
        const float* b = b_position;
        for (std::int64_t run = 0; run < p.runs; ++run) {
          const float* a = a_tile + run * p.a_run;
          std::int64_t step = 0;
          for (; step + kUnrolled <= p.steps; step += kUnrolled) {
            sums.template Add<kUnrolled>(a, b, b_panel);
            a += kUnrolled * kStep;
            b += kUnrolled * B;
          }
          for (; step < p.steps; ++step) {
            sums.template Add<1>(a, b, b_panel);
            a += kStep;
            b += B;
          }
        }
        for (int r = 0; r < kRows; ++r) {
          for (int n = 0; n < kWidth; ++n) sums.of[r][n].Store(out + r * B + n * out_panel);
        }
        a_tile += kRows * kRow;
        out += kRows * B;
      }
      a_position += p.a_plane;
      b_position += p.b_plane;
      out_position += p.out_plane;
    }
  }

  static void Multiply(const PositionProduct& p, std::int64_t rows, std::int64_t panels) {
    Tiling<PositionProducts>(rows, panels).Multiply(p);
  }
};

template <int M>
struct Winograd {
  using L = Lanes<B>;
  using ImageProducts = PositionProducts<B, 1>;   // rows are tiles, steps channels
  using WeightProducts = PositionProducts<1, B>;  // rows are channels, steps tiles

  static constexpr int kTaps = 9;
  static constexpr int kEdge = M + 2;
  static constexpr int kPositions = kEdge * kEdge;

  using Positions = std::array<L, kEdge>;  // a row or a column of a tile's positions
  using Pixels = std::array<L, M>;         // of a tile's outputs
  using Taps = std::array<L, 3>;

  // --- transforms of one dimension ---

  static constexpr float kRootHalf = 0.707106781F;  // the points of F(4x4), with their negatives
  static constexpr float kRootTwo = 1.41421356F;

  // a + factor b, and the two values even +- factor odd.
  static HWY_INLINE L Plus(const L& a, float factor, const L& b) {
    return L::MulAdd(L::Set(factor), b, a);
  }
  static HWY_INLINE void PlusMinus(const L& even, float factor, const L& odd, L& plus, L& minus) {
    plus = Plus(even, factor, odd);
    minus = Plus(even, -factor, odd);
  }

  static HWY_INLINE Positions Input(const Positions& d) {
    if constexpr (M == 2) {
      return {L::Sub(d[0], d[2]), L::Add(d[1], d[2]), L::Sub(d[2], d[1]), L::Sub(d[3], d[1])};
    } else {
      Positions v;
      v[0] = Plus(L::Add(d[0], d[4]), -2.5F, d[2]);
      PlusMinus(Plus(d[4], -2, d[2]), kRootHalf, Plus(d[3], -2, d[1]), v[1], v[2]);
      PlusMinus(Plus(d[4], -0.5F, d[2]), kRootTwo, Plus(d[3], -0.5F, d[1]), v[3], v[4]);
      v[5] = Plus(L::Add(d[1], d[5]), -2.5F, d[3]);
      return v;
    }
  }
  static HWY_INLINE Pixels Output(const Positions& m) {
    if constexpr (M == 2) {
      return {L::Add(m[0], L::Add(m[1], m[2])), L::Add(m[3], L::Sub(m[1], m[2]))};
    } else {
      const L even_half = L::Add(m[1], m[2]);
      const L odd_half = L::Sub(m[1], m[2]);
      const L even_two = L::Add(m[3], m[4]);
      const L odd_two = L::Sub(m[3], m[4]);
      return {L::Add(m[0], L::Add(even_half, even_two)),
              Plus(L::Mul(L::Set(kRootTwo), odd_two), kRootHalf, odd_half),
              Plus(L::Mul(L::Set(0.5F), even_half), 2, even_two),
              Plus(Plus(m[5], kRootHalf / 2, odd_half), 2 * kRootTwo, odd_two)};
    }
  }
  static HWY_INLINE Positions OutputGradient(const Pixels& y) {
    if constexpr (M == 2) {
      return {y[0], L::Add(y[0], y[1]), L::Sub(y[0], y[1]), y[1]};
    } else {
      Positions m;
      m[0] = y[0];
      PlusMinus(Plus(y[0], 0.5F, y[2]), kRootHalf, Plus(y[1], 0.5F, y[3]), m[1], m[2]);
      PlusMinus(Plus(y[0], 2, y[2]), kRootTwo, Plus(y[1], 2, y[3]), m[3], m[4]);
      m[5] = y[3];
      return m;
    }
  }
  static HWY_INLINE Positions Filter(const Taps& g) {
    if constexpr (M == 2) {
      const L half = L::Set(0.5F);
      const L even = L::Mul(half, L::Add(g[0], g[2]));
      const L odd = L::Mul(half, g[1]);
      return {g[0], L::Add(even, odd), L::Sub(even, odd), g[2]};
    } else {
      const L third = L::Mul(L::Set(1 / 3.0F), g[2]);
      Positions u;
      u[0] = g[0];
      PlusMinus(L::Sub(L::Mul(L::Set(-2 / 3.0F), g[0]), third), -2 / 3.0F * kRootHalf, g[1], u[1],
                u[2]);
      PlusMinus(Plus(third, 1 / 6.0F, g[0]), kRootTwo / 6, g[1], u[3], u[4]);
      u[5] = g[2];
      return u;
    }
  }
  static HWY_INLINE Taps FilterGradient(const Positions& m) {
    if constexpr (M == 2) {
      const L half = L::Set(0.5F);
      const L even = L::Mul(half, L::Add(m[1], m[2]));
      return {L::Add(m[0], even), L::Mul(half, L::Sub(m[1], m[2])), L::Add(even, m[3])};
    } else {
      const L even_half = L::Add(m[1], m[2]);
      const L even_two = L::Add(m[3], m[4]);
      return {Plus(Plus(m[0], -2 / 3.0F, even_half), 1 / 6.0F, even_two),
              Plus(L::Mul(L::Set(kRootTwo / 6), L::Sub(m[3], m[4])), -2 / 3.0F * kRootHalf,
                   L::Sub(m[1], m[2])),
              Plus(m[5], 1 / 3.0F, L::Sub(even_two, even_half))};
    }
  }

  // A tile, or a run of them, between its two transforms. In memory: vectors in arrays of arrays
  // would be copied in halves, for which the loads that follow have to wait.
  template <int kRows, int kColumns>
  struct Grid {
    HWY_INLINE void StoreColumn(std::int64_t w, const std::array<L, kRows>& column) {
      for (int h = 0; h < kRows; ++h) column[h].Store(values.data() + (h * kColumns + w) * B);
    }
    // kCount vectors of row `h` from column `w` on.
    template <int kCount = kColumns>
    HWY_INLINE std::array<L, kCount> LoadRow(int h, std::int64_t w = 0) const {
      std::array<L, kCount> row;
      for (int i = 0; i < kCount; ++i) {
        row[i] = L::Load(values.data() + (h * kColumns + w + i) * B);
      }
      return row;
    }

    alignas(64) std::array<float, kRows * kColumns * B> values;
  };

  // --- positions ---

  // The compiler would keep the distances of all positions and run out of registers; from a
  // pointer that it cannot see through it needs a few.
  template <class T>
  static HWY_INLINE T* Opaque(T* pointer) {
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
    asm("" : "+r"(pointer));  // NOLINT(hicpp-no-assembler)
#endif
    return pointer;
  }

  // The positions of a tile, `plane` apart.
  static HWY_INLINE void StoreRow(const Positions& row, std::int64_t plane, float* to) {
    for (int w = 0; w < kEdge; ++w) row[w].Store(to + w * plane);
  }
  static HWY_INLINE Positions LoadColumn(const float* from, std::int64_t plane) {
    Positions column;
    for (int h = 0; h < kEdge; ++h) column[h] = L::Load(from + h * kEdge * plane);
    return column;
  }

  // --- weights ---

  // U of B input channels and one block of output channels, whose taps have B rows of B output channels each;
  // `coming` is where a later block starts.
  static HWY_INLINE void FilterBlock(const float* taps, const float* coming, std::int64_t plane,
                                     float* u) {
    for (int c = 0; c < B; ++c) {
      // Waiting for these took most of the transform's time.
      PrefetchWeights(coming + c * kTaps * B, kTaps * B);
      Grid<kEdge, 3> columns;
      for (int w = 0; w < 3; ++w) {
        const float* tap = taps + (w * B + c) * B;
        columns.StoreColumn(
            w, Filter({L::Load(tap), L::Load(tap + 3 * B * B), L::Load(tap + 6 * B * B)}));
      }
      float* to = u + c * B;
      for (int h = 0; h < kEdge; ++h, to = Opaque(to + kEdge * plane)) {
        StoreRow(Filter(columns.LoadRow(h)), plane, to);
      }
    }
  }

  // kTurned: those of the input's gradient, where `s` has in and out exchanged already.
  template <bool kTurned>
  static HWY_NOINLINE void Filters(const WinogradShape& s, const WeightPiece& piece,
                                   const float* weights, float* u) {
    [[maybe_unused]] alignas(64) std::array<float, kTaps * B * B> turned;
    for (std::int64_t k = 0; k < piece.outs; k += B) {
      for (std::int64_t c = 0; c < piece.ins; c += B) {
        const std::int64_t first = kTurned ? (piece.in + c) * s.out_channels + (piece.out + k) * B
                                           : (piece.out + k) * s.in_channels + (piece.in + c) * B;
        const float* taps = weights + kTaps * first;
        const float* coming = taps + 2 * kTaps * B * (kTurned ? s.out_channels : B);
        if constexpr (kTurned) {
          for (int tap = 0; tap < kTaps; ++tap) {
            TransposeBlock(taps + tap * B * B, turned.data() + (kTaps - 1 - tap) * B * B);
          }
          taps = turned.data();
        }
        FilterBlock(taps, coming, s.filter_plane(), u + k * piece.ins + c * B);
      }
    }
  }

  // dw of a piece's weights from the gradient of its U.
  static HWY_NOINLINE void FilterGradients(const WinogradShape& s, const WeightPiece& piece,
                                           const float* du, float* dw,
                                           GradientConsumer<float>* consumer) {
    const std::int64_t plane = s.filter_plane();
    for (std::int64_t k = 0; k < piece.outs; k += B) {
      const std::int64_t first = kTaps * ((piece.out + k) * s.in_channels + piece.in * B);
      float* panel = consumer == nullptr ? dw + first : dw;
      for (std::int64_t c = 0; c < piece.ins; ++c) {
        const float* from = du + k * piece.ins + c * B;
        Grid<3, kEdge> columns;
        for (int w = 0; w < kEdge; ++w, from = Opaque(from + plane)) {
          columns.StoreColumn(w, FilterGradient(LoadColumn(from, plane)));
        }
        float* to = panel + kTaps * (c / B * B * B) + c % B * B;
        for (int h = 0; h < 3; ++h) {
          const Taps row = FilterGradient(columns.LoadRow(h));
          for (int w = 0; w < 3; ++w) row[w].Store(to + (3 * h + w) * B * B);
        }
      }
      if (consumer != nullptr) consumer->Take(first, kTaps * piece.ins * B, panel);
    }
  }

  // --- images ---

  // The pixels of one image of B channels.
  struct Image {
    const float* pixels;
    std::int64_t height;
    std::int64_t width;
  };

  // kCount rows of an image from `first` on, zero outside of it: rows out there read the same few
  // zeros all along.
  template <int kCount>
  class Rows {
   public:
    HWY_INLINE Rows(const Image& image, std::int64_t first) : width_(image.width) {
      for (int h = 0; h < kCount; ++h) {
        const std::int64_t row = first + h;
        const bool inside = row >= 0 && row < image.height;
        pixels_[h] = inside ? image.pixels + row * image.width * B : kZeros.data();
        masks_[h] = inside ? -1 : 0;
      }
    }

    HWY_INLINE std::array<L, kCount> Column(std::int64_t w) const {
      std::array<L, kCount> column;
      if (w < 0 || w >= width_) {
        column.fill(L::Zero());
      } else {
        for (int h = 0; h < kCount; ++h) column[h] = L::Load(pixels_[h] + (w * B & masks_[h]));
      }
      return column;
    }

   private:
    alignas(64) static constexpr std::array<float, B> kZeros{};

    std::int64_t width_;
    std::array<const float*, kCount> pixels_;
    std::array<std::int64_t, kCount> masks_;
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
                                    std::int64_t plane, float* v) {
    const Rows<kEdge> rows(image, M * row - 1);
    // Neighbours share two columns: those of a run of tiles are transformed first.
    constexpr int kRun = 8;
    Grid<kEdge, kRun * M + 2> columns;
    for (std::int64_t first = 0; first < tiles; first += kRun) {
      const std::int64_t run = std::min<std::int64_t>(kRun, tiles - first);
      for (std::int64_t w = 0; w < run * M + 2; ++w) {
        columns.StoreColumn(w, Input(rows.Column(first * M - 1 + w)));
      }
      for (std::int64_t t = 0; t < run; ++t) {
        float* to = v + (first + t) * B;
        for (int h = 0; h < kEdge; ++h, to = Opaque(to + kEdge * plane)) {
          StoreRow(Input(columns.template LoadRow<kEdge>(h, t * M)), plane, to);
        }
      }
    }
  }

  static HWY_NOINLINE std::int64_t InputBlock(const WinogradShape& s, std::int64_t first,
                                              const float* x, float* v) {
    return ForEachRow(s, first, [&](std::int64_t sample, std::int64_t row, std::int64_t tile) {
      for (std::int64_t c = 0; c < s.in_channels; c += B) {
        const Image image{x + (sample * s.in_channels + c) * s.height * s.width, s.height, s.width};
        InputRow(image, row, s.row_tiles(), s.in_plane(), v + c * s.block_tiles() + tile * B);
      }
    });
  }

  // Y of one row of tiles and one block of channels; `m` is the first tile's, `y` its first pixel.
  static HWY_NOINLINE void OutputRow(const float* m, std::int64_t plane, const L& offset,
                                     std::int64_t rows, std::int64_t width, float* y) {
    const std::int64_t row_size = width * B;
    for (std::int64_t w = 0; w < width; w += M, m += B, y += M * B) {
      const float* from = m;
      Grid<M, kEdge> columns;
      for (int i = 0; i < kEdge; ++i, from = Opaque(from + plane)) {
        columns.StoreColumn(i, Output(LoadColumn(from, plane)));
      }
      const bool whole = w + M <= width;
      for (int h = 0; h < M; ++h) {
        if (h == rows) break;
        const Pixels out = Output(columns.LoadRow(h));
        for (int i = 0; i < M; ++i) {
          if (whole || w + i < width) L::Add(out[i], offset).Store(y + h * row_size + i * B);
        }
      }
    }
  }

  static HWY_NOINLINE void OutputBlock(const WinogradShape& s, const WeightPiece& piece,
                                       std::int64_t first, const float* m, const float* bias,
                                       float* y) {
    const std::int64_t image = s.height * s.width;
    ForEachRow(s, first, [&](std::int64_t sample, std::int64_t row, std::int64_t tile) {
      for (std::int64_t k = 0; k < piece.outs; k += B) {
        const std::int64_t channel = piece.out + k;
        OutputRow(m + k * s.block_tiles() + tile * B, s.out_plane(),
                  bias == nullptr ? L::Zero() : L::Load(bias + channel),
                  std::min<std::int64_t>(s.height - M * row, M), s.width,
                  y + (sample * s.out_channels + channel) * image + M * row * s.width * B);
      }
    });
  }

  static HWY_NOINLINE void OutputGradientRow(const Image& image, std::int64_t row,
                                             std::int64_t plane, float* m) {
    const Rows<M> rows(image, M * row);
    for (std::int64_t w = 0; w < image.width; w += M, m += B) {
      Grid<kEdge, M> columns;
      for (int i = 0; i < M; ++i) columns.StoreColumn(i, OutputGradient(rows.Column(w + i)));
      float* to = m;
      for (int h = 0; h < kEdge; ++h, to = Opaque(to + kEdge * plane)) {
        StoreRow(OutputGradient(columns.LoadRow(h)), plane, to);
      }
    }
  }

  static HWY_NOINLINE void OutputGradientBlock(const WinogradShape& s, std::int64_t first,
                                               const float* dy, float* m) {
    ForEachRow(s, first, [&](std::int64_t sample, std::int64_t row, std::int64_t tile) {
      for (std::int64_t k = 0; k < s.out_channels; k += B) {
        const Image image{dy + (sample * s.out_channels + k) * s.height * s.width, s.height,
                          s.width};
        OutputGradientRow(image, row, s.out_plane(), m + k * s.block_tiles() + tile * B);
      }
    });
  }

  // --- the three convolutions ---

  // kTurned as in Filters.
  template <bool kTurned>
  static HWY_INLINE void Convolve(const WinogradShape& s, const float* x, const float* weights,
                                  const float* bias, float* y, float* workspace,
                                  Prefetcher* ahead) {
    float* u = workspace;
    float* v = workspace + kPositions * s.filter_plane();
    float* m = v + kPositions * s.in_plane();
    for (std::int64_t first = 0; first < s.microbatch * s.tile_rows(); first += s.block_rows()) {
      const std::int64_t tiles = InputBlock(s, first, x, v);
      ForEachPiece(s, s.out_piece(), s.in_piece(), [&](const WeightPiece& piece) {
        // Where there are several blocks of tiles, all weights are one piece.
        if (first == 0) Filters<kTurned>(s, piece, weights, u);
        ImageProducts::Multiply({.positions = kPositions,
                                 .a = v + piece.in * s.block_tiles(),
                                 .a_plane = s.in_plane(),
                                 .a_run = s.block_tiles() * B,
                                 .b = u,
                                 .b_plane = s.filter_plane(),
                                 .b_panel = piece.ins * B,
                                 .out = m,
                                 .out_plane = s.out_plane(),
                                 .out_panel = s.block_tiles() * B,
                                 .runs = piece.ins / B,
                                 .steps = B,
                                 .add = piece.in > 0,
                                 .ahead = ahead},
                                tiles, piece.outs / B);
        if (piece.in + piece.ins == s.in_channels) OutputBlock(s, piece, first, m, bias, y);
      });
    }
  }

  static void Forward(const WinogradShape& s, const float* x, const float* weights,
                      const float* bias, float* y, float* workspace, Prefetcher* ahead) {
    Convolve<false>(s, x, weights, bias, y, workspace, ahead);
  }

  static void BackwardInput(const WinogradShape& s, const float* dy, const float* weights,
                            float* dx, float* workspace, Prefetcher* ahead) {
    WinogradShape reverse = s;
    std::swap(reverse.in_channels, reverse.out_channels);
    Convolve<true>(reverse, dy, weights, nullptr, dx, workspace, ahead);
  }

  static void BackwardWeights(const WinogradShape& s, const float* x, const float* dy, float* dw,
                              float* workspace, Prefetcher* ahead,
                              GradientConsumer<float>* consumer) {
    float* du = workspace;
    float* v = workspace + kPositions * s.filter_plane();
    float* m = v + kPositions * s.in_plane();
    const std::int64_t end = s.microbatch * s.tile_rows();
    for (std::int64_t first = 0; first < end; first += s.block_rows()) {
      const std::int64_t tiles = InputBlock(s, first, x, v);
      OutputGradientBlock(s, first, dy, m);
      ForEachPiece(s, s.out_piece(), s.in_piece(), [&](const WeightPiece& piece) {
        for (std::int64_t c = 0; c < piece.ins; c += B) {
          WeightProducts::Multiply({.positions = kPositions,
                                    .a = v + (piece.in + c) * s.block_tiles(),
                                    .a_plane = s.in_plane(),
                                    .a_run = 0,
                                    .b = m + piece.out * s.block_tiles(),
                                    .b_plane = s.out_plane(),
                                    .b_panel = s.block_tiles() * B,
                                    .out = du + c * B,
                                    .out_plane = s.filter_plane(),
                                    .out_panel = piece.ins * B,
                                    .runs = 1,
                                    .steps = tiles,
                                    .add = first > 0,
                                    .ahead = ahead},
                                   B, piece.outs / B);
        }
        if (first + s.block_rows() >= end) FilterGradients(s, piece, du, dw, consumer);
      });
    }
  }
};

std::unique_ptr<Convolution<float>> MakeWinograd(const ConvolutionShape& convolution,
                                                 const WinogradShape& shape) {
  return shape.edge == 4 ? MakeKernelConvolution<Winograd<4>>(convolution, shape)
                         : MakeKernelConvolution<Winograd<2>>(convolution, shape);
}

}  // namespace HWY_NAMESPACE
}  // namespace batchless::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace batchless::training {
namespace {

HWY_EXPORT(MakeWinograd);

WinogradShape ShapeOf(const ConvolutionShape& shape, int edge) {
  return {.microbatch = shape.microbatch,
          .height = shape.layer.input.height,
          .width = shape.layer.input.width,
          .in_channels = RoundUp(shape.layer.input.channels, shape.input_block),
          .out_channels = RoundUp(shape.layer.output.channels, shape.output_block),
          .edge = edge};
}

}  // namespace

int WinogradEdge(const ConvolutionShape& shape) {
  const hwmodel::Layer& layer = shape.layer;
  if (layer.kernel != 3 || layer.stride != 1 || layer.padding != 1) return 0;
  if (shape.input_block != shape.output_block) return 0;
  // Few tiles do not pay for 16/9 or 4 times the weights to be written and read. Measured on AVX2 at
  // batch one (bench_convolution), speed relative to direct sums': F(2x2) 1.6 to 1.9 with 8x8 pixels,
  // 16 tiles; 1.3 with 4x4 pixels, 4 tiles; 0.7 with one tile. F(4x4) relative to F(2x2): 1.2 to 1.7
  // with 32x32 and 16x16 pixels, 64 and 16 tiles; 0.8 to 1.1 with 8x8 pixels, 4 tiles.
  // An image of 2x2 pixels fills a quarter of a tile of F(4x4), which takes 36 products for it, F(2x2) 16.
  const bool fills = std::max(layer.input.height, layer.input.width) > 2;
  if (fills && ShapeOf(shape, 4).tiles() >= 16) return 4;
  if (ShapeOf(shape, 2).tiles() >= 4) return 2;
  return 0;
}

std::unique_ptr<Convolution<float>> MakeWinogradConvolution(const ConvolutionShape& shape,
                                                            int edge) {
  return HWY_DYNAMIC_DISPATCH(MakeWinograd)(shape, ShapeOf(shape, edge));
}

}  // namespace batchless::training
#endif
