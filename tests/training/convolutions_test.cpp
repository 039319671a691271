// Our convolutions by themselves: sizes that no network here has, and rounding errors.
#include <algorithm>
#include <cmath>
#include <span>

#include "backends/direct_kernels.h"
#include "backends/small_image_kernels.h"
#include "backends/winograd_kernels.h"
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
  int kernel = 3;
  int stride = 1;
  int padding = 1;
};

hwmodel::Layer LayerOf(const Size& size) {
  hwmodel::Layer layer;
  layer.kind = hwmodel::LayerKind::kConvolution;
  layer.input = {size.in, size.height, size.width};
  const auto edge = [&](int in) { return (in + 2 * size.padding - size.kernel) / size.stride + 1; };
  layer.output = {size.out, edge(size.height), edge(size.width)};
  layer.kernel = size.kernel;
  layer.stride = size.stride;
  layer.padding = size.padding;
  layer.bias = true;
  return layer;
}

// Puts a gradient's pieces together.
template <class Real>
struct Collector final : GradientConsumer<Real> {
  explicit Collector(std::size_t size) : values(size, Real(1e30F)) {}

  void Take(std::int64_t first, std::int64_t size, const Real* gradient) override {
    REQUIRE(first + size <= static_cast<std::int64_t>(values.size()));
    std::copy_n(gradient, size, values.begin() + first);
    taken += size;
  }

  std::vector<Real> values;
  std::int64_t taken = 0;
};

// One convolution with its tensors in plain (n, c, h, w) order.
template <class Real>
class PlainConvolution {
 public:
  PlainConvolution(const ConvolutionShape& shape, std::unique_ptr<Convolution<Real>> convolution)
      : microbatch_(shape.microbatch),
        input_(LayoutOf(shape.layer.input, shape.input_block)),
        output_(LayoutOf(shape.layer.output, shape.output_block)),
        convolution_(std::move(convolution)),
        weight_(convolution_->weight_tensor()),
        workspace_(convolution_->workspace_size(), Real(1e30F)) {}

  Numbers Forward(const Numbers& x, const Numbers& w, const Numbers& bias) {
    const ValueLayout biases = LayoutOf({output_.shape.channels, 1, 1}, output_.block);
    std::vector<Real> y = Stored(output_);
    convolution_->Forward(Block(x, input_).data(), Packed(w).data(),
                          ToLayout<Real>(biases, 1, bias).data(), y.data(), workspace_.data(),
                          Ahead());
    return FromLayout(output_, microbatch_, y);
  }
  Numbers BackwardInput(const Numbers& dy, const Numbers& w) {
    std::vector<Real> dx = Stored(input_);
    convolution_->BackwardInput(Block(dy, output_).data(), Packed(w).data(), dx.data(),
                                workspace_.data(), Ahead());
    return FromLayout(input_, microbatch_, dx);
  }
  Numbers BackwardWeights(const Numbers& x, const Numbers& dy) {
    std::vector<Real> dw(weight_.stored_size, Real(1e30F));
    const std::vector<Real> input = Block(x, input_);
    const std::vector<Real> output = Block(dy, output_);
    convolution_->BackwardWeights(input.data(), output.data(), dw.data(), workspace_.data(),
                                  nullptr, nullptr);
    // The same bits in pieces, and while memory is fetched.
    Collector<Real> pieces(dw.size());
    std::vector<Real> scratch(weight_.stored_size, Real(1e30F));
    convolution_->BackwardWeights(input.data(), output.data(), scratch.data(), workspace_.data(),
                                  Ahead(), &pieces);
    CHECK(pieces.taken == static_cast<std::int64_t>(dw.size()));
    CHECK(pieces.values == dw);
    std::vector<Real> values(weight_.size());
    Unpack<Real>(weight_, dw.data(), values);
    return {values.begin(), values.end()};
  }

