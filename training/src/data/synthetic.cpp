// A class is a shape and the direction of the stripes in it, label = 2 * shape + direction:
//
//   shape       0 disc, 1 square, 2 triangle, 3 ring, 4 cross
//   direction   0 upright, 1 lying; turned by up to 20 degrees
//
// Everything else is drawn anew for each image and says nothing about the class: the shape's place,
// size and turn, the period and phase of its stripes, all colours, a background with stripes of its
// own in any direction, pieces of clutter that may cover the shape, and noise. So no pixel, colour or
// frequency tells classes apart; edges, their arrangement, and what is inside do.
//
// Only +, -, *, / and sqrt on doubles, which IEEE 754 rounds the same everywhere, and integers: the
// bytes do not depend on the machine or its mathematics library.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "batchless/analysis/argument.h"
#include "batchless/training/dataset.h"
#include "data/byte_dataset.h"

namespace batchless::training {
namespace {

constexpr std::int64_t kMaxSize = 10'000'000;
constexpr int kImageSide = 32;
constexpr int kPixels = kImageSide * kImageSide;
constexpr std::size_t kStoredBytes = 3 * kPixels;
constexpr int kDirections = 2;
constexpr int kShapes = 10;

// Difficulty, in grey levels and pieces: a network should learn within a few thousand samples that
// the stripes matter, and still be getting better at shapes after some tens of thousands, so that
// good training differs from bad. Weak stripes everywhere keep a ResNet-20 at chance for epochs; even
// noise and little clutter let it reach 95 % in 8 epochs of 5,000. Noise that varies between images
// leaves easy ones to start with and hard ones to the end.
constexpr double kLeastNoise = 10;  // standard deviation on each value, one for each image
constexpr double kMostNoise = 50;
constexpr double kLeastContrast = 40;
constexpr double kMostContrast = 90;
constexpr double kMostBackgroundContrast = 10;
constexpr std::uint32_t kMostClutter = 4;

using Colour = std::array<double, 3>;

struct Direction {
  double x;
  double y;
};

double Between(CounterRandom& random, double low, double high) {
  return low + (high - low) * random.Uniform();
}

Colour DrawColour(CounterRandom& random) {
  return {Between(random, 20, 235), Between(random, 20, 235), Between(random, 20, 235)};
}

// Uniform over the circle, without a sine: a point of the disc, moved out to its edge.
Direction DrawDirection(CounterRandom& random) {
  for (;;) {
    const double x = Between(random, -1, 1);
    const double y = Between(random, -1, 1);
    const double square = x * x + y * y;
    if (square > 1 || square < 1e-4) continue;
    const double length = std::sqrt(square);
    return {x / length, y / length};
  }
}

// Near one of the axes: turned by up to 20 degrees, whose tangent is 0.364.
Direction DrawNear(CounterRandom& random, double x, double y) {
  const double slope = Between(random, -0.364, 0.364);
  const double length = std::sqrt(1 + slope * slope);
  return {(x - slope * y) / length, (y + slope * x) / length};
}

// A colour that a plane wave changes.
struct Stripes {
  Direction along;
  double frequency;  // waves in one pixel
  double phase;
  Colour middle;
  Colour swing;

