#include "batchless/training/sample_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <thread>

#include "catch.h"
#include "refusal.h"
#include "temporary_folder.h"

namespace batchless::training {
namespace {

using test::Bytes;
using test::TemporaryFolder;

constexpr int kSamples = 50;

std::shared_ptr<const Dataset> Set() { return MakeSynthetic(5, Split::kTrain, kSamples); }

std::shared_ptr<const Dataset> Digits() {
  const TemporaryFolder folder;
  Bytes images = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 28, 0, 0, 0, 28};
  for (int i = 0; i < 2 * 784; ++i) images.push_back(static_cast<std::uint8_t>(i * 37 + 1));
  folder.Write("mnist/train-images-idx3-ubyte", images);
  folder.Write("mnist/train-labels-idx1-ubyte", Bytes{0, 0, 8, 1, 0, 0, 0, 2, 3, 4});
  return LoadMnist(folder.path(), Split::kTrain);
}

std::vector<float> Image(const DatasetSource& source, std::int64_t position) {
  std::vector<float> image(static_cast<std::size_t>(source.dataset().shape().size()));
  source.Read(position, image);
  return image;
}

std::vector<std::int64_t> EpochOrder(const DatasetSource& source, std::int64_t epoch) {
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < source.epoch_size(); ++i) {
    const Sample sample = source.At(epoch * source.epoch_size() + i);
    CHECK(sample.epoch == epoch);
    CHECK(sample.label == source.dataset().label(sample.index));
    order.push_back(sample.index);
  }
  return order;
}

// The whole pipeline once more, the long way: pixel by pixel, through coordinates.
std::vector<float> NaiveImage(const Dataset& dataset, std::uint64_t seed, const Sample& sample,
                              int padding, bool mirrors) {
  const int height = dataset.shape().height;
  const int width = dataset.shape().width;
  Bytes pixels(static_cast<std::size_t>(dataset.shape().size()));
  dataset.Read(sample.index, pixels);
  CounterRandom random(seed, RandomStream::kAugmentation, static_cast<std::uint64_t>(sample.index),
                       static_cast<std::uint32_t>(sample.epoch));
  const int top = static_cast<int>(random.Below(static_cast<std::uint32_t>(2 * padding + 1)));
  const int left = static_cast<int>(random.Below(static_cast<std::uint32_t>(2 * padding + 1)));
  const bool mirrored = mirrors && random.Below(2) == 1;

  // The image in black up to the padding, with any coordinates.
  const auto padded = [&](int channel, int y, int x) {
    const bool outside = y < 0 || y >= height || x < 0 || x >= width;
    const int place = (channel * height + y) * width + x;
    return outside ? std::uint8_t{0} : pixels[static_cast<std::size_t>(place)];
  };
  std::vector<float> image;
  for (int channel = 0; channel < dataset.shape().channels; ++channel) {
    const float mean = dataset.mean()[static_cast<std::size_t>(channel)];
    const float standard_deviation =
        dataset.standard_deviation()[static_cast<std::size_t>(channel)];
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const int column = mirrored ? width - 1 - x : x;
        const float pixel = padded(channel, y + top - padding, column + left - padding);
        image.push_back((pixel / 255.0F - mean) / standard_deviation);
      }
    }
  }
  return image;
}

TEST_CASE("Every epoch holds every sample once, in an order of its own") {
  const DatasetSource source(Set(), {11, Order::kShuffled, false, 0});
  std::set<std::vector<std::int64_t>> orders;
  for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
    std::vector<std::int64_t> order = EpochOrder(source, epoch);
    orders.insert(order);
    std::sort(order.begin(), order.end());
    for (std::int64_t i = 0; i < kSamples; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
  }
  CHECK(orders.size() == 5);
  const DatasetSource other(Set(), {12, Order::kShuffled, false, 0});
  CHECK(orders.count(EpochOrder(other, 0)) == 0);
}

TEST_CASE("The order is the shuffle of Fisher and Yates") {
  std::vector<std::int64_t> expected(kSamples);
  std::iota(expected.begin(), expected.end(), 0);
  CounterRandom random(11, RandomStream::kOrder, 3);
  for (std::size_t left = kSamples; left > 1; --left) {
    const std::size_t chosen = random.Below(static_cast<std::uint32_t>(left));
    std::swap(expected[left - 1], expected[chosen]);
  }
  const DatasetSource source(Set(), {11, Order::kShuffled, false, 0});
  CHECK(EpochOrder(source, 3) == expected);
}

