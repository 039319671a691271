// Winograd's convolutions by themselves: sizes that no network here has, and rounding errors.
#include <cmath>

#include "backends/winograd_convolution.h"
#include "batchless/training/backend.h"
#include "catch.h"
#include "stage_harness.h"

namespace batchless::training {
namespace {

struct Size {
  int in;
  int out;
  int height;
  int width;
  int microbatch;
};

hwmodel::Layer LayerOf(const Size& size) {
  hwmodel::Layer layer;
  layer.kind = hwmodel::LayerKind::kConvolution;
  layer.input = {size.in, size.height, size.width};
  layer.output = {size.out, size.height, size.width};
  layer.kernel = 3;
  layer.padding = 1;
  layer.bias = true;
  return layer;
}

// One convolution with its tensors in plain (n, c, h, w) order.
template <class Real>
class PlainConvolution {
 public:
  PlainConvolution(const Size& size, int block, std::unique_ptr<Convolution<Real>> convolution)
      : size_(size),
        block_(block),
        convolution_(std::move(convolution)),
        weight_(convolution_->weight_tensor()),
        workspace_(convolution_->workspace_size(), Real(1e30F)) {}

  Numbers Forward(const Numbers& x, const Numbers& w, const Numbers& bias) {
    const std::vector<Real> stored_bias = Block({bias}, 1, size_.out, 1);
    std::vector<Real> y(Stored(size_.out), Real(1e30F));
    convolution_->Forward(Block(x, size_.in).data(), Packed(w).data(), stored_bias.data(), y.data(),
                          workspace_.data());
    return Plain(y, size_.out);
  }
  Numbers BackwardInput(const Numbers& dy, const Numbers& w) {
    std::vector<Real> dx(Stored(size_.in), Real(1e30F));
    convolution_->BackwardInput(Block(dy, size_.out).data(), Packed(w).data(), dx.data(),
                                workspace_.data());
    return Plain(dx, size_.in);
  }
  Numbers BackwardWeights(const Numbers& x, const Numbers& dy) {
    std::vector<Real> dw(weight_.stored_size, Real(1e30F));
    convolution_->BackwardWeights(Block(x, size_.in).data(), Block(dy, size_.out).data(), dw.data(),
                                  workspace_.data());
    std::vector<Real> values(weight_.size());
    Unpack<Real>(weight_, dw.data(), values);
    return {values.begin(), values.end()};
  }

 private:
  std::int64_t pixels() const { return std::int64_t{size_.height} * size_.width; }
  std::int64_t Stored(int channels) const {
    return size_.microbatch * RoundUp(channels, block_) * pixels();
  }
  std::int64_t Position(std::int64_t n, std::int64_t c, std::int64_t pixel, int channels,
                        std::int64_t image) const {
    return (n * RoundUp(channels, block_) + c / block_ * block_) * image + pixel * block_ +
           c % block_;
  }
  std::vector<Real> Block(const Numbers& x, int channels) const {
    return Block(x, size_.microbatch, channels, pixels());
  }
  std::vector<Real> Block(const Numbers& x, std::int64_t samples, int channels,
                          std::int64_t image) const {
    std::vector<Real> blocks(samples * RoundUp(channels, block_) * image);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto c = static_cast<std::int64_t>(i) / image % channels;
      blocks[Position(static_cast<std::int64_t>(i) / image / channels, c,
                      static_cast<std::int64_t>(i) % image, channels, image)] =
          static_cast<Real>(x[i]);
    }
    return blocks;
  }
  Numbers Plain(const std::vector<Real>& blocks, int channels) const {
    Numbers x(size_.microbatch * channels * pixels());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i) / pixels();
      x[i] = blocks[Position(row / channels, row % channels,
                             static_cast<std::int64_t>(i) % pixels(), channels, pixels())];
    }
    return x;
  }
  std::vector<Real> Packed(const Numbers& w) const {
    const std::vector<Real> values(w.begin(), w.end());
    std::vector<Real> packed(weight_.stored_size);
    Pack<Real>(weight_, values, packed.data());
    return packed;
  }

  Size size_;
  int block_;
  std::unique_ptr<Convolution<Real>> convolution_;
  ParameterTensor weight_;
  std::vector<Real> workspace_;
};

struct Results {
  Numbers y;
  Numbers dx;
  Numbers dw;
};

using RandomSource = Numbers (*)(std::int64_t, std::uint64_t);

template <class Real>
Results Run(const Size& size, int block, std::unique_ptr<Convolution<Real>> made,
            RandomSource numbers) {
  const std::int64_t images = std::int64_t{size.microbatch} * size.height * size.width;
  const Numbers x = numbers(images * size.in, 1);
  const Numbers dy = numbers(images * size.out, 2);
  const Numbers w = numbers(std::int64_t{9} * size.in * size.out, 3);
  PlainConvolution<Real> convolution(size, block, std::move(made));
  return {convolution.Forward(x, w, numbers(size.out, 4)), convolution.BackwardInput(dy, w),
          convolution.BackwardWeights(x, dy)};
}

