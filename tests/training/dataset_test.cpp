#include "batchless/training/dataset.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

// Needs cstdio.
#include <jpeglib.h>

#include "batchless/analysis/argument.h"
#include "batchless/training/data_error.h"
#include "batchless/training/sha256.h"
#include "catch.h"
#include "temporary_folder.h"

namespace batchless::training {
namespace {

namespace fs = std::filesystem;
using analysis::InvalidArgument;
using test::Bytes;
using test::TemporaryFolder;

const char* const kBatch1 = "cifar-10-batches-bin/data_batch_1.bin";
const char* const kBatch2 = "cifar-10-batches-bin/data_batch_2.bin";
const char* const kTestBatch = "cifar-10-batches-bin/test_batch.bin";
constexpr std::size_t kRecord = 3073;

// A byte that tells which sample and which place of it this is.
std::uint8_t Pixel(std::size_t sample, std::size_t place) {
  return static_cast<std::uint8_t>(7 * sample + 3 * place + place / 256);
}

Bytes CifarRecords(const std::vector<int>& labels, std::size_t first_sample = 0) {
  Bytes bytes;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    bytes.push_back(static_cast<std::uint8_t>(labels[i]));
    for (std::size_t k = 0; k < kRecord - 1; ++k) bytes.push_back(Pixel(first_sample + i, k));
  }
  return bytes;
}

Bytes Idx(const std::vector<std::uint32_t>& lengths, const Bytes& data) {
  Bytes bytes = {0, 0, 8, static_cast<std::uint8_t>(lengths.size())};
  for (const std::uint32_t length : lengths) {
    for (const int shift : {24, 16, 8, 0})
      bytes.push_back(static_cast<std::uint8_t>(length >> shift));
  }
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

Bytes MnistImages(std::size_t count) {
  Bytes data;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < 784; ++k) data.push_back(Pixel(i, k));
  }
  return Idx({static_cast<std::uint32_t>(count), 28, 28}, data);
}

Bytes Gzip(const Bytes& bytes) {
  z_stream stream = {};
  // 16 above the window's size asks for gzip's header.
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  Bytes packed(deflateBound(&stream, bytes.size()));
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

Bytes Cut(Bytes bytes, std::size_t size) {
  bytes.resize(size);
  return bytes;
}

Bytes Jpeg(int width, int height, const Bytes& rgb) {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 100, TRUE);
  // Colours at full resolution.
  info.comp_info[0].h_samp_factor = 1;
  info.comp_info[0].v_samp_factor = 1;
  jpeg_start_compress(&info, TRUE);
  Bytes copy = rgb;
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = copy.data() + std::size_t{3} * info.next_scanline * info.image_width;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const std::unique_ptr<unsigned char, decltype(&std::free)> owner(memory, &std::free);
  return Bytes(memory, memory + size);
}

Bytes FlatJpeg(int width, int height, std::array<std::uint8_t, 3> colour) {
  Bytes rgb;
  for (int i = 0; i < width * height; ++i) rgb.insert(rgb.end(), colour.begin(), colour.end());
  return Jpeg(width, height, rgb);
}

Bytes Read(const Dataset& dataset, std::int64_t sample) {
  Bytes pixels(static_cast<std::size_t>(dataset.shape().size()));
  dataset.Read(sample, pixels);
  return pixels;
}

// `read` has to end with a DataError for `file` (and `record`, where that is not -1) in one line
// that holds `reason`.
void CheckRefused(const std::function<void()>& read, const fs::path& file, std::int64_t record,
                  const std::string& reason) {
  try {
    read();
    FAIL("accepted; expected: " << file << ": " << reason);
  } catch (const DataError& error) {
    const std::string line = error.what();
    INFO(line);
    CHECK(error.file() == file);
    CHECK(error.record().value_or(-1) == record);
    CHECK(error.reason().find(reason) != std::string::npos);
    std::string name = file.string();
    std::replace(name.begin(), name.end(), '\n', '?');
    CHECK(line.starts_with(name + ": "));
    CHECK(line.ends_with(error.reason()));
    CHECK(line.find('\n') == std::string::npos);
  }
}

// Moments of data sets are written with four digits.
constexpr double kWrittenDigits = 0.51e-4;