// Each of the 24 orders of four samples: chi-squared with 23 degrees of freedom is above 64 once in
// 100,000 times.
TEST_CASE("All orders are equally likely") {
  const DatasetSource source(Set(), {1, Order::kShuffled, false, 4});
  constexpr int kEpochs = 2400;
  std::map<std::vector<std::int64_t>, int> counts;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) ++counts[EpochOrder(source, epoch)];
  CHECK(counts.size() == 24);
  double chi_squared = 0;
  for (const auto& [order, count] : counts) chi_squared += std::pow(count - 100.0, 2) / 100;
  CHECK(chi_squared < 64);
}

TEST_CASE("Sequential order without augmentation is sample p mod n, as it is stored") {
  const auto set = Set();
  const DatasetSource source(set, {11, Order::kSequential, false, 7});
  CHECK(source.epoch_size() == 7);
  Bytes pixels(3072);
  for (std::int64_t p = 0; p < 20; ++p) {
    CHECK(source.At(p) == Sample{p % 7, set->label(p % 7), p / 7});
    const std::vector<float> image = Image(source, p);
    set->Read(p % 7, pixels);
    for (std::size_t k = 0; k < image.size(); k += 5) {
      const std::size_t channel = k / 1024;
      CHECK(image[k] == (static_cast<float>(pixels[k]) / 255.0F - set->mean()[channel]) /
                            set->standard_deviation()[channel]);
    }
  }
}

TEST_CASE("A limit takes the first samples of the set") {
  const DatasetSource source(Set(), {11, Order::kShuffled, false, 7});
  std::vector<std::int64_t> order = EpochOrder(source, 2);
  std::sort(order.begin(), order.end());
  CHECK(order == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("Crop and mirror are those of the padded image, bit for bit") {
  for (const auto& [set, padding, mirrors] :
       {std::tuple(Set(), 4, true), std::tuple(Digits(), 2, false)}) {
    INFO(set->name());
    const DatasetSource source(set, {13, Order::kShuffled, true, 0});
    const DatasetSource plain(set, {13, Order::kShuffled, false, 0});
    int changed = 0;
    for (std::int64_t p = 0; p < 6 * set->size(); ++p) {
      const std::vector<float> image = Image(source, p);
      CHECK(source.At(p) == plain.At(p));
      CHECK(image == NaiveImage(*set, 13, source.At(p), padding, mirrors));
      changed += image != Image(plain, p) ? 1 : 0;
    }
    CHECK(changed > 0);
  }
}

TEST_CASE("Augmentation differs between epochs and between samples") {
  const DatasetSource source(Set(), {17, Order::kSequential, true, 1});
  std::set<std::vector<float>> images;
  for (std::int64_t epoch = 0; epoch < 2000; ++epoch) images.insert(Image(source, epoch));
  // 9 x 9 crops, mirrored or not; one of them is missed in 2000 draws once in 1,500 times.
  CHECK(images.size() == 162);
}

TEST_CASE("Any thread reads any position, in any order, with the same bits") {
  const auto set = Set();
  constexpr std::int64_t kPositions = 8 * kSamples;
  const DatasetSourceOptions options = {19, Order::kShuffled, true, 0};
  std::vector<std::vector<float>> expected;
  for (std::int64_t p = 0; p < kPositions; ++p) {
    // A new source each time remembers nothing.
    expected.push_back(Image(DatasetSource(set, options), p));
  }
  const DatasetSource source(set, options);
  constexpr int kThreads = 4;
  std::array<int, kThreads> wrong = {};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::vector<float> image(3072);
      for (std::int64_t i = 0; i < kPositions; ++i) {
        // Forwards, backwards and in leaps over epochs.
        const std::int64_t p = thread == 0   ? i
                               : thread == 1 ? kPositions - 1 - i
                                             : (i * (97 + 2 * thread)) % kPositions;
        source.Read(p, image);
        if (image != expected[static_cast<std::size_t>(p)])
          ++wrong.at(static_cast<std::size_t>(thread));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) CHECK(count == 0);
}

TEST_CASE("Arguments out of range are refused by name") {
  CHECK(test::RefusedName([] {
          DatasetSource(Set(), {1, Order::kShuffled, false, -1});
        }) == "limit");
  CHECK(test::RefusedName([] {
          DatasetSource(Set(), {1, Order::kShuffled, false, kSamples + 1});
        }) == "limit");
  const DatasetSource source(Set(), {1, Order::kShuffled, false, kSamples});
  CHECK(test::RefusedName([&] { source.At(-1); }) == "position");
  CHECK(test::RefusedName([&] { source.At(std::int64_t{kSamples} << 32); }) == "position");
  std::vector<float> image(3071);
  CHECK(test::RefusedName([&] { source.Read(0, image); }) == "image");
}

}  // namespace
}  // namespace batchless::training