ConvolutionShape ShapeOf(const Size& size, int block) {
  return {.layer = LayerOf(size),
          .microbatch = size.microbatch,
          .input_block = block,
          .output_block = block};
}

Results RunReference(const Size& size, RandomSource numbers) {
  return Run<double>(size, 1, MakeReferenceBackend<double>()->MakeConvolution(ShapeOf(size, 1)),
                     numbers);
}

// Also for sizes that suit oneDNN better.
Results RunWinograd(const Size& size, int block, RandomSource numbers) {
  return Run<float>(size, block, MakeWinogradConvolution(ShapeOf(size, block)), numbers);
}

TEST_CASE("Winograd's convolutions of whole numbers are exact", "[winograd]") {
  // Odd and even edges, single pixels, rows longer than a block of tiles, channels that are no
  // whole block, one sample and several in one block of tiles.
  for (const Size& size :
       {Size{8, 8, 1, 1, 1}, Size{8, 16, 2, 2, 1}, Size{16, 8, 1, 5, 2}, Size{24, 40, 5, 3, 1},
        Size{32, 16, 7, 7, 3}, Size{5, 11, 6, 4, 2}, Size{16, 16, 3, 80, 1},
        Size{16, 24, 33, 35, 1}, Size{64, 32, 8, 8, 2}, Size{40, 72, 4, 4, 5}}) {
    const Results expected = RunReference(size, SmallIntegers);
    for (const int block : {8, 16}) {
      INFO(size.in << " to " << size.out << " channels, " << size.height << " x " << size.width
                   << ", micro-batch " << size.microbatch << ", block " << block);
      const Results actual = RunWinograd(size, block, SmallIntegers);
      CHECK(actual.y == expected.y);
      CHECK(actual.dx == expected.dx);
      CHECK(actual.dw == expected.dw);
    }
  }
}

TEST_CASE("Winograd's kernels take the layers that they can do and do faster", "[winograd]") {
  ConvolutionShape shape = ShapeOf({64, 64, 8, 8, 1}, 16);
  CHECK(SuitsWinograd(shape));
  const auto change = [&](auto edit) {
    ConvolutionShape changed = shape;
    edit(changed);
    return SuitsWinograd(changed);
  };
  CHECK(!change([](ConvolutionShape& s) { s.layer.stride = 2; }));
  CHECK(!change([](ConvolutionShape& s) { s.layer.kernel = 1; }));
  CHECK(!change([](ConvolutionShape& s) { s.layer.padding = 0; }));
  CHECK(!change([](ConvolutionShape& s) { s.input_block = 1; }));
  // Few tiles do not pay; several samples have more.
  CHECK(!SuitsWinograd(ShapeOf({512, 512, 4, 4, 1}, 16)));
  CHECK(SuitsWinograd(ShapeOf({512, 512, 4, 4, 4}, 16)));
}

double RelativeError(const Numbers& actual, const Numbers& expected) {
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(error / norm);
}

TEST_CASE("Winograd's rounding errors stay near those of direct sums", "[winograd]") {
  for (const Size& size :
       {Size{16, 16, 32, 32, 1}, Size{64, 64, 8, 8, 1}, Size{256, 256, 4, 4, 1}}) {
    // The same numbers for both sides: single precision holds them.
    const auto numbers = [](std::int64_t count, std::uint64_t seed) {
      Numbers rounded = RandomNumbers(count, seed);
      for (double& number : rounded) number = static_cast<float>(number);
      return rounded;
    };
    const auto onednn = MakeVectorBackend(0, ConvolutionMethod::kOneDnn);
    const int block = onednn->block();
    const Results exact = RunReference(size, +numbers);
    const Results direct =
        Run<float>(size, block, onednn->MakeConvolution(ShapeOf(size, block)), +numbers);
    const Results fast = RunWinograd(size, block, +numbers);
    INFO(size.in << " channels, " << size.height << " x " << size.width);
    // In theory about twice; measured 0.7 to 2.0 times, by how each orders its sums.
    CHECK(RelativeError(fast.y, exact.y) < 3 * RelativeError(direct.y, exact.y));
    CHECK(RelativeError(fast.dx, exact.dx) < 3 * RelativeError(direct.dx, exact.dx));
    CHECK(RelativeError(fast.dw, exact.dw) < 3 * RelativeError(direct.dw, exact.dw));
    // The two methods are not one and the same.
    CHECK(fast.y != direct.y);
  }
}

}  // namespace
}  // namespace batchless::training