void CheckMoments(const Dataset& dataset, double margin) {
  const std::int64_t channel_size = dataset.shape().size() / dataset.shape().channels;
  std::vector<std::uint64_t> sums(dataset.mean().size());
  std::vector<std::uint64_t> squares(dataset.mean().size());
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const Bytes pixels = Read(dataset, i);
    for (std::size_t k = 0; k < pixels.size(); ++k) {
      const std::size_t channel = k / static_cast<std::size_t>(channel_size);
      const std::uint64_t pixel = pixels[k];
      sums[channel] += pixel;
      squares[channel] += pixel * pixel;
    }
  }
  const double count = static_cast<double>(dataset.size() * channel_size);
  for (std::size_t channel = 0; channel < sums.size(); ++channel) {
    const double mean = static_cast<double>(sums[channel]) / count / 255;
    const double square = static_cast<double>(squares[channel]) / count / 255 / 255;
    CHECK(dataset.mean()[channel] == Approx(mean).margin(margin));
    CHECK(dataset.standard_deviation()[channel] ==
          Approx(std::sqrt(square - mean * mean)).margin(margin));
  }
}

std::vector<int> CountLabels(const Dataset& dataset) {
  std::vector<int> counts(static_cast<std::size_t>(dataset.classes()));
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    ++counts.at(static_cast<std::size_t>(dataset.label(i)));
  }
  return counts;
}

