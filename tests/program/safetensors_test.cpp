#include "safetensors.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "catch.h"
#include "run_program.h"

namespace batchless {
using test::ReadFile;
using test::TemporaryFolder;
using test::WriteFile;
using training::NamedTensor;
using training::Precision;

namespace {

constexpr std::size_t kMost = 1000;

// The layout as it is published, without this project's writer.
std::string File(const std::string& header, const std::string& values) {
  std::string text;
  for (int k = 0; k < 8; ++k) text += static_cast<char>(header.size() >> (8 * k) & 0xff);
  return text + header + values;
}

std::string HeaderOf(const std::string& file) {
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  return file.substr(8, length);
}

}  // namespace

TEST_CASE("tensors of safetensors come back bit for bit, in their precision") {
  const TemporaryFolder folder;
  const std::string path = folder / "w.safetensors";
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<NamedTensor> tensors = {
      {"h.0.weight", {2, 3}, {0.1, -0.0, kInfinity, -kInfinity, 5e-324, 1.0 / 3}},
      {"scalar", {}, {7}},
      {"none", {0, 3}, {}},
      {"bias", {1}, {-2}}};
  WriteSafetensors(path, tensors, Precision::kDouble);
  const std::vector<NamedTensor> read = ReadSafetensors(path, kMost);
  REQUIRE(read.size() == tensors.size());
  for (std::size_t k = 0; k < read.size(); ++k) {
    CHECK(read[k].name == tensors[k].name);
    CHECK(read[k].shape == tensors[k].shape);
    CHECK(read[k].values == tensors[k].values);
  }
  CHECK(std::signbit(read[0].values[1]));
  WriteSafetensors(path, tensors, Precision::kSingle);
  CHECK(ReadSafetensors(path, kMost)[0].values[5] == double{1.0F / 3});
}

TEST_CASE("a file of safetensors by the bytes that are published") {
  const TemporaryFolder folder;
  const std::string path = folder / "w.safetensors";
  WriteSafetensors(path, std::vector<NamedTensor>{{"a", {1, 2}, {1, -2}}}, Precision::kSingle);
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  CHECK(ReadFile(path) == File(padded, std::string("\0\0\x80\x3f\0\0\0\xc0", 8)));
}

TEST_CASE("values of safetensors begin at a multiple of eight, behind spaces") {
  const TemporaryFolder folder;
  const std::string path = folder / "w.safetensors";
  std::string name = "n";
  for (int residue = 0; residue < 8; ++residue, name += 'n') {
    WriteSafetensors(path, std::vector<NamedTensor>{{name, {1}, {1}}}, Precision::kSingle);
    const std::string header = HeaderOf(ReadFile(path));
    CHECK(header.size() % 8 == 0);
    CHECK(header.find_last_not_of(' ') + 8 >= header.size());
    CHECK(nlohmann::json::parse(header).contains(name));
  }
}

TEST_CASE("safetensors of other writers: any order, no padding, narrow numbers") {
  const TemporaryFolder folder;
  const std::string path = folder / "w.safetensors";
  // The header is 3 more than a multiple of eight: nothing is aligned.
  std::string header = R"({"b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]},)"
                       R"("h":{"data_offsets":[0,8],"shape":[4],"dtype":"F16"},)"
                       R"("i":{"dtype":"I64","shape":[1],"data_offsets":[12,20]},)"
                       R"("t":{"dtype":"BOOL","shape":[2],"data_offsets":[20,22]}})";
  header.append((11 - header.size() % 8) % 8, ' ');
  const std::string values(
      "\x00\x3c\x01\x00\xff\x7b\x00\xfc"
      "\x80\x3f\x49\xc0"
      "\xfe\xff\xff\xff\xff\xff\xff\xff"
      "\x01\x00",
      22);
  WriteFile(path, File(header, values));
  const std::vector<NamedTensor> read = ReadSafetensors(path, kMost);
  REQUIRE(read.size() == 4);
  // 1, the least subnormal, the largest finite number and minus infinity in 16 bits.
  CHECK(read[0].values == std::vector<double>{1, std::ldexp(1.0, -24), 65504,
                                              -std::numeric_limits<double>::infinity()});
  CHECK(read[1].values == std::vector<double>{1, -3.140625});
  CHECK(read[2].values == std::vector<double>{-2});
  CHECK(read[3].values == std::vector<double>{1, 0});
}

TEST_CASE("what is no safetensors file says why") {
  const TemporaryFolder folder;
  const std::string path = folder / "w.safetensors";
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::string values(8, '\0');
  const auto check = [&](const std::string& file, const std::string& why) {
    WriteFile(path, file);
    CHECK_THROWS_WITH(ReadSafetensors(path, kMost), why);
  };
  const auto with = [&](const std::string& what, const std::string& other) {
    return File(std::string(good).replace(good.find(what), what.size(), other), values);
  };
  CHECK_THROWS_WITH(ReadSafetensors(folder / "none", kMost), "there is no such file");
  CHECK_THROWS_WITH(ReadSafetensors(folder.path().string(), kMost), "this is a folder");
  check("short", "it ends too early");
  check(File(good, values).substr(0, 20), "a header of 54 bytes in a file of 20");
  check(std::string(8, '\xff') + "{}", "a header of 18446744073709551615 bytes in a file of 10");
  check(File("[]", ""), "a header that is no JSON object");
  check(File(good.substr(1), values), "a header that is no JSON object");
  check(with("[2]", std::string(300'000, '[') + std::string(300'000, ']')),
        "a header that is no JSON object");
  check(with("F32", "F8"),
        "a: numbers of type F8, not one of F64, F32, F16, BF16, I64, I32, U8, BOOL");
  check(with("[2]", "[-2]"), "a: no 'shape' of natural numbers");
  check(with("[2]", "[3]"), "a: a size that is not that of its shape");
  check(with("[2]", "[4294967296,4294967296]"), "a: more than 1000 numbers");
  check(with("[0,8]", "[8,0]"), "a: a size that is not that of its shape");
  check(with("[0,8]", "[0]"), "a: a size that is not that of its shape");
  check(with("[0,8]", "[4,12]"), "a: its values do not follow those before it");
  check(File(good, values + "more"), "values of 12 bytes, of which the header names 8");
  check(File(good, values.substr(1)), "values of 7 bytes, of which the header names 8");
  const std::string twice =
      good.substr(0, good.size() - 1) + "," + std::string(good.substr(1)).replace(1, 1, "b");
  check(File(twice, values), "b: its values do not follow those before it");
  CHECK_THROWS_WITH(
      WriteSafetensors("/dev/full", std::vector<NamedTensor>{{"a", {1}, {1}}}, Precision::kSingle),
      "it could not be written: No space left on device");
}

}  // namespace batchless