 private:
  // Something to fetch, from an odd place and of an odd size.
  Prefetcher* Ahead() {
    ahead_.Clear();
    const std::span<const std::byte> memory = std::as_bytes(std::span(fetched_));
    ahead_.Add(memory.subspan(1));
    ahead_.Add(memory.first(3));
    return &ahead_;
  }

  static ValueLayout LayoutOf(const hwmodel::FeatureShape& shape, int block) {
    return {.shape = shape,
            .block = block,
            .stored_size = RoundUp(shape.channels, block) * shape.pixels()};
  }
  std::vector<Real> Block(const Numbers& x, const ValueLayout& layout) const {
    return ToLayout<Real>(layout, microbatch_, x);
  }
  std::vector<Real> Stored(const ValueLayout& layout) const {
    return std::vector<Real>(microbatch_ * layout.stored_size, Real(1e30F));
  }
  std::vector<Real> Packed(const Numbers& w) const {
    const std::vector<Real> values(w.begin(), w.end());
    std::vector<Real> packed(weight_.stored_size);
    Pack<Real>(weight_, values, packed.data());
    return packed;
  }

  int microbatch_;
  ValueLayout input_;
  ValueLayout output_;
  std::unique_ptr<Convolution<Real>> convolution_;
  ParameterTensor weight_;
  Prefetcher ahead_;
  std::vector<float> fetched_ = std::vector<float>(1001);
  std::vector<Real> workspace_;
};

struct Results {
  Numbers y;
  Numbers dx;
  Numbers dw;
};

using RandomSource = Numbers (*)(std::int64_t, std::uint64_t);

template <class Real>
Results Run(const ConvolutionShape& shape, std::unique_ptr<Convolution<Real>> made,
            RandomSource numbers) {
  const hwmodel::Layer& layer = shape.layer;
  const auto size = [&](const hwmodel::FeatureShape& features) {
    return shape.microbatch * features.channels * features.pixels();
  };
  const Numbers x = numbers(size(layer.input), 1);
  const Numbers dy = numbers(size(layer.output), 2);
  const Numbers w = numbers(
      std::int64_t{layer.kernel} * layer.kernel * layer.input.channels * layer.output.channels, 3);
  PlainConvolution<Real> convolution(shape, std::move(made));
  Results results;
  results.y = convolution.Forward(x, w, numbers(layer.output.channels, 4));
  if (shape.input_block > 1 || std::is_same_v<Real, double>) {
    results.dx = convolution.BackwardInput(dy, w);
  }
  results.dw = convolution.BackwardWeights(x, dy);
  return results;
}

ConvolutionShape ShapeOf(const Size& size, int block) {
  return {.layer = LayerOf(size),
          .microbatch = size.microbatch,
          .input_block = block,
          .output_block = block};
}

Results RunDirect(const Size& size, RandomSource numbers) {
  const ConvolutionShape shape = ShapeOf(size, kBlock);
  return Run<float>(shape, MakeDirectConvolution(shape), numbers);
}

Results RunReference(const Size& size, RandomSource numbers) {
  const ConvolutionShape shape = ShapeOf(size, 1);
  return Run<double>(shape, MakeReferenceBackend<double>()->MakeConvolution(shape), numbers);
}