TEST_CASE("SHA-256 gives the known answers of its standard", "[sha256]") {
  CHECK(Sha256().HexDigest() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 sha256;
  sha256.Update("a");
  sha256.Update("");
  sha256.Update("bc");
  CHECK(sha256.HexDigest() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("CIFAR-10's records come in the order of files and records") {
  const TemporaryFolder folder;
  folder.Write(kBatch1, CifarRecords({3, 0, 9}));
  folder.Write(kTestBatch, CifarRecords({5}, 10));
  const auto check = [&](const std::vector<int>& labels) {
    const auto train = LoadCifar10(folder.path(), Split::kTrain);
    CHECK(train->name() == "cifar10");
    CHECK(train->shape() == ImageShape{3, 32, 32});
    CHECK(train->classes() == 10);
    REQUIRE(train->size() == static_cast<std::int64_t>(labels.size()));
    for (std::size_t i = 0; i < labels.size(); ++i) {
      CHECK(train->label(static_cast<std::int64_t>(i)) == labels[i]);
      const Bytes pixels = Read(*train, static_cast<std::int64_t>(i));
      std::size_t wrong = 0;
      for (std::size_t k = 0; k < pixels.size(); ++k) wrong += pixels[k] != Pixel(i, k);
      CHECK(wrong == 0);
    }
  };
  check({3, 0, 9});
  folder.Write(kBatch2, CifarRecords({1, 2}, 3));
  check({3, 0, 9, 1, 2});

  const auto validation = LoadCifar10(folder.path(), Split::kValidation);
  CHECK(validation->size() == 1);
  CHECK(validation->label(0) == 5);
  CHECK(Read(*validation, 0)[100] == Pixel(10, 100));
  Sha256 sha256;
  sha256.Update(std::as_bytes(std::span<const std::uint8_t>(CifarRecords({5}, 10))));
  CHECK(validation->digest() == sha256.HexDigest());
}

TEST_CASE("CIFAR-10's files are refused with file, record and reason") {
  const TemporaryFolder folder;
  const auto train = [&] { LoadCifar10(folder.path(), Split::kTrain); };
  const auto validation = [&] { LoadCifar10(folder.path(), Split::kValidation); };
  CheckRefused(train, folder.path() / kBatch1, -1, "no such file");
  CheckRefused(validation, folder.path() / kTestBatch, -1, "no such file");
  folder.Write(kBatch1, {});
  CheckRefused(train, folder.path() / kBatch1, -1, "empty");
  folder.Write(kBatch1, Cut(CifarRecords({1, 2}), kRecord + 100));
  CheckRefused(train, folder.path() / kBatch1, 1, "truncated, 100 of 3073 bytes");
  folder.Write(kBatch1, Cut(CifarRecords({1}), kRecord - 1));
  CheckRefused(train, folder.path() / kBatch1, 0, "truncated");
  folder.Write(kBatch1, CifarRecords({1, 2, 10}));
  CheckRefused(train, folder.path() / kBatch1, 2, "label is 10");
  folder.Write(kBatch1, CifarRecords({1}));
  folder.Write(kBatch2, CifarRecords({255}));
  CheckRefused(train, folder.path() / kBatch2, 0, "label is 255");
  // Fewer files are a smaller set; one from among them is not.
  folder.Write(kBatch2, CifarRecords({2}));
  folder.Write("cifar-10-batches-bin/data_batch_5.bin", CifarRecords({3}));
  CheckRefused(train, folder.path() / "cifar-10-batches-bin/data_batch_3.bin", -1,
               "missing, but there is data_batch_5.bin");
  fs::create_directory(folder.path() / kTestBatch);
  CheckRefused(validation, folder.path() / kTestBatch, -1, "no regular file");
  CheckRefused([&] { LoadCifar10(folder.path() / "no\nfolder", Split::kTrain); },
               folder.path() / "no\nfolder" / kBatch1, -1, "no such file");
}

TEST_CASE("MNIST's files are read plain and packed") {
  const TemporaryFolder plain;
  plain.Write("mnist/train-images-idx3-ubyte", MnistImages(3));
  plain.Write("mnist/train-labels-idx1-ubyte", Idx({3}, {4, 0, 9}));
  const TemporaryFolder packed;
  packed.Write("mnist/train-images-idx3-ubyte.gz", Gzip(MnistImages(3)));
  packed.Write("mnist/train-labels-idx1-ubyte.gz", Gzip(Idx({3}, {4, 0, 9})));
  for (const TemporaryFolder* folder : {&plain, &packed}) {
    const auto train = LoadMnist(folder->path(), Split::kTrain);
    CHECK(train->name() == "mnist");
    CHECK(train->shape() == ImageShape{1, 28, 28});
    REQUIRE(train->size() == 3);
    CHECK(train->label(0) == 4);
    CHECK(train->label(2) == 9);
    const Bytes pixels = Read(*train, 2);
    for (std::size_t k = 0; k < pixels.size(); k += 13) CHECK(pixels[k] == Pixel(2, k));
  }
  CHECK(LoadMnist(plain.path(), Split::kTrain)->digest() ==
        LoadMnist(packed.path(), Split::kTrain)->digest());
}

TEST_CASE("MNIST's files are refused with file, record and reason") {
  const TemporaryFolder folder;
  const char* const kImages = "mnist/t10k-images-idx3-ubyte";
  const char* const kLabels = "mnist/t10k-labels-idx1-ubyte";
  const auto refused = [&](const std::string& name, std::int64_t record,
                           const std::string& reason) {
    CheckRefused([&] { LoadMnist(folder.path(), Split::kValidation); }, folder.path() / name,
                 record, reason);
  };
  const Bytes images = MnistImages(2);
  refused(kImages, -1, "no such file");
  folder.Write(kImages, Cut(images, 15));
  refused(kImages, -1, "header is truncated");
  folder.Write(kImages, Idx({2}, {1, 2}));
  refused(kImages, -1, "header is truncated");
  folder.Write(kImages, Idx({20}, Bytes(20)));
  refused(kImages, -1, "magic number");
  folder.Write(kImages, Idx({1, 32, 32}, Bytes(1024)));
  refused(kImages, -1, "28x28: 32");
  folder.Write(kImages, Idx({0, 28, 28}, {}));
  refused(kImages, -1, "nothing in it");
  folder.Write(kImages, Cut(images, images.size() - 1));
  refused(kImages, 1, "truncated, the header says 2x28x28");
  folder.Write(kImages, Idx({0xffffffff, 28, 28}, Bytes(100)));
  refused(kImages, 0, "truncated");
  folder.Write(kImages, Cut(images, images.size() + 1));
  refused(kImages, -1, "longer than the 2x28x28");
  folder.Write(kImages, images);
  refused(kLabels, -1, "no such file");
  folder.Write(kLabels, Idx({3}, {1, 2, 3}));
  refused(kLabels, -1, "3 labels for the 2 images");
  folder.Write(kLabels, Idx({2}, {1, 10}));
  refused(kLabels, 1, "label is 10");

  const std::string packed = std::string(kImages) + ".gz";
  fs::remove(folder.path() / kImages);
  folder.Write(packed, Cut(Gzip(images), 100));
  refused(packed, -1, "gzip file is truncated");
  Bytes damaged = Gzip(images);
  // The check sum of the unpacked bytes.
  damaged[damaged.size() - 6] ^= 1;
  folder.Write(packed, damaged);
  refused(packed, -1, "gzip file is damaged");
}

TEST_CASE("Folders of images: names give order and classes, labels agree between the splits") {
  const TemporaryFolder folder;
  const Bytes red = FlatJpeg(40, 30, {200, 30, 60});
  const Bytes blue = FlatJpeg(30, 40, {10, 20, 220});
  folder.Write("train/b/2.jpg", red);
  folder.Write("train/b/1.JPEG", blue);
  folder.Write("train/b/notes.txt", blue);
  folder.Write("train/a/9.jpeg", blue);
  folder.Write("train/.hidden/1.jpg", blue);
  folder.Write("val/b/x.JPG", red);
  const auto train = OpenImageFolder(folder.path(), Split::kTrain, 24);
  const auto validation = OpenImageFolder(folder.path(), Split::kValidation, 24);
  CHECK(train->shape() == ImageShape{3, 24, 24});
  CHECK(train->classes() == 2);
  REQUIRE(train->size() == 3);
  CHECK(train->label(0) == 0);
  CHECK(train->label(1) == 1);
  CHECK(train->label(2) == 1);
  REQUIRE(validation->size() == 1);
  CHECK(validation->classes() == 2);
  CHECK(validation->label(0) == 1);
  Sha256 sha256;
  sha256.Update("b/x.JPG 1 " + std::to_string(red.size()) + "\n");
  CHECK(validation->digest() == sha256.HexDigest());

  // One colour everywhere stays that colour, up to what JPEG makes of it.
  constexpr int kJpegError = 2;
  const auto check = [](const Bytes& pixels, const std::array<int, 3>& colour) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      for (std::size_t k = 0; k < 576; ++k) {
        const int difference = pixels[channel * 576 + k] - colour.at(channel);
        if (std::abs(difference) > kJpegError) FAIL("channel " << channel << ": " << difference);
      }
    }
  };
  check(Read(*train, 0), {10, 20, 220});
  check(Read(*train, 1), {10, 20, 220});
  check(Read(*train, 2), {200, 30, 60});
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CounterRandom random(seed, RandomStream::kAugmentation, 0);
    Bytes pixels(3 * 576);
    train->ReadAugmented(2, random, pixels);
    check(pixels, {200, 30, 60});
  }
}

