#include "npz.h"

#include <limits>
#include <string>
#include <vector>

#include "catch.h"
#include "run_program.h"

namespace batchless {
using test::ReadFile;
using test::TemporaryFolder;
using test::WriteFile;
using training::NamedTensor;
using training::Precision;

namespace {

std::string Written(const TemporaryFolder& folder, const std::vector<double>& values,
                    const std::vector<std::int64_t>& shape) {
  std::string path = folder / "a.npz";
  const std::vector<NamedTensor> arrays = {{"first", shape, values}, {"second", {1}, {7}}};
  WriteNpz(path, arrays, Precision::kDouble);
  return path;
}

}  // namespace

TEST_CASE("arrays come back bit for bit") {
  const TemporaryFolder folder;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {0.1, -0.0, kInfinity, -kInfinity, 5e-324, 1.0 / 3};
  const std::string path = Written(folder, values, {2, 3});
  const NamedTensor first = ReadNpz(path, "first", 6);
  CHECK(first.name == "first");
  CHECK(first.shape == std::vector<std::int64_t>{2, 3});
  CHECK(first.values == values);
  CHECK(std::signbit(first.values[1]));
  CHECK(ReadNpz(path, "second", 6).values == std::vector<double>{7});
}

TEST_CASE("members are stored .npy files of version 1 whose values are aligned") {
  const TemporaryFolder folder;
  const std::string content = ReadFile(Written(folder, {1, 2, 3}, {3}));
  CHECK(content.starts_with("PK\x03\x04"));
  CHECK(content.find("first.npy") != std::string::npos);
  const std::size_t start = content.find(std::string("\x93NUMPY\x01\x00", 8));
  REQUIRE(start != std::string::npos);
  const std::size_t length = static_cast<unsigned char>(content[start + 8]) +
                             256U * static_cast<unsigned char>(content[start + 9]);
  CHECK((10 + length) % 64 == 0);
  const std::string header = content.substr(start + 10, length);
  CHECK(header.starts_with("{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }"));
  CHECK(header.ends_with("\n"));
  const double three = 3;
  CHECK(content.substr(start + 10 + length + 16, 8) ==
        std::string(reinterpret_cast<const char*>(&three), 8));
}

TEST_CASE("the same arrays give the same file") {
  const TemporaryFolder one;
  const TemporaryFolder two;
  CHECK(ReadFile(Written(one, {1, 2}, {2})) == ReadFile(Written(two, {1, 2}, {2})));
}

TEST_CASE("single precision, no dimensions, names with dots, and the list of names") {
  const TemporaryFolder folder;
  const std::string path = folder / "a.npz";
  WriteNpz(path,
           std::vector<NamedTensor>{{"group1.block0.conv1.weight", {1, 2, 1}, {0.1, -3}},
                                    {"scalar", {}, {7}}},
           Precision::kSingle);
  const std::vector<NamedTensor> arrays = ReadNpz(path, 9);
  CHECK(analysis::NamesOf(arrays) ==
        std::vector<std::string_view>{"group1.block0.conv1.weight", "scalar"});
  const NamedTensor weight = ReadNpz(path, "group1.block0.conv1.weight", 9);
  CHECK(weight.shape == std::vector<std::int64_t>{1, 2, 1});
  CHECK(weight.values == std::vector<double>{double{0.1F}, -3});
  CHECK(ReadFile(path).find("'<f4'") != std::string::npos);
  CHECK(ReadNpz(path, "scalar", 9).shape.empty());
  CHECK(ReadNpz(path, "scalar", 9).values == std::vector<double>{7});
  CHECK(arrays[0].values == weight.values);
  CHECK_THROWS_AS(ReadNpz(folder / "none.npz", 9), ArrayFileError);
  CHECK_THROWS_WITH(ReadNpz(path, 1),
                    "group1.block0.conv1.weight: an array of 2 numbers, more than 1");
}

TEST_CASE("an array that is a file of its own may be of integers of any size") {
  const TemporaryFolder folder;
  for (const std::string type : {"|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8"}) {
    const std::string header =
        "{'descr': '" + type + "', 'fortran_order': False, 'shape': (2,), }\n";
    std::string file =
        std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0';
    file += header;
    for (const char value : {'\x01', '\x7f'}) {
      file += value + std::string(static_cast<std::size_t>(type[2] - '1'), '\0');
    }
    WriteFile(folder / "list.npy", file);
    CAPTURE(type);
    CHECK(ReadNpy(folder / "list.npy", 2).values == std::vector<double>{1, 127});
  }
}

TEST_CASE("what cannot be written says why") {
  const std::vector<NamedTensor> arrays = {{"first", {10'000}, std::vector<double>(10'000)}};
  CHECK_THROWS_WITH(WriteNpz("/dev/full", arrays, Precision::kDouble),
                    "the archive could not be written: No space left on device");
}

TEST_CASE("what cannot be read says why") {
  const TemporaryFolder folder;
  const std::string path = Written(folder, {1, 2, 3}, {3});
  CHECK_THROWS_WITH(ReadNpz(folder / "none.npz", "first", 9), "there is no such file");
  CHECK_THROWS_WITH(ReadNpz(folder.path().string(), "first", 9), "this is a folder");
  WriteFile(folder / "text.npz", "no archive");
  CHECK_THROWS_WITH(ReadNpz(folder / "text.npz", "first", 9), "no zip archive, or a damaged one");
  CHECK_THROWS_WITH(ReadNpz(path, "third", 9), "no member third.npy");
  CHECK_THROWS_WITH(ReadNpz(path, "first", 2), "an array of 3 numbers, more than 2");
  const std::string good = ReadFile(path);
  const std::size_t values = good.find('\n') + 1;

  std::string flipped = good;
  flipped[values] = static_cast<char>(flipped[values] ^ 1);
  WriteFile(path, flipped);
  CHECK_THROWS_WITH(ReadNpz(path, "first", 9), "damaged archive: wrong checksum");

  std::string other = good;
  other.replace(other.find("<f8"), 3, "|O8");
  WriteFile(path, other);
  CHECK_THROWS_AS(ReadNpz(path, "first", 9), ArrayFileError);
  // Beside weights these may be the bits of another format.
  other.replace(other.find("|O8"), 3, "<u2");
  WriteFile(path, other);
  CHECK_THROWS_WITH(ReadNpz(path, "first", 9),
                    "numbers of type <u2, not one of <f8, <f4, <i8, <i4, |u1, |b1");

  std::string longer = good;
  longer.replace(longer.find("(3,)"), 4, "(9,)");
  WriteFile(path, longer);
  CHECK_THROWS_WITH(ReadNpz(path, "first", 9), "an array whose size is not that of its shape");

  // Short of the 22 bytes that end the archive; from there on all of it can be read.
  for (std::size_t size = 0; size + 22 < good.size(); size += 7) {
    WriteFile(path, good.substr(0, size));
    CHECK_THROWS_AS(ReadNpz(path, "first", 9), ArrayFileError);
  }
}

}  // namespace batchless