// Also for sizes that suit others better.
Results RunWinograd(const Size& size, int edge, RandomSource numbers) {
  const ConvolutionShape shape = ShapeOf(size, kBlock);
  return Run<float>(shape, MakeWinogradConvolution(shape, edge), numbers);
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

TEST_CASE("Winograd's convolutions of whole numbers", "[winograd]") {
  // Odd and even edges, single pixels, rows longer than a block of tiles, channels that are no
  // whole block, one sample and several in one block of tiles, weights that are read for more of them.
  for (const Size& size :
       {Size{8, 8, 1, 1, 1}, Size{8, 16, 2, 2, 1}, Size{16, 8, 1, 5, 2}, Size{24, 40, 5, 3, 1},
        Size{32, 16, 7, 7, 3}, Size{5, 11, 6, 4, 2}, Size{200, 150, 3, 4, 1},
        Size{16, 16, 3, 80, 1}, Size{16, 24, 33, 35, 1}, Size{64, 32, 8, 8, 2},
        Size{40, 72, 4, 4, 5}, Size{368, 360, 2, 1, 130}}) {
    const Results expected = RunReference(size, SmallIntegers);
    INFO(size.in << " to " << size.out << " channels, " << size.height << " x " << size.width
                 << ", micro-batch " << size.microbatch);
    const Results exact = RunWinograd(size, 2, SmallIntegers);
    CHECK(exact.y == expected.y);
    CHECK(exact.dx == expected.dx);
    CHECK(exact.dw == expected.dw);
    // F(4x4) has roots in it. A wrong term of the smallest sums here would be of the order of 1.
    const Results rounded = RunWinograd(size, 4, SmallIntegers);
    CHECK(RelativeError(rounded.y, expected.y) < 2e-6);
    CHECK(RelativeError(rounded.dx, expected.dx) < 2e-6);
    CHECK(RelativeError(rounded.dw, expected.dw) < 2e-6);
  }
}

TEST_CASE("Direct convolutions of whole numbers are exact", "[direct]") {
  // Strides that divide the edges and that do not, kernels above and below the stride, pixels that
  // no output sees, no padding and more than half a kernel, edges of one pixel; so many channels that an image is
  // taken in patches, of lines and of a line.
  for (const Size& size :
       {Size{8, 8, 1, 1, 1}, Size{16, 24, 5, 3, 2}, Size{24, 40, 8, 8, 1, 3, 2, 1},
        Size{8, 16, 7, 9, 2, 3, 2, 1}, Size{40, 8, 6, 6, 1, 1, 2, 0}, Size{16, 8, 5, 5, 3, 1, 1, 0},
        Size{5, 11, 9, 11, 2, 5, 3, 0}, Size{8, 8, 12, 10, 1, 3, 4, 0},
        Size{16, 16, 11, 9, 1, 7, 2, 3}, Size{8, 24, 4, 6, 2, 2, 1, 1},
        Size{8, 8, 3, 3, 1, 3, 1, 2}, Size{72, 48, 4, 4, 1}, Size{528, 80, 9, 17, 1, 1, 1, 0},
        Size{72, 528, 13, 9, 1, 1, 2, 0}, Size{528, 8, 12, 11, 1}, Size{8, 528, 12, 11, 2},
        Size{8, 24, 5, 4, 2, 1, 1, 1}}) {
    const Results expected = RunReference(size, SmallIntegers);
    INFO(size.in << " to " << size.out << " channels, " << size.height << " x " << size.width
                 << ", micro-batch " << size.microbatch << ", kernel " << size.kernel << ", stride "
                 << size.stride << ", padding " << size.padding);
    const Results actual = RunDirect(size, SmallIntegers);
    CHECK(actual.y == expected.y);
    CHECK(actual.dx == expected.dx);
    CHECK(actual.dw == expected.dw);
    // As a first layer: the input in planes, its gradient not asked for.
    ConvolutionShape first = ShapeOf(size, kBlock);
    first.input_block = 1;
    const Results planar = Run<float>(first, MakeDirectConvolution(first), SmallIntegers);
    CHECK(planar.y == expected.y);
    CHECK(planar.dw == expected.dw);
  }
}

TEST_CASE("Convolutions of small images of whole numbers are exact", "[small_image]") {
  for (const Size& size : {Size{8, 8, 2, 2, 1}, Size{16, 48, 4, 4, 1}, Size{5, 11, 2, 2, 1},
                           Size{11, 5, 4, 4, 1}, Size{200, 24, 2, 2, 1}, Size{24, 200, 4, 4, 1}}) {
    const Results expected = RunReference(size, SmallIntegers);
    INFO(size.in << " to " << size.out << " channels, " << size.height << " x " << size.width);
    const ConvolutionShape shape = ShapeOf(size, kBlock);
    const Results actual = Run<float>(shape, MakeSmallImageConvolution(shape), SmallIntegers);
    CHECK(actual.y == expected.y);
    CHECK(actual.dx == expected.dx);
    CHECK(actual.dw == expected.dw);
  }
}

TEST_CASE("Each layer gets the kernels that do it fastest", "[winograd][small_image]") {
  ConvolutionShape shape = ShapeOf({64, 64, 8, 8, 1}, kBlock);
  CHECK(WinogradEdge(shape) == 2);
  const auto change = [&](auto edit) {
    ConvolutionShape changed = shape;
    edit(changed);
    return WinogradEdge(changed);
  };
  CHECK(change([](ConvolutionShape& s) { s.layer.stride = 2; }) == 0);
  CHECK(change([](ConvolutionShape& s) { s.layer.kernel = 1; }) == 0);
  CHECK(change([](ConvolutionShape& s) { s.layer.padding = 0; }) == 0);
  CHECK(change([](ConvolutionShape& s) { s.input_block = 1; }) == 0);
  CHECK(SuitsSmallImage(ShapeOf({512, 512, 2, 2, 1}, kBlock)));
  CHECK(SuitsSmallImage(ShapeOf({256, 512, 4, 4, 1}, kBlock)));
  CHECK(!SuitsSmallImage(ShapeOf({512, 512, 2, 2, 2}, kBlock)));
  CHECK(!SuitsSmallImage(ShapeOf({512, 512, 2, 4, 1}, kBlock)));
  CHECK(!SuitsSmallImage(ShapeOf({64, 64, 8, 8, 1}, kBlock)));
  CHECK(!SuitsSmallImage(ShapeOf({64, 64, 4, 4, 1, 3, 2, 1}, kBlock)));
  CHECK(!SuitsSmallImage(ShapeOf({64, 64, 4, 4, 1, 1, 1, 0}, kBlock)));
  // Few tiles do not pay; several samples have more.
  CHECK(WinogradEdge(ShapeOf({512, 512, 2, 2, 1}, kBlock)) == 0);
  CHECK(WinogradEdge(ShapeOf({512, 512, 2, 2, 4}, kBlock)) == 2);
  CHECK(WinogradEdge(ShapeOf({512, 512, 2, 2, 128}, kBlock)) == 2);
  CHECK(WinogradEdge(ShapeOf({512, 512, 4, 4, 1}, kBlock)) == 2);
  CHECK(WinogradEdge(ShapeOf({512, 512, 4, 4, 16}, kBlock)) == 4);
  CHECK(WinogradEdge(ShapeOf({16, 16, 15, 13, 1}, kBlock)) == 4);
}

TEST_CASE("Winograd's rounding errors stay near those of direct sums", "[winograd]") {
  for (const Size& size :
       {Size{16, 16, 32, 32, 1}, Size{64, 64, 8, 8, 1}, Size{256, 256, 4, 4, 1}}) {
    const Results exact = RunReference(size, RandomNumbers);
    const Results direct = RunDirect(size, RandomNumbers);
    const Results fast = RunWinograd(size, 2, RandomNumbers);
    const Results faster = RunWinograd(size, 4, RandomNumbers);
    INFO(size.in << " channels, " << size.height << " x " << size.width);
    const auto check = [&](Numbers Results::*pass) {
      const double error = RelativeError(fast.*pass, exact.*pass);
      // In theory about twice; measured 0.7 to 2.0 times, by how each orders its sums.
      CHECK(error < 3 * RelativeError(direct.*pass, exact.*pass));
      // Measured 1.6 to 3.4 times; with +-1 and +-2 as points it would be twice as much.
      CHECK(RelativeError(faster.*pass, exact.*pass) < 4 * error);
    };
    check(&Results::y);
    check(&Results::dx);
    check(&Results::dw);
    // The methods are not one and the same.
    CHECK(fast.y != direct.y);
    CHECK(faster.y != fast.y);
  }
}

}  // namespace
}  // namespace batchless::training