TEST_CASE("Folders of images: validation sees the middle 7/8, training parts of either hand") {
  const TemporaryFolder folder;
  // Red grows by 2 with each column, green by 2 with each row.
  const int width = 112;
  const int height = 64;
  Bytes rgb;
  for (int i = 0; i < width * height; ++i) {
    rgb.push_back(static_cast<std::uint8_t>(2 * (i % width)));
    rgb.push_back(static_cast<std::uint8_t>(2 * (i / width)));
    rgb.push_back(100);
  }
  folder.Write("train/a/1.jpg", Jpeg(width, height, rgb));
  const int size = 28;
  const auto train = OpenImageFolder(folder.path(), Split::kTrain, size);
  // 56 pixels in the middle, two of them for one of the result.
  const Bytes pixels = Read(*train, 0);
  const auto at = [&](const Bytes& image, int channel, int y, int x) {
    const int place = (channel * size + y) * size + x;
    return static_cast<int>(image[static_cast<std::size_t>(place)]);
  };
  constexpr int kJpegError = 3;
  for (int k = 0; k < size; ++k) {
    // The mean of a ramp is the ramp: pixel i is 2 i, and its middle lies at i + 1/2.
    CHECK(std::abs(at(pixels, 0, 13, k) - (2 * (28 + 2 * k) + 1)) <= kJpegError);
    CHECK(std::abs(at(pixels, 1, k, 13) - (2 * (4 + 2 * k) + 1)) <= kJpegError);
  }

  int mirrored = 0;
  double least_slope = 1e9;
  double most_slope = 0;
  for (std::uint32_t epoch = 0; epoch < 200; ++epoch) {
    CounterRandom random(1, RandomStream::kAugmentation, 0, epoch);
    Bytes part(static_cast<std::size_t>(3 * size * size));
    train->ReadAugmented(0, random, part);
    const double across = (at(part, 0, 14, 22) - at(part, 0, 14, 5)) / (2 * 17.0);
    const double down = (at(part, 1, 22, 14) - at(part, 1, 5, 14)) / (2 * 17.0);
    mirrored += across < 0 ? 1 : 0;
    // Slopes are columns (rows) of the photograph in one of the result, so this is the share of the
    // area and that is the aspect.
    const double area = std::abs(across) * down * size * size / (width * height);
    const double aspect = std::abs(across) / down;
    CHECK(area > 0.08 * 0.8);
    CHECK(area < 1.05);
    CHECK(aspect > 0.75 * 0.85);
    CHECK(aspect < 1.34 * 1.15);
    least_slope = std::min(least_slope, down);
    most_slope = std::max(most_slope, down);
  }
  // Five standard deviations of 200 coins.
  CHECK(std::abs(mirrored - 100) < 36);
  CHECK(most_slope > 2 * least_slope);
}

