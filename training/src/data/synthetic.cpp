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
constexpr std::size_t kImageBytes = 3 * kPixels;
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

// Period 1, from -1 to 1: two parabolas in place of a sine.
double Wave(double phase) {
  const double shifted = phase + 1024;  // positive, so that the conversion rounds down
  const double t = shifted - static_cast<double>(static_cast<int>(shifted));
  return t < 0.5 ? 16 * t * (0.5 - t) : -16 * (t - 0.5) * (1 - t);
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

  double At(double x, double y) const {
    return Wave((x * along.x + y * along.y) * frequency + phase);
  }
};

// u and v in units of the radius; the areas are about the same.
bool IsInside(int shape, double u, double v) {
  const double square = u * u + v * v;
  const double big = std::max(std::abs(u), std::abs(v));
  const double small = std::min(std::abs(u), std::abs(v));
  switch (shape) {
    case 0:
      return square < 0.95;
    case 1:
      return big < 0.86;
    case 2: {
      // Equilateral: the distance from the middle to each of the three sides.
      constexpr double kHalfRoot3 = 0.8660254037844386;
      return v < 0.65 && kHalfRoot3 * u - 0.5 * v < 0.65 && -kHalfRoot3 * u - 0.5 * v < 0.65;
    }
    case 3:
      return square > 0.25 && square < 1.2;
    default:
      return small < 0.4 && big < 1.1;
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

  bool Covers(double px, double py) const {
    const double u = (px - x) * along.x + (py - y) * along.y;
    const double v = (py - y) * along.x - (px - x) * along.y;
    return std::abs(u) < half_length && std::abs(v) < half_width;
  }
};

// Nearly normal, mean 0 and standard deviation 1: four bytes sum to mean 510 and 147.8.
double Noise(CounterRandom& random) {
  const std::uint32_t bits = random.Next();
  const std::uint32_t sum = (bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24);
  return (static_cast<double>(sum) - 510) / 147.8;
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

  for (int i = 0; i < kPixels; ++i) {
    const int row = i / kImageSide;
    const double x = i % kImageSide + 0.5;
    const double y = row + 0.5;
    const double u = ((x - middle_x) * turn.x + (y - middle_y) * turn.y) / radius;
    const double v = ((y - middle_y) * turn.x - (x - middle_x) * turn.y) / radius;
    const Stripes& stripes = IsInside(shape, u, v) ? inside : background;
    const auto cover = std::find_if(clutter.begin(), clutter.end(),
                                    [&](const Clutter& piece) { return piece.Covers(x, y); });
    const double wave = cover == clutter.end() ? stripes.At(x, y) : 0;
    const Colour& colour = cover == clutter.end() ? stripes.middle : cover->colour;
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const double value = colour[channel] + wave * stripes.swing[channel] + noise * Noise(random);
      pixels[channel * kPixels + static_cast<std::size_t>(i)] =
          static_cast<std::uint8_t>(std::clamp(value + 0.5, 0.0, 255.0));
    }
  }
  return label;
}

std::int64_t CheckSize(const char* name, std::int64_t size) {
  if (size >= 1 && size <= kMaxSize) return size;
  throw analysis::InvalidArgument(name, std::to_string(size),
                                  "an integer from 1 to " + std::to_string(kMaxSize));
}

CounterRandom RandomOf(std::uint64_t seed, Split split, std::size_t sample) {
  return {seed, RandomStream::kSynthetic, sample, static_cast<std::uint32_t>(split)};
}

ByteDataset::Options SyntheticOptions() {
  return CifarShapedOptions("synthetic", {0.5F, 0.5F, 0.5F}, {0.275F, 0.275F, 0.275F});
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
      : ByteDataset(SyntheticOptions(), DrawLabels(kSyntheticSeed, split, size),
                    split == Split::kTrain
                        ? "f18b150226f6e33361076e4d75b525ea5f127d03fc60f4bd7d0f7122643b0f1b"
                        : "db5f6867510bf66b28b8782ddb391f0c9e71bcd198093886079bf16a0a40c763"),
        split_(split),
        pixels_(std::make_unique_for_overwrite<std::uint8_t[]>(size * kImageBytes)),
        is_drawn_(size) {}

 private:
  std::span<const std::uint8_t> Image(std::int64_t sample) const override {
    const auto i = static_cast<std::size_t>(sample);
    std::uint8_t* image = pixels_.get() + i * kImageBytes;
    std::call_once(is_drawn_[i], [&] { Draw(RandomOf(kSyntheticSeed, split_, i), image); });
    return {image, kImageBytes};
  }

  Split split_;
  std::unique_ptr<std::uint8_t[]> pixels_;  // of the images that were read
  mutable std::vector<std::once_flag> is_drawn_;
};

}  // namespace

std::shared_ptr<const Dataset> MakeSynthetic(std::uint64_t seed, Split split,
                                             std::int64_t train_size,
                                             std::int64_t validation_size) {
  const auto size = static_cast<std::size_t>(split == Split::kTrain
                                                 ? CheckSize("train_size", train_size)
                                                 : CheckSize("validation_size", validation_size));
  const std::int64_t default_size =
      split == Split::kTrain ? kSyntheticTrainSize : kSyntheticValidationSize;
  if (seed == kSyntheticSeed && static_cast<std::int64_t>(size) == default_size) {
    return std::make_shared<DefaultSynthetic>(split, size);
  }
  std::vector<int> labels(size);
  std::vector<std::uint8_t> pixels(size * kImageBytes);
  for (std::size_t i = 0; i < size; ++i) {
    labels[i] = Draw(RandomOf(seed, split, i), pixels.data() + i * kImageBytes);
  }
  return std::make_shared<ByteDataset>(SyntheticOptions(), labels, std::move(pixels));
}

}  // namespace batchless::training