  Stripes(CounterRandom& random, Direction direction, double contrast)
      : along(direction),
        frequency(1 / Between(random, 4, 6.5)),
        phase(random.Uniform()),
        middle(DrawColour(random)) {
    for (double& value : swing) value = contrast * Between(random, 0.5, 1.5);
  }
};

// The pixels of one row. What is computed for all of them is a loop without a branch and a choice between two
// numbers that are there, which compilers turn into vectors; the bits are those of a pixel at a time.
using Row = std::array<double, kImageSide>;

template <typename Value>
Row ForEachPixel(Value value) {
  Row values;
  for (std::size_t i = 0; i < kImageSide; ++i) values[i] = value(i);
  return values;
}

constexpr Row kXs = [] {
  Row xs{};
  for (std::size_t i = 0; i < kImageSide; ++i) xs[i] = static_cast<double>(i) + 0.5;
  return xs;
}();

// A wave of period 1, from -1 to 1: two parabolas in place of a sine.
Row Waves(const Stripes& stripes, double y) {
  const Row t = ForEachPixel([&](std::size_t i) {
    const double phase =
        (kXs[i] * stripes.along.x + y * stripes.along.y) * stripes.frequency + stripes.phase;
    const double shifted = phase + 1024;  // positive, so that the conversion rounds down
    return shifted - static_cast<double>(static_cast<int>(shifted));
  });
  const Row first = ForEachPixel([&](std::size_t i) { return 16 * t[i] * (0.5 - t[i]); });
  const Row second = ForEachPixel([&](std::size_t i) { return -16 * (t[i] - 0.5) * (1 - t[i]); });
  return ForEachPixel([&](std::size_t i) { return t[i] < 0.5 ? first[i] : second[i]; });
}

// 1 inside a shape and 0 outside, of u and v in units of the radius; the areas are about the same.
Row Inside(int shape, const Row& us, const Row& vs) {
  const auto where = [&](auto is_inside) {
    return ForEachPixel([&](std::size_t i) { return is_inside(us[i], vs[i]) ? 1.0 : 0.0; });
  };
  const auto square = [](double u, double v) { return u * u + v * v; };
  const auto big = [](double u, double v) { return std::max(std::abs(u), std::abs(v)); };
  const auto small = [](double u, double v) { return std::min(std::abs(u), std::abs(v)); };
  switch (shape) {
    case 0:
      return where([&](double u, double v) { return square(u, v) < 0.95; });
    case 1:
      return where([&](double u, double v) { return big(u, v) < 0.86; });
    case 2:
      // Equilateral: the distance from the middle to each of the three sides.
      return where([](double u, double v) {
        constexpr double kHalfRoot3 = 0.8660254037844386;
        return (v < 0.65) && (kHalfRoot3 * u - 0.5 * v < 0.65) &&
               (-kHalfRoot3 * u - 0.5 * v < 0.65);
      });
    case 3:
      return where(
          [&](double u, double v) { return (square(u, v) > 0.25) && (square(u, v) < 1.2); });
    default:
      return where([&](double u, double v) { return (small(u, v) < 0.4) && (big(u, v) < 1.1); });
  }
}

struct Clutter {
  double x;
  double y;
  Direction along;
  double half_length;
  double half_width;
  Colour colour;

  explicit Clutter(CounterRandom& random)
      : x(Between(random, 0, kImageSide)),
        y(Between(random, 0, kImageSide)),
        along(DrawDirection(random)),
        half_length(Between(random, 2, 8)),
        half_width(Between(random, 0.6, 2.5)),
        colour(DrawColour(random)) {}

  // No row beyond has a pixel of it.
  bool Reaches(double py) const { return std::abs(py - y) < half_length + half_width; }

  bool Covers(double px, double py) const {
    const double u = (px - x) * along.x + (py - y) * along.y;
    const double v = (py - y) * along.x - (px - x) * along.y;
    return std::abs(u) < half_length && std::abs(v) < half_width;
  }
};

// Nearly normal, mean 0 and standard deviation 1: four bytes sum to mean 510 and 147.8.
double Noise(std::uint32_t bits) {
  const std::uint32_t sum = (bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24);
  return (static_cast<double>(static_cast<int>(sum)) - 510) / 147.8;
}

int DrawLabel(CounterRandom& random) { return static_cast<int>(random.Below(kShapes)); }

int Draw(CounterRandom random, std::uint8_t* pixels) {
  const int label = DrawLabel(random);
  const int shape = label / kDirections;
  const Direction any = DrawDirection(random);
  const Stripes background(random, any, Between(random, 0, kMostBackgroundContrast));
  const bool lying = label % kDirections == 1;
  const Direction chosen = DrawNear(random, lying ? 0 : 1, lying ? 1 : 0);
  const Stripes inside(random, chosen, Between(random, kLeastContrast, kMostContrast));
  const double noise = Between(random, kLeastNoise, kMostNoise);
  const double radius = Between(random, 6, 11);
  const double middle_x = Between(random, 10, kImageSide - 10);
  const double middle_y = Between(random, 10, kImageSide - 10);
  const Direction turn = DrawNear(random, 1, 0);
  std::vector<Clutter> clutter;
  for (std::uint32_t i = random.Below(kMostClutter + 1); i > 0; --i) clutter.emplace_back(random);

  for (int row = 0; row < kImageSide; ++row) {
    const double y = row + 0.5;
    const Row us = ForEachPixel([&](std::size_t i) {
      return ((kXs[i] - middle_x) * turn.x + (y - middle_y) * turn.y) / radius;
    });
    const Row vs = ForEachPixel([&](std::size_t i) {
      return ((y - middle_y) * turn.x - (kXs[i] - middle_x) * turn.y) / radius;
    });
    const Row is_inside = Inside(shape, us, vs);
    const Row inner = Waves(inside, y);
    const Row outer = Waves(background, y);
    std::array<Row, 3> colours;
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const Row in = ForEachPixel(
          [&](std::size_t i) { return inside.middle[channel] + inner[i] * inside.swing[channel]; });
      const Row out = ForEachPixel([&](std::size_t i) {
        return background.middle[channel] + outer[i] * background.swing[channel];
      });
      colours[channel] =
          ForEachPixel([&](std::size_t i) { return is_inside[i] > 0 ? in[i] : out[i]; });
    }
    // The first of the pieces lies on top.
    for (auto piece = clutter.rbegin(); piece != clutter.rend(); ++piece) {
      if (!piece->Reaches(y)) continue;
      for (std::size_t i = 0; i < kImageSide; ++i) {
        if (!piece->Covers(kXs[i], y)) continue;
        for (std::size_t channel = 0; channel < 3; ++channel) {
          colours[channel][i] = piece->colour[channel];
        }
      }
    }
    std::array<std::array<std::uint32_t, kImageSide>, 3> bits;
    for (std::size_t i = 0; i < kImageSide; ++i) {
      for (auto& of_channel : bits) of_channel[i] = random.Next();
    }
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const Row values = ForEachPixel([&](std::size_t i) {
        return colours[channel][i] + noise * Noise(bits[channel][i]) + 0.5;
      });
      std::uint8_t* const line =
          pixels + channel * kPixels + static_cast<std::size_t>(row) * kImageSide;
      for (std::size_t i = 0; i < kImageSide; ++i) {
        line[i] = static_cast<std::uint8_t>(static_cast<int>(std::clamp(values[i], 0.0, 255.0)));
      }
    }
  }
  return label;
}