TEST_CASE("Folders of images leave out what is hidden or no picture, and count it") {
  const TemporaryFolder folder;
  const Bytes good = FlatJpeg(50, 50, {1, 2, 3});
  for (const char* name : {"train/a/1.jpg", "train/a/2.Jpg", "train/b/3.jPEG", "val/a/1.jpg"}) {
    folder.Write(name, good);
  }
  // As macOS and Windows leave them; the first is no JPEG but for its name.
  folder.Write("train/a/._1.jpg", Bytes{0, 5, 22, 7});
  folder.Write("train/a/.DS_Store", Bytes{0});
  folder.Write("train/b/Thumbs.db", Bytes{0});
  const auto train = OpenImageFolder(folder.path(), Split::kTrain, 8);
  CHECK(train->size() == 3);
  CHECK(train->left_out() == 3);
  for (std::int64_t i = 0; i < train->size(); ++i) CHECK(Read(*train, i).size() == 192);
  CHECK(OpenImageFolder(folder.path(), Split::kValidation, 8)->left_out() == 0);

  // A class that has files and no pictures, in either split.
  folder.Write("val/b/3.png", good);
  CheckRefused([&] { OpenImageFolder(folder.path(), Split::kValidation, 8); },
               folder.path() / "val" / "b", -1, "1 of 1 files are none");
  fs::remove(folder.path() / "train/b/3.jPEG");
  CheckRefused([&] { OpenImageFolder(folder.path(), Split::kTrain, 8); },
               folder.path() / "train" / "b", -1, "there is no picture of this class");
}

TEST_CASE("Folders of images are refused with file and reason") {
  const TemporaryFolder folder;
  const auto open = [&] { OpenImageFolder(folder.path(), Split::kTrain, 8); };
  CheckRefused(open, folder.path() / "train", -1, "no such folder");
  fs::create_directory(folder.path() / "train");
  CheckRefused(open, folder.path() / "train", -1, "no folder of a class");
  fs::create_directory(folder.path() / "train" / "a");
  CheckRefused(open, folder.path() / "train" / "a", -1, "there is no picture of this class");
  const Bytes good = FlatJpeg(50, 50, {1, 2, 3});
  folder.Write("train/a/1.jpg", good);
  folder.Write("val/b/1.jpg", good);
  CheckRefused([&] { OpenImageFolder(folder.path(), Split::kValidation, 8); },
               folder.path() / "val" / "b", -1, "no such class");
  for (const int size : {0, -1, 4097}) {
    CHECK_THROWS_AS(OpenImageFolder(folder.path(), Split::kTrain, size), InvalidArgument);
  }

  const auto refused = [&](const Bytes& bytes, const std::string& reason) {
    folder.Write("train/a/1.jpg", bytes);
    CheckRefused([&] { Read(*OpenImageFolder(folder.path(), Split::kTrain, 8), 0); },
                 folder.path() / "train/a/1.jpg", -1, reason);
  };
  refused({}, "empty");
  refused({'B', 'M', 1, 2, 3, 4}, "JPEG: ");
  for (const std::size_t size :
       {std::size_t{3}, std::size_t{20}, good.size() / 2, good.size() - 3}) {
    refused(Cut(good, size), "JPEG: ");
  }
  // Whatever is damaged, reading ends with pixels or a DataError.
  Bytes damaged = good;
  for (std::size_t i = 0; i < good.size(); ++i) {
    damaged[i] ^= 0x55;
    folder.Write("train/a/1.jpg", damaged);
    try {
      Read(*OpenImageFolder(folder.path(), Split::kTrain, 8), 0);
    } catch (const DataError&) {
    }
    damaged[i] = good[i];
  }
  // The last test of the loop would pass on a reader that refuses everything.
  folder.Write("train/a/1.jpg", good);
  CHECK(Read(*OpenImageFolder(folder.path(), Split::kTrain, 8), 0).size() == 192);
}

