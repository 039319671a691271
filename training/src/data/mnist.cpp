#include <string>
#include <utility>
#include <vector>

#include "batchless/training/data_error.h"
#include "batchless/training/dataset.h"
#include "data/byte_dataset.h"
#include "data/data_file.h"

// The IDX format: a magic number (0, 0, type 8 for bytes, dimensions), each dimension's length as 32
// bits, the highest first, then the data.
namespace batchless::training {
namespace {

constexpr int kSide = 28;
constexpr int kDigits = 10;

struct IdxFile {
  std::filesystem::path path;
  std::vector<std::uint32_t> lengths;
  std::vector<std::uint8_t> data;
};

std::string ProductText(const std::vector<std::uint32_t>& lengths) {
  std::string text;
  for (const std::uint32_t length : lengths) {
    text += (text.empty() ? "" : "x") + std::to_string(length);
  }
  return text;
}

// The file `name`, or the one with .gz behind it.
IdxFile ReadIdx(const std::filesystem::path& folder, const std::string& name,
                std::size_t dimensions) {
  IdxFile file;
  file.path = folder / name;
  std::error_code error;
  if (!std::filesystem::exists(file.path, error) &&
      std::filesystem::exists(folder / (name + ".gz"), error)) {
    file.path = folder / (name + ".gz");
  }
  std::vector<std::uint8_t> bytes = ReadDataFile(file.path);
  const std::size_t header = 4 * (1 + dimensions);
  if (bytes.size() < header) throw DataError(file.path, "the header is truncated");
  if (bytes[0] != 0 || bytes[1] != 0 || bytes[2] != 8 || bytes[3] != dimensions) {
    throw DataError(file.path, "the magic number is not that of bytes in " +
                                   std::to_string(dimensions) + " dimensions");
  }
  std::uint64_t expected = 1;
  for (std::size_t i = 4; i < header; i += 4) {
    const std::uint32_t length = std::uint32_t{bytes[i]} << 24 | std::uint32_t{bytes[i + 1]} << 16 |
                                 std::uint32_t{bytes[i + 2]} << 8 | bytes[i + 3];
    if (i > 4 && length != kSide) {
      throw DataError(file.path, "images of other sides than 28x28: " + std::to_string(length));
    }
    file.lengths.push_back(length);
    expected *= length;
  }
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
  if (expected == 0) throw DataError(file.path, "there is nothing in it");
  if (bytes.size() < expected) {
    const std::uint64_t record_bytes = expected / file.lengths[0];
    throw DataError(file.path, static_cast<std::int64_t>(bytes.size() / record_bytes),
                    "truncated, the header says " + ProductText(file.lengths));
  }
  if (bytes.size() > expected) {
    throw DataError(file.path, "longer than the " + ProductText(file.lengths) + " of the header");
  }
  file.data = std::move(bytes);
  return file;
}

}  // namespace

std::shared_ptr<const Dataset> LoadMnist(const std::filesystem::path& root, Split split) {
  const std::string prefix = split == Split::kTrain ? "train" : "t10k";
  IdxFile images = ReadIdx(root / "mnist", prefix + "-images-idx3-ubyte", 3);
  const IdxFile labels = ReadIdx(root / "mnist", prefix + "-labels-idx1-ubyte", 1);
  if (labels.lengths[0] != images.lengths[0]) {
    throw DataError(labels.path, std::to_string(labels.lengths[0]) + " labels for the " +
                                     std::to_string(images.lengths[0]) + " images of " +
                                     images.path.filename().string());
  }
  for (std::size_t i = 0; i < labels.data.size(); ++i) {
    if (labels.data[i] < kDigits) continue;
    throw DataError(labels.path, static_cast<std::int64_t>(i),
                    "the label is " + std::to_string(labels.data[i]) + ", not 0 to 9");
  }
  return std::make_shared<ByteDataset>(
      ByteDataset::Content{.name = "mnist",
                           .shape = {1, kSide, kSide},
                           .classes = kDigits,
                           .mean = {0.1307F},
                           .standard_deviation = {0.3081F},
                           .labels = {labels.data.begin(), labels.data.end()},
                           .digest = {}},
      /*padding=*/2, /*mirror=*/false, std::move(images.data));
}

}  // namespace batchless::training