CounterRandom RandomOf(std::uint64_t seed, Split split, std::size_t sample) {
  return {seed, RandomStream::kSynthetic, sample, static_cast<std::uint32_t>(split)};
}

ByteDataset::Content SyntheticContent(std::vector<int> labels, std::string digest = {}) {
  return CifarShaped("synthetic", {0.5F, 0.5F, 0.5F}, {0.275F, 0.275F, 0.275F}, std::move(labels),
                     std::move(digest));
}

std::vector<int> DrawLabels(std::uint64_t seed, Split split, std::size_t size) {
  std::vector<int> labels(size);
  for (std::size_t i = 0; i < size; ++i) {
    CounterRandom random = RandomOf(seed, split, i);
    labels[i] = DrawLabel(random);
  }
  return labels;
}

// The set that the program takes where it is told nothing. Its digest is known, so an image is drawn
// when it is first read, and a short run draws few of them.
class DefaultSynthetic final : public ByteDataset {
 public:
  DefaultSynthetic(Split split, std::size_t size)
      : ByteDataset(SyntheticContent(
                        DrawLabels(kSyntheticSeed, split, size),
                        split == Split::kTrain
                            ? "f18b150226f6e33361076e4d75b525ea5f127d03fc60f4bd7d0f7122643b0f1b"
                            : "db5f6867510bf66b28b8782ddb391f0c9e71bcd198093886079bf16a0a40c763"),
                    kCifarPadding, /*mirror=*/true, {}),
        split_(split),
        pixels_(std::make_unique_for_overwrite<std::uint8_t[]>(size * kStoredBytes)),
        is_drawn_(size) {}

 private:
  std::span<const std::uint8_t> Image(std::int64_t sample) const override {
    const auto i = static_cast<std::size_t>(sample);
    std::uint8_t* image = pixels_.get() + i * kStoredBytes;
    std::call_once(is_drawn_[i], [&] { Draw(RandomOf(kSyntheticSeed, split_, i), image); });
    return {image, kStoredBytes};
  }

  Split split_;
  std::unique_ptr<std::uint8_t[]> pixels_;  // of the images that were read
  mutable std::vector<std::once_flag> is_drawn_;
};

}  // namespace

std::shared_ptr<const Dataset> MakeSynthetic(std::uint64_t seed, Split split,
                                             std::int64_t train_size,
                                             std::int64_t validation_size) {
  const bool is_train = split == Split::kTrain;
  const std::int64_t wanted = is_train ? train_size : validation_size;
  analysis::CheckInteger(is_train ? "train_size" : "validation_size", wanted, 1, kMaxSize);
  const auto size = static_cast<std::size_t>(wanted);
  if (seed == kSyntheticSeed &&
      wanted == (is_train ? kSyntheticTrainSize : kSyntheticValidationSize)) {
    return std::make_shared<DefaultSynthetic>(split, size);
  }
  std::vector<int> labels(size);
  std::vector<std::uint8_t> pixels(size * kStoredBytes);
  for (std::size_t i = 0; i < size; ++i) {
    labels[i] = Draw(RandomOf(seed, split, i), pixels.data() + i * kStoredBytes);
  }
  return std::make_shared<ByteDataset>(SyntheticContent(std::move(labels)), kCifarPadding,
                                       /*mirror=*/true, std::move(pixels));
}

}  // namespace batchless::training