TEST_CASE("The synthetic set keeps its bytes, and depends on seed, split and sample alone") {
  // Pinned: recorded results name the set by its seed.
  CHECK(MakeSynthetic(1, Split::kTrain, 100)->digest() ==
        "6e00f1570c20aac5d32a3b64a6c5dc6bc95ffc3a277ee233370be56580c1fa5f");
  CHECK(MakeSynthetic(1, Split::kValidation, 1, 100)->digest() ==
        "d143b26b58bf36699530dcf0fbac9c0b63b146ab90cfada18b251185a4604f2b");
  const auto large = MakeSynthetic(7, Split::kTrain, 300);
  const auto small = MakeSynthetic(7, Split::kTrain, 40);
  CHECK(large->name() == "synthetic");
  CHECK(large->shape() == ImageShape{3, 32, 32});
  CHECK(small->size() == 40);
  for (std::int64_t i = 0; i < 40; ++i) {
    CHECK(small->label(i) == large->label(i));
    CHECK(Read(*small, i) == Read(*large, i));
  }
  CHECK(Read(*MakeSynthetic(8, Split::kTrain, 1), 0) != Read(*large, 0));
  CHECK(Read(*MakeSynthetic(7, Split::kValidation, 1, 1), 0) != Read(*large, 0));
  CHECK(MakeSynthetic(7, Split::kValidation)->size() == 2000);
  // The set that is drawn image by image as they are read, and has its digest from a constant.
  for (const Split split : {Split::kTrain, Split::kValidation}) {
    const auto lazy = MakeSynthetic(1, split);
    Sha256 sha256;
    for (std::int64_t i = lazy->size() - 1; i >= 0; i -= 7) Read(*lazy, i);
    for (std::int64_t i = 0; i < lazy->size(); ++i) {
      const auto label = static_cast<std::byte>(lazy->label(i));
      sha256.Update(std::span(&label, 1));
      const Bytes pixels = Read(*lazy, i);
      sha256.Update(std::as_bytes(std::span(pixels)));
    }
    CHECK(sha256.HexDigest() == lazy->digest());
  }
  CHECK_THROWS_AS(MakeSynthetic(7, Split::kTrain, 0), InvalidArgument);
  CHECK_THROWS_AS(MakeSynthetic(7, Split::kValidation, 1, -1), InvalidArgument);
}

// What a linear classifier could go by: the mean image of each class.
TEST_CASE("The synthetic classes are even, and their mean images do not tell them apart") {
  const auto train = MakeSynthetic(3, Split::kTrain, 4000);
  const auto validation = MakeSynthetic(3, Split::kValidation, 1, 1000);
  // Five standard deviations of a binomial count, 4000 times 1/10.
  for (const int count : CountLabels(*train)) CHECK(std::abs(count - 400) < 95);

  std::vector<std::vector<double>> means(10, std::vector<double>(3072));
  const std::vector<int> counts = CountLabels(*train);
  for (std::int64_t i = 0; i < train->size(); ++i) {
    const auto label = static_cast<std::size_t>(train->label(i));
    const Bytes pixels = Read(*train, i);
    for (std::size_t k = 0; k < pixels.size(); ++k)
      means[label][k] += pixels[k] / static_cast<double>(counts[label]);
  }
  int correct = 0;
  for (std::int64_t i = 0; i < validation->size(); ++i) {
    const Bytes pixels = Read(*validation, i);
    const auto distance = [&](const std::vector<double>& mean) {
      double sum = 0;
      for (std::size_t k = 0; k < pixels.size(); ++k) {
        sum += (pixels[k] - mean[k]) * (pixels[k] - mean[k]);
      }
      return sum;
    };
    const auto nearest =
        std::min_element(means.begin(), means.end(),
                         [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
    correct += nearest - means.begin() == validation->label(i) ? 1 : 0;
  }
  CHECK(correct < 200);
}

TEST_CASE("The synthetic set's mean and deviation are its own") {
  // Colours are drawn per image, so the mean of 4000 wanders by some thousandths.
  CheckMoments(*MakeSynthetic(1, Split::kTrain, 4000), 0.01);
}

TEST_CASE("Samples and sizes out of range are refused") {
  const auto dataset = MakeSynthetic(1, Split::kTrain, 2);
  Bytes pixels(3072);
  for (const std::int64_t sample : {std::int64_t{-1}, std::int64_t{2}}) {
    CHECK_THROWS_AS(dataset->label(sample), InvalidArgument);
    CHECK_THROWS_AS(dataset->Read(sample, pixels), InvalidArgument);
  }
  pixels.resize(3071);
  CHECK_THROWS_AS(dataset->Read(0, pixels), InvalidArgument);
}

TEST_CASE("The real CIFAR-10 has its known counts, labels and moments") {
  const auto root = test::RealData();
  if (!root || !fs::exists(*root / kBatch1)) {
    WARN("skipped: there is no CIFAR-10 in $BATCHLESS_DATA");
    return;
  }
  const auto train = LoadCifar10(*root, Split::kTrain);
  const auto validation = LoadCifar10(*root, Split::kValidation);
  CHECK(train->label(0) == 6);  // a frog
  CHECK(train->label(1) == 9);
  CHECK(validation->label(0) == 3);
  CHECK(Read(*train, 0)[0] == 59);
  if (train->size() == 50000) {
    CHECK(CountLabels(*train) == std::vector<int>(10, 5000));
    CheckMoments(*train, kWrittenDigits);
  }
  if (validation->size() == 10000) CHECK(CountLabels(*validation) == std::vector<int>(10, 1000));
}

TEST_CASE("The real MNIST has its known counts, labels and moments") {
  const auto root = test::RealData();
  if (!root || !fs::exists(*root / "mnist")) {
    WARN("skipped: there is no MNIST in $BATCHLESS_DATA");
    return;
  }
  const auto train = LoadMnist(*root, Split::kTrain);
  const auto validation = LoadMnist(*root, Split::kValidation);
  CHECK(train->size() == 60000);
  CHECK(train->label(0) == 5);
  CHECK(validation->size() == 10000);
  CHECK(validation->label(0) == 7);
  CHECK(CountLabels(*train) ==
        std::vector<int>{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949});
  CheckMoments(*train, kWrittenDigits);
}

TEST_CASE("The real photographs have moments near those of ImageNet") {
  const auto root = test::RealData();
  if (!root || !fs::exists(*root / "imagenette")) {
    WARN("skipped: there is no folder imagenette in $BATCHLESS_DATA");
    return;
  }
  const auto train = OpenImageFolder(*root / "imagenette", Split::kTrain, 64);
  CHECK(train->classes() == 10);
  std::vector<double> sums(3);
  for (std::int64_t i = 0; i < train->size(); ++i) {
    const Bytes pixels = Read(*train, i);
    for (std::size_t k = 0; k < pixels.size(); ++k) sums[k / 4096] += pixels[k] / 255.0;
  }
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const double mean = sums[channel] / (4096 * static_cast<double>(train->size()));
    CHECK(mean == Approx(train->mean()[channel]).margin(0.05));
  }
}

}  // namespace
}  // namespace batchless::training
